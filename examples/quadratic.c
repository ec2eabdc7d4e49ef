/*
 * A report put together line by line, and why it gets slow: strcat looks for the end of the text
 * each time, so twice the lines take four times as long. The profile is one wide plateau under
 * line_append, and it is not the formatting.
 *
 *     cc -O1 -g -o quadratic quadratic.c && ./quadratic [lines]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 96

struct report {
    char *text;
    size_t room;
    unsigned lines;
};

__attribute__((noinline)) static void line_format(char *line, unsigned number)
{
    double price = 3.5 + number % 97 / 10.0;
    int length = snprintf(line, LINE_BYTES, "%6u  item-%08x  %10.2f  %12.4f\n", number,
                          number * 2654435761u, price, price * (number % 13));
    if (length >= LINE_BYTES)
        abort();
}

__attribute__((noinline)) static void line_append(struct report *report, const char *line)
{
    /* The mistake: how long the text is was known a line ago. */
    strcat(report->text, line);
    report->lines++;
}

__attribute__((noinline)) static unsigned long text_checksum(const char *text)
{
    unsigned long sum = 0;
    for (; *text != '\0'; text++)
        sum = sum * 31 + (unsigned char)*text;
    return sum;
}

int main(int argc, char **argv)
{
    unsigned lines = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 40000;
    struct report report = {.room = (size_t)lines * LINE_BYTES + 1};
    report.text = calloc(1, report.room);
    if (report.text == NULL)
        return 1;
    for (unsigned i = 0; i < lines; i++) {
        char line[LINE_BYTES];
        line_format(line, i);
        line_append(&report, line);
    }
    printf("%u lines, checksum %lx\n", report.lines, text_checksum(report.text));
    free(report.text);
    return 0;
}
