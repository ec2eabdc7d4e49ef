/* Options out of an environment made for the test; lines to the user written by hand. */
#include "check.h"

#include <stdlib.h>

#include "config.h"
#include "options.h"

static struct config config;
static char lines[4096]; /* all that was complained, a newline behind each */
static unsigned line_count;

static void complain(void *context, const char *line)
{
    CHECK(context == &line_count);
    strncat(lines, line, sizeof lines - strlen(lines) - 1);
    strncat(lines, "\n", sizeof lines - strlen(lines) - 1);
    line_count++;
}

static void read_environment(char *const *environment)
{
    lines[0] = '\0';
    line_count = 0;
    memset(&config, 0xff, sizeof config);
    config_read(&config, environment, complain, &line_count);
}

#define READ(...) read_environment((char *[]){__VA_ARGS__, NULL})

TEST(defaults)
{
    READ("PATH=/bin", "SELFSAMPLE=1", "SELFSAMPL_RATE=1", "XSELFSAMPLE_RATE=1", "", "=",
         "SELFSAMPLE_RATE");
    CHECK_STR(lines, "");
    CHECK_STR(config.out_pattern, "");
    CHECK_U64(config.rate_hz, 999);
    CHECK_U64(config.stack_bytes, 0);
    CHECK_U64(config.kernel, CONFIG_KERNEL_AUTO);
    CHECK_U64(config.engine, CONFIG_ENGINE_AUTO);
    CHECK_U64(config.threads, CONFIG_THREADS_NAME);
    CHECK_U64(config.unit, CONFIG_UNIT_SAMPLES);
    CHECK_U64(config.format, CONFIG_FORMAT_FOLDED);
    CHECK_STR(config.only, "");
    CHECK(config.children && config.enabled && !config.summary && !config.seccomp_end);
    CHECK(!config.inlined && !config.libunwind);
    CHECK_U64(config.checkpoint_seconds, 0);
    CHECK_STR(config.report_path, "");
}

TEST(every_option_is_read)
{
    READ("SELFSAMPLE_OUT=/tmp/%e", "SELFSAMPLE_RATE=100", "SELFSAMPLE_STACK=8192",
         "SELFSAMPLE_KERNEL=no", "SELFSAMPLE_ENGINE=timer", "SELFSAMPLE_THREADS=tid",
         "SELFSAMPLE_UNIT=us", "SELFSAMPLE_ONLY=gcc,cc1*", "SELFSAMPLE_CHILDREN=no",
         "SELFSAMPLE_ENABLED=no", "SELFSAMPLE_SUMMARY=yes", "SELFSAMPLE_CHECKPOINT=60",
         "SELFSAMPLE_SECCOMP=end", "SELFSAMPLE_INLINE=yes", "SELFSAMPLE_LIBUNWIND=yes",
         "SELFSAMPLE_REPORT=/tmp/x/report");
    CHECK_STR(lines, "");
    CHECK_STR(config.out_pattern, "/tmp/%e");
    CHECK_U64(config.rate_hz, 100);
    CHECK_U64(config.stack_bytes, 8192);
    CHECK_U64(config.kernel, CONFIG_KERNEL_NO);
    CHECK_U64(config.engine, CONFIG_ENGINE_TIMER);
    CHECK_U64(config.threads, CONFIG_THREADS_TID);
    CHECK(config.seccomp_end && config.inlined && config.libunwind);
    CHECK_U64(config.unit, CONFIG_UNIT_US);
    CHECK_STR(config.only, "gcc,cc1*");
    CHECK(!config.children && !config.enabled && config.summary);
    CHECK_U64(config.checkpoint_seconds, 60);
    CHECK_STR(config.report_path, "/tmp/x/report");
}

TEST(empty_values_are_defaults)
{
    READ("SELFSAMPLE_RATE=", "SELFSAMPLE_UNIT=", "SELFSAMPLE_OUT=");
    CHECK_STR(lines, "");
    CHECK_U64(config.rate_hz, 999);
}

