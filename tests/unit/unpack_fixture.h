/*
 * What a gzip'd stream holds, by the program gzip, for the tests of who writes such streams.
 */
#ifndef SELFSAMPLE_TESTS_UNPACK_FIXTURE_H
#define SELFSAMPLE_TESTS_UNPACK_FIXTURE_H

#include "check.h"

#include <stdlib.h>
#include <unistd.h>

#include "gzip.h"

static FILE *unpack_file;
static char unpack_path[64];

static inline void unpack_take(void *context, const char *bytes, size_t length)
{
    (void)context;
    fwrite(bytes, 1, length, unpack_file);
}

/* A sink that keeps what is put into it. */
static inline struct gzip_sink unpack_sink(void)
{
    strcpy(unpack_path, "/tmp/test_unpack.XXXXXX");
    int fd = mkstemp(unpack_path);
    unpack_file = fdopen(fd, "w");
    REQUIRE(unpack_file != NULL);
    return (struct gzip_sink){unpack_take, NULL};
}

/* What the file at PATH holds, and how long that is; to be freed. Removes the file. */
static inline unsigned char *unpacked_file(const char *path, size_t *length)
{
    char command[128];
    size_t room = 1u << 24;
    unsigned char *bytes = malloc(room);
    snprintf(command, sizeof command, "gzip -dc < %s", path);
    FILE *pipe = popen(command, "r");
    REQUIRE(pipe != NULL && bytes != NULL);
    *length = fread(bytes, 1, room, pipe);
    CHECK_I64(pclose(pipe), 0);
    unlink(path);
    return bytes;
}

/* What was packed into that sink. */
static inline unsigned char *unpacked(size_t *length)
{
    fclose(unpack_file);
    return unpacked_file(unpack_path, length);
}

#endif
