/* task_status: texts as Linux writes them, and this very process. */
#include "task_status.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static const char text[] = "Name:\tUid: x\n"
                           "Umask:\t0022\n"
                           "State:\tS (sleeping)\n"
                           "Tgid:\t1235\n"
                           "PPid:\t1234\n"
                           "Uid:\t1\t2\t3\t4\n"
                           "Gid:\t5\t6\t7\t4294967295\n"
                           "FDSize:\t256\n"
                           "Groups:\t4 24 1000 \n"
                           "VmPeak:\t    2624 kB\n"
                           "CapInh:\t0000000000000400\n"
                           "CapPrm:\t000001ffffffffff\n"
                           "CapEff:\t00000000a80425fb\n"
                           "CapBnd:\t000001ffffffffff\n"
                           "NoNewPrivs:\t1\n"
                           "Seccomp:\t2\n"
                           "Seccomp_filters:\t13\n"
                           "Cpus_allowed:\t3\n";

static struct task_status status;

TEST(a_text_is_read)
{
    REQUIRE(task_status_parse(&status, text, sizeof text - 1));
    CHECK(!status.is_zombie);
    CHECK_I64(status.process_pid, 1235);
    CHECK_I64(status.parent_pid, 1234);
    for (unsigned i = 0; i < TASK_IDENTITIES; i++)
        CHECK_U64(status.uids[i], i + 1);
    CHECK_U64(status.gids[TASK_REAL], 5);
    CHECK_U64(status.gids[TASK_FS], UINT32_MAX);
    CHECK_U64(status.group_count, 3);
    CHECK_U64(status.groups[0], 4);
    CHECK_U64(status.groups[2], 1000);
    CHECK_U64(status.inheritable, 0x400);
    CHECK_U64(status.permitted, 0x1ffffffffff);
    CHECK_U64(status.effective, 0xa80425fb);
    CHECK_U64(status.seccomp_mode, 2);
    CHECK_U64(status.seccomp_filters, 13);
}

TEST(half_a_text_tells_nothing)
{
    const char *last = strstr(text, "CapEff");
    for (size_t length = 0; length <= (size_t)(last - text); length++)
        CHECK(!task_status_parse(&status, text, length));
    const char *unfinished = "Uid:\t1\t2\t3\nGid:\t1\t2\t3\t4\nGroups:\t\nCapPrm:\t0\nCapEff:\t0\n";
    CHECK(!task_status_parse(&status, unfinished, strlen(unfinished)));
}

TEST(older_kernels_tell_less)
{
    const char *old = "State:\tZ (zombie)\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t\n"
                      "CapInh:\t0\nCapPrm:\t0\nCapEff:\t0";
    REQUIRE(task_status_parse(&status, old, strlen(old)));
    CHECK(status.is_zombie);
    CHECK_U64(status.group_count, 0);
    CHECK_U64(status.seccomp_mode, 0);
    CHECK_U64(status.seccomp_filters, 0);
}

TEST(too_many_groups_are_left_out)
{
    char many[TASK_STATUS_BYTES] = "Groups:\t";
    for (unsigned i = 0; i < TASK_STATUS_GROUPS_MAX + 10; i++)
        sprintf(many + strlen(many), "%u ", i);
    strcat(many, "\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nCapPrm:\t0\nCapEff:\t7\n");
    REQUIRE(task_status_parse(&status, many, strlen(many)));
    CHECK_U64(status.group_count, TASK_STATUS_GROUPS_MAX);
    CHECK_U64(status.groups[TASK_STATUS_GROUPS_MAX - 1], TASK_STATUS_GROUPS_MAX - 1);
    CHECK_U64(status.effective, 7);
}

TEST(differences)
{
    static struct task_status other;
    REQUIRE(task_status_parse(&status, text, sizeof text - 1));
    other = status;
    other.seccomp_filters++;
    other.parent_pid++;
    CHECK(task_status_same_credentials(&status, &other));
    CHECK(task_status_same_files(&status, &other));
    other.uids[TASK_SAVED] = 9;
    CHECK(!task_status_same_credentials(&status, &other));
    CHECK(task_status_same_files(&status, &other));
    other = status;
    other.uids[TASK_FS] = 9;
    CHECK(!task_status_same_credentials(&status, &other));
    CHECK(!task_status_same_files(&status, &other));
    other = status;
    other.groups[2] = 9;
    CHECK(!task_status_same_credentials(&status, &other));
    CHECK(!task_status_same_files(&status, &other));
    other = status;
    other.group_count--;
    CHECK(!task_status_same_credentials(&status, &other));
    other = status;
    other.effective ^= 1;
    CHECK(!task_status_same_credentials(&status, &other));
    CHECK(task_status_same_files(&status, &other));
}

TEST(this_process)
{
    char buffer[TASK_STATUS_BYTES];
    int fd = open("/proc/self/status", O_RDONLY);
    REQUIRE(fd >= 0);
    CHECK_I64(task_status_read(&status, fd, buffer), 0);
    CHECK_I64(task_status_read(&status, fd, buffer), 0); /* from the start again */
    CHECK_I64(status.process_pid, getpid());
    CHECK_I64(status.parent_pid, getppid());
    CHECK_U64(status.uids[TASK_EFFECTIVE], geteuid());
    CHECK_U64(status.gids[TASK_REAL], getgid());
    CHECK_I64(status.group_count, getgroups(0, NULL));
    close(fd);
    CHECK_I64(task_status_read(&status, fd, buffer), -EBADF);
}
