/*
 * Three functions of 400 ms each, one after the other, each once the file `go.N` is there; leaves a
 * file `done.N` behind each. Meanwhile it counts every signal that can be caught.
 */
#include "burn.h"

#include <fcntl.h>
#include <signal.h>

BURNER(first)
BURNER(second)
BURNER(third)

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
    (void)number;
    signals++;
}

static void wait_for(int number)
{
    char name[32];
    snprintf(name, sizeof name, "go.%d", number);
    for (int i = 0; i < 4000 && access(name, F_OK) != 0; i++)
        usleep(5000);
}

static void tell_done(int number)
{
    char name[32];
    snprintf(name, sizeof name, "done.%d", number);
    close(open(name, O_WRONLY | O_CREAT, 0600));
}

int main(void)
{
    static void (*const burners[])(long) = {first, second, third};
    for (int number = 1; number < NSIG; number++)
        if (number != SIGSEGV && number != SIGTERM)
            signal(number, on_signal);
    for (int i = 0; i < 3; i++) {
        wait_for(i + 1);
        burners[i](400000);
        tell_done(i + 1);
    }
    printf("signals: %d\n", (int)signals);
    return 0;
}
