/*
 * The flame graph's page as scripts/web/build-page makes it: text that the assembler takes in, so
 * that the command needs no file beside it. Empty where the packages that it is made of were not
 * there when the command was built.
 */
#include "views.h"

#include <string.h>

__asm__(".pushsection .rodata\n"
        "page_begin: .incbin \"" SELFSAMPLE_PAGE "\"\n"
        "page_end: .byte 0\n"
        ".popsection\n");

extern const char page_begin[], page_end[];

static const char marker[] = "@PROFILE@"; /* where the profile belongs; it stands there once */

struct page page_find(void)
{
    const char *at = memmem(page_begin, (size_t)(page_end - page_begin), marker, strlen(marker));
    if (at == NULL)
        return (struct page){0};
    const char *rest = at + strlen(marker);
    return (struct page){.head = page_begin,
                         .head_bytes = (size_t)(at - page_begin),
                         .tail = rest,
                         .tail_bytes = (size_t)(page_end - rest)};
}
