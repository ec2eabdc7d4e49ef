/*
 * One profile: each frame becomes the function it is in and those inlined at its place, and the
 * folded file is written by the same code that wrote it first. It is replaced by a rename at the
 * very end, so whatever goes wrong before leaves it as it was.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "facts.h"
#include "folded.h"
#include "inline.h"
#include "outfile.h"
#include "places.h"
#include "profile.h"

#define INLINED_MARK "_[i]"

/* What a frame became: frames FIRST to FIRST + COUNT - 1 of the new profile, outermost first. */
struct spread {
    uint32_t first, count;
};

struct expanding {
    struct place_list places;
    struct profile profile; /* the new one; the address of a frame is an index of `names` */
    struct sequence names;  /* of const char * */
    int64_t *owed_ns;       /* by node of the new profile */
    struct spread *spreads; /* by old frame */
    struct arena arena;
};

static bool frame_add(struct expanding *work, const char *name)
{
    const char **kept = sequence_append(&work->names);
    if (kept == NULL)
        return false;
    *kept = name;
    return profile_frame(&work->profile, 0, work->names.count - 1) == work->names.count - 1;
}

static const char *marked(const char *name, struct arena *arena)
{
    size_t length = strlen(name);
    char *text = arena_alloc(arena, length + sizeof INLINED_MARK);
    if (text != NULL) {
        memcpy(text, name, length);
        memcpy(text + length, INLINED_MARK, sizeof INLINED_MARK);
    }
    return text;
}

static bool frame_spread(struct expanding *work, uint32_t index, struct debug_module *debug)
{
    const struct place_frame *frame = sequence_at(&work->places.frames, index);
    const char *inlined[INLINED_MAX];
    size_t count = debug ? debug_inlined(debug, frame->address, inlined) : 0;
    work->spreads[index] = (struct spread){work->names.count, (uint32_t)count + 1};
    if (!frame_add(work, frame->name))
        return false;
    for (size_t i = 0; i < count; i++) {
        const char *name = marked(inlined[i], &work->arena);
        if (name == NULL || !frame_add(work, name))
            return false;
    }
    return true;
}

/* The debug information of each module that has frames. */
static struct debug_module **modules_open(struct expanding *work, struct expansion *expansion)
{
    const struct place_list *places = &work->places;
    struct debug_module **debugs =
        arena_alloc_array(&work->arena, places->modules.count, sizeof(struct debug_module *));
    bool *seen = arena_alloc_array(&work->arena, places->modules.count, sizeof *seen);
    if (debugs == NULL || seen == NULL)
        return NULL;
    for (uint32_t i = 0; i < places->frames.count; i++) {
        const struct place_frame *frame = sequence_at(&places->frames, i);
        if (frame->module == NOWHERE || seen[frame->module])
            continue;
        seen[frame->module] = true;
        const struct place_module *module = sequence_at(&places->modules, frame->module);
        if (module->path[0] == 0)
            continue;
        debugs[frame->module] = debug_module_get(module);
        expansion->modules++;
        expansion->modules_with_debug += debugs[frame->module] != NULL;
    }
    return debugs;
}

static bool frames_spread(struct expanding *work, struct expansion *expansion)
{
    const struct place_list *places = &work->places;
    struct debug_module **debugs = modules_open(work, expansion);
    work->spreads = arena_alloc_array(&work->arena, places->frames.count, sizeof *work->spreads);
    if (debugs == NULL || work->spreads == NULL)
        return false;
    for (uint32_t i = 0; i < places->frames.count; i++) {
        const struct place_frame *frame = sequence_at(&places->frames, i);
        if (!frame_spread(work, i, frame->module == NOWHERE ? NULL : debugs[frame->module]))
            return false;
    }
    return true;
}

static bool nodes_spread(struct expanding *work)
{
    const struct sequence *nodes = &work->places.nodes;
    uint32_t *leaves = arena_alloc_array(&work->arena, nodes->count, sizeof *leaves);
    if (leaves == NULL)
        return false;
    for (uint32_t i = 0; i < nodes->count; i++) {
        const struct place_node *node = sequence_at(nodes, i);
        struct spread spread = work->spreads[node->frame];
        uint32_t at = node->parent == NOWHERE ? PROFILE_NONE : leaves[node->parent];
        for (uint32_t j = 0; j < spread.count; j++) {
            at = profile_child(&work->profile, at, spread.first + j);
            if (at == PROFILE_NONE)
                return false;
        }
        leaves[i] = at;
        profile_charge(&work->profile, at, 0, node->weight_ns);
    }
    work->owed_ns =
        arena_alloc_array(&work->arena, profile_node_count(&work->profile), sizeof *work->owed_ns);
    for (uint32_t i = 0; i < nodes->count && work->owed_ns != NULL; i++)
        work->owed_ns[leaves[i]] += ((struct place_node *)sequence_at(nodes, i))->owed_ns;
    return work->owed_ns != NULL;
}

