/* What users and the command are told. Runs in the helper. */
#include "teller.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "engine.h"
#include "message.h"
#include "outpath.h"
#include "places.h"
#include "shortfall.h"
#include "summary.h"
#include "sys.h"

/* True if the command has got it. */
static bool report_write(const struct teller *teller, struct text *line)
{
    if (teller->report_fd < 0)
        return false;
    text_put_char(line, '\n');
    return sys_write(teller->report_fd, line->start, line->length) == (long)line->length;
}

static void kernel_refusal_put(struct teller *teller)
{
    int64_t paranoid = teller->session->paranoid;
    struct text text = text_over(teller->kernel_refusal, sizeof teller->kernel_refusal);
    text_put(&text, "kernel.perf_event_paranoid=");
    text_put_i64(&text, paranoid);
    if (paranoid > 1)
        text_put(&text, "; `sysctl kernel.perf_event_paranoid=1` shows them");
}

static void engine_put(struct teller *teller)
{
    const struct session *session = teller->session;
    struct text text = text_over(teller->engine, sizeof teller->engine);
    engine_describe(&text, &session->traits, session->paranoid);
    if (!session->traits.by_timer && teller->collector->threads.timed != 0)
        text_put(&text, " and timers"); /* for threads that could have no event */
    if (session->config.libunwind && session->library.address_space == NULL)
        text_put(&text, " without libunwind");
    if (session->helper.kind == HELPER_THREAD)
        text_put(&text, ", helper a thread (a normal exit alone is covered)");
}

void teller_init(struct teller *teller, struct session *session, const struct collector *collector)
{
    *teller = (struct teller){.session = session, .collector = collector, .report_fd = -1};
    kernel_refusal_put(teller);
    engine_put(teller);
}

void teller_begin(struct teller *teller)
{
    const struct session *session = teller->session;
    if (session->config.report_path[0] == '\0')
        return;
    teller->report_fd = sys_open(session->config.report_path, O_WRONLY | O_NONBLOCK, 0);
    char buffer[SUMMARY_REPORT_BYTES];
    struct text line = text_over(buffer, sizeof buffer);
    struct summary summary = {.pid = session->app_pid, .program = session->program};
    summary_report_start(&summary, &line);
    report_write(teller, &line);
}

void teller_part(const struct teller *teller, const char *file)
{
    char path_buffer[OUTPATH_BYTES], buffer[SUMMARY_REPORT_BYTES];
    struct text path = text_over(path_buffer, sizeof path_buffer);
    struct text line = text_over(buffer, sizeof buffer - 1);
    outfile_absolute(&path, file);
    summary_report_part(teller->session->app_pid, path_buffer, &line);
    if (!path.cut && !line.cut)
        report_write(teller, &line);
}

/* Leaves LINES for the app to say at its end, behind those that wait already. A series of files may
 * bring the same again and again. */
static void notice_leave(struct session *session, const char *lines)
{
    size_t waiting = strlen(session->notice), length = strlen(lines);
    if (length <= waiting && memcmp(session->notice + waiting - length, lines, length) == 0)
        return;
    struct text text = {
        .start = session->notice, .size = sizeof session->notice, .length = waiting};
    if (waiting != 0)
        text_put_char(&text, '\n');
    text_put(&text, lines);
}

/* Lines for the user: at once where stderr could be kept, else by the app. */
static void notice(struct teller *teller, const char *lines)
{
    struct session *session = teller->session;
    if (session->helper.has_stderr) {
        message_write(2, lines);
        return;
    }
    notice_leave(session, lines);
}

void teller_places_error(struct teller *teller, const char *profile, int error)
{
    char buffer[OUTPATH_BYTES + 128];
    struct text line = text_over(buffer, sizeof buffer);
    text_put(&line, "selfsample: ");
    text_put(&line, profile);
    text_put(&line, PLACES_SUFFIX ": can't be written, inlined functions are not shown: ");
    text_put_error(&line, -error);
    notice(teller, buffer);
}

