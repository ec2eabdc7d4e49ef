/* Reads /proc/PID/status. Runs in the helper and in the constructor; keeps nothing. */
#include "task_status.h"

#include <errno.h>
#include <string.h>

#include "sys.h"

/* What a text still has to tell. */
enum {
    HAS_UID = 1,
    HAS_GID = 2,
    HAS_GROUPS = 4,
    HAS_PERMITTED = 8,
    HAS_EFFECTIVE = 16,
    HAS_ALL = 31
};

struct line {
    const char *at, *end;
};

static bool line_is(struct line *line, const char *key)
{
    size_t length = strlen(key);
    if ((size_t)(line->end - line->at) < length || memcmp(line->at, key, length) != 0)
        return false;
    line->at += length;
    return true;
}

/* The value of a digit in BASE (10 or 16), or -1. */
static int digit_value(char c, unsigned base)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return base == 16 && c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The next number of the line. False at its end. */
static bool number_next(struct line *line, unsigned base, uint64_t *value)
{
    while (line->at < line->end && digit_value(*line->at, base) < 0)
        line->at++;
    if (line->at == line->end)
        return false;
    *value = 0;
    for (int digit; line->at < line->end && (digit = digit_value(*line->at, base)) >= 0; line->at++)
        *value = *value * base + (uint64_t)digit;
    return true;
}

static uint64_t number_of(struct line *line, unsigned base)
{
    uint64_t value = 0;
    number_next(line, base, &value);
    return value;
}

static bool identities_read(struct line *line, uint32_t identities[TASK_IDENTITIES])
{
    uint64_t value;
    for (unsigned i = 0; i < TASK_IDENTITIES; i++) {
        if (!number_next(line, 10, &value))
            return false;
        identities[i] = (uint32_t)value;
    }
    return true;
}

static void groups_read(struct line *line, struct task_status *status)
{
    uint64_t value;
    while (status->group_count < TASK_STATUS_GROUPS_MAX && number_next(line, 10, &value))
        status->groups[status->group_count++] = (uint32_t)value;
}

/* Takes what the line tells; returns which of the HAS_ bits that is. */
static unsigned line_read(struct line *line, struct task_status *status)
{
    if (line_is(line, "State:"))
        status->is_zombie = line->end - line->at > 1 && (line->at[1] == 'Z' || line->at[1] == 'X');
    else if (line_is(line, "Tgid:"))
        status->process_pid = (pid_t)number_of(line, 10);
    else if (line_is(line, "PPid:"))
        status->parent_pid = (pid_t)number_of(line, 10);
    else if (line_is(line, "Uid:"))
        return identities_read(line, status->uids) ? HAS_UID : 0;
    else if (line_is(line, "Gid:"))
        return identities_read(line, status->gids) ? HAS_GID : 0;
    else if (line_is(line, "Groups:"))
        return groups_read(line, status), HAS_GROUPS;
    else if (line_is(line, "CapInh:"))
        status->inheritable = number_of(line, 16);
    else if (line_is(line, "CapPrm:"))
        return status->permitted = number_of(line, 16), HAS_PERMITTED;
    else if (line_is(line, "CapEff:"))
        return status->effective = number_of(line, 16), HAS_EFFECTIVE;
    else if (line_is(line, "Seccomp:"))
        status->seccomp_mode = (uint32_t)number_of(line, 10);
    else if (line_is(line, "Seccomp_filters:"))
        status->seccomp_filters = (uint32_t)number_of(line, 10);
    return 0;
}

bool task_status_parse(struct task_status *status, const char *text, size_t length)
{
    unsigned has = 0;
    const char *end = text + length;
    memset(status, 0, sizeof *status);
    while (text < end) {
        struct line line = {text, text};
        while (line.end < end && *line.end != '\n')
            line.end++;
        text = line.end < end ? line.end + 1 : end;
        has |= line_read(&line, status);
    }
    return has == HAS_ALL;
}

int task_status_read(struct task_status *status, int fd, char *buffer)
{
    long length = sys_pread(fd, buffer, TASK_STATUS_BYTES, 0);
    if (length < 0)
        return (int)length;
    return task_status_parse(status, buffer, (size_t)length) ? 0 : -EBADMSG;
}

static bool same_groups(const struct task_status *a, const struct task_status *b)
{
    return a->group_count == b->group_count &&
           memcmp(a->groups, b->groups, a->group_count * sizeof a->groups[0]) == 0;
}

bool task_status_same_credentials(const struct task_status *a, const struct task_status *b)
{
    return memcmp(a->uids, b->uids, sizeof a->uids) == 0 &&
           memcmp(a->gids, b->gids, sizeof a->gids) == 0 && same_groups(a, b) &&
           a->inheritable == b->inheritable && a->permitted == b->permitted &&
           a->effective == b->effective;
}

bool task_status_same_files(const struct task_status *a, const struct task_status *b)
{
    return a->uids[TASK_FS] == b->uids[TASK_FS] && a->gids[TASK_FS] == b->gids[TASK_FS] &&
           same_groups(a, b);
}
