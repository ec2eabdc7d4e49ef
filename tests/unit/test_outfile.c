/* Output files in a directory of the test's own: names, links, full disks, limits, refusals. */
#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "outfile.h"
#include "refusal.h"

static struct outfile out;
static char directory[64];
static int directory_fd = -1;

static void directory_make(void)
{
    strcpy(directory, "/tmp/test_outfile.XXXXXX");
    REQUIRE(mkdtemp(directory) != NULL);
    directory_fd = open(directory, O_RDONLY | O_DIRECTORY);
    REQUIRE(directory_fd >= 0);
    memset(&out, 0xff, sizeof out);
}

static unsigned directory_entries(void)
{
    unsigned count = 0;
    DIR *listing = opendir(directory);
    REQUIRE(listing != NULL);
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(listing);
    return count;
}

static void directory_remove(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    CHECK(system(command) == 0);
    close(directory_fd);
}

static const char *content(const char *name)
{
    static char bytes[256];
    int fd = openat(directory_fd, name, O_RDONLY | O_NOFOLLOW);
    if (fd < 0)
        return NULL;
    ssize_t length = read(fd, bytes, sizeof bytes - 1);
    close(fd);
    bytes[length < 0 ? 0 : length] = '\0';
    return bytes;
}

static void file_make(const char *name, const char *text)
{
    int fd = openat(directory_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    REQUIRE(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static int file_write(const char *text)
{
    int error = outfile_begin(&out);
    if (error != 0)
        return error;
    outfile_put(&out, text, strlen(text));
    return outfile_commit(&out);
}

TEST(a_file_appears_whole)
{
    directory_make();
    mode_t mask = umask(027);
    REQUIRE(outfile_init(&out, directory_fd, "a.folded") == 0);
    REQUIRE(outfile_begin(&out) == 0);
    outfile_put(&out, "one ", 4);
    outfile_put(&out, "two", 3);
    CHECK(content("a.folded") == NULL);
    CHECK_U64(out.bytes, 7);
    CHECK_I64(outfile_commit(&out), 0);
    umask(mask);
    CHECK_STR(content("a.folded"), "one two");
    CHECK_STR(out.name, "a.folded");
    CHECK_U64(directory_entries(), 1);
    struct stat status;
    CHECK(fstatat(directory_fd, "a.folded", &status, 0) == 0);
    CHECK_U64(status.st_mode, S_IFREG | 0640);
    CHECK_U64(status.st_nlink, 1);
    outfile_close(&out);
    directory_remove();
}

TEST(abort_leaves_nothing)
{
    directory_make();
    REQUIRE(outfile_init(&out, directory_fd, "a") == 0);
    outfile_abort(&out);
    REQUIRE(outfile_begin(&out) == 0);
    CHECK_U64(directory_entries(), 1);
    outfile_put(&out, "x", 1);
    outfile_close(&out);
    CHECK_U64(directory_entries(), 0);
    CHECK_I64(out.fd, -1);
    directory_remove();
}

TEST(more_than_the_buffer)
{
    directory_make();
    REQUIRE(outfile_init(&out, directory_fd, "big") == 0);
    REQUIRE(outfile_begin(&out) == 0);
    static char block[OUTFILE_BUFFER_BYTES + 1000];
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = (char)(i % 251);
    for (int i = 0; i < 3; i++)
        outfile_put(&out, block, sizeof block);
    outfile_put(&out, block, OUTFILE_BUFFER_BYTES - 3000);
    CHECK_I64(outfile_commit(&out), 0);
    int fd = openat(directory_fd, "big", O_RDONLY);
    static char back[sizeof block];
    for (int i = 0; i < 3; i++) {
        CHECK_I64(read(fd, back, sizeof back), sizeof back);
        CHECK(memcmp(back, block, sizeof block) == 0);
    }
    CHECK_I64(read(fd, back, sizeof back), OUTFILE_BUFFER_BYTES - 3000);
    close(fd);
    outfile_close(&out);
    directory_remove();
}

TEST(nothing_is_overwritten)
{
    directory_make();
    file_make("a.folded", "old");
    file_make("a.1.folded", "old1");
    CHECK(mkdirat(directory_fd, "a.2.folded", 0755) == 0);
    CHECK(symlinkat("nowhere", directory_fd, "a.3.folded") == 0);
    CHECK(symlinkat("a.folded", directory_fd, "a.4.folded") == 0);
    REQUIRE(outfile_init(&out, directory_fd, "a.folded") == 0);
    CHECK_I64(file_write("new"), 0);
    CHECK_STR(out.name, "a.5.folded");
    CHECK_STR(content("a.5.folded"), "new");
    CHECK_STR(content("a.folded"), "old");
    CHECK_STR(content("a.1.folded"), "old1");
    CHECK(content("nowhere") == NULL);
    CHECK_U64(directory_entries(), 6);
    outfile_close(&out);
    directory_remove();
}

TEST(a_checkpoint_replaces_its_own_file)
{
    directory_make();
    file_make("a", "other");
    REQUIRE(outfile_init(&out, directory_fd, "a") == 0);
    CHECK_I64(file_write("first"), 0);
    CHECK_STR(content("a.1"), "first");
    CHECK_I64(file_write("second"), 0);
    CHECK_STR(content("a.1"), "second");
    CHECK_I64(file_write("third"), 0);
    CHECK_STR(content("a.1"), "third");
    CHECK_STR(content("a"), "other");
    CHECK_U64(directory_entries(), 2);
    outfile_close(&out);
    directory_remove();
}

TEST(a_checkpoint_spares_what_took_its_place)
{
    directory_make();
    REQUIRE(outfile_init(&out, directory_fd, "a") == 0);
    CHECK_I64(file_write("first"), 0);
    CHECK(unlinkat(directory_fd, "a", 0) == 0);
    file_make("a", "other"); /* the old inode is still held, so it cannot be this one's */
    CHECK_I64(file_write("second"), 0);
    CHECK_STR(content("a"), "other");
    CHECK_STR(content("a.1"), "second");
    CHECK(unlinkat(directory_fd, "a", 0) == 0);
    CHECK(unlinkat(directory_fd, "a.1", 0) == 0);
    CHECK(symlinkat("elsewhere", directory_fd, "a.1") == 0);
    CHECK_I64(file_write("third"), 0);
    CHECK_STR(out.name, "a");
    CHECK_STR(content("a"), "third");
    CHECK_U64(directory_entries(), 2);
    outfile_close(&out);
    directory_remove();
}

TEST(a_removed_checkpoint_comes_back)
{
    directory_make();
    REQUIRE(outfile_init(&out, directory_fd, "a") == 0);
    CHECK_I64(file_write("first"), 0);
    CHECK(unlinkat(directory_fd, "a", 0) == 0);
    CHECK_I64(file_write("second"), 0);
    CHECK_STR(content("a"), "second");
    outfile_close(&out);
    directory_remove();
}

TEST(subdirectories_and_missing_ones)
{
    directory_make();
    CHECK(mkdirat(directory_fd, "s.d", 0755) == 0);
    REQUIRE(outfile_init(&out, directory_fd, "s.d/a") == 0);
    CHECK_I64(file_write("x"), 0);
    CHECK_I64(outfile_init(&out, directory_fd, "s.d/a"), 0);
    CHECK_I64(file_write("y"), 0);
    CHECK_STR(content("s.d/a"), "x");
    CHECK_STR(content("s.d/a.1"), "y");
    REQUIRE(outfile_init(&out, directory_fd, "none/a") == 0);
    CHECK_I64(file_write("x"), -ENOENT);
    REQUIRE(outfile_init(&out, directory_fd, "s.d/a/b") == 0);
    CHECK_I64(file_write("x"), -ENOTDIR);
    directory_remove();
}

TEST(paths_that_cannot_be)
{
    static char path[OUTPATH_BYTES + 1];
    memset(path, 'x', OUTPATH_BYTES);
    CHECK_I64(outfile_init(&out, AT_FDCWD, path), -ENAMETOOLONG);
    CHECK_I64(outfile_init(&out, AT_FDCWD, ""), -EISDIR);
    CHECK_I64(outfile_init(&out, AT_FDCWD, "/tmp/"), -EISDIR);
    directory_make();
    path[300] = '\0';
    CHECK_I64(outfile_init(&out, directory_fd, path), 0);
    CHECK_I64(file_write("x"), -ENAMETOOLONG);
    CHECK_U64(directory_entries(), 0);
    path[300] = 'x';
    memset(path, '/', OUTPATH_BYTES - 2);
    path[OUTPATH_BYTES - 1] = '\0';
    CHECK_I64(outfile_init(&out, directory_fd, path), 0);
    CHECK_I64(outfile_begin(&out), -ENAMETOOLONG);
    directory_remove();
}

TEST(a_file_size_limit)
{
    directory_make();
    struct rlimit before, small = {10, RLIM_INFINITY};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    small.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    REQUIRE(outfile_init(&out, directory_fd, "a") == 0);
    CHECK_I64(file_write("fits"), 0);
    fflush(stdout);
    setrlimit(RLIMIT_FSIZE, &small);
    int error = file_write("does not fit into ten bytes");
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK_I64(error, -EFBIG);
    CHECK_STR(content("a"), "fits");
    CHECK_U64(directory_entries(), 1);
    outfile_close(&out);
    directory_remove();
}

static int full_disk(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", directory, "tmpfs", 0, "size=64k") != 0)
        return 77;
    directory_fd = open(directory, O_RDONLY | O_DIRECTORY);
    static char block[100000];
    outfile_init(&out, directory_fd, "a");
    if (outfile_begin(&out) != 0)
        return 1;
    outfile_put(&out, block, sizeof block);
    outfile_put(&out, block, sizeof block);
    if (outfile_commit(&out) != -ENOSPC || directory_entries() != 0)
        return 2;
    if (file_write("small") != 0)
        return 3;
    outfile_close(&out); /* open for writing it would keep the disk from being made read-only */
    if (mount("none", directory, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=64k") != 0)
        return 77;
    return file_write("x") == -EROFS ? 0 : 4;
}

TEST(a_full_and_a_read_only_disk)
{
    directory_make();
    int result = in_child(full_disk);
    directory_remove();
    if (result == 77)
        SKIP("cannot mount a tmpfs");
    CHECK_I64(result, 0);
}

/* Becomes an ordinary user, who may not make files there. */
static int rights_given_up(void)
{
    outfile_init(&out, directory_fd, "a");
    if (file_write("") != 0 || setresuid(65534, 65534, 65534) != 0)
        return 1;
    if (file_write("first, and long") != 0 || strcmp(content("a"), "first, and long") != 0)
        return 2;
    if (file_write("second") != 0 || strcmp(content("a"), "second") != 0)
        return 3;
    if (outfile_begin(&out) != 0)
        return 4;
    outfile_put(&out, "half", 4);
    outfile_abort(&out);
    if (strcmp(content("a"), "") != 0)
        return 5;
    outfile_close(&out);
    outfile_init(&out, directory_fd, "b");
    return file_write("none") == -EACCES && directory_entries() == 1 ? 0 : 6;
}

TEST(a_user_who_may_no_longer_make_files_writes_what_he_has)
{
    if (geteuid() != 0)
        SKIP("not root");
    directory_make();
    CHECK(chmod(directory, 0755) == 0);
    CHECK_I64(in_child(rights_given_up), 0);
    directory_remove();
}

/* The old file is root's, the directory everybody's, as /tmp is. */
static int rights_given_up_in_public(void)
{
    outfile_init(&out, directory_fd, "a");
    if (file_write("root's") != 0 || setresuid(65534, 65534, 65534) != 0)
        return 1;
    if (file_write("his") != 0 || strcmp(content("a"), "root's") != 0)
        return 2;
    return strcmp(content("a.1"), "his") == 0 && directory_entries() == 2 ? 0 : 3;
}

TEST(in_a_public_directory_the_file_of_another_stays)
{
    if (geteuid() != 0)
        SKIP("not root");
    directory_make();
    CHECK(chmod(directory, 01777) == 0);
    CHECK_I64(in_child(rights_given_up_in_public), 0);
    directory_remove();
}

TEST(a_name_that_was_only_kept_is_given_back)
{
    directory_make();
    REQUIRE(outfile_init(&out, directory_fd, "a") == 0);
    outfile_withdraw(&out);
    CHECK_I64(file_write(""), 0);
    CHECK_U64(directory_entries(), 1);
    outfile_withdraw(&out);
    CHECK_U64(directory_entries(), 0);
    CHECK_I64(file_write("content"), 0);
    outfile_withdraw(&out);
    CHECK_STR(content("a"), "content");
    outfile_close(&out);
    directory_remove();
}

/* As on NFS and some FUSE file systems. */
static int without_renameat2(void)
{
    if (refuse(SYS_renameat2, EINVAL) != 0)
        return 77;
    outfile_init(&out, directory_fd, "a");
    if (file_write("new") != 0 || strcmp(out.name, "a.1") != 0 || directory_entries() != 2)
        return 1;
    if (strcmp(content("a"), "old") != 0 || strcmp(content("a.1"), "new") != 0)
        return 2;
    if (file_write("newer") != 0 || strcmp(content("a.1"), "newer") != 0)
        return 3;
    return directory_entries() == 2 ? 0 : 4;
}

TEST(a_file_system_that_cannot_rename_without_replacing)
{
    directory_make();
    file_make("a", "old");
    int result = in_child(without_renameat2);
    directory_remove();
    if (result == 77)
        SKIP("no seccomp filter");
    CHECK_I64(result, 0);
}

static int refused_name(void)
{
    if (refuse(SYS_renameat2, EACCES) != 0)
        return 77;
    outfile_init(&out, directory_fd, "a");
    return file_write("x") == -EACCES && directory_entries() == 0 && out.name[0] == '\0' ? 0 : 1;
}

TEST(beside_a_device_nothing_is_made)
{
    char path[128];
    directory_make();
    snprintf(path, sizeof path, "%s/pipe", directory);
    CHECK(mkfifo(path, 0600) == 0);
    CHECK(outfile_init(&out, directory_fd, "pipe") == 0);
    CHECK_I64(outfile_begin(&out), -EEXIST);
    outfile_close(&out);
    CHECK_U64(directory_entries(), 1);
    directory_remove();
}

TEST(links_to_what_is_no_file_are_special)
{
    static const char *const targets[] = {"pipe", "/dev/null", "/proc/self/fd/1",
                                          "/proc/self/fd/12345"};
    char path[128];
    directory_make();
    snprintf(path, sizeof path, "%s/pipe", directory);
    CHECK(mkfifo(path, 0600) == 0);
    for (unsigned i = 0; i < sizeof targets / sizeof *targets; i++) {
        REQUIRE(symlinkat(targets[i], directory_fd, "link") == 0);
        CHECK(outfile_is_special(directory_fd, "link"));
        /* root alone can give it away */
        if (fchownat(directory_fd, "link", 12345, 12345, AT_SYMLINK_NOFOLLOW) == 0)
            CHECK(!outfile_is_special(directory_fd, "link"));
        REQUIRE(unlinkat(directory_fd, "link", 0) == 0);
    }
    directory_remove();
}

TEST(descriptors_are_special_and_files_are_not)
{
    static const char *const files[] = {"file", "missing", "link", "dangling"};
    directory_make();
    file_make("file", "x");
    CHECK(symlinkat("file", directory_fd, "link") == 0);
    CHECK(symlinkat("missing", directory_fd, "dangling") == 0);
    for (unsigned i = 0; i < sizeof files / sizeof *files; i++)
        CHECK(!outfile_is_special(directory_fd, files[i]));
    CHECK(outfile_is_special(AT_FDCWD, "/dev/null"));
    CHECK(outfile_is_special(AT_FDCWD, "/proc/self/fd/1"));
    CHECK(outfile_is_special(AT_FDCWD, "/proc/self/fd/12345"));
    CHECK(!outfile_is_special(AT_FDCWD, directory));
    directory_remove();
}

static int error_at_the_close(void)
{
    if (refuse(SYS_close, ENOSPC) != 0)
        return 77;
    outfile_init(&out, directory_fd, "a");
    return file_write("x") == -ENOSPC && directory_entries() == 0 ? 0 : 1;
}

/* As of a network file system, which may tell only then that there was no room. */
TEST(what_a_close_tells_is_an_error)
{
    directory_make();
    int result = in_child(error_at_the_close);
    directory_remove();
    if (result == 77)
        SKIP("no seccomp filter");
    CHECK_I64(result, 0);
}

TEST(a_refused_name_leaves_nothing)
{
    directory_make();
    int result = in_child(refused_name);
    directory_remove();
    if (result == 77)
        SKIP("no seccomp filter");
    CHECK_I64(result, 0);
}

/* Without a clock the temporary name can be foretold, and somebody has put a link there. */
static int foretold_name(void)
{
    char trap[64];
    if (refuse(SYS_clock_gettime, ENOSYS) != 0)
        return 77;
    snprintf(trap, sizeof trap, ".selfsample-%d-0.tmp", (int)getpid());
    if (symlinkat("victim", directory_fd, trap) != 0)
        return 1;
    outfile_init(&out, directory_fd, "a");
    if (file_write("new") != 0 || strcmp(content("a"), "new") != 0)
        return 2;
    return strcmp(content("victim"), "precious") == 0 && directory_entries() == 3 ? 0 : 3;
}

TEST(a_link_in_place_of_the_temporary_file_is_not_followed)
{
    directory_make();
    file_make("victim", "precious");
    int result = in_child(foretold_name);
    directory_remove();
    if (result == 77)
        SKIP("no seccomp filter");
    CHECK_I64(result, 0);
}

TEST(directories_and_whose_links_to_them_are_followed)
{
    char path[128], link[128];
    directory_make();
    snprintf(path, sizeof path, "%s/file", directory);
    snprintf(link, sizeof link, "%s/link", directory);
    CHECK(outfile_is_directory(directory));
    CHECK(!outfile_is_directory(path));
    CHECK(close(open(path, O_CREAT | O_WRONLY, 0600)) == 0);
    CHECK(!outfile_is_directory(path));
    CHECK(symlink(path, link) == 0);
    CHECK(!outfile_is_directory(link));
    CHECK(unlink(link) == 0 && symlink("/", link) == 0);
    CHECK(outfile_is_directory(link));
    if (lchown(link, 12345, 12345) == 0) /* root alone can give it away */
        CHECK(!outfile_is_directory(link));
    directory_remove();
}

TEST(one_in_memory_has_no_name_anywhere)
{
    char link[64], target[64] = "", text[16] = "";
    directory_make();
    REQUIRE(outfile_begin_memory(&out, "some-name") == 0);
    outfile_put(&out, "a;b 3\n", 6);
    REQUIRE(outfile_commit(&out) == 0);
    CHECK(out.fd == -1 && out.committed_fd >= 0);
    CHECK(pread(out.committed_fd, text, sizeof text, 0) == 6 && strcmp(text, "a;b 3\n") == 0);
    snprintf(link, sizeof link, "/proc/self/fd/%d", out.committed_fd);
    CHECK(readlink(link, target, sizeof target - 1) > 0);
    CHECK(strncmp(target, "/memfd:some-name", strlen("/memfd:some-name")) == 0);
    CHECK(directory_entries() == 0);
    outfile_close(&out);
    directory_remove();
}
