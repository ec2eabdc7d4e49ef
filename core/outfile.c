/*
 * Output files, whole or not at all. Runs in the helper. Never overwrites, truncates or removes a
 * file that it did not make.
 */
#include "outfile.h"

#include <linux/fs.h>
#include <string.h>
#include <unistd.h>

#include "sys.h"

#define MEMFD_CLOEXEC   1u /* MFD_CLOEXEC */
#define TEMPORARY_TRIES 100
#define INTERRUPTS_MAX  100 /* every signal is blocked in the helper, so even one would be odd */

int outfile_init(struct outfile *out, int directory_fd, const char *path)
{
    out->directory_fd = directory_fd;
    out->fd = out->committed_fd = -1;
    out->error = 0;
    out->bytes = out->buffered = 0;
    out->in_place = false;
    out->progress = NULL;
    out->name[0] = out->temporary[0] = '\0';
    struct text wanted = text_over(out->path, sizeof out->path);
    text_put(&wanted, path);
    if (wanted.cut)
        return -ENAMETOOLONG;
    return *outpath_base(path) == '\0' ? -EISDIR : 0;
}

/* A hidden name beside the wanted one, likely to be free. */
static int temporary_name(struct outfile *out, int attempt)
{
    struct text name = text_over(out->temporary, sizeof out->temporary);
    text_put_bytes(&name, out->path, (size_t)(outpath_base(out->path) - out->path));
    text_put(&name, ".selfsample-");
    text_put_i64(&name, sys0(SYS_getpid));
    text_put_char(&name, '-');
    text_put_hex(&name, sys_clock_ns(CLOCK_MONOTONIC) + (uint64_t)attempt);
    text_put(&name, ".tmp");
    return name.cut ? -ENAMETOOLONG : 0;
}

static bool is_forbidden(int error)
{
    return error == -EACCES || error == -EPERM || error == -EROFS;
}

static int committed_begin(struct outfile *out)
{
    int error = (int)sys2(SYS_ftruncate, out->committed_fd, 0);
    if (error == 0)
        error = (int)sys3(SYS_lseek, out->committed_fd, 0, SEEK_SET);
    if (error == 0)
        error = out->fd = (int)sys1(SYS_dup, out->committed_fd);
    out->in_place = error >= 0;
    return error < 0 ? error : 0;
}

int outfile_begin(struct outfile *out)
{
    out->error = 0;
    out->bytes = out->buffered = 0;
    out->in_place = false;
    if (out->committed_fd < 0 && outfile_is_special(out->directory_fd, out->path))
        return -EEXIST;
    for (int attempt = 0; attempt < TEMPORARY_TRIES; attempt++) {
        int error = temporary_name(out, attempt);
        if (error != 0)
            return error;
        /* O_EXCL: nobody's file, and no link, which it does not follow. */
        const int flags = O_WRONLY | O_CREAT | O_EXCL;
        out->fd = sys_openat(out->directory_fd, out->temporary, flags, 0666);
        if (out->fd >= 0)
            return 0;
        error = out->fd;
        out->fd = -1;
        if (is_forbidden(error) && out->committed_fd >= 0)
            return committed_begin(out);
        if (error != -EEXIST)
            return error;
    }
    return -EEXIST;
}

int outfile_begin_memory(struct outfile *out, const char *name)
{
    int error = outfile_init(out, AT_FDCWD, name);
    if (error != 0)
        return error;
    int fd = (int)sys2(SYS_memfd_create, name, MEMFD_CLOEXEC);
    if (fd < 0)
        return fd;
    out->fd = fd;
    out->in_place = true;
    return 0;
}

static int write_all(int fd, const char *bytes, size_t length)
{
    int interrupts = 0;
    while (length > 0) {
        long written = sys_write(fd, bytes, length);
        if (written == -EINTR && interrupts++ < INTERRUPTS_MAX)
            continue;
        if (written <= 0)
            return written == 0 ? -EIO : (int)written;
        bytes += written;
        length -= (size_t)written;
    }
    return 0;
}

static void buffer_flush(struct outfile *out)
{
    if (out->error == 0)
        out->error = write_all(out->fd, out->buffer, out->buffered);
    if (out->progress != NULL)
        __atomic_add_fetch(out->progress, 1, __ATOMIC_RELAXED);
    out->buffered = 0;
}

void outfile_put(struct outfile *out, const char *bytes, size_t length)
{
    out->bytes += length;
    while (length > 0 && out->error == 0) {
        size_t part = sizeof out->buffer - out->buffered;
        part = length < part ? length : part;
        memcpy(out->buffer + out->buffered, bytes, part);
        out->buffered += part;
        bytes += part;
        length -= part;
        if (out->buffered == sizeof out->buffer)
            buffer_flush(out);
    }
}

/* A network file system may tell only at a close that there was no room: close a copy, as ours has
 * to stay open. */
static int write_errors(int fd)
{
    int copy = (int)sys1(SYS_dup, fd);
    return copy < 0 ? 0 : sys_close(copy);
}

/* Whether the name of the committed file still leads to it. Where others may rename files in the
 * directory they can change that before the caller acts on it; there they can harm any file. */
