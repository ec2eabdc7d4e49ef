/* The report of a run and its summary. Runs in the helper. Never writes anywhere but into its text.
 */
#include "summary.h"

#include <string.h>

/* What of a value may take up the line that its file has to fit in. */
#define VALUE_BYTES_MAX 400u

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

static void put_number(struct text *text, const char *key, uint64_t value)
{
    text_put_char(text, ' ');
    text_put(text, key);
    text_put_char(text, '=');
    text_put_u64(text, value);
}

static void put_byte(struct text *text, char c, bool escaped)
{
    if (!escaped) {
        text_put_char(text, c);
        return;
    }
    text_put(text, (unsigned char)c < 0x10 ? "%0" : "%");
    text_put_hex(text, (unsigned char)c);
}

static void put_escaped(struct text *text, const char *key, const char *value)
{
    text_put_char(text, ' ');
    text_put(text, key);
    text_put_char(text, '=');
    size_t end = text->length + VALUE_BYTES_MAX;
    for (const char *c = value; *c != '\0' && text->length < end; c++)
        put_byte(text, *c, is_control(*c) || *c == ' ' || *c == '%');
}

static void put_last(struct text *text, const char *key, const char *value)
{
    text_put_char(text, ' ');
    text_put(text, key);
    text_put_char(text, '=');
    for (const char *c = value; *c != '\0'; c++)
        put_byte(text, *c, is_control(*c) || *c == '%');
}

static void put_clean(struct text *text, const char *value)
{
    for (const char *c = value; *c != '\0'; c++)
        text_put_char(text, is_control(*c) ? '_' : *c);
}

static const char *or_empty(const char *string)
{
    return string != NULL ? string : "";
}

void summary_report_start(const struct summary *summary, struct text *text)
{
    text_put(text, "start");
    put_number(text, "pid", (uint64_t)summary->pid);
    put_last(text, "program", or_empty(summary->program));
}

void summary_report_part(int pid, const char *path, struct text *text)
{
    text_put(text, "part");
    put_number(text, "pid", (uint64_t)pid);
    put_last(text, "file", path);
}

void summary_report(const struct summary *summary, struct text *text)
{
    text_put(text, "end");
    put_number(text, "pid", (uint64_t)summary->pid);
    put_number(text, "samples", summary->samples);
    put_number(text, "cpu_seen_ns", summary->cpu_seen_ns);
    put_number(text, "cpu_clock_ns", summary->cpu_clock_ns);
    put_number(text, "kernel_ns", summary->kernel_ns);
    put_number(text, "switched_ns", summary->switched_ns);
    put_number(text, "whole", summary->whole_stacks);
    put_number(text, "truncated", summary->truncated_stacks);
    put_number(text, "lost", summary->lost_samples);
    put_number(text, "threads", summary->threads);
    put_number(text, "uncovered", summary->uncovered_threads);
    put_number(text, "thinned", summary->thinned_threads);
    put_number(text, "throttled", summary->throttled);
    put_number(text, "own_ns", summary->own_ns);
    put_number(text, "rate_hz", summary->rate_hz);
    put_number(text, "helper_cpu_ns", summary->helper_cpu_ns);
    put_number(text, "arena_bytes", summary->arena_bytes);
    put_escaped(text, "engine", or_empty(summary->engine));
    put_escaped(text, "kernel", summary->kernel_frames ? "yes" : "no");
    if (summary->kernel_reason != NULL)
        put_escaped(text, "kernel_reason", summary->kernel_reason);
    put_escaped(text, "program", or_empty(summary->program));
    put_escaped(text, "too_short", summary->too_short ? "yes" : "no");
    if (summary->error != NULL)
        put_escaped(text, "error", summary->error);
    put_last(text, "file", or_empty(summary->file_path));
}

/* PART of WHOLE in percent with one decimal, rounded down so that only all is 100. */
static void put_percent(struct text *text, uint64_t part, uint64_t whole)
{
    while (part > UINT64_MAX / 1000) {
        part >>= 1;
        whole >>= 1;
    }
    text_put_fixed(text, whole == 0 ? 0 : part * 1000 / whole, 1);
    text_put(text, " %");
}

static void put_count(struct text *text, uint64_t count, const char *one)
{
    text_put_u64(text, count);
    text_put_char(text, ' ');
    text_put(text, one);
    if (count != 1)
        text_put_char(text, 's');
}

