/*
 * Folded stacks: small profiles with the expected file written by hand, and random ones of which
 * sums and order are checked.
 */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "folded.h"

static struct arena arena, scratch;
static struct profile profile;
static struct outfile out;
static char result[1u << 20];

static void fresh(void)
{
    arena_init(&arena, 0);
    arena_init(&scratch, 0);
    profile_init(&profile, &arena);
}

static void done(void)
{
    arena_destroy(&arena);
    arena_destroy(&scratch);
}

/* The module of a frame is the index of its name; any number of addresses have that one. */
static const char *const names[] = {"main", "parse", "print",    "a b",  "",
                                    NULL,   "zz",    "\xc3\xa4", "[jit]"};

static const char *frame_name(void *context, uint32_t frame)
{
    CHECK(context == &profile);
    return names[profile_frame_at(&profile, frame)->module];
}

/* Adds a stack given as pairs of name and address, "0a 1b 1c". */
static void add(const char *stack, uint64_t weight_ns)
{
    uint32_t frames[64];
    size_t count = 0;
    for (const char *c = stack; *c != '\0'; c += c[2] == ' ' ? 3 : 2)
        frames[count++] = profile_frame(&profile, (uint32_t)(c[0] - '0'), (uint64_t)c[1]);
    CHECK_I64(profile_add(&profile, frames, count, weight_ns, NULL), 0);
}

static int write_folded(enum config_unit unit, uint64_t period_ns)
{
    const struct named_profile named = {.profile = &profile,
                                        .names = {frame_name, &profile},
                                        .unit_ns = folded_unit_ns(unit, period_ns)};
    return folded_write(&named, &out, &scratch);
}

/* What folded_write makes of the profile. */
static const char *folded(enum config_unit unit, uint64_t period_ns)
{
    char path[64] = "/tmp/test_folded.XXXXXX";
    REQUIRE(mkdtemp(path) != NULL);
    int directory_fd = open(path, O_RDONLY | O_DIRECTORY);
    REQUIRE(outfile_init(&out, directory_fd, "f") == 0 && outfile_begin(&out) == 0);
    CHECK_I64(write_folded(unit, period_ns), 0);
    CHECK_I64(outfile_commit(&out), 0);
    outfile_close(&out);
    int fd = openat(directory_fd, "f", O_RDONLY);
    ssize_t length = read(fd, result, sizeof result - 1);
    result[length < 0 ? 0 : length] = '\0';
    close(fd);
    unlinkat(directory_fd, "f", 0);
    close(directory_fd);
    rmdir(path);
    return result;
}

TEST(an_empty_profile_is_an_empty_file)
{
    fresh();
    CHECK_STR(folded(CONFIG_UNIT_SAMPLES, 1000), "");
    done();
}

TEST(stacks_of_one_name_are_one_line)
{
    fresh();
    add("0a 1a", 1000);
    add("0b 1b", 1000);
    add("0a 1b", 1000);
    add("0a", 1000);
    CHECK_STR(folded(CONFIG_UNIT_SAMPLES, 1000), "main 1\nmain;parse 3\n");
    done();
}

TEST(names_of_equal_text_merge_wherever_they_are_kept)
{
    static char copy[] = "main"; /* not const, or a compiler may keep the two as one */
    CHECK(copy != names[0]);
    fresh();
    add("0a 1a", 1000);
    add("0a 1a 0z", 2000);
    add("0b 1a 0z", 2000);
    CHECK_STR(folded(CONFIG_UNIT_SAMPLES, 1000), "main;parse 1\nmain;parse;main 4\n");
    done();
}

TEST(heavier_branches_come_first_then_names)
{
    fresh();
    add("0a 6a", 2000);
    add("0a 2a", 1000);
    add("0a 1a 1a", 1000);
    add("0a 1a 6a", 2000);
    add("0a 3a", 1000);
    add("3a", 9000);
    CHECK_STR(folded(CONFIG_UNIT_SAMPLES, 1000), "a b 9\n"
                                                 "main;parse;zz 2\n"
                                                 "main;parse;parse 1\n"
                                                 "main;zz 2\n"
                                                 "main;a b 1\n"
                                                 "main;print 1\n");
    arena_destroy(&arena);
    fresh();
    add("7a", 9000);
    add("0a", 9000);
    CHECK_STR(folded(CONFIG_UNIT_SAMPLES, 1000), "main 9\n\xc3\xa4 9\n");
    done();
}

TEST(frames_without_a_name)
{
    fresh();
    add("0a 4a 5a", 1000);
    CHECK_STR(folded(CONFIG_UNIT_SAMPLES, 1000), "main;[unknown];[unknown] 1\n");
    done();
}

