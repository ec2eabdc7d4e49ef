/* perf_map: the file as compilers write it, and as others might. */
#include "perf_map.h"

#include "check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static struct perf_map map;
static char directory[64], path[96];

static uint64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static void clean(void)
{
    unlink(path);
    rmdir(directory);
}

static void prepare(void)
{
    if (directory[0] == '\0') {
        strcpy(directory, "/tmp/perf-map-test-XXXXXX");
        REQUIRE(mkdtemp(directory) != NULL);
        snprintf(path, sizeof path, "%s/perf-42.map", directory);
        atexit(clean);
    }
    perf_map_close(&map);
    unlink(path);
    perf_map_init(&map, directory, 42);
}

static void put_bytes(const char *mode, const char *text, size_t bytes)
{
    FILE *file = fopen(path, mode);
    REQUIRE(file != NULL && fwrite(text, 1, bytes, file) == bytes && fclose(file) == 0);
}

static void put(const char *mode, const char *text)
{
    put_bytes(mode, text, strlen(text));
}

static const char *name_at_time(uint64_t address, uint64_t when)
{
    static char name[2 * PERF_MAP_NAME_BYTES];
    bool settled;
    struct text text = text_over(name, sizeof name);
    uint32_t piece = perf_map_find(&map, address, when, &settled);
    if (piece != CODE_NONE)
        perf_map_put_name(&map, piece, &text);
    return name;
}

static const char *name_at(uint64_t address)
{
    return name_at_time(address, UINT64_MAX);
}

static void look(void)
{
    perf_map_look(&map, UINT64_MAX);
}

TEST(nothing_is_opened_until_it_is_wanted)
{
    prepare();
    put("w", "1000 10 f\n");
    look();
    CHECK(map.fd < 0);
    CHECK_STR(name_at(0x1000), "f");
    CHECK(map.fd >= 0);
}

TEST(lines_of_several_forms)
{
    prepare();
    put("w", "1000 10 plain\n0x2000 0x10 prefixed\nABC0 A upper\n3000 10   a name, of; words\n"
             "4000 10 crlf\r\n");
    CHECK_STR(name_at(0x1008), "plain");
    CHECK_STR(name_at(0x2000), "prefixed");
    CHECK_STR(name_at(0xabc9), "upper");
    CHECK_STR(name_at(0xabca), "");
    CHECK_STR(name_at(0x3000), "a name, of: words");
    CHECK_STR(name_at(0x4000), "crlf");
}

TEST(lines_that_are_none)
{
    static const char text[] = "\n\n \n1000\n1000 10\n1000 10 \nxyz 10 f\n1000 xyz f\n-1000 10 f\n"
                               "11112222333344445 10 f\n1000 0 f\nffffffffffffffff 10 f\n"
                               "1000 ffffffffffff f\n1000 10 \0f\n0x 10 f\n9000 10 good\n";
    prepare();
    put_bytes("w", text, sizeof text - 1);
    CHECK_STR(name_at(0x9000), "good");
    CHECK_U64(map.code.pieces.count, 1);
    CHECK(map.refusal == NULL);
}

TEST(what_is_appended_is_read_on)
{
    prepare();
    put("w", "1000 10 first\n2000 10 half");
    CHECK_STR(name_at(0x1000), "first");
    CHECK_STR(name_at(0x2000), ""); /* its line is in the writing */
    look();
    CHECK_STR(name_at(0x2000), "");
    put("a", " of it\n3000 10 third\n");
    uint64_t changes = map.changes;
    look();
    CHECK_STR(name_at(0x2000), "half of it");
    CHECK_STR(name_at(0x3000), "third");
    CHECK_U64(map.changes, changes + 2);
    CHECK_U64(map.read_bytes, strlen("1000 10 first\n2000 10 half of it\n3000 10 third\n"));
}

