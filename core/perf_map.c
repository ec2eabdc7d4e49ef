/* Reads perf's map files of JIT compilers. Runs in the helper; a bounded part of the file at a
 * time, never a byte twice but for names that are needed. */
#include "perf_map.h"

#include <errno.h>

#include "descriptors.h"
#include "folded.h"
#include "sys.h"

#define BUFFER_BYTES (64u * 1024)
#define FIRST_BYTES  (1u << 20) /* read at once when the first sample needs it */

#define NAME_UNKNOWN UINT32_MAX /* as a piece's note: it can't be read any more */

/* A piece's tag: where its line is, and in which file. */
#define TAG_OFFSET_BITS 40u
#define TAG_OFFSET_MASK (((uint64_t)1 << TAG_OFFSET_BITS) - 1)
#define FILES_MAX       (1u << 20)

struct line {
    uint64_t start, bytes;
    const char *name; /* not terminated */
    size_t name_bytes;
};

void perf_map_init(struct perf_map *map, const char *directory, int pid)
{
    *map = (struct perf_map){.fd = -1};
    arena_init(&map->arena, PERF_MAP_ARENA_BYTES);
    code_index_init(&map->code, &map->arena);
    sequence_init(&map->names, &map->arena, sizeof(const char *));
    struct text path = text_over(map->path, sizeof map->path);
    text_put(&path, directory);
    text_put(&path, "/perf-");
    text_put_i64(&path, pid);
    text_put(&path, ".map");
}

/* ---- lines ---- */

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Takes a hexadecimal number and the blank behind it. */
static bool take_number(const char **at, const char *end, uint64_t *value)
{
    const char *c = *at;
    if (end - c > 2 && c[0] == '0' && (c[1] | 0x20) == 'x')
        c += 2;
    const char *first = c;
    int digit;
    for (*value = 0; c < end && (digit = digit_of(*c)) >= 0; c++) {
        if (*value >> 60 != 0)
            return false;
        *value = *value << 4 | (uint64_t)digit;
    }
    if (c == first || c == end || *c != ' ')
        return false;
    while (c < end && *c == ' ')
        c++;
    *at = c;
    return true;
}

/* A line without its end. False: it is none of ours. */
static bool line_parse(struct line *line, const char *text, size_t bytes)
{
    const char *at = text, *end = text + bytes;
    if (!take_number(&at, end, &line->start) || !take_number(&at, end, &line->bytes))
        return false;
    line->name = at;
    while (at < end && *at != '\0' && *at != '\r')
        at++;
    line->name_bytes = (size_t)(at - line->name);
    return line->name_bytes > 0;
}

/* ---- the file ---- */

static void refuse(struct perf_map *map, const char *why)
{
    map->refusal = why;
}

static bool may_be_read(struct perf_map *map, const struct stat *status)
{
    if ((status->st_mode & S_IFMT) != S_IFREG)
        refuse(map, "it is not a regular file");
    else if (status->st_uid != 0 && status->st_uid != (uid_t)sys0(SYS_geteuid))
        refuse(map, "it belongs to another user");
    else
        return true;
    return false;
}

static void file_begin(struct perf_map *map)
{
    map->offset = 0;
    map->tail_bytes = 0;
    map->in_long_line = false;
    if (++map->files >= FILES_MAX)
        refuse(map, "it is written anew too often");
}

static void file_close(struct perf_map *map)
{
    if (map->fd >= 0)
        sys_close(map->fd);
    map->fd = -1;
}

/* Opens what is at the path now. */
static void file_open(struct perf_map *map, struct stat *status)
{
    file_close(map);
    int fd = sys_open(map->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0) {
        if (fd != -ENOENT)
            refuse(map, "it can't be opened");
        return;
    }
    bool spare = descriptor_is_spare(fd);
    if (spare)
        refuse(map, "too few files may be open");
    if (spare || sys_fstat(fd, status) != 0 || !may_be_read(map, status)) {
        sys_close(fd);
        return;
    }
    map->fd = fd;
    map->device = status->st_dev;
    map->inode = status->st_ino;
    file_begin(map);
}

/* Does what was read of the file stand there no more? */
static bool is_written_anew(const struct perf_map *map, const struct stat *status)
{
    char tail[PERF_MAP_TAIL_BYTES];
    if ((uint64_t)status->st_size < map->offset)
        return true;
    long got = sys_pread(map->fd, tail, map->tail_bytes, map->offset - map->tail_bytes);
    return got != (long)map->tail_bytes || __builtin_memcmp(tail, map->tail, map->tail_bytes) != 0;
}

/* Looks at the file, opening it where it is new. False: there is nothing to read. */
static bool file_look(struct perf_map *map, struct stat *status)
{
    long error = sys4(SYS_newfstatat, AT_FDCWD, map->path, status, AT_SYMLINK_NOFOLLOW);
    if (error != 0) /* it may have been removed after it was complete */
        return map->fd >= 0 && sys_fstat(map->fd, status) == 0;
    if (!may_be_read(map, status))
        return false;
    if (map->fd < 0 || status->st_dev != map->device || status->st_ino != map->inode)
        file_open(map, status);
    if (map->fd >= 0 && is_written_anew(map, status))
        file_begin(map);
    return map->fd >= 0 && map->refusal == NULL;
}

/* When the file was last written, as far as that fits to what was seen of it. */
static uint64_t written_ns(const struct perf_map *map, const struct stat *status, uint64_t now_ns)
{
    uint64_t real_now_ns = sys_clock_ns(CLOCK_REALTIME);
    uint64_t real_ns =
        (uint64_t)status->st_mtim.tv_sec * 1000000000u + (uint64_t)status->st_mtim.tv_nsec;
    if (real_ns > real_now_ns || real_now_ns - real_ns > now_ns - map->ended_ns)
        return real_ns > real_now_ns ? now_ns : map->ended_ns;
    return now_ns - (real_now_ns - real_ns);
}

