/* elf_file and elf_section against readelf, and against files that are damaged or none. */
#include <errno.h>

#include "elf_fixture.h"
#include "elf_section.h"

#define LIBRARY_SOURCE                                                                             \
    "int twice(int x) { return 2 * x; }\n"                                                         \
    "int table[1000] = {1};\n"

static struct arena arena;

static bool library_make(const char *name, const char *flags)
{
    fixture_text("library.c", LIBRARY_SOURCE);
    return fixture_run("${CC:-cc} -shared -fPIC -O1 %s -o %s library.c", flags, name);
}

/* Every LOAD line of readelf -lW must be the segment of the same place in the list. */
static void check_segments(const char *path, const struct elf_file *file)
{
    char line[512], flags[16];
    unsigned long offset, vaddr, paddr, file_bytes, memory_bytes;
    unsigned index = 0;
    FILE *output = fixture_output("readelf -lW '%s'", path);
    while (fgets(line, sizeof line, output) != NULL) {
        if (sscanf(line, " LOAD %lx %lx %lx %lx %lx %15[RWE ]", &offset, &vaddr, &paddr,
                   &file_bytes, &memory_bytes, flags) != 6)
            continue;
        if (index < file->segment_count) {
            const struct elf_segment *segment = &file->segments[index];
            CHECK_U64(segment->offset, offset);
            CHECK_U64(segment->vaddr, vaddr);
            CHECK_U64(segment->file_bytes, file_bytes);
            CHECK_U64(segment->memory_bytes, memory_bytes);
            CHECK_U64(segment->executable, strchr(flags, 'E') != NULL);
        }
        index++;
    }
    pclose(output);
    CHECK(index > 0);
    CHECK_U64(file->segment_count, index);
}

static void check_build_id(const char *path, const struct elf_file *file)
{
    char line[512], expected[256] = "", actual[2 * ELF_BUILD_ID_BYTES + 1] = "";
    FILE *output = fixture_output("readelf -nW '%s'", path);
    while (fgets(line, sizeof line, output) != NULL)
        if (strstr(line, "Build ID: ") != NULL)
            sscanf(strstr(line, "Build ID: "), "Build ID: %255s", expected);
    pclose(output);
    for (unsigned i = 0; i < file->build_id_bytes; i++)
        snprintf(actual + 2 * i, 3, "%02x", file->build_id[i]);
    CHECK_STR(actual, expected);
}

TEST(headers_are_what_readelf_says)
{
    char program[512];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    REQUIRE(length > 0);
    program[length] = '\0';
    const char *const paths[] = {program, fixture_library("libc.so.6"),
                                 fixture_library("libstdc++.so.6")};
    for (unsigned i = 0; i < 3; i++) {
        struct elf_file file;
        int error, fd = fixture_open(&file, paths[i], &arena, &error);
        REQUIRE(fd >= 0);
        check_segments(paths[i], &file);
        check_build_id(paths[i], &file);
        CHECK(file.eh_frame_hdr_bytes > 0);
        close(fd);
    }
}

TEST(a_fixed_address_is_told)
{
    struct elf_file file;
    int error;
    fixture_text("main.c", "int main(void) { return 0; }\n");
    REQUIRE(fixture_run("${CC:-cc} -no-pie -o fixed main.c && ${CC:-cc} -pie -fPIE -o pie main.c"));
    int fd = fixture_open(&file, fixture_path("fixed"), &arena, &error);
    REQUIRE(fd >= 0);
    CHECK(file.fixed_address);
    CHECK_U64(file.entry_vaddr, fixture_symbol("fixed", "_start"));
    close(fd);
    fd = fixture_open(&file, fixture_path("pie"), &arena, &error);
    REQUIRE(fd >= 0);
    CHECK(!file.fixed_address);
    close(fd);
}

TEST(build_ids_of_other_lengths)
{
    struct elf_file file;
    int error;
    REQUIRE(library_make("short.so", "-Wl,--build-id=0x0123456789abcdef"));
    int fd = fixture_open(&file, fixture_path("short.so"), &arena, &error);
    REQUIRE(fd >= 0);
    CHECK_U64(file.build_id_bytes, 8);
    CHECK_MEM(file.build_id, "\x01\x23\x45\x67\x89\xab\xcd\xef", 8);
    CHECK(elf_file_same_build_id(&file, &file));
    close(fd);
    REQUIRE(library_make("none.so", "-Wl,--build-id=none"));
    fd = fixture_open(&file, fixture_path("none.so"), &arena, &error);
    REQUIRE(fd >= 0);
    CHECK_U64(file.build_id_bytes, 0);
    CHECK(!elf_file_same_build_id(&file, &file));
    close(fd);
}