TEST(a_sample_is_named_by_the_file_of_its_time)
{
    prepare();
    put("w", "1000 10 old\n");
    name_at(0x1000);
    uint64_t before = now();
    struct timespec pause = {0, 30000000};
    nanosleep(&pause, NULL);
    look();
    put("a", "1008 10 new\n");
    look();
    CHECK_STR(name_at_time(0x1008, before), "old");
    CHECK_STR(name_at_time(0x1008, now()), "new");
    CHECK_STR(name_at_time(0x1000, now()), "old");
    CHECK_STR(name_at_time(0x1010, before), "new"); /* there was none before */
}

TEST(the_time_of_the_last_change_counts_where_it_fits)
{
    struct timeval tomorrow[2], yesterday[2];
    gettimeofday(&tomorrow[0], NULL);
    tomorrow[0].tv_sec += 86400;
    tomorrow[1] = tomorrow[0];
    yesterday[0] = yesterday[1] = (struct timeval){tomorrow[0].tv_sec - 2 * 86400, 0};
    prepare();
    put("w", "1000 10 first\n");
    REQUIRE(utimes(path, tomorrow) == 0);
    name_at(0x1000);
    uint64_t looked = now();
    CHECK(code_index_at(&map.code, 0)->from_ns <= looked);
    put("a", "1000 10 second\n");
    REQUIRE(utimes(path, yesterday) == 0);
    uint64_t ended = map.ended_ns;
    look();
    CHECK_U64(code_index_at(&map.code, 1)->from_ns, ended);
}

TEST(a_file_that_is_written_anew)
{
    prepare();
    put("w", "1000 10 one_long_name\n");
    CHECK_STR(name_at(0x1000), "one_long_name");
    put("w", "1000 10 two\n"); /* shorter */
    look();
    CHECK_STR(name_at(0x1000), "two");
    put("w", "1000 10 three, and longer than before\n");
    look();
    CHECK_STR(name_at(0x1000), "three, and longer than before");
    put("w", "1000 10 fours, and longer than before\n"); /* of the same length */
    look();
    CHECK_STR(name_at(0x1000), "fours, and longer than before");
    unlink(path);
    put("w", "1000 10 another file\n");
    look();
    CHECK_STR(name_at(0x1000), "another file");
}

TEST(names_that_were_needed_stay_when_the_file_goes)
{
    prepare();
    put("w", "1000 10 needed\n2000 10 other\n");
    CHECK_STR(name_at(0x1000), "needed");
    unlink(path);
    look();
    CHECK_STR(name_at(0x2000), "other"); /* it is open */
    put("w", "9000 10 quite another\n");
    look();
    CHECK_STR(name_at(0x1000), "needed");
    CHECK_STR(name_at(0x9000), "quite another");
}

TEST(a_name_that_is_overwritten_before_it_was_needed)
{
    prepare();
    put("w", "1000 10 one\n2000 10 two\n");
    CHECK_STR(name_at(0x1000), "one");
    put("w", "");
    look();
    CHECK_STR(name_at(0x2000), "[jit]");
}

TEST(long_names_and_lines)
{
    static char line[300000];
    prepare();
    strcpy(line, "1000 10 ");
    for (size_t i = strlen(line); i < 3000; i += 2)
        memcpy(line + i, "\xc3\xa4", 2);
    strcpy(line + 3000, "\n2000 10 ");
    size_t used = strlen(line);
    memset(line + used, 'x', 200000);
    strcpy(line + used + 200000, "\n3000 10 after\n");
    put("w", line);
    const char *name = name_at(0x1000);
    CHECK_U64(strlen(name), PERF_MAP_NAME_BYTES - 2);
    CHECK(memcmp(name + strlen(name) - 2, "\xc3\xa4", 2) == 0);
    CHECK_STR(name_at(0x2000), ""); /* longer than any line is read */
    CHECK_STR(name_at(0x3000), "after");
}

