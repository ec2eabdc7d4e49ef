/* facts: read back from the file as anybody would. */
#include "facts.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "check.h"

static char path[] = "/var/tmp/test_facts.XXXXXX";

TEST(what_is_attached)
{
    char text[FACTS_BYTES + 1];
    int fd = mkstemp(path);
    REQUIRE(fd >= 0);
    unlink(path);
    if (fsetxattr(fd, FACTS_NAME, "x", 1, 0) != 0 && errno == ENOTSUP)
        SKIP("no extended attributes in /var/tmp");
    facts_attach(fd, &(struct facts){UINT64_MAX, false, UINT64_MAX, UINT64_MAX});
    ssize_t length = fgetxattr(fd, FACTS_NAME, text, FACTS_BYTES);
    text[length < 0 ? 0 : length] = '\0';
    CHECK_STR(text, "bytes 18446744073709551615\nunit samples\nrate 18446744073709551615\n"
                    "roots 18446744073709551615\n");
    facts_attach(fd, &(struct facts){.bytes = 12, .is_us = true, .rate_hz = 250, .roots = 1});
    length = fgetxattr(fd, FACTS_NAME, text, FACTS_BYTES);
    text[length < 0 ? 0 : length] = '\0';
    CHECK_STR(text, "bytes 12\nunit us\nrate 250\nroots 1\n");
    close(fd);
}

TEST(what_takes_none_goes_without)
{
    facts_attach(-1, &(struct facts){.bytes = 1});
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    facts_attach(ends[1], &(struct facts){.bytes = 1});
    close(ends[0]);
    close(ends[1]);
}
