/* The report line and the summary for people: expected text written by hand. */
#include "check.h"

#include "summary.h"

static char buffer[SUMMARY_REPORT_BYTES];

static struct summary example(void)
{
    return (struct summary){
        .pid = 123,
        .program = "python3",
        .samples = 3000,
        .cpu_seen_ns = 3003003000,
        .cpu_clock_ns = 3006000000,
        .whole_stacks = 2997,
        .truncated_stacks = 3,
        .lost_samples = 1,
        .threads = 4,
        .uncovered_threads = 0,
        .engine = "perf",
        .rate_hz = 999,
        .kernel_frames = true,
        .helper_cpu_ns = 12345678,
        .arena_bytes = 1536 * 1024 + 1,
        .switched_ns = 7,
        .file_path = "/tmp/a b.folded",
    };
}

TEST(start_line)
{
    struct summary summary = example();
    struct text text = text_over(buffer, sizeof buffer);
    summary.program = "my prog\n";
    summary_report_start(&summary, &text);
    CHECK_STR(buffer, "start pid=123 program=my prog%0a");
}

TEST(part_line)
{
    struct text text = text_over(buffer, sizeof buffer);
    summary_report_part(123, "/tmp/a b\n.0.folded", &text);
    CHECK_STR(buffer, "part pid=123 file=/tmp/a b%0a.0.folded");
}

TEST(end_line)
{
    struct summary summary = example();
    struct text text = text_over(buffer, sizeof buffer);
    summary_report(&summary, &text);
    CHECK_STR(
        buffer,
        "end pid=123 samples=3000 cpu_seen_ns=3003003000 cpu_clock_ns=3006000000 "
        "kernel_ns=0 switched_ns=7 whole=2997 truncated=3 lost=1 threads=4 uncovered=0 thinned=0 "
        "throttled=0 own_ns=0 rate_hz=999 "
        "helper_cpu_ns=12345678 arena_bytes=1572865 engine=perf kernel=yes "
        "program=python3 too_short=no file=/tmp/a b.folded");
}

TEST(end_line_escapes_what_would_break_it)
{
    struct summary summary = example();
    struct text text = text_over(buffer, sizeof buffer);
    summary.program = "a b%\n\x7f";
    summary.kernel_frames = false;
    summary.kernel_reason = "perf_event_paranoid is 2";
    summary.error = "disk full";
    summary.file_path = NULL;
    summary_report(&summary, &text);
    CHECK_STR(strstr(buffer, " kernel="),
              " kernel=no kernel_reason=perf_event_paranoid%20is%202 "
              "program=a%20b%25%0a%7f too_short=no error=disk%20full file=");
}

TEST(end_line_has_room_for_its_file)
{
    static char program[3000], path[1500];
    struct summary summary = example();
    struct text text = text_over(buffer, sizeof buffer);
    memset(program, '\n', sizeof program - 1);
    memset(path, 'p', sizeof path - 1);
    summary.program = summary.error = summary.kernel_reason = program;
    summary.kernel_frames = false;
    summary.file_path = path;
    summary_report(&summary, &text);
    CHECK(!text.cut);
    CHECK_STR(strstr(buffer, "file=") + 5, path);
}

TEST(null_strings_are_empty)
{
    struct summary summary = {.pid = 1};
    struct text text = text_over(buffer, sizeof buffer);
    summary_report_start(&summary, &text);
    CHECK_STR(buffer, "start pid=1 program=");
    text = text_over(buffer, sizeof buffer);
    summary_report(&summary, &text);
    CHECK_STR(strstr(buffer, "engine="), "engine= kernel=no program= too_short=no file=");
    summary_print(&summary, &text);
}

TEST(text_for_people)
{
    struct summary summary = example();
    struct text text = text_over(buffer, sizeof buffer);
    summary_print(&summary, &text);
    CHECK_STR(
        buffer,
        "selfsample: python3 (pid 123): 3000 stacks, 3.003 s of CPU time (99.9 % of its "
        "clock) in 4 threads\n"
        "selfsample: stacks: 99.9 % whole, 3 truncated, 1 lost; 0 threads not covered\n"
        "selfsample: engine: perf at 999 Hz; kernel frames: yes; own cost: 0.012 s of CPU time and "
        "0.000 s in the program's threads, "
        "1537 KiB\n"
        "selfsample: written to /tmp/a b.folded");
}