TEST(offsets_and_addresses_translate_both_ways)
{
    struct elf_file file;
    int error, fd = fixture_open(&file, fixture_library("libc.so.6"), &arena, &error);
    REQUIRE(fd >= 0);
    for (uint32_t i = 0; i < file.segment_count; i++) {
        const struct elf_segment *segment = &file.segments[i];
        uint64_t last = segment->file_bytes - 1, translated;
        CHECK(elf_file_vaddr_to_offset(&file, segment->vaddr + last, &translated));
        CHECK_U64(translated, segment->offset + last);
        CHECK(elf_file_offset_to_vaddr(&file, segment->offset + last, &translated));
        CHECK_U64(translated, segment->vaddr + last);
        CHECK_U64(elf_file_is_code(&file, segment->vaddr), segment->executable);
    }
    uint64_t nothing;
    CHECK(!elf_file_vaddr_to_offset(&file, UINT64_MAX, &nothing));
    CHECK(!elf_file_offset_to_vaddr(&file, UINT64_MAX, &nothing));
    close(fd);
}

/* The kernel maps from the start of the page: that offset must give the same load bias. */
TEST(a_page_shared_by_segments_belongs_to_the_code)
{
    struct elf_file file;
    int error;
    uint64_t vaddr;
    if (!library_make("shared.so", "-fuse-ld=lld"))
        SKIP("no lld");
    int fd = fixture_open(&file, fixture_path("shared.so"), &arena, &error);
    REQUIRE(fd >= 0);
    unsigned seen = 0;
    for (uint32_t i = 0; i < file.segment_count; i++) {
        const struct elf_segment *segment = &file.segments[i];
        if (!segment->executable)
            continue;
        seen++;
        CHECK(segment->offset % 4096 != 0);
        CHECK(elf_file_offset_to_vaddr(&file, segment->offset & ~(uint64_t)4095, &vaddr));
        CHECK_U64(vaddr, segment->vaddr - segment->offset % 4096);
    }
    CHECK_U64(seen, 1);
    close(fd);
}

TEST(the_vdso_is_read_from_memory)
{
    struct elf_file file;
    struct elf_section section;
    size_t bytes;
    const void *start = fixture_vdso(&bytes);
    struct elf_source vdso = elf_source_memory(start, bytes);
    CHECK_I64(elf_file_read(&file, vdso, &arena), 0);
    CHECK_U64(file.segment_count, 1);
    CHECK(file.segments[0].executable);
    CHECK(elf_section_find(&file, ".dynsym", &section));
    CHECK(section.kind == ELF_SECTION_DYNSYM);
}

TEST(sections_are_what_readelf_says)
{
    const char *path = fixture_library("libc.so.6");
    struct elf_file file;
    int error, fd = fixture_open(&file, path, &arena, &error);
    REQUIRE(fd >= 0);
    char line[512], name[64], type[32], flags[16];
    unsigned long vaddr, offset, bytes, entry_bytes;
    unsigned index, seen = 0;
    FILE *output = fixture_output("readelf -SW '%s'", path);
    while (fgets(line, sizeof line, output) != NULL) {
        struct elf_section section, found;
        flags[0] = '\0';
        if (sscanf(line, " [%u] %63s %31s %lx %lx %lx %lx %15[A-Za-z]", &index, name, type, &vaddr,
                   &offset, &bytes, &entry_bytes, flags) < 7 ||
            index == 0)
            continue;
        REQUIRE(elf_section_read(&file, index, &section));
        CHECK_U64(section.vaddr, vaddr);
        CHECK_U64(section.offset, offset);
        CHECK_U64(section.bytes, bytes);
        CHECK_U64(section.executable, strchr(flags, 'X') != NULL);
        CHECK_U64(section.in_file, strcmp(type, "NOBITS") != 0);
        if (strlen(name) < 32) {
            CHECK(elf_section_find(&file, name, &found));
            CHECK_U64(found.offset, offset);
        }
        seen++;
    }
    pclose(output);
    CHECK(seen > 20);
    CHECK_U64(seen, file.section_count - 1);
    struct elf_section section;
    CHECK(!elf_section_find(&file, ".nothing", &section));
    CHECK(!elf_section_find(&file, ".tex", &section));
    CHECK(!elf_section_read(&file, file.section_count, &section));
    close(fd);
}