TEST(the_last_of_two_counts)
{
    READ("SELFSAMPLE_RATE=5", "SELFSAMPLE_RATE=6");
    CHECK_U64(config.rate_hz, 6);
}

TEST(words_in_capitals_and_other_words_for_yes_and_no)
{
    READ("SELFSAMPLE_KERNEL=YES", "SELFSAMPLE_CHILDREN=off", "SELFSAMPLE_ENABLED=0",
         "SELFSAMPLE_SUMMARY=True");
    CHECK_STR(lines, "");
    CHECK_U64(config.kernel, CONFIG_KERNEL_YES);
    CHECK(!config.children && !config.enabled && config.summary);
}

TEST(bounds_of_numbers)
{
    READ("SELFSAMPLE_RATE=1", "SELFSAMPLE_STACK=1024", "SELFSAMPLE_CHECKPOINT=86400");
    CHECK_STR(lines, "");
    CHECK_U64(config.rate_hz, 1);
    CHECK_U64(config.stack_bytes, 1024);
    READ("SELFSAMPLE_RATE=20000", "SELFSAMPLE_STACK=65528", "SELFSAMPLE_CHECKPOINT=0");
    CHECK_STR(lines, "");
    CHECK_U64(config.rate_hz, 20000);
    CHECK_U64(config.stack_bytes, 65528);
    READ("SELFSAMPLE_STACK=0", "SELFSAMPLE_RATE=000000000000000000000000000042");
    CHECK_STR(lines, "");
    CHECK_U64(config.stack_bytes, 0);
    CHECK_U64(config.rate_hz, 42);
    READ("SELFSAMPLE_STACK=1031");
    CHECK_U64(config.stack_bytes, 1024);
}

/* The session bounds it and tells so: by the system's limit too, which is not known here. */
TEST(a_rate_above_the_bound_is_passed_on)
{
    READ("SELFSAMPLE_RATE=20001");
    CHECK_STR(lines, "");
    CHECK_U64(config.rate_hz, 20001);
    READ("SELFSAMPLE_RATE=4294967297");
    CHECK_U64(config.rate_hz, UINT32_MAX);
    READ("SELFSAMPLE_RATE=18446744073709551617");
    CHECK_STR(lines, "");
    CHECK_U64(config.rate_hz, UINT32_MAX);
}