TEST(what_was_held_back_is_told)
{
    struct summary summary = example();
    struct text text = text_over(buffer, sizeof buffer);
    summary.thinned_threads = 2;
    summary.throttled = 1;
    summary_print(&summary, &text);
    CHECK(strstr(buffer, " not covered; 2 short threads represented by others; throttled 1 time by "
                         "the kernel\n") != NULL);
    text = text_over(buffer, sizeof buffer);
    summary_report(&summary, &text);
    CHECK(strstr(buffer, " thinned=2 throttled=1 ") != NULL);
}

TEST(kernel_frames_without_names)
{
    struct summary summary = example();
    struct text text = text_over(buffer, sizeof buffer);
    summary.kernel_reason = "names hidden";
    summary_print(&summary, &text);
    CHECK(strstr(buffer, "; kernel frames: yes (names hidden); own cost") != NULL);
    CHECK(strstr(buffer, "kernel time") == NULL);
    text = text_over(buffer, sizeof buffer);
    summary_report(&summary, &text);
    CHECK(strstr(buffer, " kernel=yes kernel_reason=names%20hidden program=") != NULL);
}

TEST(text_for_people_when_it_went_wrong)
{
    struct summary summary = {.pid = 7,
                              .program = "x",
                              .threads = 1,
                              .engine = "perf",
                              .kernel_ns = 250000000,
                              .cpu_seen_ns = 1000000000,
                              .kernel_reason = "not allowed",
                              .error = "out.folded: No space left on device (ENOSPC)"};
    struct text text = text_over(buffer, sizeof buffer);
    summary_print(&summary, &text);
    CHECK_STR(buffer, "selfsample: x (pid 7): 0 stacks, 1.000 s of CPU time in 1 thread\n"
                      "selfsample: stacks: 0.0 % whole, 0 truncated, 0 lost; 0 threads not "
                      "covered\n"
                      "selfsample: engine: perf at 0 Hz; kernel frames: no (not allowed); own "
                      "cost: 0.000 s of CPU "
                      "time and "
                      "0.000 s in the program's threads, "
                      "0 KiB\n"
                      "selfsample: kernel time at least 25.0 % (stacks not visible)\n"
                      "selfsample: out.folded: No space left on device (ENOSPC)\n"
                      "selfsample: nothing written");
}

TEST(switches_between_threads)
{
    struct summary summary = {.cpu_seen_ns = 1000000000, .switched_ns = 49999999};
    struct text text = text_over(buffer, sizeof buffer);
    summary_print(&summary, &text);
    CHECK(strstr(buffer, "switches") == NULL);
    summary.switched_ns = 325000000;
    text = text_over(buffer, sizeof buffer);
    summary_print(&summary, &text);
    CHECK(strstr(buffer, "\nselfsample: switches between threads took 32.5 %, part of it for perf "
                         "events; timers cost nothing there\n") != NULL);
}

/* Nothing but the last line differs. */
static const char *last_line(const struct summary *summary)
{
    struct text text = text_over(buffer, sizeof buffer);
    summary_print(summary, &text);
    return strrchr(buffer, '\n') + 1;
}

TEST(text_for_people_without_a_file)
{
    struct summary summary = example();
    struct text text = text_over(buffer, sizeof buffer);
    summary.file_path = NULL;
    summary.samples = 1;
    summary.too_short = true;
    summary.cpu_clock_ns = 654321;
    summary_report(&summary, &text);
    CHECK_STR(strstr(buffer, " too_short="), " too_short=yes file=");
    CHECK_STR(last_line(&summary), "selfsample: nothing written: too short: 0.6 ms of CPU time, "
                                   "less than one period seen");
    summary.cpu_clock_ns = 0;
    CHECK_STR(last_line(&summary),
              "selfsample: nothing written: too short: less than one period seen");
    summary.too_short = false;
    summary.samples = 0;
    CHECK_STR(last_line(&summary), "selfsample: nothing written: there was no sample");
}

TEST(percent_of_huge_numbers)
{
    struct summary summary = example();
    struct text text = text_over(buffer, sizeof buffer);
    summary.cpu_seen_ns = UINT64_MAX / 2;
    summary.cpu_clock_ns = UINT64_MAX;
    summary_print(&summary, &text);
    CHECK(strstr(buffer, "(49.9 % of its clock)") != NULL || strstr(buffer, "(50.0 %") != NULL);
}
