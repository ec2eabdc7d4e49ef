/* Writes a session's results. Runs in the helper. */
#include "publish.h"

#include <string.h>

#include "engine.h"
#include "message.h"
#include "places.h"
#include "shortfall.h"
#include "summary.h"
#include "sys.h"
#include "writing.h"

#define ARENA_BYTES_MAX (1024u * 1024 * 1024)

#define TOLD_APART_NS 1000000000u
#define LOOK_KEPT_NS  2000000000u /* by then who asked for it has opened it */

/* True if the command has got it. */
static bool report_write(const struct publisher *publisher, struct text *line)
{
    if (publisher->report_fd < 0)
        return false;
    text_put_char(line, '\n');
    return sys_write(publisher->report_fd, line->start, line->length) == (long)line->length;
}

static void kernel_refusal_put(struct publisher *publisher)
{
    int64_t paranoid = publisher->session->paranoid;
    struct text text = text_over(publisher->kernel_refusal, sizeof publisher->kernel_refusal);
    text_put(&text, "kernel.perf_event_paranoid=");
    text_put_i64(&text, paranoid);
    if (paranoid > 1)
        text_put(&text, "; `sysctl kernel.perf_event_paranoid=1` shows them");
}

static void engine_put(struct publisher *publisher)
{
    const struct session *session = publisher->session;
    struct text text = text_over(publisher->engine, sizeof publisher->engine);
    engine_describe(&text, &session->traits, session->paranoid);
    if (!session->traits.by_timer && publisher->collector->threads.timed != 0)
        text_put(&text, " and timers"); /* for threads that could have no event */
    if (session->config.libunwind && session->library.address_space == NULL)
        text_put(&text, " without libunwind");
    if (session->helper.kind == HELPER_THREAD)
        text_put(&text, ", helper a thread (a normal exit alone is covered)");
}

/* Where the file NAME is, as an absolute path, since the reader has another working directory. */
static void put_absolute(struct text *path, const char *name)
{
    char cwd[OUTPATH_BYTES];
    if (name[0] != '/' && sys2(SYS_getcwd, cwd, sizeof cwd) > 0) {
        text_put(path, cwd);
        text_put_char(path, '/');
    }
    text_put(path, name);
}

static void status_tell(struct publisher *publisher)
{
    const struct session *session = publisher->session;
    struct status *status = &publisher->status;
    char name[OUTPATH_BYTES];
    struct text relative = text_over(name, sizeof name);
    struct text out = text_over(status->out, sizeof status->out);
    outpath_number(&relative, session->out_path, session->writings);
    put_absolute(&out, name);
    status->samples = publisher->collector->profile.samples;
    status->cpu_ns = publisher->collector->profile.weight_ns;
    status_write(status);
}

static void status_init(struct publisher *publisher)
{
    const struct session *session = publisher->session;
    struct status *status = &publisher->status;
    status_open(status, session->app_pid);
    status->program = session->program;
    status->engine = publisher->engine;
    status->format = session->config.format == CONFIG_FORMAT_FOLDED ? "folded" : "pprof";
    status->unit = session->config.unit == CONFIG_UNIT_US ? "us" : "samples";
    status->rate_hz = engine_rate_hz(session->period_ns);
    status->roots = session->config.threads != CONFIG_THREADS_NONE;
    publisher->told_ns = sys_clock_ns(CLOCK_MONOTONIC);
    status_tell(publisher);
}

/* Does each writing get a name of its own? */
static bool out_is_numbered(const char *names)
{
    char name[OUTPATH_BYTES];
    struct text path = text_over(name, sizeof name);
    return outpath_number(&path, names, 0);
}

