/* Text of the views that fits a terminal, and says nothing to it but text. */
#include "views.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "utf8.h"

enum { WIDTH_DEFAULT = 80, WIDTH_MIN = 40, WIDTH_MAX = 10000 };
enum { KIND_CHARACTERS = 4 }; /* _[k] */

size_t table_width(void)
{
    struct winsize size = {0};
    const char *columns = getenv("COLUMNS");
    long width = columns != NULL ? strtol(columns, NULL, 10) : 0;
    if (width <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        width = size.ws_col;
    if (width <= 0 || width > WIDTH_MAX)
        width = WIDTH_DEFAULT;
    return width < WIDTH_MIN ? WIDTH_MIN : (size_t)width;
}

/* Bytes of the UTF-8 character at TEXT; 0 where it is none, or one that steers a terminal. */
static size_t character_bytes(const unsigned char *text)
{
    bool steers = text[0] < ' ' || text[0] == 0x7f || (text[0] == 0xc2 && text[1] < 0xa0);
    return steers ? 0 : utf8_bytes(text);
}

/* Prints characters FROM to UNTIL of NAME, or none where OUT is NULL. Returns how many NAME has. */
static size_t characters_print(FILE *out, const char *name, size_t from, size_t until)
{
    const unsigned char *c = (const unsigned char *)name;
    size_t number = 0;
    for (; *c != 0; number++) {
        size_t bytes = character_bytes(c);
        if (out != NULL && number >= from && number < until)
            fwrite(bytes ? (const char *)c : "?", 1, bytes ? bytes : 1, out);
        c += bytes ? bytes : 1;
    }
    return number;
}

void table_name(FILE *out, const char *name, size_t room, const struct view_options *options)
{
    static const char gap[] = "...";
    size_t length = characters_print(NULL, name, 0, 0);
    if (options->wide || length <= room) {
        characters_print(out, name, 0, length);
    } else {
        size_t kept = room - (sizeof gap - 1);
        size_t tail = kept / 2 > KIND_CHARACTERS ? kept / 2 : KIND_CHARACTERS, head = kept - tail;
        characters_print(out, name, 0, head);
        fputs(gap, out);
        characters_print(out, name, length - tail, length);
    }
    fputc('\n', out);
}

size_t table_digits(uint64_t number)
{
    size_t digits = 1;
    while (number >= 10) {
        number /= 10;
        digits++;
    }
    return digits;
}
