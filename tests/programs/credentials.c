/*
 * Gives up root in the way argv[1], and says whether its helper has the same ids, groups and
 * capabilities when the call returns ("at once"), within a second ("later") or never ("never").
 * Burns in before() and after(); argv[2] us each. Without a helper it says "alone".
 *
 * Build: -pthread
 */
#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <grp.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "burn.h"
#include "rawcall.h"

#define USER 65534

BURNER(before)
BURNER(after)

int capset(cap_user_header_t header, cap_user_data_t data);

static int helper_status = -1, own_status = -1;

/* A child, or a thread. */
static void helper_try(int id)
{
    char path[64], name[32];

    snprintf(path, sizeof path, "/proc/%d/comm", id);
    int fd = open(path, O_RDONLY);
    ssize_t got = read(fd, name, sizeof name);
    close(fd);
    if (got != 11 || memcmp(name, "selfsample\n", 11) != 0)
        return;
    snprintf(path, sizeof path, "/proc/%d/status", id);
    helper_status = open(path, O_RDONLY);
}

static void helper_find(void)
{
    char path[64];
    int pid;
    struct dirent *entry;

    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    FILE *children = fopen(path, "r");
    while (children != NULL && fscanf(children, "%d", &pid) == 1)
        helper_try(pid);
    if (children != NULL)
        fclose(children);
    DIR *tasks = opendir("/proc/self/task");
    while (tasks != NULL && (entry = readdir(tasks)) != NULL)
        helper_try(atoi(entry->d_name));
    if (tasks != NULL)
        closedir(tasks);
    own_status = open("/proc/self/status", O_RDONLY);
}

/* The lines of a status file that tell of powers. */
static void powers(int fd, char *to, size_t size)
{
    static const char *const keys[] = {"Uid:", "Gid:", "Groups:", "CapInh:", "CapPrm:", "CapEff:"};
    char text[8192];
    ssize_t got = pread(fd, text, sizeof text - 1, 0);

    text[got > 0 ? got : 0] = '\0';
    *to = '\0';
    for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++) {
        char *line = strstr(text, keys[i]);
        if (line != NULL)
            snprintf(to + strlen(to), size - strlen(to), "%.*s|", (int)strcspn(line, "\n"), line);
    }
}

static int same(void)
{
    char mine[2048], its[2048];

    powers(own_status, mine, sizeof mine);
    powers(helper_status, its, sizeof its);
    if (getenv("E2E_SHOW"))
        fprintf(stderr, "%s\n%s\n", mine, its);
    return strcmp(mine, its) == 0;
}

static void say(const char *what)
{
    const char *when = "never";

    if (helper_status < 0) {
        printf("%s alone\n", what);
        return;
    }
    if (same())
        when = "at once";
    for (int i = 0; i < 100 && strcmp(when, "never") == 0; i++) {
        usleep(10000);
        if (same())
            when = "later";
    }
    printf("%s %s\n", what, when);
}

static void must(int result, const char *what)
{
    if (result != 0) {
        perror(what);
        exit(9);
    }
}

static void capabilities(unsigned long bits)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{.effective = bits, .permitted = bits}, {0}};

    must(capset(&header, data), "capset");
}

static void *in_thread(void *unused)
{
    (void)unused;
    must(setuid(USER), "setuid");
    say("setuid");
    return NULL;
}

static void *without_first(void *us)
{
    usleep(100000); /* the first thread ends meanwhile */
    own_status = open("/proc/thread-self/status", O_RDONLY);
    must(setgid(USER), "setgid");
    must(setuid(USER), "setuid");
    say("setuid");
    fflush(stdout);
    after((long)us);
    return NULL;
}

static void *late(void *us)
{
    after((long)us);
    return NULL;
}

static void late_threads(long us)
{
    pthread_t threads[3];

    for (int i = 0; i < 3; i++)
        must(pthread_create(&threads[i], NULL, late, (void *)us), "pthread_create");
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

static void give_up_ids(const char *way)
{
    gid_t groups[] = {7, 12, 100};

    if (strcmp(way, "setuid") == 0) {
        must(setuid(USER), way);
        say(way);
    } else if (strcmp(way, "setresuid") == 0) {
        must(setresuid(USER, USER, USER), way);
        say(way);
    } else if (strcmp(way, "daemon") == 0) {
        must(setgroups(3, groups), "setgroups");
        say("setgroups");
        must(setgid(USER), "setgid");
        say("setgid");
        must(setuid(USER), "setuid");
        say("setuid");
    } else if (strcmp(way, "initgroups") == 0) {
        must(initgroups("nobody", 100), way);
        say(way);
        must(setregid(USER, USER), "setregid");
        say("setregid");
        must(setreuid(USER, USER), "setreuid");
        say("setreuid");
    } else if (strcmp(way, "back") == 0) {
        must(setegid(USER), "setegid");
        say("setegid");
        must(seteuid(USER), "seteuid");
        say("seteuid");
        must(seteuid(0), "seteuid");
        say("root again");
        must(setresgid(0, 0, 0), "setresgid");
        say("setresgid");
    } else if (strcmp(way, "raw") == 0) {
        must((int)raw(SYS_setgroups, 3, (long)groups, 0), "setgroups");
        must((int)raw(SYS_setresgid, USER, USER, USER), "setresgid");
        must((int)raw(SYS_setresuid, USER, USER, USER), "setresuid");
        prctl(PR_SET_DUMPABLE, 1);
        say(way);
        printf("dumpable %d\n", prctl(PR_GET_DUMPABLE));
    }
}

static void give_up_capabilities(const char *way)
{
    if (strcmp(way, "capset") == 0) {
        capabilities(1ul << CAP_NET_BIND_SERVICE | 1ul << CAP_KILL);
        say(way);
    } else if (strcmp(way, "keepcaps") == 0) {
        must(prctl(PR_SET_KEEPCAPS, 1), "prctl");
        must(setuid(USER), "setuid");
        say("setuid");
        capabilities(1ul << CAP_NET_BIND_SERVICE);
        say("capset");
    }
}

static void give_up_among_threads(const char *way, long us)
{
    pthread_t thread;

    if (strcmp(way, "thread") == 0) {
        must(pthread_create(&thread, NULL, in_thread, NULL), "pthread_create");
        pthread_join(thread, NULL);
    } else if (strcmp(way, "leaderless") == 0) {
        must(pthread_create(&thread, NULL, without_first, (void *)us), "pthread_create");
        pthread_exit(NULL);
    } else if (strcmp(way, "threads") == 0) {
        must(setuid(USER), "setuid");
        say("setuid");
        late_threads(us);
    }
}

int main(int argc, char **argv)
{
    long us = argument(argc, argv, 2, 200000);

    before(us);
    helper_find();
    give_up_ids(argv[1]);
    give_up_capabilities(argv[1]);
    give_up_among_threads(argv[1], us);
    after(us);
    errno = 0;
    return 0;
}