static bool committed_in_place(const struct outfile *out)
{
    struct stat ours, there;
    if (out->committed_fd < 0 || sys_fstat(out->committed_fd, &ours) != 0)
        return false;
    if (sys4(SYS_newfstatat, out->directory_fd, out->name, &there, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    return ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

/* Gives the temporary file the name NAME unless something has it: -EEXIST. */
static int name_take(const struct outfile *out, const char *name)
{
    int at = out->directory_fd;
    int error = (int)sys5(SYS_renameat2, at, out->temporary, at, name, RENAME_NOREPLACE);
    if (error != -EINVAL && error != -ENOSYS && error != -EPERM)
        return error;
    /* NFS and some FUSE file systems have no RENAME_NOREPLACE, and filters of containers may not
     * know the call; but a link never replaces either. */
    error = (int)sys5(SYS_linkat, at, out->temporary, at, name, 0);
    if (error == 0)
        sys3(SYS_unlinkat, at, out->temporary, 0);
    return error;
}

static int free_name_take(struct outfile *out)
{
    char candidate[OUTPATH_BYTES];
    for (unsigned n = 0; n <= OUTFILE_SUFFIX_MAX; n++) {
        struct text name = text_over(candidate, sizeof candidate);
        outpath_with_suffix(&name, out->path, n);
        int error = name.cut ? -ENAMETOOLONG : name_take(out, candidate);
        if (error == 0)
            memcpy(out->name, candidate, name.length + 1);
        if (error != -EEXIST)
            return error;
    }
    return -EEXIST;
}

static int name_give(struct outfile *out)
{
    if (!committed_in_place(out))
        return free_name_take(out);
    int at = out->directory_fd;
    int error = (int)sys4(SYS_renameat, at, out->temporary, at, out->name);
    /* The file may be that of a user whose rights are given up, in a directory like /tmp. */
    return is_forbidden(error) ? free_name_take(out) : error;
}

int outfile_commit(struct outfile *out)
{
    buffer_flush(out);
    if (out->error == 0)
        out->error = write_errors(out->fd);
    if (out->error == 0 && !out->in_place)
        out->error = name_give(out);
    if (out->error != 0) {
        outfile_abort(out);
        return out->error;
    }
    if (out->committed_fd >= 0)
        sys_close(out->committed_fd);
    out->committed_fd = out->fd;
    out->fd = -1;
    return 0;
}

void outfile_abort(struct outfile *out)
{
    if (out->fd < 0)
        return;
    if (out->in_place) /* better nothing than a part */
        sys2(SYS_ftruncate, out->fd, 0);
    else
        sys3(SYS_unlinkat, out->directory_fd, out->temporary, 0);
    sys_close(out->fd);
    out->fd = -1;
}

void outfile_withdraw(struct outfile *out)
{
    struct stat status;
    if (committed_in_place(out) && sys_fstat(out->committed_fd, &status) == 0 &&
        status.st_size == 0)
        sys3(SYS_unlinkat, out->directory_fd, out->name, 0);
}

void outfile_close(struct outfile *out)
{
    outfile_abort(out);
    if (out->committed_fd >= 0)
        sys_close(out->committed_fd);
    out->committed_fd = -1;
}

static bool is_there(int at, const char *path, int flags, struct stat *status)
{
    return sys4(SYS_newfstatat, at, path, status, flags) == 0;
}

/* One that was left in a directory like /tmp by somebody else is not followed. */
static bool link_is_trusted(const struct stat *link)
{
    return link->st_uid == 0 || link->st_uid == (uid_t)sys0(SYS_geteuid);
}

bool outfile_is_directory(const char *path)
{
    struct stat status;
    if (!is_there(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, &status))
        return false;
    if (S_ISLNK(status.st_mode) &&
        (!link_is_trusted(&status) || !is_there(AT_FDCWD, path, 0, &status)))
        return false;
    return S_ISDIR(status.st_mode);
}

/* Is the directory of PATH one of /proc? There nobody can make a file, and most of what is there is
 * that of the process that asks: /proc/self/fd/1 is no descriptor of the app to the helper. */
static bool is_in_proc(int at, const char *path)
{
    char directory[OUTPATH_BYTES];
    struct stat proc, there;
    struct text text = text_over(directory, sizeof directory);
    text_put_bytes(&text, path, (size_t)(outpath_base(path) - path));
    return text.length > 0 && is_there(at, directory, 0, &there) &&
           is_there(AT_FDCWD, "/proc", 0, &proc) && there.st_dev == proc.st_dev;
}

/* /dev/stdout is such a link. */
static bool leads_to_proc(int at, const char *link)
{
    char target[OUTPATH_BYTES];
    long length = sys4(SYS_readlinkat, at, link, target, sizeof target - 1);
    if (length <= 0)
        return false;
    target[length] = '\0';
    return target[0] == '/' && is_in_proc(at, target);
}

bool outfile_is_special(int at, const char *path)
{
    struct stat status;
    if (is_in_proc(at, path))
        return true;
    if (!is_there(at, path, AT_SYMLINK_NOFOLLOW, &status))
        return false;
    if (S_ISLNK(status.st_mode) && link_is_trusted(&status)) {
        if (leads_to_proc(at, path))
            return true;
        is_there(at, path, 0, &status);
    }
    return !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode) && !S_ISLNK(status.st_mode);
}

void outfile_absolute(struct text *path, const char *name)
{
    char cwd[OUTPATH_BYTES];
    if (name[0] != '/' && sys2(SYS_getcwd, cwd, sizeof cwd) > 0) {
        text_put(path, cwd);
        text_put_char(path, '/');
    }
    text_put(path, name);
}
