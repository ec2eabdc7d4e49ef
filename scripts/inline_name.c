/*
 * Names of inlined functions, as debug information has them: the linkage name, demangled as symbols
 * are; without one, the name behind those of the namespaces and classes around it.
 */
#include <elfutils/libdw.h>
#include <dwarf.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "demangle.h"
#include "folded.h"
#include "inline.h"

enum { REFERENCES_MAX = 16, SCOPES_MAX = 16, NAME_BYTES = 4096 };

/* What is known already. */
struct known {
    const void *entry; /* where the function's own entry lies in memory */
    const char *name;
};

static struct arena names;
static void *known_names; /* tsearch's */

static int known_compare(const void *left, const void *right)
{
    const struct known *a = left, *b = right;
    return a->entry < b->entry ? -1 : a->entry > b->entry;
}

/* The entry that an instance, or a definition outside of its class, stands for. */
static Dwarf_Die origin_of(const Dwarf_Die *instance)
{
    static const unsigned references[] = {DW_AT_abstract_origin, DW_AT_specification};
    Dwarf_Die die = *instance, next;
    for (int i = 0; i < REFERENCES_MAX; i++) {
        Dwarf_Attribute attribute;
        bool found = false;
        for (size_t j = 0; j < 2 && !found; j++)
            found = dwarf_attr(&die, references[j], &attribute) != NULL &&
                    dwarf_formref_die(&attribute, &next) != NULL;
        if (!found)
            break;
        die = next;
    }
    return die;
}

static const char *linkage_name(Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) == NULL &&
        dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute) == NULL)
        return NULL;
    return dwarf_formstring(&attribute);
}

static bool is_scope(int tag)
{
    return tag == DW_TAG_namespace || tag == DW_TAG_class_type || tag == DW_TAG_structure_type ||
           tag == DW_TAG_union_type || tag == DW_TAG_subprogram;
}

/* "outer::inner::name", from what is around the entry that is not only an instance. */
static void scoped_put(struct text *text, const Dwarf_Die *die, int depth)
{
    Dwarf_Die origin = origin_of(die), *scopes = NULL;
    int count = depth < SCOPES_MAX ? dwarf_getscopes_die(&origin, &scopes) : 0;
    for (int i = 1; i < count; i++) {
        if (is_scope(dwarf_tag(&scopes[i]))) {
            scoped_put(text, &scopes[i], depth + 1);
            text_put(text, "::");
            break;
        }
    }
    free(scopes);
    const char *name = dwarf_diename(&origin);
    bool is_namespace = dwarf_tag(&origin) == DW_TAG_namespace;
    text_put(text, name != NULL ? name : is_namespace ? "(anonymous namespace)" : "{unnamed}");
}

static const char *scoped_name(const Dwarf_Die *die)
{
    char buffer[NAME_BYTES], clean_buffer[NAME_BYTES];
    struct text text = text_over(buffer, sizeof buffer);
    struct text clean = text_over(clean_buffer, sizeof clean_buffer);
    scoped_put(&text, die, 0);
    folded_clean_name(&clean, buffer);
    return arena_copy_text(&names, clean_buffer, clean.length);
}

static const char *name_make(Dwarf_Die *die)
{
    struct arena scratch;
    const char *name = linkage_name(die);
    if (name != NULL) {
        arena_init(&scratch, 0);
        name = demangle(name, &names, &scratch);
        arena_destroy(&scratch);
    } else {
        name = scoped_name(die);
    }
    return name != NULL ? name : "[unknown]";
}

const char *inlined_name(void *instance)
{
    Dwarf_Die *die = instance;
    struct known wanted = {.entry = origin_of(die).addr};
    struct known **found = tfind(&wanted, &known_names, known_compare);
    if (found != NULL)
        return (*found)->name;
    struct known *known = malloc(sizeof *known);
    const char *name = name_make(die);
    if (known != NULL) {
        *known = (struct known){wanted.entry, name};
        if (tsearch(known, &known_names, known_compare) == NULL)
            free(known);
    }
    return name;
}
