/* Finds separate debug files. Runs in the helper; reads them with pread, a bounded part at a time.
 */
#include "debug_file.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "arena.h"
#include "elf_section.h"
#include "sys.h"
#include "text.h"

#define CRC_POLYNOMIAL 0xedb88320u
#define CRC_FILE_BYTES ((uint64_t)2 << 30) /* a larger file is not summed up, but refused */
#define READ_BYTES     (64u * 1024)
#define LINK_BYTES_MAX 1024u

struct debug_link {
    char name[LINK_BYTES_MAX]; /* of a file, without a directory; empty: there is no link */
    uint32_t crc;
};

static void crc_table_make(uint32_t table[256])
{
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (unsigned bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ ((table[i] & 1) != 0 ? CRC_POLYNOMIAL : 0);
    }
}

uint32_t debug_file_crc32(uint32_t crc, const uint8_t *bytes, uint64_t count)
{
    uint32_t table[256];
    crc_table_make(table);
    crc = ~crc;
    for (uint64_t i = 0; i < count; i++)
        crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 0xff];
    return ~crc;
}

static bool crc_matches(int fd, uint32_t expected, struct arena *arena)
{
    struct arena_mark mark = arena_mark(arena);
    struct elf_source source = elf_source_file(fd);
    uint8_t *buffer = arena_alloc(arena, READ_BYTES);
    uint32_t crc = 0;
    uint64_t offset = 0;
    long got = 0;
    while (buffer != NULL && offset < CRC_FILE_BYTES) {
        got = elf_source_read(&source, offset, buffer, READ_BYTES);
        if (got <= 0)
            break;
        crc = debug_file_crc32(crc, buffer, (uint64_t)got);
        offset += (uint64_t)got;
    }
    arena_release(arena, mark);
    return buffer != NULL && got == 0 && crc == expected;
}

static bool is_of_the_same_build(const struct elf_file *debug, const struct elf_file *main,
                                 const struct debug_link *link, struct arena *arena)
{
    if (debug->build_id_bytes != 0 && main->build_id_bytes != 0)
        return elf_file_same_build_id(debug, main);
    return link->name[0] != '\0' && crc_matches(debug->source.fd, link->crc, arena);
}

/* The descriptor of the file at PATH, or -ENOENT where it is not the one looked for. */
static int candidate_open(struct elf_file *debug, const struct text *path,
                          const struct elf_file *main, const struct debug_link *link,
                          struct arena *arena)
{
    struct arena_mark mark = arena_mark(arena);
    struct elf_section symbols;
    int fd = path->cut ? -ENAMETOOLONG : elf_source_open(path->start);
    if (fd < 0)
        return -ENOENT;
    if (elf_file_read(debug, elf_source_file(fd), arena) == 0 &&
        elf_section_find_kind(debug, ELF_SECTION_SYMTAB, &symbols) && symbols.in_file &&
        is_of_the_same_build(debug, main, link, arena))
        return fd;
    arena_release(arena, mark);
    sys_close(fd);
    return -ENOENT;
}

static int open_by_build_id(struct elf_file *debug, const struct elf_file *main,
                            const char *directory, struct arena *arena)
{
    static const struct debug_link no_link;
    char buffer[PATH_MAX];
    struct text path = text_over(buffer, sizeof buffer);
    if (main->build_id_bytes < 2)
        return -ENOENT;
    text_put(&path, directory);
    text_put(&path, "/.build-id/");
    text_put_hex_bytes(&path, main->build_id, 1);
    text_put_char(&path, '/');
    text_put_hex_bytes(&path, main->build_id + 1, main->build_id_bytes - 1u);
    text_put(&path, ".debug");
    return candidate_open(debug, &path, main, &no_link, arena);
}

/* The section holds a file name, its NUL, padding to four bytes, and the CRC-32 of that file. */
static bool link_read(struct debug_link *link, const struct elf_file *main)
{
    struct elf_section section;
    if (!elf_section_find(main, ".gnu_debuglink", &section) || !section.in_file ||
        section.bytes > sizeof link->name || section.bytes < 8 ||
        !elf_source_read_all(&main->source, section.offset, link->name, (size_t)section.bytes))
        return false;
    size_t bytes = (size_t)section.bytes, length = 0;
    while (length < bytes && link->name[length] != '\0') {
        if (link->name[length] == '/')
            return false;
        length++;
    }
    size_t crc_at = (length + 4) & ~(size_t)3;
    if (length == 0 || crc_at > bytes - sizeof link->crc)
        return false;
    memcpy(&link->crc, link->name + crc_at, sizeof link->crc);
    return true;
}

/* Bytes of PATH up to and with its last slash. */
static size_t directory_length(const char *path)
{
    size_t length = strlen(path);
    while (length > 0 && path[length - 1] != '/')
        length--;
    return length;
}

static int open_by_link(struct elf_file *debug, const struct elf_file *main, const char *path,
                        const char *directory, struct arena *arena)
{
    struct debug_link link;
    const char *const before[] = {"", "", directory}, *const behind[] = {"", ".debug/", ""};
    if (path[0] != '/' || !link_read(&link, main))
        return -ENOENT;
    for (unsigned i = 0; i < sizeof before / sizeof before[0]; i++) {
        char buffer[PATH_MAX];
        struct text name = text_over(buffer, sizeof buffer);
        text_put(&name, before[i]);
        text_put_bytes(&name, path, directory_length(path));
        text_put(&name, behind[i]);
        text_put(&name, link.name);
        int fd = candidate_open(debug, &name, main, &link, arena);
        if (fd >= 0)
            return fd;
    }
    return -ENOENT;
}

int debug_file_open(struct elf_file *debug, const struct elf_file *main, const char *path,
                    const char *directory, struct arena *arena)
{
    int fd = open_by_build_id(debug, main, directory, arena);
    return fd >= 0 ? fd : open_by_link(debug, main, path, directory, arena);
}
