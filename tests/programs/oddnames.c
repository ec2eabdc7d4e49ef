/*
 * Threads, and functions, whose names are awkward in a folded file. The functions get theirs by
 * objcopy --redefine-syms after compiling. 150 ms each; the threads are called `semi;colon`,
 * `two words 7`, a name with a newline, one in UTF-8, and one that is empty.
 * Build: -pthread -Wl,-E
 */
#include "burn.h"

#include <pthread.h>

BURNER(odd_semicolon)
BURNER(odd_space)
BURNER(odd_newline)
BURNER(odd_utf8)
BURNER(odd_plain)

static const struct {
    const char *thread;
    void (*function)(long us);
} odd[] = {
    {"semi;colon", odd_semicolon},
    {"two words 7", odd_space},
    {"new\nline", odd_newline},
    {"gr\xc3\xbc\xc3\x9f"
     "e",
     odd_utf8},
    {"", odd_plain},
};

static void *body(void *number)
{
    size_t i = (size_t)number;

    pthread_setname_np(pthread_self(), odd[i].thread);
    odd[i].function(150000);
    return NULL;
}

int main(void)
{
    pthread_t thread;

    for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
        if (pthread_create(&thread, NULL, body, (void *)i))
            return 1;
        pthread_join(thread, NULL);
    }
    return 0;
}
