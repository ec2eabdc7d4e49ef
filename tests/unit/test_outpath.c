/* Names of output files: expected names by hand, dates by gmtime of libc. */
#include "check.h"

#include <errno.h>
#include <time.h>

#include "outpath.h"

static char names[256], buffer[256], lines[2048];

static void complain(void *context, const char *line)
{
    CHECK(context == lines);
    strncat(lines, line, sizeof lines - strlen(lines) - 1);
    strncat(lines, "\n", sizeof lines - strlen(lines) - 1);
}

static char *const environment[] = {"HOME=/home/u", "EMPTY=", "HOM=x", "EVIL=a\nb", NULL};

static const struct outpath_facts facts = {
    .pid = 123,
    .program = "/usr/bin/python3.11",
    .host = "box",
    .ending = OUTPATH_FOLDED,
    .start_seconds = 1709251199, /* 2024-02-29 23:59:59, by `date -u -d @1709251199` */
    .environment = environment,
};

/* Both steps, with 7 for the counter. */
static const char *expand_with(const char *pattern, const struct outpath_facts *with)
{
    struct text text = text_over(names, sizeof names);
    struct text path = text_over(buffer, sizeof buffer);
    lines[0] = '\0';
    CHECK_I64(outpath_expand(&text, pattern, with, complain, lines), 0);
    outpath_number(&path, names, 7);
    return buffer;
}

static const char *expand(const char *pattern)
{
    return expand_with(pattern, &facts);
}

TEST(every_placeholder)
{
    CHECK_STR(expand("%p"), "123");
    CHECK_STR(expand("%e"), "python3.11");
    CHECK_STR(expand("%h"), "box");
    CHECK_STR(expand("%t"), "20240229T235959");
    CHECK_STR(expand("%n"), "7");
    CHECK_STR(expand("%%p"), "%p");
    CHECK_STR(expand("%{HOME}/p"), "/home/u/p");
    CHECK_STR(expand("a%p%pb"), "a123123b");
    CHECK_STR(lines, "");
}

TEST(the_default_name)
{
    CHECK_STR(expand(OUTPATH_DEFAULT), "selfsample.python3.11.123");
    CHECK_STR(expand(""), "selfsample.python3.11.123.folded");
    CHECK_STR(expand("/tmp/"), "/tmp/selfsample.python3.11.123.folded");
    CHECK_STR(expand("%{HOME}/"), "/home/u/selfsample.python3.11.123.folded");
    CHECK_STR(expand("%{EMPTY}"), "selfsample.python3.11.123.folded");
    struct outpath_facts pprof = facts;
    pprof.ending = OUTPATH_PPROF;
    CHECK_STR(expand_with("/tmp/", &pprof), "/tmp/selfsample.python3.11.123.pb.gz");
    CHECK_STR(expand_with("mine", &pprof), "mine");
}

TEST(variables)
{
    CHECK_STR(expand("a%{EMPTY}b%{NONE}c"), "abc");
    CHECK_STR(expand("a%{HOM}b%{HO}c"), "axbc");
    CHECK_STR(expand("%{EVIL}"), "a_b");
    CHECK_STR(expand("x%{}"), "x");
}

TEST(unclean_names)
{
    struct outpath_facts unclean = facts;
    unclean.program = "a\tb/c\nd\x7f";
    unclean.host = "x/y";
    CHECK_STR(expand_with("%e.%h", &unclean), "c_d_.x_y");
}

TEST(percent_signs_in_names_are_no_placeholders)
{
    struct outpath_facts percent = facts;
    percent.program = "50%n";
    percent.host = "%%p%";
    CHECK_STR(expand_with("%e.%h", &percent), "50%n.%%p%");
    CHECK_STR(expand_with("%h%%n%%%n", &percent), "%%p%%n%7");
    CHECK_STR(lines, "");
}