static const char *new_name(void *context, uint32_t frame)
{
    const struct expanding *work = context;
    return *(const char **)sequence_at(&work->names, frame);
}

/* What the file said of itself beside its text (core/facts.h) holds for the new one. */
static void facts_carry(int from, uint64_t from_bytes, const struct outfile *to)
{
    char old[FACTS_BYTES + 1], text[2 * FACTS_BYTES];
    int start = 0;
    unsigned long long bytes = 0;
    ssize_t length = fgetxattr(from, FACTS_NAME, old, FACTS_BYTES);
    if (length < 0)
        return;
    old[length] = 0;
    if (sscanf(old, "bytes %llu\n%n", &bytes, &start) != 1 || start == 0 || bytes != from_bytes)
        return;
    length =
        snprintf(text, sizeof text, "bytes %llu\n%s", (unsigned long long)to->bytes, old + start);
    fsetxattr(to->fd, FACTS_NAME, text, (size_t)length, 0);
}

/* Writes the new file in place of the one that is open as FD. 0 or -errno. */
static int folded_replace(struct expanding *work, const char *path, int fd,
                          const struct stat *status)
{
    static struct outfile out;
    struct arena scratch;
    int error = outfile_init(&out, AT_FDCWD, path);
    if (error != 0)
        return error;
    /* The file counts as committed before, so that it may be replaced. */
    memcpy(out.name, out.path, sizeof out.name);
    if ((out.committed_fd = dup(fd)) < 0)
        return -errno;
    error = outfile_begin(&out);
    if (error == 0) {
        fchmod(out.fd, status->st_mode & 0777);
        arena_init(&scratch, 0);
        const struct named_profile named = {.profile = &work->profile,
                                            .names = {new_name, work},
                                            .unit_ns = work->places.unit_ns,
                                            .owed_ns = work->owed_ns};
        folded_write(&named, &out, &scratch);
        facts_carry(fd, (uint64_t)status->st_size, &out);
        arena_destroy(&scratch);
        error = outfile_commit(&out);
    }
    outfile_close(&out);
    return error;
}

/* Opens a file of ours, neither through a link nor of another user, who might want us to read
 * something in his place. -1 after a line. */
static int file_open(const char *path, int flags, struct stat *status, const char *absence)
{
    int fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, status) != 0) {
        tell("%s: %s%s", path, strerror(errno), errno == ENOENT ? absence : "");
    } else if (!S_ISREG(status->st_mode)) {
        tell("%s: not a file", path);
    } else if (status->st_uid != geteuid()) {
        tell("%s: belongs to another user, who must do this", path);
    } else {
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool places_load(struct expanding *work, const char *path, const struct stat *folded)
{
    struct stat status;
    int fd = file_open(path, O_RDONLY, &status,
                       ": the profile is done already, or was made without SELFSAMPLE_INLINE=yes");
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    if (file == NULL)
        return false;
    const char *wrong = places_read(&work->places, file, &work->arena);
    fclose(file);
    if (wrong == NULL && work->places.folded_bytes != (uint64_t)folded->st_size)
        wrong = "not of this profile, or that one was changed since";
    if (wrong != NULL)
        tell("%s: %s; inlined functions are not shown", path, wrong);
    return wrong == NULL;
}

static bool expand_open(struct expanding *work, const char *path, int fd, const struct stat *status,
                        struct expansion *expansion)
{
    char *places = NULL;
    if (asprintf(&places, "%s%s", path, PLACES_SUFFIX) < 0)
        return false;
    bool done = false;
    if (places_load(work, places, status)) {
        int error = -ENOMEM;
        if (frames_spread(work, expansion) && nodes_spread(work))
            error = folded_replace(work, path, fd, status);
        done = error == 0;
        if (done)
            unlink(places);
        else
            tell("%s: inlined functions are not shown: %s", path, strerror(-error));
    }
    free(places);
    return done;
}

bool profile_expand(const char *path, struct expansion *expansion)
{
    static struct expanding work;
    struct stat status;
    int fd = file_open(path, O_RDWR, &status, "");
    if (fd < 0)
        return false;
    work = (struct expanding){0};
    arena_init(&work.arena, 0);
    profile_init(&work.profile, &work.arena);
    sequence_init(&work.names, &work.arena, sizeof(const char *));
    bool done = expand_open(&work, path, fd, &status, expansion);
    arena_destroy(&work.arena);
    close(fd);
    return done;
}
