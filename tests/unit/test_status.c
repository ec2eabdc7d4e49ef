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
    REQUIRE(status.fd == STATUS_FD);
    CHECK(readlink("/proc/self/fd/0", link, sizeof link - 1) > 0);
    CHECK(strncmp(link, "/memfd:" STATUS_NAME, strlen("/memfd:" STATUS_NAME)) == 0);
    CHECK_STR(read_back(), "serial 1\napp 4711\npaused no\nsnapshots 0\nerror \nfile \nend 1\n");
    status.paused = true;
    status.snapshots = 3;
    strcpy(status.error, "no room");
    strcpy(status.file, "/a b/c\nend 2");
    status_write(&status);
    CHECK_STR(read_back(), "serial 2\napp 4711\npaused yes\nsnapshots 3\nerror no room\n"
                           "file /a b/c_end 2\nend 2\n");
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
    CHECK_STR(read_back(), "serial 3\napp 1\npaused no\nsnapshots 0\nerror \nfile \nend 3\n");
}