static void print_amount(const struct summary *summary, struct text *text)
{
    text_put(text, "selfsample: ");
    put_clean(text, or_empty(summary->program));
    text_put(text, " (pid ");
    text_put_i64(text, summary->pid);
    text_put(text, "): ");
    put_count(text, summary->samples, "stack");
    text_put(text, ", ");
    text_put_fixed(text, summary->cpu_seen_ns / 1000000, 3);
    text_put(text, " s of CPU time");
    if (summary->cpu_clock_ns != 0) {
        text_put(text, " (");
        put_percent(text, summary->cpu_seen_ns, summary->cpu_clock_ns);
        text_put(text, " of its clock)");
    }
    text_put(text, " in ");
    put_count(text, summary->threads, "thread");
    text_put_char(text, '\n');
}

static void print_quality(const struct summary *summary, struct text *text)
{
    text_put(text, "selfsample: stacks: ");
    put_percent(text, summary->whole_stacks, summary->samples);
    text_put(text, " whole, ");
    text_put_u64(text, summary->truncated_stacks);
    text_put(text, " truncated, ");
    text_put_u64(text, summary->lost_samples);
    text_put(text, " lost; ");
    put_count(text, summary->uncovered_threads, "thread");
    text_put(text, " not covered");
    if (summary->thinned_threads != 0) {
        text_put(text, "; ");
        put_count(text, summary->thinned_threads, "short thread");
        text_put(text, " represented by others");
    }
    if (summary->throttled != 0) {
        text_put(text, "; throttled ");
        put_count(text, summary->throttled, "time");
        text_put(text, " by the kernel");
    }
    text_put_char(text, '\n');
}

static void print_kernel_time(const struct summary *summary, struct text *text)
{
    if (summary->kernel_ns == 0)
        return;
    text_put(text, "selfsample: kernel time at least ");
    put_percent(text, summary->kernel_ns, summary->cpu_seen_ns);
    text_put(text, " (stacks not visible)\n");
}

/* Worth a line where it is a twentieth. */
static void print_switches(const struct summary *summary, struct text *text)
{
    if (summary->switched_ns == 0 || summary->switched_ns < summary->cpu_seen_ns / 20)
        return;
    text_put(text, "selfsample: switches between threads took ");
    put_percent(text, summary->switched_ns, summary->cpu_seen_ns);
    text_put(text, ", part of it for perf events; timers cost nothing there\n");
}

static void print_means(const struct summary *summary, struct text *text)
{
    text_put(text, "selfsample: engine: ");
    text_put(text, or_empty(summary->engine));
    text_put(text, " at ");
    text_put_u64(text, summary->rate_hz);
    text_put(text, " Hz; kernel frames: ");
    text_put(text, summary->kernel_frames ? "yes" : "no");
    if (summary->kernel_reason != NULL) {
        text_put(text, " (");
        put_clean(text, summary->kernel_reason);
        text_put_char(text, ')');
    }
    text_put(text, "; own cost: ");
    text_put_fixed(text, summary->helper_cpu_ns / 1000000, 3);
    text_put(text, " s of CPU time and ");
    text_put_fixed(text, summary->own_ns / 1000000, 3);
    text_put(text, " s in the program's threads, ");
    text_put_u64(text, (summary->arena_bytes + 1023) / 1024);
    text_put(text, " KiB\n");
}

static void print_why_no_file(const struct summary *summary, struct text *text)
{
    if (summary->too_short) {
        text_put(text, ": too short: ");
        if (summary->cpu_clock_ns != 0) {
            text_put_fixed(text, summary->cpu_clock_ns / 100000, 1);
            text_put(text, " ms of CPU time, ");
        }
        text_put(text, "less than one period seen");
    } else if (summary->samples == 0 && summary->error == NULL) {
        text_put(text, ": there was no sample");
    }
}

static void print_file(const struct summary *summary, struct text *text)
{
    text_put(text, "selfsample: ");
    text_put(text, summary->file_path != NULL ? "written to " : "nothing written");
    put_clean(text, or_empty(summary->file_path));
    if (summary->file_path == NULL)
        print_why_no_file(summary, text);
}

void summary_print(const struct summary *summary, struct text *text)
{
    print_amount(summary, text);
    print_quality(summary, text);
    print_means(summary, text);
    print_kernel_time(summary, text);
    print_switches(summary, text);
    if (summary->error != NULL) {
        text_put(text, "selfsample: ");
        put_clean(text, summary->error);
        text_put_char(text, '\n');
    }
    print_file(summary, text);
}
