/*
 * Where a profile's frames are, as a file. Runs in the helper, after the folded file was written.
 * Reads no files and no memory of the app, allocates nothing.
 */
#include "places.h"

#include <errno.h>
#include <string.h>

#include "sys.h"
#include "text.h"

#define LINE_BYTES 160u /* of the numbers of a line; names and paths go straight to the file */

static void put_number(struct text *line, uint64_t number)
{
    text_put_char(line, ' ');
    text_put_u64(line, number);
}

/* A number, or "-" where there is NONE. */
static void put_reference(struct text *line, uint64_t number, bool none)
{
    if (none)
        text_put(line, " -");
    else
        put_number(line, number);
}

static void flush(struct text *line, struct outfile *out)
{
    outfile_put(out, line->start, line->length);
    *line = text_over(line->start, line->size);
}

/* The rest of a line: text up to its end. */
static void put_rest(struct text *line, const char *rest, struct outfile *out)
{
    text_put_char(line, ' ');
    flush(line, out);
    if (rest != NULL)
        outfile_put(out, rest, strlen(rest));
    text_put_char(line, '\n');
    flush(line, out);
}

static void put_header(const struct places *places, struct text *line, struct outfile *out)
{
    text_put(line, PLACES_TITLE "\nfolded");
    put_number(line, places->folded_bytes);
    text_put(line, "\nunit_ns");
    put_number(line, places->unit_ns);
    text_put_char(line, '\n');
    flush(line, out);
}

static void put_build_id(struct text *line, const struct module *module)
{
    text_put_char(line, ' ');
    if (module->has_elf && module->elf.build_id_bytes > 0)
        text_put_hex_bytes(line, module->elf.build_id, module->elf.build_id_bytes);
    else
        text_put_char(line, '-');
}

/* A path that would break its line belongs to no file that could be read back. */
static const char *path_of(const struct module *module)
{
    if (module->kind != MODULE_FILE || !module->has_elf || module->path == NULL ||
        strlen(module->path) >= OUTPATH_BYTES)
        return NULL;
    for (const char *c = module->path; *c != '\0'; c++)
        if (*c == '\n')
            return NULL;
    return module->path;
}

static void put_modules(const struct places *places, struct text *line, struct outfile *out)
{
    for (uint32_t i = 0; i < modules_count(places->modules) && out->error == 0; i++) {
        const struct module *module = modules_at(places->modules, i);
        text_put(line, "module");
        put_number(line, module->inode);
        put_build_id(line, module);
        put_rest(line, path_of(module), out);
    }
}

static void put_frames(const struct places *places, struct text *line, struct outfile *out)
{
    const struct profile *profile = places->profile;
    for (uint32_t i = 0; i < profile_frame_count(profile) && out->error == 0; i++) {
        const struct profile_frame *frame = profile_frame_at(profile, i);
        text_put(line, "frame");
        put_reference(line, frame->module, frame->module >= modules_count(places->modules));
        text_put_char(line, ' ');
        text_put_hex(line, frame->address);
        put_rest(line, places->names.frame_name(places->names.context, i), out);
    }
}

static void put_nodes(const struct places *places, struct text *line, struct outfile *out)
{
    const struct profile *profile = places->profile;
    for (uint32_t i = 0; i < profile_node_count(profile) && out->error == 0; i++) {
        const struct profile_node *node = profile_node_at(profile, i);
        text_put(line, "node");
        put_reference(line, node->parent, node->parent == PROFILE_NONE);
        put_number(line, node->frame);
        put_number(line, node->weight_ns);
        if (places->owed_ns != NULL && places->owed_ns[i] != 0) {
            text_put_char(line, ' ');
            text_put_i64(line, places->owed_ns[i]);
        }
        text_put_char(line, '\n');
        flush(line, out);
    }
}

int places_write(const struct places *places, struct outfile *out)
{
    char buffer[LINE_BYTES];
    struct text line = text_over(buffer, sizeof buffer);
    put_header(places, &line, out);
    put_modules(places, &line, out);
    put_frames(places, &line, out);
    put_nodes(places, &line, out);
    text_put(&line, "end\n");
    flush(&line, out);
    return out->error;
}

static bool name_is_taken(const struct outfile *out)
{
    struct stat status;
    return sys4(SYS_newfstatat, out->directory_fd, out->path, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

int places_begin(struct outfile *out, const struct outfile *folded)
{
    char path[OUTPATH_BYTES];
    struct text name = text_over(path, sizeof path);
    text_put(&name, folded->name);
    text_put(&name, PLACES_SUFFIX);
    if (name.cut)
        return -ENAMETOOLONG;
    if (!text_equal(out->path, path)) {
        places_close(out);
        outfile_init(out, folded->directory_fd, path);
    }
    if (out->committed_fd < 0 && name_is_taken(out))
        return -EEXIST;
    return outfile_begin(out);
}

void places_withdraw(struct outfile *out)
{
    if (out->path[0] != '\0')
        outfile_withdraw(out);
}

void places_close(struct outfile *out)
{
    if (out->path[0] != '\0')
        outfile_close(out);
}