static struct summary summarize(const struct teller *teller, uint64_t app_cpu_ns)
{
    const struct session *session = teller->session;
    const struct collector *collector = teller->collector;
    const struct event_traits *traits = &session->traits;
    uint64_t own_ns = collector->threads.own_ns;
    struct summary summary = {
        .pid = session->app_pid,
        .program = session->program,
        .samples = collector->profile.samples,
        .cpu_seen_ns = collector->profile.weight_ns,
        .cpu_clock_ns = app_cpu_ns > own_ns ? app_cpu_ns - own_ns : 0,
        .own_ns = own_ns,
        .kernel_ns = collector->kernel.ns,
        .switched_ns = collector->threads.switched_ns,
        .whole_stacks = collector->whole,
        .truncated_stacks = collector->truncated,
        .lost_samples = collector->lost,
        .threads = collector->threads.total,
        .uncovered_threads = threads_uncovered(
            &collector->threads, __atomic_load_n(&session->mailbox.unannounced, __ATOMIC_RELAXED)),
        .thinned_threads = collector->threads.thinned,
        .throttled = collector->throttled,
        .engine = teller->engine,
        .rate_hz = engine_rate_hz(session->period_ns),
        .kernel_frames = traits->kernel_frames,
        .helper_cpu_ns = sys_clock_ns(CLOCK_THREAD_CPUTIME_ID),
        .arena_bytes = collector->arena->peak_bytes + collector->perf_map.arena.peak_bytes,
    };
    if (session->config.kernel == CONFIG_KERNEL_NO)
        summary.kernel_reason = "as asked";
    else if (traits->by_timer)
        summary.kernel_reason = "timers see user stacks alone";
    else if (!traits->kernel_frames)
        summary.kernel_reason = teller->kernel_refusal;
    else if (teller->kernel_hidden)
        summary.kernel_reason = "names hidden by kernel.kptr_restrict";
    return summary;
}

static void put_remedy(struct text *line, int error)
{
    if (error == -ENOMEM)
        text_put(line, "; it needs more memory than `ulimit -v` and `ulimit -d` leave");
    else if (error == -EFBIG)
        text_put(line, "; it needs larger files than `ulimit -f` allows");
    else
        text_put(line, "; choose another place with SELFSAMPLE_OUT or --out");
}

static void error_line(struct text *line, const struct teller *teller, int error)
{
    char buffer[OUTPATH_BYTES];
    struct text path = text_over(buffer, sizeof buffer);
    outpath_number(&path, teller->session->out_path, teller->session->writings);
    text_put(line, "selfsample: ");
    text_put(line, buffer);
    text_put(line, ": the profile can't be written: ");
    if (error == -EEXIST && outfile_is_special(AT_FDCWD, buffer))
        text_put(line, "not a file, and nothing is written in place of it");
    else
        text_put_error(line, -error);
    put_remedy(line, error);
}

static bool report(const struct teller *teller, const struct summary *summary)
{
    char buffer[SUMMARY_REPORT_BYTES];
    struct text line = text_over(buffer, sizeof buffer);
    summary_report(summary, &line);
    return report_write(teller, &line);
}

static void summary_notice(struct teller *teller, const struct summary *summary)
{
    char buffer[SUMMARY_REPORT_BYTES];
    struct text lines = text_over(buffer, sizeof buffer);
    summary_print(summary, &lines);
    notice(teller, buffer);
}

static void shortfalls_notice(struct teller *teller)
{
    char lines[1024];
    struct text text = text_over(lines, sizeof lines);
    shortfall_put_labels(&text, &teller->session->labels);
    shortfall_put_signals(&text, teller->session);
    shortfall_put_code_names(&text, &teller->collector->perf_map);
    if (text.length != 0)
        notice(teller, lines);
}

/* Whoever tells the summary, the command or this process, tells the error with it. -ENODATA is
 * none: there was nothing to write. */
static void tell(struct teller *teller, struct summary *summary, const char *file, int error)
{
    char path_buffer[OUTPATH_BYTES], error_buffer[SUMMARY_REPORT_BYTES];
    struct text path = text_over(path_buffer, sizeof path_buffer);
    struct text line = text_over(error_buffer, sizeof error_buffer);
    bool failed = error != 0 && error != -ENODATA;
    if (failed) {
        error_line(&line, teller, error);
        summary->error = error_buffer + sizeof "selfsample: " - 1;
    } else if (error == 0 && file[0] != '\0') {
        outfile_absolute(&path, file);
        summary->file_path = path_buffer;
    }
    bool reported = report(teller, summary);
    if (teller->session->config.summary)
        summary_notice(teller, summary);
    else if (failed && !reported)
        notice(teller, error_buffer);
}

void teller_end(struct teller *teller, const struct teller_end *end)
{
    engine_put(teller);
    struct summary summary = summarize(teller, end->app_cpu_ns);
    summary.too_short = end->too_short;
    shortfalls_notice(teller);
    tell(teller, &summary, end->file, end->error);
}

void teller_fail(struct teller *teller, int error)
{
    struct summary summary = {.pid = teller->session->app_pid,
                              .program = teller->session->program,
                              .engine = teller->engine};
    tell(teller, &summary, "", error);
}