TEST(a_part_at_a_time)
{
    FILE *file;
    prepare();
    file = fopen(path, "w");
    REQUIRE(file != NULL);
    for (unsigned i = 0; i < 100000; i++)
        fprintf(file, "%x 10 function number %u\n", 0x100000 + i * 16, i);
    REQUIRE(fclose(file) == 0);
    map.wanted = true;
    CHECK(perf_map_look(&map, 1));
    CHECK(map.read_bytes > 0 && map.read_bytes <= 64 * 1024);
    perf_map_look(&map, 200000);
    CHECK(map.read_bytes >= 200000 && map.read_bytes < 400000);
    unsigned looks = 0;
    while (perf_map_look(&map, 200000) && looks < 1000)
        looks++;
    CHECK(looks > 5 && looks < 100);
    CHECK_U64(map.code.pieces.count, 100000);
    CHECK_STR(name_at(0x100000 + 99999 * 16 + 15), "function number 99999");
    CHECK_STR(name_at(0x100000 + 50000 * 16), "function number 50000");
}

TEST(damaged_files)
{
    static const char good[] = "7f0000001000 40 one\n7f0000001040 0x40 two words\n1000 10 three\n";
    srand(7);
    for (unsigned round = 0; round < 1500; round++) {
        char bytes[sizeof good];
        memcpy(bytes, good, sizeof good);
        for (int changes = rand() % 6; changes >= 0; changes--)
            bytes[(size_t)rand() % (sizeof good - 1)] =
                rand() % 3 == 0 ? (char)rand() : " \n0fxX\t-"[rand() % 8];
        prepare();
        put_bytes("w", bytes, (size_t)rand() % sizeof good);
        name_at(0x7f0000001010);
        put_bytes(rand() % 2 == 0 ? "w" : "a", bytes, (size_t)rand() % sizeof good);
        look();
        for (uint64_t address = 0x7f0000000ff0; address < 0x7f0000001100; address += 0x30) {
            const char *name = name_at_time(address, round % 2 == 0 ? 0 : UINT64_MAX);
            CHECK(strpbrk(name, ";\n\r\t") == NULL);
        }
        CHECK(map.refusal == NULL);
    }
}

TEST(too_many_lines)
{
    prepare();
    put("w", "1000 10 first\n");
    map.wanted = true;
    map.arena.limit_bytes = 3 << 20;
    FILE *file = fopen(path, "a");
    REQUIRE(file != NULL);
    for (unsigned i = 0; i < 100000; i++)
        fprintf(file, "%x 10 f\n", 0x100000 + i * 16);
    REQUIRE(fclose(file) == 0);
    look();
    CHECK(map.refusal != NULL);
    look();
    map.arena.limit_bytes = 0;
    CHECK_STR(name_at(0x1000), "first");
}

static void check_refused(void)
{
    CHECK_STR(name_at(0x1000), "");
    CHECK(map.refusal != NULL);
    CHECK(map.fd < 0);
    unlink(path);
    put("w", "1000 10 f\n");
    look();
    CHECK(map.fd < 0);
}

TEST(links_pipes_and_directories_are_refused)
{
    prepare();
    REQUIRE(symlink("/dev/zero", path) == 0);
    check_refused();
    prepare();
    REQUIRE(mkfifo(path, 0600) == 0);
    check_refused();
    prepare();
    REQUIRE(mkdir(path, 0700) == 0);
    CHECK_STR(name_at(0x1000), "");
    CHECK(map.refusal != NULL);
    rmdir(path);
}

TEST(the_file_of_another_user_is_refused)
{
    prepare();
    if (geteuid() != 0)
        SKIP("needs root");
    put("w", "1000 10 f\n");
    REQUIRE(chown(path, 12345, 12345) == 0);
    check_refused();
}

TEST(every_allocation_may_fail)
{
    for (int n = 1; n < 14; n++) {
        prepare();
        put("w", "1000 10 f\n2000 10 g\n");
        map.arena.fail_countdown = n;
        name_at(0x1000);
        look();
        name_at(0x2000);
        map.arena.fail_countdown = 0;
    }
    prepare();
}
