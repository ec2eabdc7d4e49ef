/* requests: written as another process would, through the name that it has in /proc. */
#include "requests.h"

#include <fcntl.h>
#include <unistd.h>

#include "check.h"

static struct requests requests;
static struct helper helper;

static void ask(const void *asked, size_t bytes)
{
    int fd = open("/proc/self/fd/1", O_RDWR);
    CHECK(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, asked, bytes, 0) == (ssize_t)bytes);
    close(fd);
    requests_take(&requests, &helper);
}

static void ask_for(uint32_t snapshots, uint32_t looks, uint32_t pause)
{
    const struct requests_asked asked = {snapshots, looks, pause};
    ask(&asked, sizeof asked);
}

/* Descriptor 1 is where the results of these tests go. */
static void open_as(enum helper_kind kind, int *stdout_kept)
{
    fflush(stdout);
    *stdout_kept = dup(1);
    helper = (struct helper){.kind = kind};
    requests_open(&requests, &helper);
}

static void close_again(int stdout_kept)
{
    fflush(stdout);
    dup2(stdout_kept, 1);
    close(stdout_kept);
}

TEST(what_is_asked_is_handed_over_once)
{
    int kept;
    open_as(HELPER_THREAD, &kept);
    requests_take(&requests, &helper);
    CHECK_I64(helper.snapshots_wanted + helper.looks_wanted + helper.pause_wanted, 0);
    ask_for(1, 2, 0);
    ask_for(1, 2, 0);
    CHECK_I64(helper.snapshots_wanted, 1);
    CHECK_I64(helper.looks_wanted, 2);
    CHECK_I64(helper.pause_wanted, 0);
    ask_for(0, 2, 0); /* counts go round */
    CHECK_I64(helper.snapshots_wanted, 0);
    close_again(kept);
}

TEST(the_last_word_on_a_pause_holds)
{
    int kept;
    open_as(HELPER_THREAD, &kept);
    ask_for(0, 0, 3);
    CHECK_I64(helper.pause_wanted, 1);
    helper.pause_wanted = 0; /* by the app */
    ask_for(0, 0, 3);
    CHECK_I64(helper.pause_wanted, 0);
    ask_for(0, 0, 5);
    CHECK_I64(helper.pause_wanted, 1);
    ask_for(0, 0, 8);
    CHECK_I64(helper.pause_wanted, 0);
    close_again(kept);
}

TEST(half_a_file_asks_for_nothing)
{
    int kept;
    const uint32_t half[] = {7, 7};
    open_as(HELPER_THREAD, &kept);
    ask(half, sizeof half);
    ask(half, 0);
    CHECK_I64(helper.snapshots_wanted + helper.looks_wanted, 0);
    close_again(kept);
}

TEST(a_helper_that_is_apart_has_signals)
{
    int kept;
    open_as(HELPER_APART, &kept);
    CHECK_I64(requests.fd, -1);
    requests_take(&requests, &helper);
    CHECK_I64(helper.snapshots_wanted + helper.looks_wanted, 0);
    close_again(kept);
}
