/* Lines to pipes that take them, are full, or have no reader. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "message.h"
#include "refusal.h"

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

TEST(a_line_arrives_with_its_newline)
{
    int ends[2];
    char got[64] = "";
    REQUIRE(pipe(ends) == 0);
    CHECK_I64(message_write(ends[1], "selfsample: hello"), 0);
    CHECK_I64(read(ends[0], got, sizeof got - 1), 18);
    CHECK_STR(got, "selfsample: hello\n");
    close(ends[0]);
    close(ends[1]);
}

TEST(a_long_line_is_cut_to_what_a_pipe_takes_whole)
{
    static char line[10000], got[10000];
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    memset(line, 'x', sizeof line - 1);
    CHECK_I64(message_write(ends[1], line), 0);
    CHECK_I64(read(ends[0], got, sizeof got), MESSAGE_BYTES);
    CHECK(got[MESSAGE_BYTES - 1] == '\n' && got[MESSAGE_BYTES - 2] == 'x');
    close(ends[0]);
    close(ends[1]);
}

TEST(a_full_pipe_is_given_up_and_its_flags_stay)
{
    int ends[2];
    char byte = 0;
    REQUIRE(pipe(ends) == 0);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], &byte, 1) == 1)
        ;
    fcntl(ends[1], F_SETFL, 0);
    double start = now_s();
    CHECK_I64(message_write(ends[1], "x"), -EAGAIN);
    CHECK(now_s() - start < 5);
    CHECK((fcntl(ends[1], F_GETFL) & O_NONBLOCK) == 0);
    close(ends[0]);
    close(ends[1]);
}

TEST(no_reader_is_no_signal)
{
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    signal(SIGPIPE, SIG_DFL);
    close(ends[0]);
    CHECK_I64(message_write(ends[1], "x"), -EPIPE);
    close(ends[1]);
}

TEST(no_descriptor)
{
    CHECK_I64(message_write(-1, "x"), -EAGAIN);
    CHECK_I64(message_write(999, "x"), -EBADF);
}

/* Room for three bytes, of which the first line takes what it gets. */
static int file_at_its_limit(void)
{
    const struct rlimit limit = {3, 3};
    FILE *file = tmpfile();
    if (file == NULL || setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 1;
    int fd = fileno(file);
    if (message_write(fd, "full") != 0 || lseek(fd, 0, SEEK_END) != 3)
        return 2;
    if (message_write(fd, "x") != -EFBIG)
        return 3;
    lseek(fd, 0, SEEK_SET); /* as one that appends may stand */
    return message_write(fd, "x") == -EFBIG && ftruncate(fd, 0) == 0 &&
                   lseek(fd, 3, SEEK_SET) == 3 && message_write(fd, "x") == -EFBIG
               ? 0
               : 4;
}

TEST(a_file_that_may_not_grow_raises_no_signal)
{
    CHECK_I64(in_child(file_at_its_limit), 0);
}

TEST(no_line_goes_to_a_file_that_took_the_place_of_stderr)
{
    char got[64] = "";
    int ends[2], before = dup(2);
    REQUIRE(before > 2 && pipe(ends) == 0);
    struct message_place place = message_place_now();
    CHECK(message_place_holds(&place));
    dup2(ends[1], 2);
    bool held = message_place_holds(&place);
    int told = message_tell(&place, "selfsample: lost");
    struct message_place other = message_place_now();
    int told_there = message_tell(&other, "selfsample: hello");
    close(2);
    struct message_place none = message_place_now();
    dup2(before, 2);
    CHECK(!held && !none.is_known && !message_place_holds(&none));
    CHECK_I64(told, -EBADF);
    CHECK_I64(told_there, 0);
    CHECK_I64(read(ends[0], got, sizeof got - 1), 18);
    CHECK_STR(got, "selfsample: hello\n");
    close(before);
    close(ends[0]);
    close(ends[1]);
}
