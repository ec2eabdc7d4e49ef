/* status: what it says is read back as another process would read it. */
#include "status.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

static char text[STATUS_BYTES];

static const char *read_back(void)
{
    int fd = open("/proc/self/fd/0", O_RDONLY);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = 0;
    return text;
}

TEST(tells_all_it_knows)
{
    static struct status status;
    char link[64] = "";
    status_open(&status, 4711);
    status_write(&status);
    REQUIRE(status.fd == STATUS_FD);
    CHECK(readlink("/proc/self/fd/0", link, sizeof link - 1) > 0);
    CHECK(strncmp(link, "/memfd:" STATUS_NAME, strlen("/memfd:" STATUS_NAME)) == 0);
    CHECK_STR(read_back(),
              "serial 1\napp 4711\nprogram \nengine \nformat \nunit \nrate 0\nroots 0\nout \n"
              "out_is_had no\n"
              "samples 0\ncpu_ns 0\npaused no\nsnapshots 0\nerror \nfile \n"
              "looks 0\nlook -1\nlook_error \nend 1\n");
    status.program = "app";
    status.engine = "perf";
    status.format = "folded";
    status.unit = "us";
    status.rate_hz = 999;
    status.roots = 1;
    status.samples = 12;
    status.cpu_ns = UINT32_MAX + 1ull;
    strcpy(status.out, "/a b/d");
    status.looks = 2;
    status.look_fd = 7;
    strcpy(status.look_error, "none");
    status.paused = true;
    status.snapshots = 3;
    strcpy(status.error, "no room");
    strcpy(status.file, "/a b/c\nend 2");
    status_write(&status);
    CHECK_STR(read_back(),
              "serial 2\napp 4711\nprogram app\nengine perf\nformat folded\nunit us\nrate 999\n"
              "roots 1\nout /a b/d\nout_is_had no\nsamples 12\ncpu_ns 4294967296\npaused yes\n"
              "snapshots 3\nerror no room\nfile /a b/c_end 2\n"
              "looks 2\nlook 7\nlook_error none\nend 2\n");
}

TEST(a_shorter_text_leaves_nothing_of_a_longer_one)
{
    static struct status status;
    status_open(&status, 1);
    REQUIRE(status.fd == STATUS_FD);
    memset(status.file, 'x', sizeof status.file - 1);
    status_write(&status);
    CHECK(strlen(read_back()) > sizeof status.file - 1);
    status.file[0] = 0;
    status_write(&status);
    const char *text_read = read_back();
    CHECK(strlen(text_read) < 200 && strstr(text_read, "\nend 2\n") != NULL);
    CHECK(strstr(text_read, "x\n") == NULL);
}