TEST(wrong_numbers)
{
    const char rate[] = "; allowed is 1 to 20000 (samples per second of CPU time); 999 is used\n";
    const struct {
        const char *value, *line;
    } cases[] = {
        {"SELFSAMPLE_RATE=fast", "SELFSAMPLE_RATE=fast: not a whole number"},
        {"SELFSAMPLE_RATE=-1", "SELFSAMPLE_RATE=-1: too small"},
        {"SELFSAMPLE_RATE=9 ", "SELFSAMPLE_RATE=9 : not a whole number"},
        {"SELFSAMPLE_RATE=0", "SELFSAMPLE_RATE=0: too small"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[256];
        READ((char *)(uintptr_t)cases[i].value);
        snprintf(expected, sizeof expected, "selfsample: %s%s", cases[i].line, rate);
        CHECK_STR(lines, expected);
        CHECK_U64(config.rate_hz, 999);
    }
    READ("SELFSAMPLE_STACK=1023");
    CHECK_STR(lines,
              "selfsample: SELFSAMPLE_STACK=1023: too small; allowed is 0 (automatic) or 1024 to "
              "65528 (bytes of stack copied with each sample); 0 is used\n");
    for (unsigned i = 0; i < 2; i++) {
        READ(i == 0 ? "SELFSAMPLE_CHECKPOINT=86401" : "SELFSAMPLE_CHECKPOINT=18446744073709551617");
        CHECK(strstr(lines, ": too large; allowed is 0 (never) or 1 to 86400 (seconds)") != NULL);
        CHECK_U64(config.checkpoint_seconds, 0);
    }
    READ("SELFSAMPLE_CHECKPOINT=x");
    CHECK_STR(
        lines,
        "selfsample: SELFSAMPLE_CHECKPOINT=x: not a whole number; allowed is 0 (never) or 1 to "
        "86400 (seconds); 0 is used\n");
}

TEST(wrong_words)
{
    READ("SELFSAMPLE_UNIT=sample");
    CHECK_STR(lines,
              "selfsample: SELFSAMPLE_UNIT=sample: no such value; nearest is samples; allowed is "
              "samples or us; samples is used\n");
    CHECK_U64(config.unit, CONFIG_UNIT_SAMPLES);
    READ("SELFSAMPLE_UNIT=1");
    CHECK_STR(lines,
              "selfsample: SELFSAMPLE_UNIT=1: no such value; allowed is samples or us; samples is "
              "used\n");
    READ("SELFSAMPLE_CHILDREN=nope");
    CHECK_STR(
        lines,
        "selfsample: SELFSAMPLE_CHILDREN=nope: no such value; nearest is no; allowed is no or "
        "yes; yes is used\n");
    READ("SELFSAMPLE_KERNEL=maybe");
    CHECK_STR(
        lines,
        "selfsample: SELFSAMPLE_KERNEL=maybe: no such value; allowed is auto, yes or no; auto "
        "is used\n");
}

#define ALL                                                                                        \
    "; options are OUT RATE STACK ENGINE KERNEL THREADS UNIT ONLY CHILDREN ENABLED SUMMARY "       \
    "CHECKPOINT SECCOMP INLINE FORMAT LIBUNWIND\n"

TEST(wrong_names)
{
    READ("SELFSAMPLE_RAET=5");
    CHECK_STR(lines, "selfsample: SELFSAMPLE_RAET: no such option; nearest is SELFSAMPLE_RATE" ALL);
    CHECK_U64(config.rate_hz, 999);
    READ("SELFSAMPLE_rate=5");
    CHECK_STR(lines, "selfsample: SELFSAMPLE_rate: no such option; nearest is SELFSAMPLE_RATE" ALL);
    READ("SELFSAMPLE_COLOUR=5");
    CHECK_STR(lines, "selfsample: SELFSAMPLE_COLOUR: no such option" ALL);
    READ("SELFSAMPLE_=5");
    CHECK_STR(lines, "selfsample: SELFSAMPLE_: no such option" ALL);
    READ("SELFSAMPLE_REPORTS=5");
    CHECK_STR(lines, "selfsample: SELFSAMPLE_REPORTS: no such option" ALL);
}

TEST(what_is_shown_is_short_and_clean)
{
    READ("SELFSAMPLE_RATE=\x1b[31m\n");
    CHECK(strncmp(lines, "selfsample: SELFSAMPLE_RATE=?[31m?: not", 39) == 0);
    char variable[3000] = "SELFSAMPLE_RATE=";
    memset(variable + 16, 'x', 2900);
    READ(variable);
    CHECK_U64(strspn(lines + 28, "x"), 64);
    CHECK(strncmp(lines + 28 + 64, "...: not a whole number", 23) == 0);
    memset(variable + 11, 'y', 2900);
    variable[2911] = '=';
    READ(variable);
    CHECK_U64(strspn(lines + 23, "y"), 64);
    CHECK(strncmp(lines + 23 + 64, "...: no such option; options are", 32) == 0);
}

TEST(long_strings)
{
    static char variable[3000] = "SELFSAMPLE_OUT=";
    memset(variable + 15, 'x', 1023);
    READ(variable);
    CHECK_STR(lines, "");
    CHECK_STR(config.out_pattern, variable + 15);
    variable[15 + 1023] = 'x';
    READ(variable);
    CHECK_STR(config.out_pattern, "");
    CHECK(strstr(lines, "...: too long; allowed is up to 1023 bytes; the default is used\n") !=
          NULL);
}

TEST(every_mistake_has_its_line)
{
    READ("SELFSAMPLE_A=1", "SELFSAMPLE_RATE=x", "SELFSAMPLE_B=1", "SELFSAMPLE_UNIT=us");
    CHECK_U64(line_count, 3);
    CHECK_U64(config.unit, CONFIG_UNIT_US);
}

TEST(pprof_tells_threads_apart_and_has_no_places)
{
    READ("SELFSAMPLE_FORMAT=pprof");
    CHECK_STR(lines, "");
    CHECK_U64(config.format, CONFIG_FORMAT_PPROF);
    CHECK_U64(config.threads, CONFIG_THREADS_TID);
    READ("SELFSAMPLE_THREADS=name", "SELFSAMPLE_FORMAT=pprof");
    CHECK_U64(config.threads, CONFIG_THREADS_NAME);
    READ("SELFSAMPLE_FORMAT=pprof", "SELFSAMPLE_THREADS=none", "SELFSAMPLE_INLINE=yes");
    CHECK_U64(config.threads, CONFIG_THREADS_NONE);
    CHECK(!config_has_places(&config));
    CHECK_STR(lines, "selfsample: SELFSAMPLE_INLINE=yes: not with SELFSAMPLE_FORMAT=pprof; inlined "
                     "functions are not shown\n");
    READ("SELFSAMPLE_FORMAT=folded", "SELFSAMPLE_INLINE=yes");
    CHECK_U64(config.format, CONFIG_FORMAT_FOLDED);
    CHECK(config_has_places(&config));
    CHECK_STR(lines, "");
    READ("SELFSAMPLE_FORMAT=pprofs");
    CHECK_STR(lines, "selfsample: SELFSAMPLE_FORMAT=pprofs: no such value; nearest is pprof; "
                     "allowed is folded or pprof; folded is used\n");
}

TEST(the_ending_of_the_name_chooses_the_format)
{
    READ("SELFSAMPLE_OUT=dir/%e.pb.gz");
    CHECK_U64(config.format, CONFIG_FORMAT_PPROF);
    CHECK_U64(config.threads, CONFIG_THREADS_TID);
    READ("SELFSAMPLE_OUT=x.pb", "SELFSAMPLE_FORMAT=");
    CHECK_U64(config.format, CONFIG_FORMAT_PPROF);
    READ("SELFSAMPLE_OUT=x.pb.gz.folded");
    CHECK_U64(config.format, CONFIG_FORMAT_FOLDED);
    READ("SELFSAMPLE_OUT=pb");
    CHECK_U64(config.format, CONFIG_FORMAT_FOLDED);
    READ("SELFSAMPLE_OUT=x.pb.gz", "SELFSAMPLE_FORMAT=folded");
    CHECK_U64(config.format, CONFIG_FORMAT_FOLDED);
    READ("SELFSAMPLE_FORMAT=pprof", "SELFSAMPLE_OUT=x.folded");
    CHECK_U64(config.format, CONFIG_FORMAT_PPROF);
    CHECK_STR(lines, "");
    READ("SELFSAMPLE_INLINE=yes", "SELFSAMPLE_OUT=x.pb.gz");
    CHECK_STR(lines, "selfsample: SELFSAMPLE_INLINE=yes: not in pprof files, as SELFSAMPLE_OUT "
                     "names one; inlined functions are not shown\n");
}

TEST(names_and_numbers_of_options_agree)
{
    for (unsigned i = 0; i < OPTION_COUNT; i++) {
        const char *name = option_name((enum option_id)i);
        const struct option_word *word = option_find(name, strlen(name));
        REQUIRE(word != NULL);
        CHECK_U64(word->id, i);
        CHECK_STR(word->name, name);
    }
    CHECK_STR(option_name(OPTION_COUNT), "");
    CHECK(option_find("RATES", 5) == NULL);
    CHECK(option_find("", 0) == NULL);
    CHECK(option_find("RATES", 4) != NULL);
}