TEST(what_is_no_elf_of_this_machine_is_refused)
{
    struct elf_file file;
    int error;
    size_t bytes;
    REQUIRE(library_make("good.so", ""));
    uint8_t *good = fixture_load(fixture_path("good.so"), &bytes);
    static const struct {
        unsigned offset;
        uint8_t value;
    } wrong[] = {{0, 'E'},
                 {4, 1} /* 32 bits */,
                 {5, 2} /* big-endian */,
                 {16, 1} /* object */,
                 {18, 0xf3} /* another machine: RISC-V */};
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        uint8_t saved = good[wrong[i].offset];
        good[wrong[i].offset] = wrong[i].value;
        CHECK_I64(elf_file_read(&file, elf_source_memory(good, bytes), &arena), -ENOEXEC);
        good[wrong[i].offset] = saved;
    }
    CHECK_I64(elf_file_read(&file, elf_source_memory(good, bytes), &arena), 0);
    CHECK_I64(elf_file_read(&file, elf_source_memory(good, 63), &arena), -ENOEXEC);
    CHECK_I64(elf_file_read(&file, elf_source_memory(good, 0), &arena), -ENOEXEC);
    CHECK_I64(elf_file_read(&file, elf_source_memory(good, 64), &arena), -EBADMSG);
    free(good);
    CHECK(fixture_open(&file, "/", &arena, &error) < 0);
    CHECK_I64(error, -EISDIR);
}

TEST(lies_about_segments_are_refused)
{
    struct elf_file file;
    size_t bytes;
    REQUIRE(library_make("good.so", ""));
    uint8_t *image = fixture_load(fixture_path("good.so"), &bytes);
    uint64_t phdrs, huge = UINT64_MAX - 4;
    memcpy(&phdrs, image + 32, sizeof phdrs);
    phdrs += 56; /* the second PT_LOAD: p_offset at 8, p_vaddr 16, p_filesz 32, p_memsz 40 */
    static const unsigned fields[] = {8, 16, 32, 40};
    for (unsigned i = 0; i < 4; i++) {
        uint64_t saved;
        memcpy(&saved, image + phdrs + fields[i], sizeof saved);
        memcpy(image + phdrs + fields[i], &huge, sizeof huge);
        CHECK_I64(elf_file_read(&file, elf_source_memory(image, bytes), &arena), -EBADMSG);
        memcpy(image + phdrs + fields[i], &saved, sizeof saved);
    }
    memcpy(image + 32, &huge, sizeof huge); /* e_phoff */
    CHECK_I64(elf_file_read(&file, elf_source_memory(image, bytes), &arena), -EBADMSG);
    free(image);
}

TEST(a_lie_about_a_section_costs_no_memory)
{
    struct arena small;
    struct elf_section section;
    struct elf_file file;
    int error;
    arena_init(&small, 0);
    REQUIRE(library_make("good.so", ""));
    int fd = fixture_open(&file, fixture_path("good.so"), &small, &error);
    REQUIRE(fd >= 0 && elf_section_find(&file, ".text", &section));
    CHECK(elf_section_load(&file, &section, 1 << 20, &small) != NULL);
    CHECK(elf_section_load(&file, &section, 1, &small) == NULL);
    size_t before = small.mapped_bytes;
    section.bytes = (size_t)1 << 40;
    CHECK(elf_section_load(&file, &section, SIZE_MAX, &small) == NULL);
    CHECK_U64(small.mapped_bytes, before);
    close(fd);
    arena_destroy(&small);
}

TEST(no_memory_is_an_error)
{
    struct arena empty;
    struct elf_file file;
    int error;
    arena_init(&empty, 0);
    empty.fail_countdown = 1;
    CHECK(fixture_open(&file, fixture_library("libc.so.6"), &empty, &error) < 0);
    CHECK_I64(error, -ENOMEM);
    arena_destroy(&empty);
}
