/* Writes a session's results. Runs in the helper. */
#include "publish.h"

#include <string.h>

#include "engine.h"
#include "places.h"
#include "sys.h"
#include "writing.h"

#define ARENA_BYTES_MAX (1024u * 1024 * 1024)

#define TOLD_APART_NS 1000000000u
#define LOOK_KEPT_NS  2000000000u /* by then who asked for it has opened it */

static void status_tell(struct publisher *publisher)
{
    const struct session *session = publisher->session;
    struct status *status = &publisher->status;
    char name[OUTPATH_BYTES];
    struct text relative = text_over(name, sizeof name);
    struct text out = text_over(status->out, sizeof status->out);
    status->out_is_had = publisher->out_is_kept && publisher->out->name[0] != '\0';
    if (!status->out_is_had)
        outpath_number(&relative, session->out_path, session->writings);
    outfile_absolute(&out, status->out_is_had ? publisher->out->name : name);
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
    status->engine = publisher->teller.engine;
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

/* A directory is where the file of the default name is meant to be. Not where %n is in the name:
 * that is one of files. */
static void out_directory_enter(struct session *session)
{
    char name[OUTPATH_BYTES];
    struct text path = text_over(name, sizeof name);
    const struct outpath_facts facts = {.pid = (int)session->app_pid,
                                        .program = session->program,
                                        .ending = config_ending(&session->config)};
    if (outpath_number(&path, session->out_path, 0) || !outfile_is_directory(name))
        return;
    struct text inside = text_over(name, sizeof name);
    text_put(&inside, session->out_path);
    text_put_char(&inside, '/');
    if (outpath_expand(&inside, "", &facts, NULL, NULL) == 0)
        memcpy(session->out_path, name, inside.length + 1);
}

void publisher_init(struct publisher *publisher, struct session *session,
                    struct collector *collector)
{
    *publisher = (struct publisher){.session = session, .collector = collector};
    out_directory_enter(session);
    publisher->began_ns = publisher->profile_began_ns = sys_clock_ns(CLOCK_REALTIME);
    publisher->is_series =
        session->config.checkpoint_seconds > 0 && out_is_numbered(session->out_path);
    series_init(&publisher->series);
    arena_init(&publisher->arena, ARENA_BYTES_MAX);
    kernel_symbols_init(&publisher->kernel, &kernel_symbols_system);
    teller_init(&publisher->teller, session, collector);
    status_init(publisher); /* takes a descriptor of a fixed number, which is free as yet */
    teller_begin(&publisher->teller);
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
    if (config_has_places(&publisher->session->config) && publisher->places == NULL) {
        publisher->places = arena_alloc(&publisher->arena, sizeof *publisher->places);
        if (publisher->places != NULL)
            publisher->places->fd = -1; /* there may be a giving up before it is begun */
    }
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
    outfile_absolute(&path, out->name);
    status_tell(publisher);
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
    publisher->teller.kernel_hidden |= writing.kernel_hidden;
    if (writing.places_error != 0)
        teller_places_error(&publisher->teller, writing.out->name, writing.places_error);
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
        teller_part(&publisher->teller, publisher->out->name);
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
    struct teller_end end = {.app_cpu_ns = app_cpu_ns, .file = "", .error = error};
    if (error == -ENODATA) {
        if (publisher->out != NULL)
            out_withdraw(publisher);
        end.too_short =
            publisher->collector->profile.samples > 0 || is_too_short(publisher, app_cpu_ns);
    }
    if (publisher->out != NULL)
        end.file = publisher->out->name;
    publisher->session->finish_result = error;
    teller_end(&publisher->teller, &end);
}

void publisher_close(struct publisher *publisher)
{
    kernel_symbols_close(&publisher->kernel);
    series_close(&publisher->series);
    arena_destroy(&publisher->arena);
}

void publisher_fail(struct publisher *publisher, int error)
{
    teller_fail(&publisher->teller, error);
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