static void line_enter(struct perf_map *map, const char *text, size_t bytes, uint64_t offset,
                       uint64_t from_ns)
{
    struct line line;
    if (!line_parse(&line, text, bytes))
        return;
    uint64_t tag = map->files << TAG_OFFSET_BITS | offset;
    int error = code_index_add(&map->code, line.start, line.bytes, from_ns, tag);
    if (error == -ENOSPC || error == -ENOMEM)
        refuse(map, "it has too many lines, of which the last are not used");
    map->changes += error == 0;
}

/* Enters the whole lines of the BYTES in the buffer. Returns how many bytes those are. */
static size_t lines_enter(struct perf_map *map, size_t bytes, uint64_t from_ns)
{
    size_t start = 0;
    for (size_t i = 0; i < bytes && map->refusal == NULL; i++) {
        if (map->buffer[i] != '\n')
            continue;
        if (!map->in_long_line)
            line_enter(map, map->buffer + start, i - start, map->offset + start, from_ns);
        map->in_long_line = false;
        start = i + 1;
    }
    if (start == 0 && bytes == BUFFER_BYTES) {
        map->in_long_line = true;
        start = bytes;
    }
    return start;
}

/* True at the end of the file, where a line may be in the writing. */
static bool part_read(struct perf_map *map, uint64_t from_ns)
{
    long got = sys_pread(map->fd, map->buffer, BUFFER_BYTES, map->offset);
    if (got <= 0)
        return true;
    size_t used = lines_enter(map, (size_t)got, from_ns);
    if (used > 0) {
        map->tail_bytes = used < PERF_MAP_TAIL_BYTES ? (uint32_t)used : PERF_MAP_TAIL_BYTES;
        __builtin_memcpy(map->tail, map->buffer + used - map->tail_bytes, map->tail_bytes);
    }
    map->offset += used;
    map->read_bytes += used;
    if (map->read_bytes >= PERF_MAP_FILE_BYTES)
        refuse(map, "it is too large, and the rest of it is not used");
    return (size_t)got < BUFFER_BYTES || used == 0;
}

bool perf_map_look(struct perf_map *map, uint64_t budget_bytes)
{
    struct stat status;
    uint64_t now_ns = sys_clock_ns(CLOCK_MONOTONIC);
    if (!map->wanted || map->refusal != NULL || !file_look(map, &status))
        return false;
    if (map->buffer == NULL)
        map->buffer = arena_alloc(&map->arena, BUFFER_BYTES);
    if (map->buffer == NULL)
        return false;
    uint64_t from_ns = written_ns(map, &status, now_ns), read_before = map->read_bytes;
    while (map->refusal == NULL) {
        if (part_read(map, from_ns)) {
            map->ended_ns = now_ns;
            return false;
        }
        if (map->read_bytes - read_before >= budget_bytes)
            return true;
    }
    return false;
}

/* ---- names ---- */

/* Its line once more, which must be what it was. NULL: it is not, or memory is short. */
static const char *name_read(struct perf_map *map, const struct code_piece *piece)
{
    char text[PERF_MAP_NAME_BYTES + 64];
    struct line line;
    if (piece->tag >> TAG_OFFSET_BITS != map->files || map->fd < 0)
        return NULL;
    long got = sys_pread(map->fd, text, sizeof text, piece->tag & TAG_OFFSET_MASK);
    size_t bytes = 0;
    while (got > 0 && bytes < (size_t)got && text[bytes] != '\n')
        bytes++;
    if (!line_parse(&line, text, bytes) || line.start != piece->start || line.bytes != piece->bytes)
        return NULL;
    if (line.name_bytes >= PERF_MAP_NAME_BYTES) {
        line.name_bytes = PERF_MAP_NAME_BYTES - 1;
        while (line.name_bytes > 0 && (line.name[line.name_bytes] & 0xc0) == 0x80)
            line.name_bytes--; /* not within a character */
    }
    return arena_copy_text(&map->arena, line.name, line.name_bytes);
}

/* Keeps the name now: the file may be gone, or written anew, at the end. */
static void name_keep(struct perf_map *map, struct code_piece *piece)
{
    const char *name = name_read(map, piece);
    const char **kept = name != NULL ? sequence_append(&map->names) : NULL;
    piece->note = kept != NULL ? map->names.count : NAME_UNKNOWN;
    if (kept != NULL)
        *kept = name;
}

uint32_t perf_map_find(struct perf_map *map, uint64_t address, uint64_t now_ns, bool *settled)
{
    if (!map->wanted) {
        map->wanted = true;
        perf_map_look(map, FIRST_BYTES);
    }
    uint32_t number = code_index_find(&map->code, address, now_ns, settled);
    if (number == CODE_NONE)
        return CODE_NONE;
    struct code_piece *piece = code_index_at(&map->code, number);
    if (piece->note == 0)
        name_keep(map, piece);
    return number;
}

void perf_map_put_name(const struct perf_map *map, uint32_t number, struct text *text)
{
    uint32_t note = code_index_at(&map->code, number)->note;
    if (note == 0 || note == NAME_UNKNOWN)
        text_put(text, NAMELESS_CODE);
    else
        folded_clean_name(text, *(const char **)sequence_at(&map->names, note - 1));
}

void perf_map_close(struct perf_map *map)
{
    file_close(map);
    arena_destroy(&map->arena);
}
