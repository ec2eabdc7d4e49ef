/* Shares a table of kernel symbols among a user's helpers. Runs in the helper. */
#include "kernel_cache.h"

#include <errno.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include "sys.h"
#include "text.h"

#define PATH_BYTES 256u

#define FNV_START 0xcbf29ce484222325u /* FNV-1a, 64 bits */
#define FNV_PRIME 0x100000001b3u

/* The sixth word of a line of /proc/modules is where the module lies, see proc(5). The third
 * and the fourth tell who uses it. */
#define MODULE_WORDS ((1u << 0) | (1u << 1) | (1u << 5))
#define ALL_WORDS    (~0u)

/* Sums up words of the lines of a file, those whose bit is set. False where it cannot be read. */
static bool file_hash(const char *path, unsigned words, uint64_t *hash)
{
    char buffer[4096];
    unsigned word = 0;
    long got;
    int fd = sys_open(path, O_RDONLY, 0);
    if (fd < 0)
        return false;
    while ((got = sys_read(fd, buffer, sizeof buffer)) > 0) {
        for (long i = 0; i < got; i++) {
            if (word < 32 && (words >> word & 1) != 0)
                *hash = (*hash ^ (uint8_t)buffer[i]) * FNV_PRIME;
            if (buffer[i] == '\n')
                word = 0;
            else
                word += buffer[i] == ' ';
        }
    }
    sys_close(fd);
    return got == 0;
}

uint64_t kernel_fingerprint(const char *boot_id_path, const char *modules_path)
{
    uint64_t hash = FNV_START;
    if (!file_hash(boot_id_path, ALL_WORDS, &hash))
        return 0;
    file_hash(modules_path, MODULE_WORDS, &hash);
    return hash;
}

static bool path_make(char path[PATH_BYTES], const char *directory)
{
    struct text text = text_over(path, PATH_BYTES);
    text_put(&text, directory);
    text_put(&text, "/" KERNEL_CACHE_NAME);
    text_put_u64(&text, (uint64_t)sys0(SYS_geteuid));
    return !text.cut;
}

static bool is_ours_alone(int fd)
{
    struct stat status;
    return sys_fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
           status.st_uid == (uid_t)sys0(SYS_geteuid) && (status.st_mode & 077) == 0 &&
           status.st_nlink == 1;
}

int kernel_cache_open(struct kernel_table *table, const char *directory, uint64_t fingerprint)
{
    char path[PATH_BYTES];
    if (fingerprint == 0 || !path_make(path, directory))
        return -ENOENT;
    int fd = sys_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0)
        return fd;
    int error = is_ours_alone(fd) ? kernel_table_open(table, fd, fingerprint) : -EPERM;
    if (error != 0)
        sys_close(fd);
    return error;
}

/* A file without a name in DIRECTORY, if that is memory; -errno. */
static int unnamed_open(const char *directory)
{
    struct statfs status;
    int fd = sys_open(directory, O_RDWR | O_TMPFILE, 0600);
    if (fd >= 0 && sys2(SYS_fstatfs, fd, &status) == 0 && status.f_type == TMPFS_MAGIC)
        return fd;
    if (fd >= 0)
        sys_close(fd);
    return fd < 0 ? fd : -EXDEV;
}

static int table_make(struct kernel_table *table, int fd, uint64_t fingerprint,
                      const struct kernel_content *content)
{
    if (fd < 0)
        return fd;
    int error = kernel_table_write(fd, fingerprint, content);
    if (error == 0)
        error = kernel_table_open(table, fd, fingerprint);
    if (error != 0)
        sys_close(fd);
    return error;
}

/* Gives the file its name, which is taken from an earlier one if that is ours to remove. */
static void file_name(int fd, const char *path)
{
    char self_buffer[32];
    struct text self = text_over(self_buffer, sizeof self_buffer);
    text_put(&self, "/proc/thread-self/fd/");
    text_put_u64(&self, (uint64_t)fd);
    for (unsigned try = 0; try < 2; try++) {
        if (sys5(SYS_linkat, AT_FDCWD, self_buffer, AT_FDCWD, path, AT_SYMLINK_FOLLOW) != -EEXIST)
            return;
        sys3(SYS_unlinkat, AT_FDCWD, path, 0);
    }
}

int kernel_cache_create(struct kernel_table *table, const char *directory, uint64_t fingerprint,
                        const struct kernel_content *content)
{
    char path[PATH_BYTES];
    bool shared = fingerprint != 0 && path_make(path, directory);
    int error = table_make(table, shared ? unnamed_open(directory) : -ENOENT, fingerprint, content);
    if (error != 0)
        return table_make(table, (int)sys2(SYS_memfd_create, "selfsample", MFD_CLOEXEC),
                          fingerprint, content);
    file_name(table->fd, path);
    return 0;
}
