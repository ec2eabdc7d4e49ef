/* Writes a profile into a file. Runs in the helper. */
#include "writing.h"

#include "engine.h"
#include "facts.h"
#include "folded.h"
#include "frame_names.h"
#include "places.h"
#include "pprof_profile.h"
#include "sys.h"

#include <string.h>

#define ARENA_BYTES_MAX (1024u * 1024 * 1024)

/* What a count of 1 stands for in the file. */
static uint64_t unit_ns(const struct writing *writing)
{
    const struct session *session = writing->session;
    bool is_folded = writing->format == CONFIG_FORMAT_FOLDED;
    return folded_unit_ns(is_folded ? session->config.unit : CONFIG_UNIT_SAMPLES,
                          session->period_ns);
}

static int write_places(const struct writing *writing, const struct named_profile *named,
                        const int64_t *owed_ns)
{
    struct places places = {
        .profile = named->profile,
        .names = named->names,
        .owed_ns = owed_ns,
        .modules = writing->stacks->modules,
        .unit_ns = named->unit_ns,
        .folded_bytes = writing->out->bytes,
    };
    int error = places_begin(writing->places, writing->out);
    if (error != 0)
        return error;
    places_write(&places, writing->places);
    return outfile_commit(writing->places);
}

/* Errors are the file's. */
static void write_pprof(const struct writing *writing, const struct named_profile *named,
                        struct arena *scratch)
{
    const struct session *session = writing->session;
    char buffer[SESSION_PROGRAM_BYTES + 64];
    struct text comment = text_over(buffer, sizeof buffer);
    text_put(&comment, "selfsample of ");
    text_put(&comment, session->program);
    text_put(&comment, ", process ");
    text_put_i64(&comment, session->app_pid);
    uint64_t now_ns = sys_clock_ns(CLOCK_REALTIME);
    const struct pprof_facts facts = {
        .began_ns = writing->began_ns,
        .duration_ns = now_ns > writing->began_ns ? now_ns - writing->began_ns : 0,
        .period_ns = session->period_ns,
        .comment = buffer,
    };
    pprof_profile_write(named, writing->stacks, &facts, writing->out, scratch);
}

/* What is owed before the profile is written, which changes it; for the places. Without memory they
 * go without. */
static const int64_t *owed_copy(const struct writing *writing, struct arena *arena)
{
    size_t count = profile_node_count(writing->profile);
    int64_t *copy = NULL;
    if (writing->places != NULL && writing->owed_ns != NULL)
        copy = arena_alloc_array(arena, count, sizeof *copy);
    if (copy != NULL)
        memcpy(copy, writing->owed_ns, count * sizeof *copy);
    return copy;
}

/* A file with no count in it is none: weights can come to less than half a unit. */
static int commit(const struct writing *writing)
{
    const struct session *session = writing->session;
    struct outfile *out = writing->out;
    if (out->bytes == 0 && out->error == 0) {
        outfile_abort(out);
        return -ENODATA;
    }
    if (writing->format == CONFIG_FORMAT_FOLDED)
        facts_attach(out->fd, &(struct facts){
                                  .bytes = out->bytes,
                                  .is_us = session->config.unit == CONFIG_UNIT_US,
                                  .rate_hz = engine_rate_hz(session->period_ns),
                                  .roots = session->config.threads != CONFIG_THREADS_NONE,
                              });
    return outfile_commit(out);
}

int writing_do(struct writing *writing, struct arena *names_arena)
{
    struct session *session = writing->session;
    struct arena_mark mark = arena_mark(names_arena);
    struct arena scratch;
    struct frame_names names;
    writing->out->progress = &session->progress;
    arena_init(&scratch, ARENA_BYTES_MAX);
    frame_names_find(&names, writing->stacks, writing->kernel, names_arena, &scratch,
                     &session->progress);
    writing->kernel_hidden = names.kernel_hidden;
    const struct named_profile named = {
        .profile = writing->profile,
        .names = {frame_name, &names},
        .unit_ns = unit_ns(writing),
        .owed_ns = writing->owed_ns,
    };
    const int64_t *owed_ns = owed_copy(writing, names_arena);
    if (writing->format == CONFIG_FORMAT_PPROF)
        write_pprof(writing, &named, &scratch);
    else
        folded_write(&named, writing->out, &scratch);
    arena_destroy(&scratch);
    int result = commit(writing);
    writing->places_error =
        result == 0 && writing->places != NULL ? write_places(writing, &named, owed_ns) : 0;
    arena_release(names_arena, mark);
    return result;
}