void publisher_init(struct publisher *publisher, struct session *session,
                    struct collector *collector)
{
    *publisher = (struct publisher){.session = session, .collector = collector, .report_fd = -1};
    publisher->began_ns = publisher->profile_began_ns = sys_clock_ns(CLOCK_REALTIME);
    publisher->is_series =
        session->config.checkpoint_seconds > 0 && out_is_numbered(session->out_path);
    series_init(&publisher->series);
    arena_init(&publisher->arena, ARENA_BYTES_MAX);
    kernel_symbols_init(&publisher->kernel, &kernel_symbols_system);
    kernel_refusal_put(publisher);
    engine_put(publisher);
    status_init(publisher);
    if (session->config.report_path[0] == '\0')
        return;
    publisher->report_fd = sys_open(session->config.report_path, O_WRONLY | O_NONBLOCK, 0);
    char buffer[SUMMARY_REPORT_BYTES];
    struct text line = text_over(buffer, sizeof buffer);
    struct summary summary = {.pid = session->app_pid, .program = session->program};
    summary_report_start(&summary, &line);
    report_write(publisher, &line);
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
static void notice(struct publisher *publisher, const char *lines)
{
    struct session *session = publisher->session;
    if (session->helper.has_stderr) {
        message_write(2, lines);
        return;
    }
    notice_leave(session, lines);
}

/* Gets publisher->out ready for a writing. 0 or -errno. */
static int out_ready(struct publisher *publisher)
{
    if (publisher->out_is_kept)
        return 0;
    if (publisher->out != NULL)
        outfile_close(publisher->out);
    else if ((publisher->out = arena_alloc(&publisher->arena, sizeof *publisher->out)) == NULL)
        return -ENOMEM;
    if (config_has_places(&publisher->session->config) && publisher->places == NULL)
        publisher->places = arena_alloc(&publisher->arena, sizeof *publisher->places);
    char name[OUTPATH_BYTES];
    struct text path = text_over(name, sizeof name);
    bool numbered =
        outpath_number(&path, publisher->session->out_path, publisher->session->writings);
    int result = outfile_init(publisher->out, AT_FDCWD, name);
    if (path.cut)
        result = -ENAMETOOLONG;
    publisher->out_is_kept = result == 0 && !numbered;
    return result;
}

static void tell_file(struct publisher *publisher, const struct outfile *out)
{
    struct text path = text_over(publisher->status.file, sizeof publisher->status.file);
    put_absolute(&path, out->name);
    status_tell(publisher);
}

/* The profile is whole without this file: an error is told and goes no further. */
static void places_notice(struct publisher *publisher, const struct writing *writing)
{
    char buffer[OUTPATH_BYTES + 128];
    struct text line = text_over(buffer, sizeof buffer);
    if (writing->places_error == 0)
        return;
    text_put(&line, "selfsample: ");
    text_put(&line, writing->out->name);
    text_put(&line, PLACES_SUFFIX ": can't be written, inlined functions are not shown: ");
    text_put_error(&line, -writing->places_error);
    notice(publisher, buffer);
}

/* All so far, unless WRITING says otherwise, into a file that has been begun. 0 or -errno. */
static int write_into(struct publisher *publisher, struct writing writing)
{
    writing.session = publisher->session;
    writing.stacks = &publisher->collector->stacks;
    writing.kernel = &publisher->kernel;
    if (writing.profile == NULL)
        writing.profile = &publisher->collector->profile;
    int result = writing_do(&writing, &publisher->arena);
    publisher->kernel_hidden |= writing.kernel_hidden;
    places_notice(publisher, &writing);
    return result;
}

/* The same into the file of the next writing. */
static int write_next(struct publisher *publisher, struct writing writing)
{
    int result = out_ready(publisher);
    if (result == 0)
        result = outfile_begin(publisher->out);
    if (result != 0)
        return result;
    writing.format = publisher->session->config.format;
    writing.began_ns = publisher->began_ns;
    writing.out = publisher->out;
    writing.places = publisher->places;
    result = write_into(publisher, writing);
    if (result != 0)
        return result;
    publisher->session->writings++;
    tell_file(publisher, publisher->out);
    return 0;
}

/* Tells the command, where it can be told in one line. */
static void part_report(const struct publisher *publisher)
{
    char path_buffer[OUTPATH_BYTES], buffer[SUMMARY_REPORT_BYTES];
    struct text path = text_over(path_buffer, sizeof path_buffer);
    struct text line = text_over(buffer, sizeof buffer - 1);
    put_absolute(&path, publisher->out->name);
    summary_report_part(publisher->session->app_pid, path_buffer, &line);
    if (!path.cut && !line.cut)
        report_write(publisher, &line);
}

/* What has been counted since the last file of the series. -ENODATA: nothing. One that has to go on
 * in the same file, since no other can be made, has it all again. */
static int write_part(struct publisher *publisher)
{
    struct arena scratch;
    struct series_part part;
    arena_init(&scratch, ARENA_BYTES_MAX);
    int result = -ENOMEM;
    if (series_part_make(&publisher->series, &publisher->collector->profile, &part, &scratch))
        result = part.weight_ns == 0 ? -ENODATA : 0;
    if (result == 0)
        result = write_next(publisher,
                            (struct writing){.profile = &part.profile, .owed_ns = part.owed_ns});
    if (result == 0)
        part_report(publisher);
    if (result == 0 && !publisher->out_is_kept) {
        series_part_told(&publisher->series, &part);
        publisher->began_ns = sys_clock_ns(CLOCK_REALTIME);
    }
    arena_destroy(&scratch);
    return result;
}

static int write_profile(struct publisher *publisher)
{
    return publisher->is_series ? write_part(publisher)
                                : write_next(publisher, (struct writing){0});
}

static struct summary summarize(const struct publisher *publisher, uint64_t app_cpu_ns)
{
    const struct session *session = publisher->session;
    const struct collector *collector = publisher->collector;
    const struct event_traits *traits = &session->traits;
    uint64_t own_ns = collector->threads.own_ns;
    struct summary summary = {
        .pid = session->app_pid,
        .program = session->program,
        .samples = collector->profile.samples,
        .cpu_seen_ns = collector->profile.weight_ns,
        .cpu_clock_ns = app_cpu_ns > own_ns ? app_cpu_ns - own_ns : 0,
        .own_ns = own_ns,
        .kernel_ns = collector->kernel_ns,
        .whole_stacks = collector->whole,
        .truncated_stacks = collector->truncated,
        .lost_samples = collector->lost,
        .threads = collector->threads.total,
        .uncovered_threads = collector->threads.uncovered,
        .thinned_threads = collector->threads.thinned,
        .throttled = collector->throttled,
        .engine = publisher->engine,
        .rate_hz = engine_rate_hz(session->period_ns),
        .kernel_frames = traits->kernel_frames,
        .helper_cpu_ns = sys_clock_ns(CLOCK_THREAD_CPUTIME_ID),
        .arena_bytes = collector->arena->peak_bytes + collector->perf_map.arena.peak_bytes,
    };
    if (session->config.kernel == CONFIG_KERNEL_NO)
        summary.kernel_reason = "SELFSAMPLE_KERNEL=no";
    else if (traits->by_timer)
        summary.kernel_reason = "timers see user stacks alone";
    else if (!traits->kernel_frames)
        summary.kernel_reason = publisher->kernel_refusal;
    else if (publisher->kernel_hidden)
        summary.kernel_reason = "names hidden by kernel.kptr_restrict";
    return summary;
}

static void error_line(struct text *line, const struct publisher *publisher, int error)
{
    text_put(line, "selfsample: ");
    outpath_number(line, publisher->session->out_path, publisher->session->writings);
    text_put(line, ": the profile can't be written: ");
    text_put_error(line, -error);
    text_put(line, "; choose another place with SELFSAMPLE_OUT or --out");
}

static bool report(const struct publisher *publisher, const struct summary *summary)
{
    char buffer[SUMMARY_REPORT_BYTES];
    struct text line = text_over(buffer, sizeof buffer);
    summary_report(summary, &line);
    return report_write(publisher, &line);
}

static void summary_notice(struct publisher *publisher, const struct summary *summary)
{
    char buffer[SUMMARY_REPORT_BYTES];
    struct text lines = text_over(buffer, sizeof buffer);
    summary_print(summary, &lines);
    notice(publisher, buffer);
}

static void shortfalls_notice(struct publisher *publisher)
{
    char lines[1024];
    struct text text = text_over(lines, sizeof lines);
    shortfall_put_labels(&text, &publisher->session->labels);
    shortfall_put_signals(&text, publisher->session);
    shortfall_put_code_names(&text, &publisher->collector->perf_map);
    if (text.length != 0)
        notice(publisher, lines);
}

/* Whoever tells the summary, the command or this process, tells the error with it. -ENODATA is
 * none: there was nothing to write. */
static void tell(struct publisher *publisher, struct summary *summary, int error)
{
    char path_buffer[OUTPATH_BYTES], error_buffer[SUMMARY_REPORT_BYTES];
    struct text path = text_over(path_buffer, sizeof path_buffer);
    struct text line = text_over(error_buffer, sizeof error_buffer);
    bool failed = error != 0 && error != -ENODATA;
    if (failed) {
        error_line(&line, publisher, error);
        summary->error = error_buffer + sizeof "selfsample: " - 1;
    } else if (error == 0 && publisher->out != NULL && publisher->out->name[0] != '\0') {
        put_absolute(&path, publisher->out->name);
        summary->file_path = path_buffer;
    }
    bool reported = report(publisher, summary);
    if (publisher->session->config.summary)
        summary_notice(publisher, summary);
    else if (failed && !reported)
        notice(publisher, error_buffer);
}

/* Clock unknown (0): the process was gone before we first looked, but may have been sampled. */
static bool is_too_short(const struct publisher *publisher, uint64_t app_cpu_ns)
{
    bool sampled = publisher->collector->profile.samples > 0;
    return app_cpu_ns < publisher->session->period_ns && !(app_cpu_ns == 0 && sampled);
}

/* Not by samples: where the few that a full ring had room for weigh nothing each, as draws of very
 * short periods do, their thread's clock has given its time to the last of them. */
static bool has_nothing(const struct publisher *publisher, uint64_t app_cpu_ns)
{
    return publisher->collector->profile.weight_ns == 0 || is_too_short(publisher, app_cpu_ns);
}

int publisher_checkpoint(struct publisher *publisher, uint64_t app_cpu_ns)
{
    return has_nothing(publisher, app_cpu_ns) ? -ENODATA : write_profile(publisher);
}

int publisher_snapshot(struct publisher *publisher, const char *path, uint64_t app_cpu_ns)
{
    if (path[0] == '\0')
        return publisher_checkpoint(publisher, app_cpu_ns);
    if (has_nothing(publisher, app_cpu_ns))
        return -ENODATA;
    struct arena_mark mark = arena_mark(&publisher->arena);
    struct outfile *out = arena_alloc(&publisher->arena, sizeof *out), *places = NULL;
    if (out == NULL)
        return -ENOMEM;
    if (config_has_places(&publisher->session->config))
        places = arena_alloc(&publisher->arena, sizeof *places);
    int result = outfile_init(out, AT_FDCWD, path);
    if (result == 0)
        result = outfile_begin(out);
    if (result == 0)
        result = write_into(publisher, (struct writing){.format = publisher->session->config.format,
                                                        .began_ns = publisher->profile_began_ns,
                                                        .out = out,
                                                        .places = places});
    if (result == 0)
        tell_file(publisher, out);
    outfile_close(out);
    if (places != NULL)
        places_close(places);
    arena_release(&publisher->arena, mark);
    return result;
}

static void put_refusal(const struct publisher *publisher, struct text *text, int result)
{
    if (result == -ENODATA)
        text_put(text, publisher->series.nodes.count > 0 ? "there is no sample since the last file"
                                                         : "there is no sample yet");
    else if (result != 0)
        text_put_error(text, -result);
}

void publisher_answer(struct publisher *publisher, uint32_t snapshots, int result)
{
    struct status *status = &publisher->status;
    struct text error = text_over(status->error, sizeof status->error);
    put_refusal(publisher, &error, result);
    status->snapshots = snapshots;
    status_tell(publisher);
}

static void look_drop(struct status *status)
{
    if (status->look_fd >= 0)
        sys_close(status->look_fd);
    status->look_fd = -1;
}

/* Into status->look_fd. 0, or as publisher_checkpoint. */
static int look_write(struct publisher *publisher, uint64_t app_cpu_ns)
{
    if (has_nothing(publisher, app_cpu_ns))
        return -ENODATA;
    struct arena_mark mark = arena_mark(&publisher->arena);
    struct outfile *out = arena_alloc(&publisher->arena, sizeof *out);
    if (out == NULL)
        return -ENOMEM;
    int result = outfile_begin_memory(out, LOOK_NAME);
    if (result == 0)
        result =
            write_into(publisher, (struct writing){.format = CONFIG_FORMAT_FOLDED, .out = out});
    publisher->status.look_fd = out->committed_fd;
    arena_release(&publisher->arena, mark);
    return result;
}

void publisher_look(struct publisher *publisher, uint32_t looks, uint64_t app_cpu_ns)
{
    struct status *status = &publisher->status;
    struct text error = text_over(status->look_error, sizeof status->look_error);
    look_drop(status);
    put_refusal(publisher, &error, look_write(publisher, app_cpu_ns));
    status->looks = looks;
    publisher->look_ns = sys_clock_ns(CLOCK_MONOTONIC);
    status_tell(publisher);
}

void publisher_keep_told(struct publisher *publisher)
{
    uint64_t now_ns = sys_clock_ns(CLOCK_MONOTONIC);
    if (now_ns - publisher->told_ns < TOLD_APART_NS)
        return;
    publisher->told_ns = now_ns;
    if (now_ns - publisher->look_ns > LOOK_KEPT_NS)
        look_drop(&publisher->status);
    status_tell(publisher);
}

void publisher_tell_pause(struct publisher *publisher, bool paused)
{
    publisher->status.paused = paused;
    status_tell(publisher);
}

void publisher_directory(const struct publisher *publisher, char *directory)
{
    const char *path = publisher->session->out_path;
    size_t length = (size_t)(outpath_base(path) - path);
    struct text text = text_over(directory, OUTPATH_BYTES);
    char pattern[OUTPATH_BYTES];
    struct text part = text_over(pattern, sizeof pattern);
    text_put_bytes(&part, path, length);
    outpath_number(&text, pattern, publisher->session->writings);
    if (length == 0)
        text_put_char(&text, '.');
}

void publisher_reserve(struct publisher *publisher)
{
    struct outfile *out = publisher->out;
    if (out == NULL || out->committed_fd < 0 || publisher->is_series) {
        if (out_ready(publisher) != 0 || outfile_begin(publisher->out) != 0 ||
            outfile_commit(publisher->out) != 0)
            return;
        if (publisher->places != NULL && places_begin(publisher->places, publisher->out) == 0)
            outfile_commit(publisher->places);
    }
    publisher->out_is_kept = true;
}

void publisher_hold_kernel_symbols(struct publisher *publisher)
{
    if (publisher->session->traits.kernel_frames)
        kernel_symbols_hold(&publisher->kernel);
}

static void out_withdraw(struct publisher *publisher)
{
    outfile_withdraw(publisher->out);
    if (publisher->places != NULL)
        places_withdraw(publisher->places);
}

/* A series may have told all before. */
static int write_last(struct publisher *publisher)
{
    int result = write_profile(publisher);
    if (result != -ENODATA || publisher->series.nodes.count == 0)
        return result;
    if (publisher->out != NULL)
        out_withdraw(publisher);
    return 0;
}

void publisher_finish(struct publisher *publisher, uint64_t app_cpu_ns)
{
    int error = has_nothing(publisher, app_cpu_ns) ? -ENODATA : write_last(publisher);
    bool sampled = publisher->collector->profile.samples > 0;
    engine_put(publisher);
    struct summary summary = summarize(publisher, app_cpu_ns);
    if (error == -ENODATA) {
        if (publisher->out != NULL)
            out_withdraw(publisher);
        summary.too_short = sampled || is_too_short(publisher, app_cpu_ns);
    }
    publisher->session->finish_result = error;
    shortfalls_notice(publisher);
    tell(publisher, &summary, error);
}

void publisher_close(struct publisher *publisher)
{
    kernel_symbols_close(&publisher->kernel);
    series_close(&publisher->series);
    arena_destroy(&publisher->arena);
}

void publisher_fail(struct publisher *publisher, int error)
{
    struct summary summary = {.pid = publisher->session->app_pid,
                              .program = publisher->session->program,
                              .engine = publisher->engine};
    tell(publisher, &summary, error);
    publisher->session->finish_result = error;
    __atomic_store_n(&publisher->session->progress, SESSION_DONE, __ATOMIC_RELEASE);
}

void publisher_give_up(void *context)
{
    struct publisher *publisher = context;
    if (publisher->out != NULL)
        outfile_abort(publisher->out);
    if (publisher->places != NULL)
        outfile_abort(publisher->places);
    publisher_fail(publisher, -ETIMEDOUT);
}