/* 2.5 + 1.4 + 0.7 + 0.2 = 4.8, so 5 are to be given: 2 + 1 + 0 + 0, and 2 more to .7 and .5. */
TEST(calls_among_the_nameless_are_one_frame)
{
    fresh();
    add("0a 8a 8b 8c 1a 8d", 1000);
    add("0a 8a", 2000);
    add("0a 8d 8b", 4000);
    add("0a 0b", 500);
    add("8a 8b 8a", 100);
    CHECK_STR(folded(CONFIG_UNIT_SAMPLES, 100),
              "main;[jit] 60\nmain;[jit];parse;[jit] 10\nmain;main 5\n[jit] 1\n");
    done();
}

TEST(largest_remainders_get_what_is_left)
{
    fresh();
    add("0a", 2500);
    add("1a", 1400);
    add("2a", 700);
    add("3a", 200);
    CHECK_STR(folded(CONFIG_UNIT_SAMPLES, 1000), "main 3\nparse 1\nprint 1\n");
    done();
}

TEST(half_is_rounded_up)
{
    fresh();
    add("0a", 500);
    CHECK_STR(folded(CONFIG_UNIT_SAMPLES, 1000), "main 1\n");
    add("0a", 999);
    CHECK_STR(folded(CONFIG_UNIT_SAMPLES, 1000), "main 1\n");
    add("0a", 1);
    CHECK_STR(folded(CONFIG_UNIT_SAMPLES, 1000), "main 2\n");
    done();
}

TEST(microseconds)
{
    fresh();
    add("0a", 1234567);
    add("1a", 499);
    CHECK_STR(folded(CONFIG_UNIT_US, 1001001), "main 1235\n");
    done();
}

TEST(huge_weights)
{
    fresh();
    add("0a", UINT64_MAX);
    CHECK_STR(folded(CONFIG_UNIT_SAMPLES, 1), "main 18446744073709551615\n");
    CHECK_STR(folded(CONFIG_UNIT_SAMPLES, 1ull << 40), "main 16777216\n");
    CHECK_STR(folded(CONFIG_UNIT_SAMPLES, 0), "main 18446744073709551615\n");
    done();
}

TEST(deep_stacks_are_whole)
{
    fresh();
    static uint32_t frames[2500];
    for (uint32_t i = 0; i < 2500; i++)
        frames[i] = profile_frame(&profile, i == 0 ? 0 : i == 2499 ? 2 : 1, i);
    for (size_t depth = 1023; depth <= 2500; depth += depth < 1025 ? 1 : 1475)
        CHECK_I64(profile_add(&profile, frames, depth, 1000, NULL), 0);
    folded(CONFIG_UNIT_SAMPLES, 1000);
    const char *line = result;
    for (size_t depth = 1023; depth <= 2500; depth += depth < 1025 ? 1 : 1475) {
        size_t separators = 0;
        CHECK(strncmp(line, "main;parse;parse;", 17) == 0);
        for (; *line != '\n'; line++)
            separators += *line == ';';
        line++;
        CHECK_U64(separators + 1, depth);
    }
    CHECK_STR(line, "");
    CHECK(strcmp(line - 15, ";parse;print 1\n") == 0);
    done();
}

static void random_profile(void)
{
    srand(3);
    for (int i = 0; i < 3000; i++) {
        char stack[] = "0a 0a 0a 0a";
        for (int frame = 0; frame < 4; frame++) {
            stack[3 * frame] = (char)('0' + rand() % 4);
            stack[3 * frame + 1] = (char)('a' + rand() % 3);
        }
        stack[2 + 3 * (rand() % 3)] = rand() % 2 ? '\0' : ' ';
        add(stack, (uint64_t)rand() % 3000);
    }
}

/* Sum of the counts; every line has to be a stack and a number above 0. */
static uint64_t result_sum(void)
{
    uint64_t sum = 0;
    for (char *line = result; *line != '\0';) {
        char *end = strchr(line, '\n'), *rest;
        REQUIRE(end != NULL);
        *end = '\0';
        char *number = strrchr(line, ' ');
        REQUIRE(number != NULL && number > line);
        uint64_t count = strtoull(number + 1, &rest, 10);
        CHECK(*rest == '\0' && count > 0);
        sum += count;
        *end = '\n';
        line = end + 1;
    }
    return sum;
}

/* The sum of the counts of lines that start with PREFIX. */
static uint64_t branch_sum(const char *prefix)
{
    uint64_t sum = 0;
    for (const char *line = result; *line != '\0'; line = strchr(line, '\n') + 1)
        if (strncmp(line, prefix, strlen(prefix)) == 0)
            sum += strtoull(strpbrk(line + strlen(prefix), "0123456789"), NULL, 10);
    return sum;
}

TEST(sums_of_random_profiles)
{
    fresh();
    random_profile();
    folded(CONFIG_UNIT_SAMPLES, 1000);
    CHECK_U64(result_sum(), (profile.weight_ns + 500) / 1000);
    folded(CONFIG_UNIT_SAMPLES, 777777);
    CHECK_U64(result_sum(), (profile.weight_ns + 777777 / 2) / 777777);
    done();
}

