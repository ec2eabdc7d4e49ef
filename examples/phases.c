/*
 * A program that says what it is doing: it profiles itself from the end of its start-up on, labels
 * its phases, and keeps the profile of the first half apart. It runs just as well without
 * selfsample.
 *
 *     cc -O1 -g -I../include -o phases phases.c
 *     SELFSAMPLE_ENABLED=no selfsample ./phases
 */
#include <errno.h>
#include <selfsample.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 400000

static char *words[WORDS];

static void words_make(void)
{
    unsigned random = 1;
    for (int i = 0; i < WORDS; i++) {
        char word[16];
        random = random * 1103515245u + 12345u;
        snprintf(word, sizeof word, "%u", random >> 8);
        words[i] = strdup(word);
    }
}

static int word_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void words_sort(void)
{
    qsort(words, WORDS, sizeof words[0], word_compare);
}

static unsigned words_count_different(void)
{
    unsigned count = 1;
    for (int i = 1; i < WORDS; i++)
        count += strcmp(words[i - 1], words[i]) != 0;
    return count;
}

int main(void)
{
    words_make(); /* not in the profile where SELFSAMPLE_ENABLED=no */
    int started = selfsample_start();
    if (started != 0 && started != -ENOSYS && started != -EALREADY)
        fprintf(stderr, "phases: selfsample_start: %s\n", strerror(-started));

    selfsample_label("first sort");
    words_sort();
    selfsample_snapshot("first-sort.folded");

    selfsample_label("count");
    unsigned count = words_count_different();

    selfsample_label("sort what is sorted");
    words_sort();

    selfsample_label(NULL);
    printf("%u different words\n", count);
    return 0;
}
