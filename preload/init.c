/*
 * Where the library comes to life, is forked, and ends. Runs in the app's threads.
 *
 * The constructor runs before main and after most libraries' constructors. The end is not our
 * destructor, after which other libraries' destructors still run, but an exit handler registered
 * before main: those run last, after all destructors.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "../core/message.h"
#include "hooks.h"
#include "hooks_signals.h"
#include "init.h"
#include "linked.h"
#include "next_function.h"

#ifndef AT_MINSIGSTKSZ /* older headers of Linux */
#define AT_MINSIGSTKSZ 51
#endif

struct session session;
enum library_state library_state;

/* glibc's own registration, for a handler that belongs to no library: it is not run when one is
 * unloaded. musl has but the first, and its public ones never take a handler down. */
int __cxa_atexit(void (*function)(void *), void *argument, void *library);
__attribute__((weak)) int __cxa_at_quick_exit(void (*function)(void *), void *library);
__attribute__((weak)) int __register_atfork(void (*prepare)(void), void (*parent)(void),
                                            void (*child)(void), void *library);

static void at_exit(void *unused)
{
    (void)unused;
    if (!session_is_mine(&session)) /* a copied lock could be somebody's who is not here */
        return;
    /* Another thread may be just starting or stopping it. */
    int locked = api_lock();
    session_end(&session);
    if (locked == 0)
        api_unlock();
}

/* Of the thread that forks, and of its copy in the child. A signal handler may fork while its
 * thread is at that already. */
#define FORKS_NESTED 4u
static __thread __attribute__((tls_model("initial-exec"))) struct {
    struct quiet_fork list[FORKS_NESTED];
    uint32_t count;
} forks;

static void before_fork(void)
{
    uint32_t index = __atomic_fetch_add(&forks.count, 1, __ATOMIC_RELAXED);
    if (index < FORKS_NESTED)
        forks.list[index] = session_quiet(&session);
}

/* The innermost, as it was taken; of deeper ones than fit nothing is known. */
static struct quiet_fork fork_end(void)
{
    uint32_t index = __atomic_sub_fetch(&forks.count, 1, __ATOMIC_RELAXED);
    return index < FORKS_NESTED ? forks.list[index] : (struct quiet_fork){.waited_enough = true};
}

static void after_fork_in_parent(void)
{
    session_resume(&session, fork_end());
}

/* The program may have been executed with all signals blocked, and the timers' among them. */
static int start(void)
{
    int result = session_start(&session, environ);
    hooks_signals_begin(false);
    return result;
}

static void after_fork_in_child(void)
{
    bool profiled = session.app_pid != 0;
    api_forked();
    session_abandon(&session, fork_end());
    if (profiled && session.config.children && !session.hushed)
        start();
}

static void libunwind_load(void)
{
    static bool loaded;
    if (loaded)
        return;
    loaded = true;
    void *library = dlopen(unwind_library_file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return;
    for (unsigned i = 0; i < UNWIND_SYMBOLS; i++)
        session.library.symbols[i] = dlsym(library, unwind_symbol_names[i]);
    unwind_library_prepare(&session.library);
}

/* With children left out, programs that the app runs shall not even load the library: takes it out
 * of LD_PRELOAD, in place. */
static void preload_withdraw(void)
{
    Dl_info info;
    char *list = getenv("LD_PRELOAD");
    if (list == NULL || dladdr((void *)preload_withdraw, &info) == 0)
        return;
    char *to = list;
    for (char *from = list; *from != '\0';) {
        size_t length = strcspn(from, ": ");
        bool ours = length >= sizeof "libselfsample.so" - 1 &&
                    memcmp(from + length - (sizeof "libselfsample.so" - 1), "libselfsample.so",
                           sizeof "libselfsample.so" - 1) == 0;
        if (!ours) {
            if (to != list)
                *to++ = ':';
            memmove(to, from, length);
            to += length;
        }
        from += length;
        from += strspn(from, ": ");
    }
    *to = '\0';
}

/*
 * valgrind runs the program on a processor of its own making. It knows threads, but no task that
 * shares memory without being one, and ends the program at such a clone; perf events show its own
 * code, while the signals of timers interrupt the program's; and what libunwind allocates would
 * stand in its reports. Its preloads give it away, and its tool. False, after one line, where there
 * can be no profile.
 */
static bool valgrind_consider(void)
{
    const char *list = getenv("LD_PRELOAD"), *why = NULL;
    if (list == NULL || strstr(list, "/vgpreload_") == NULL)
        return true;
    if (strstr(list, "/vgpreload_helgrind") != NULL || strstr(list, "/vgpreload_drd") != NULL)
        why = "selfsample: under a checker of races, which would report ours, nothing is sampled; "
              "the program runs without a profile";
    else if (session.config.engine == CONFIG_ENGINE_PERF)
        why = "selfsample: SELFSAMPLE_ENGINE=perf: under valgrind timers alone see the program, "
              "which runs without a profile";
    if (why != NULL && session.config.enabled)
        message_write(2, why);
    session.helper_wanted = HELPER_THREAD;
    session.config.engine = CONFIG_ENGINE_TIMER;
    return why == NULL;
}

int library_start_session(void)
{
    if (session.config.libunwind && session.helper_wanted == HELPER_APART)
        libunwind_load();
    hooks_prepare();
    session.timers.handler = hooks_timer_signal;
    session.timers.stack_bytes = session.config.stack_bytes;
    session.timers.small_stacks.frame_bytes = getauxval(AT_MINSIGSTKSZ);
    return start();
}

static void at_quick_exit_of_musl(void)
{
    at_exit(NULL);
}

/* Of no library, as above: a fork may be under way when ours is taken down. */
static void handlers_register(void)
{
    typedef int at_quick_exit_function(void (*)(void));
    typedef int atfork_function(void (*)(void), void (*)(void), void (*)(void));
    at_quick_exit_function *at_quick = NULL;
    atfork_function *atfork = NULL;
    __cxa_atexit(at_exit, NULL, NULL);
    if (__cxa_at_quick_exit != NULL)
        __cxa_at_quick_exit(at_exit, NULL);
    else if ((at_quick = (at_quick_exit_function *)next_function("at_quick_exit")) != NULL)
        at_quick(at_quick_exit_of_musl);
    if (__register_atfork != NULL)
        __register_atfork(before_fork, after_fork_in_parent, after_fork_in_child, NULL);
    else if ((atfork = (atfork_function *)next_function("pthread_atfork")) != NULL)
        atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

__attribute__((constructor)) static void begin(void)
{
    int error = errno;
    library_state = LIBRARY_STAYS_OUT;
    /* A set-user-id program and the like: nothing of ours. */
    if (getauxval(AT_SECURE) != 0)
        return;
    const char *program = (const char *)getauxval(AT_EXECFN);
    bool is_profiled = session_configure(&session, program != NULL ? program : "program", environ);
    session_await_former(&session);
    if (!is_profiled || !valgrind_consider())
        return;
    if (!session.config.children)
        preload_withdraw();
    session.our_address = (uint64_t)(uintptr_t)begin;
    linked_note(&session.linked);
    session.linker_list = (uint64_t)(uintptr_t)linked_list();
    library_state = LIBRARY_READY;
    if (session.config.enabled)
        library_start_session();
    handlers_register();
    errno = error;
}