TEST(the_counter_is_left_for_later)
{
    struct text text = text_over(names, sizeof names), path = text_over(buffer, sizeof buffer);
    CHECK_I64(outpath_expand(&text, "a%n-%p-%n", &facts, complain, lines), 0);
    CHECK(outpath_number(&path, names, 0));
    CHECK_STR(buffer, "a0-123-0");
    path = text_over(buffer, sizeof buffer);
    CHECK(outpath_number(&path, names, 18446744073709551615u));
    CHECK_STR(buffer, "a18446744073709551615-123-18446744073709551615");
    path = text_over(buffer, sizeof buffer);
    CHECK(!outpath_number(&path, "a%%n%%", 5));
    CHECK_STR(buffer, "a%n%");
}

TEST(names_that_were_cut_within_a_placeholder)
{
    struct text path = text_over(buffer, sizeof buffer);
    CHECK(!outpath_number(&path, "a%", 5));
    CHECK_STR(buffer, "a%");
}

#define KNOWN "; there are %p %e %h %t %n %{VAR} %%; it is kept as it stands\n"

TEST(unknown_placeholders_are_kept_and_told)
{
    CHECK_STR(expand("a%xb%p"), "a%xb123");
    CHECK_STR(lines, "selfsample: SELFSAMPLE_OUT: %x: no such placeholder" KNOWN);
    CHECK_STR(expand("a%"), "a%");
    CHECK_STR(lines, "selfsample: SELFSAMPLE_OUT: %: no such placeholder" KNOWN);
    CHECK_STR(expand("a%{HOME"), "a%{HOME");
    CHECK_STR(lines, "selfsample: SELFSAMPLE_OUT: %{HOME: no } behind it" KNOWN);
}

TEST(too_long_a_name)
{
    char small[8];
    struct text path = text_over(small, sizeof small);
    CHECK_I64(outpath_expand(&path, "1234567", &facts, complain, lines), 0);
    path = text_over(small, sizeof small);
    CHECK_I64(outpath_expand(&path, "12345678", &facts, complain, lines), -ENAMETOOLONG);
}

TEST(dates_are_those_of_gmtime)
{
    for (time_t seconds = 0; seconds < 253402300799; seconds += 86400 * 13 + 12345) {
        struct outpath_facts at = facts;
        struct text path = text_over(buffer, sizeof buffer);
        char expected[32];
        at.start_seconds = (uint64_t)seconds;
        outpath_expand(&path, "%t", &at, complain, lines);
        strftime(expected, sizeof expected, "%Y%m%dT%H%M%S", gmtime(&seconds));
        CHECK_STR(buffer, expected);
    }
}

TEST(the_last_date)
{
    struct outpath_facts at = facts;
    struct text path = text_over(buffer, sizeof buffer);
    at.start_seconds = UINT64_MAX;
    outpath_expand(&path, "%t", &at, complain, lines);
    CHECK_STR(buffer, "99991231T235959");
}

static const char *suffixed(const char *path, unsigned n)
{
    struct text text = text_over(buffer, sizeof buffer);
    outpath_with_suffix(&text, path, n);
    return buffer;
}

TEST(suffixes_stand_before_the_ending)
{
    CHECK_STR(suffixed("/d.x/a.pb.gz", 0), "/d.x/a.pb.gz");
    CHECK_STR(suffixed("/d.x/a.pb.gz", 3), "/d.x/a.3.pb.gz");
    CHECK_STR(suffixed("/d.x/.pb.gz", 3), "/d.x/.pb.3.gz");
    CHECK_STR(suffixed("a.folded", 0), "a.folded");
    CHECK_STR(suffixed("a.folded", 1), "a.1.folded");
    CHECK_STR(suffixed("a.b.folded", 12), "a.b.12.folded");
    CHECK_STR(suffixed("a", 1), "a.1");
    CHECK_STR(suffixed("dir.d/a", 1), "dir.d/a.1");
    CHECK_STR(suffixed("dir/.hidden", 1), "dir/.hidden.1");
    CHECK_STR(suffixed("a.", 1), "a.1.");
}

TEST(bases)
{
    CHECK_STR(outpath_base("/usr/bin/xz"), "xz");
    CHECK_STR(outpath_base("xz"), "xz");
    CHECK_STR(outpath_base("/"), "");
}
