/*
 * The hooks on thread creation: a new thread opens its own event before it runs the app's function.
 *
 * Runs in the app's threads. Allocates nothing, holds no lock across the real call, leaves errno,
 * the signal mask and the descriptors as they are.
 */
#include "hooks.h"
#include "hooks_signals.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <threads.h>

typedef int pthread_create_function(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
typedef int thrd_create_function(thrd_t *, thrd_start_t, void *);

static struct {
    pthread_create_function *pthread_create;
    thrd_create_function *thrd_create;
} real;

/*
 * A value of ours in a thread makes libc call us at its end, whether it returns, calls pthread_exit
 * or is cancelled. Destructors of the app's own values may run for long, so we ask to be called
 * again until libc's last round.
 */
static pthread_key_t end_key;
static bool has_end_key;

/* Values of higher keys are kept in memory that libc allocates. */
#define KEYS_WITHOUT_MALLOC 32u

static void at_thread_end(void *round)
{
    uintptr_t next = (uintptr_t)round + 1;
    if (next <= PTHREAD_DESTRUCTOR_ITERATIONS)
        pthread_setspecific(end_key, (void *)next);
    else
        session_tell_end(&session);
}

void hooks_prepare(void)
{
    if (has_end_key)
        return;
    has_end_key = pthread_key_create(&end_key, at_thread_end) == 0;
    if (has_end_key && end_key >= KEYS_WITHOUT_MALLOC) {
        pthread_key_delete(end_key);
        has_end_key = false;
    }
}

/* Gives the slot to the helper, with this thread's event, and returns what the thread is to run. */
static void begin(struct mailbox_slot *slot, void **routine, void **argument)
{
    *routine = slot->routine;
    *argument = slot->argument;
    if (has_end_key)
        pthread_setspecific(end_key, (void *)1);
    hooks_signals_begin(slot->blocks_signal);
    session_open_birth(&session, slot);
}

/* Both end in a tail call, so that no frame of ours stands on the app's stack. */
static void *pthread_begin(void *slot)
{
    void *routine, *argument;
    begin(slot, &routine, &argument);
    return ((void *(*)(void *))routine)(argument);
}

static int thrd_begin(void *slot)
{
    void *routine, *argument;
    begin(slot, &routine, &argument);
    return ((int (*)(void *))routine)(argument);
}

static struct mailbox_slot *slot_for(void *routine, void *argument)
{
    struct mailbox_slot *slot =
        session_is_mine(&session) ? mailbox_reserve_birth(&session.mailbox) : NULL;
    if (slot != NULL) {
        slot->routine = routine;
        slot->argument = argument;
        slot->blocks_signal = hooks_signals_blocked();
    }
    return slot;
}

HOOK_EXPORT int pthread_create(pthread_t *restrict thread,
                               const pthread_attr_t *restrict attributes, void *(*routine)(void *),
                               void *restrict argument)
{
    pthread_create_function *create = HOOK_REAL(real.pthread_create, "pthread_create");
    if (create == NULL)
        return EAGAIN;
    struct mailbox_slot *slot = slot_for((void *)routine, argument);
    if (slot == NULL)
        return create(thread, attributes, routine, argument);
    int result = create(thread, attributes, pthread_begin, slot);
    if (result != 0)
        mailbox_cancel(slot);
    return result;
}

HOOK_EXPORT int thrd_create(thrd_t *thread, thrd_start_t routine, void *argument)
{
    thrd_create_function *create = HOOK_REAL(real.thrd_create, "thrd_create");
    if (create == NULL)
        return thrd_error;
    struct mailbox_slot *slot = slot_for((void *)routine, argument);
    if (slot == NULL)
        return create(thread, routine, argument);
    int result = create(thread, thrd_begin, slot);
    if (result != thrd_success)
        mailbox_cancel(slot);
    return result;
}