TEST(no_stack_stands_twice)
{
    fresh();
    random_profile();
    folded(CONFIG_UNIT_SAMPLES, 1000);
    for (char *line = result; *line != '\0'; line = strchr(line, '\n') + 1) {
        char stack[128];
        snprintf(stack, sizeof stack, "\n%.*s", (int)strcspn(line, "0123456789"), line);
        CHECK(strstr(line + 1, stack) == NULL);
    }
    done();
}

TEST(without_memory_the_sums_stay)
{
    fresh();
    random_profile();
    folded(CONFIG_UNIT_SAMPLES, 1000);
    uint64_t main_sum = branch_sum("main");
    unsigned degraded = 0;
    for (int nth = 1; nth < 40; nth++) {
        scratch.fail_countdown = nth;
        folded(CONFIG_UNIT_SAMPLES, 1000);
        CHECK_U64(result_sum(), (profile.weight_ns + 500) / 1000);
        uint64_t sum = branch_sum("main");
        CHECK(sum + 20 > main_sum && sum < main_sum + 20);
        degraded += scratch.fail_countdown == 0;
        scratch.fail_countdown = 0;
        CHECK_U64(scratch.mapped_bytes, 0);
    }
    CHECK(degraded > 12);
    done();
}

static unsigned frames_in(const char *line)
{
    unsigned frames = 1;
    for (; *line != ' '; line++)
        frames += *line == ';';
    return frames;
}

/* Only once the file is long: else a recursion for ever would make one of gigabytes. */
TEST(of_very_deep_stacks_the_ends_are_written_in_a_long_file)
{
    static uint32_t frames[5000];
    for (int is_long = 0; is_long < 2; is_long++) {
        fresh();
        for (uint64_t i = 0; i < 5000; i++)
            frames[i] = profile_frame(&profile, i == 0 ? 0 : i == 4999 ? 2 : 1, i);
        CHECK_I64(profile_add(&profile, frames, 5000, 3000, NULL), 0);
        REQUIRE(outfile_init(&out, AT_FDCWD, "/tmp/test_folded.deep") == 0);
        REQUIRE(outfile_begin(&out) == 0);
        out.bytes = is_long ? 64u << 20 : 0;
        CHECK_I64(write_folded(CONFIG_UNIT_SAMPLES, 1000), 0);
        out.buffer[out.buffered] = '\0';
        const char *line = out.buffer;
        CHECK_U64(frames_in(line), is_long ? 1025 : 5000);
        CHECK(strncmp(line, "main;parse;parse;", 17) == 0);
        CHECK(strstr(line, ";parse;print 3\n") != NULL);
        CHECK((strstr(line, ";parse;[...];parse;") != NULL) == is_long);
        outfile_abort(&out);
        outfile_close(&out);
        done();
    }
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* What it costs to write 2000 lines of which only the ends are kept, of stacks up to DEPTH. */
static uint64_t deep_lines_ns(unsigned depth)
{
    uint32_t node = PROFILE_NONE;
    fresh();
    for (unsigned i = 0; i < depth; i++) {
        node = profile_child(&profile, node, profile_frame(&profile, 0, 0));
        profile_charge(&profile, node, 0, i + 2000 < depth ? 0 : 1000);
    }
    REQUIRE(outfile_init(&out, AT_FDCWD, "/tmp/test_folded.deep") == 0);
    REQUIRE(outfile_begin(&out) == 0);
    out.bytes = 64u << 20;
    uint64_t start_ns = cpu_ns();
    CHECK_I64(write_folded(CONFIG_UNIT_SAMPLES, 1000), 0);
    uint64_t taken_ns = cpu_ns() - start_ns;
    outfile_abort(&out);
    outfile_close(&out);
    done();
    return taken_ns;
}

/* A recursion for ever has a deeper stack in each sample. If each line were walked from its leaf to
 * its root, the deep ones here would cost a dozen times as much. */
TEST(what_is_left_out_of_deep_stacks_costs_nothing)
{
    bool cheap = false;
    for (int attempt = 0; attempt < 5 && !cheap; attempt++)
        cheap = deep_lines_ns(65000) < 4 * deep_lines_ns(3500);
    CHECK(cheap);
}

TEST(errors_of_the_file_are_told)
{
    fresh();
    add("0a", 1000);
    REQUIRE(outfile_init(&out, AT_FDCWD, "/tmp/test_folded.error") == 0);
    REQUIRE(outfile_begin(&out) == 0);
    out.error = -ENOSPC;
    CHECK_I64(write_folded(CONFIG_UNIT_US, 1), -ENOSPC);
    CHECK_I64(outfile_commit(&out), -ENOSPC);
    outfile_close(&out);
    done();
}

TEST(names_are_cleaned)
{
    char buffer[64];
    struct text text = text_over(buffer, sizeof buffer);
    folded_clean_name(&text, "a;b c\nd\x7f\t\xc3\xa4");
    CHECK_STR(buffer, "a:b c_d__\xc3\xa4");
}
