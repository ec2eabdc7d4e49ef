/*
 * The hooks on signal masks, actions and waits. Runs in the app's threads; allocates nothing, takes
 * no lock, leaves errno to the real functions.
 *
 * Not hooked, since nothing has to be: calls that set a mask only while they wait (sigsuspend,
 * ppoll, pselect, epoll_pwait). Masks that handlers have while they run are the app's own, with our
 * signal for those on an alternate stack: a handler with such a mask is sampled when it returns.
 */
#include "hooks_signals.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#include "../core/sys.h"
#include "hooks.h"

#define KERNEL_SET_BYTES sizeof(uint64_t)
#define NS_PER_S         1000000000u

/* A thread's mask, as far as it is not what the kernel has. */
struct view {
    int signal;   /* ours when this was last looked at; 0: never */
    bool blocked; /* the app thinks that it is */
};

/* The calling thread's, and that of its child by vfork, which has this memory but a mask of its
 * own. */
static __thread __attribute__((tls_model("initial-exec"))) struct {
    struct view own, child;
    pid_t child_pid;
} views;

static struct {
    int (*pthread_sigmask)(int, const sigset_t *, sigset_t *);
    int (*sigprocmask)(int, const sigset_t *, sigset_t *);
    int (*sigaction)(int, const struct sigaction *, struct sigaction *);
    int (*sigpending)(sigset_t *);
    int (*sigwait)(const sigset_t *, int *);
    int (*sigtimedwait)(const sigset_t *, siginfo_t *, const struct timespec *);
} real;

typedef __typeof__(real.sigprocmask) mask_function;

#define REAL(name) HOOK_REAL(real.name, #name)

static int our_signal(void)
{
    return __atomic_load_n(&session.timers.signal, __ATOMIC_ACQUIRE);
}

/* Of a child that has the app's memory, and signals of its own; 0: this is no such child. */
static pid_t child_pid(void)
{
    pid_t pid = session_is_hushed(&session) ? 0 : (pid_t)sys0(SYS_getpid);
    return pid != session.process_pid ? pid : 0;
}

static struct view *view_here(void)
{
    pid_t pid = child_pid();
    if (pid == 0)
        return &views.own;
    if (views.child_pid != pid)
        views.child = views.own;
    views.child_pid = pid;
    return &views.child;
}

static uint64_t mask_change(int how, uint64_t mask)
{
    uint64_t before = 0;
    sys4(SYS_rt_sigprocmask, how, &mask, &before, sizeof before);
    return before;
}

/* The view, once our signal is SIGNAL. The one that it was before is the app's again, and as the
 * app thinks. */
static struct view *catch_up(int signal)
{
    struct view *view = view_here();
    if (view->signal == signal)
        return view;
    if (view->signal != 0 && view->blocked)
        mask_change(SIG_BLOCK, kernel_signal_bit(view->signal));
    view->signal = signal;
    view->blocked = signal != 0 && (mask_change(SIG_UNBLOCK, kernel_signal_bit(signal)) &
                                    kernel_signal_bit(signal)) != 0;
    return view;
}

bool hooks_signals_blocked(void)
{
    int signal = our_signal();
    return (signal != 0 || views.own.signal != 0) && catch_up(signal)->blocked;
}

void hooks_signals_begin(bool blocked)
{
    struct view *view = catch_up(our_signal());
    view->blocked |= blocked && view->signal != 0;
}

bool hooks_signals_make_true(void)
{
    bool hides = hooks_signals_blocked();
    if (hides)
        mask_change(SIG_BLOCK, kernel_signal_bit(view_here()->signal));
    return hides;
}

void hooks_signals_undo(void)
{
    mask_change(SIG_UNBLOCK, kernel_signal_bit(view_here()->signal));
}

/*
 * As without us: what the app has not blocked ends the process, what it has blocked waits. Then it
 * is sent again, to whom it was sent before: the thread, or whoever in the process takes it.
 * Whoever is sent a signal uses it, so ours is another from here on; but the handler stays, for
 * threads in which this one is not blocked yet.
 */
void hooks_signals_foreign(int signal, void *info, void *context)
{
    const siginfo_t *sent = info;
    uint64_t *mask = (uint64_t *)&((ucontext_t *)context)->uc_sigmask;
    pid_t pid = (pid_t)sys0(SYS_getpid);
    struct view *view = view_here();
    if (view->signal == signal && view->blocked) {
        if (signal == our_signal() && pid == session.app_pid)
            timers_change_signal(&session.timers, signal);
        int now = our_signal();
        uint64_t bit = now != 0 ? kernel_signal_bit(now) : 0;
        view->signal = now;
        view->blocked = now == signal || (*mask & bit) != 0;
        *mask = (*mask & ~bit) | kernel_signal_bit(signal);
    } else {
        kernel_sigaction_set(signal, KERNEL_SIGNAL_DEFAULT, 0, 0);
    }
    if (sent->si_code == SI_TKILL)
        sys4(SYS_rt_tgsigqueueinfo, pid, sys0(SYS_gettid), signal, info);
    else
        sys3(SYS_rt_sigqueueinfo, pid, signal, info);
}

/* What the app thinks of our signal, which WAS blocked or not, after HOW with a set that HAD it or
 * not. */
static bool blocked_after(bool was, int how, bool had)
{
    if (how == SIG_BLOCK)
        return was || had;
    return how == SIG_UNBLOCK ? was && !had : had;
}

static int mask_hook(mask_function function, int how, const sigset_t *set, sigset_t *old)
{
    int signal = our_signal();
    if (signal == 0 && views.own.signal == 0)
        return function(how, set, old);
    struct view *view = catch_up(signal);
    if (signal == 0)
        return function(how, set, old);
    bool was = view->blocked, will_be = was;
    sigset_t without;
    if (set != NULL) {
        will_be = blocked_after(was, how, sigismember(set, signal) == 1);
        sigemptyset(&without);
        memcpy(&without, set, KERNEL_SET_BYTES); /* there may be no more, and libc reads no more */
        if (how != SIG_UNBLOCK)
            sigdelset(&without, signal);
    }
    int result = function(how, set != NULL ? &without : NULL, old);
    if (result != 0)
        return result;
    if (old != NULL && was)
        sigaddset(old, signal);
    else if (old != NULL) /* of a handler that has it in its mask for us */
        sigdelset(old, signal);
    view->blocked = will_be;
    return 0;
}

HOOK_EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    return REAL(pthread_sigmask) != NULL ? mask_hook(real.pthread_sigmask, how, set, old) : ENOSYS;
}

HOOK_EXPORT int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
    return REAL(sigprocmask) != NULL ? mask_hook(real.sigprocmask, how, set, old) : hook_refuse();
}

static bool is_our_handler(const void *handler)
{
    return handler == (void *)hooks_timer_signal;
}

/* The app sets what SIGNAL does: if it is ours, it gets it, unless it is as it seems to be anyway.
 * Returns whether it still is ours. A child by vfork has actions of its own, and no timers. */
static bool let_go(int signal, sighandler_t handler)
{
    if (signal <= 0 || signal != our_signal() || child_pid() != 0)
        return false;
    if (handler != SIG_DFL)
        timers_give_up_signal(&session.timers, signal);
    return signal == our_signal();
}

/* For each signal, ours, where its handler has that in its mask and the app has not put it there;
 * 0: none. Another may be ours by now. */
static uint8_t added[_NSIG];

/* Handlers that are left by longjmp, which SA_NODEFER is for, would leave blocked what is in their
 * masks. */
static bool may_lack_room(const struct sigaction *action)
{
    return (action->sa_flags & (SA_ONSTACK | SA_NODEFER)) == SA_ONSTACK &&
           action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

/* Our signal, where it has to be added to the mask of ACTION, for SIGNAL; 0: it has not. An
 * alternate stack with room for a handler may have none for another signal on top, and the kernel
 * ends a process for that. */
static int signal_to_add(int signal, const struct sigaction *action)
{
    int ours = our_signal();
    bool adds = ours != 0 && ours != signal && may_lack_room(action) &&
                sigismember(&action->sa_mask, ours) == 0 && child_pid() == 0;
    return adds ? ours : 0;
}

/* Sets ACTION, with our signal in its mask if that is needed, and does not show that in OLD. */
static int action_exchange(int signal, const struct sigaction *action, struct sigaction *old)
{
    bool valid = signal > 0 && signal < _NSIG;
    int before = valid ? __atomic_load_n(&added[signal], __ATOMIC_RELAXED) : 0;
    int now = valid && action != NULL ? signal_to_add(signal, action) : 0;
    struct sigaction own;
    bool sets = action != NULL;
    if (now != 0) {
        own = *action;
        sigaddset(&own.sa_mask, now);
        action = &own;
    }
    int result = real.sigaction(signal, action, old);
    if (result != 0)
        return result;
    if (old != NULL && before != 0)
        sigdelset(&old->sa_mask, before);
    if (sets && now != before && child_pid() == 0)
        __atomic_store_n(&added[signal], (uint8_t)now, __ATOMIC_RELAXED);
    return 0;
}

/* It is as if nobody had set anything for our signal; whoever does gets it. */
HOOK_EXPORT int sigaction(int signal, const struct sigaction *restrict action,
                          struct sigaction *restrict old)
{
    if (REAL(sigaction) == NULL)
        return hook_refuse();
    if (action != NULL && let_go(signal, action->sa_handler))
        action = NULL;
    int result = action_exchange(signal, action, old);
    if (result == 0 && old != NULL && is_our_handler((const void *)old->sa_sigaction))
        *old = (struct sigaction){.sa_handler = SIG_DFL};
    return result;
}

/* Another way to set what SIGNAL does: of the kind HANDLER NAME(int, HANDLER). */
#define HOOK_SIGNAL(name)                                                                          \
    HOOK_EXPORT sighandler_t name(int signal, sighandler_t handler)                                \
    {                                                                                              \
        static sighandler_t (*function)(int, sighandler_t);                                        \
        if (HOOK_REAL(function, #name) == NULL) {                                                  \
            errno = ENOSYS;                                                                        \
            return SIG_ERR;                                                                        \
        }                                                                                          \
        if (let_go(signal, handler))                                                               \
            return SIG_DFL;                                                                        \
        sighandler_t old = function(signal, handler);                                              \
        return is_our_handler((const void *)old) ? SIG_DFL : old;                                  \
    }

sighandler_t bsd_signal(int signal, sighandler_t handler);
sighandler_t __sysv_signal(int signal, sighandler_t handler);

HOOK_SIGNAL(signal)
HOOK_SIGNAL(sigset)
HOOK_SIGNAL(bsd_signal)
HOOK_SIGNAL(ssignal)
HOOK_SIGNAL(sysv_signal)
HOOK_SIGNAL(__sysv_signal)

HOOK_EXPORT int sigignore(int signal)
{
    const struct sigaction action = {.sa_handler = SIG_IGN};
    return sigaction(signal, &action, NULL);
}

/* It changes what is set for SIGNAL, and what `signal` will set. */
HOOK_EXPORT int siginterrupt(int signal, int interrupts)
{
    static int (*function)(int, int);
    if (HOOK_REAL(function, "siginterrupt") == NULL)
        return hook_refuse();
    let_go(signal, SIG_IGN);
    return function(signal, interrupts);
}

/* The old ways to change masks, of which libc's own come to no hook. The 32nd signal is libc's. */
#define OLD_SIGNALS 31

static sigset_t set_of(int mask)
{
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < OLD_SIGNALS; i++)
        if (((unsigned)mask >> i & 1) != 0)
            sigaddset(&set, i + 1);
    return set;
}

static int mask_of(const sigset_t *set)
{
    unsigned mask = 0;
    for (int i = 0; i < OLD_SIGNALS; i++)
        mask |= (unsigned)(sigismember(set, i + 1) == 1) << i;
    return (int)mask;
}

static int old_mask_change(int how, int mask)
{
    sigset_t set = set_of(mask), before;
    return sigprocmask(how, &set, &before) == 0 ? mask_of(&before) : -1;
}

HOOK_EXPORT int sigblock(int mask)
{
    return old_mask_change(SIG_BLOCK, mask);
}

HOOK_EXPORT int sigsetmask(int mask)
{
    return old_mask_change(SIG_SETMASK, mask);
}

static int one_change(int how, int signal)
{
    sigset_t set;
    sigemptyset(&set);
    return sigaddset(&set, signal) == 0 ? sigprocmask(how, &set, NULL) : -1;
}

HOOK_EXPORT int sighold(int signal)
{
    return one_change(SIG_BLOCK, signal);
}

HOOK_EXPORT int sigrelse(int signal)
{
    return one_change(SIG_UNBLOCK, signal);
}

HOOK_EXPORT int sigpending(sigset_t *set)
{
    if (REAL(sigpending) == NULL)
        return hook_refuse();
    int result = real.sigpending(set), signal = our_signal();
    if (result == 0 && signal != 0)
        sigdelset(set, signal);
    return result;
}

static bool is_ours(int signal, const siginfo_t *info)
{
    return signal > 0 && signal == our_signal() && info->si_code == SI_TIMER;
}

static uint64_t monotonic_ns(void)
{
    return sys_clock_ns(CLOCK_MONOTONIC);
}

/* Of TIME, after PASSED_NS of it. Times that the kernel takes for endless stay as they are. */
static struct timespec what_is_left(const struct timespec *time, uint64_t passed_ns)
{
    if (time->tv_sec >= INT32_MAX)
        return *time;
    uint64_t all_ns = (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_nsec,
             left_ns = all_ns > passed_ns ? all_ns - passed_ns : 0;
    return (struct timespec){(time_t)(left_ns / NS_PER_S), (long)(left_ns % NS_PER_S)};
}

/* Waits as the app wants, and again where what came is ours: the timer goes on by itself. What the
 * app gives is only looked at once the kernel has, which refuses what can't be read. */
HOOK_EXPORT int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info,
                             const struct timespec *restrict timeout)
{
    if (REAL(sigtimedwait) == NULL)
        return hook_refuse();
    if (our_signal() == 0)
        return real.sigtimedwait(set, info, timeout);
    siginfo_t own;
    siginfo_t *what = info != NULL ? info : &own;
    /* A filter may kill for a look at the clock. */
    bool timed = timeout != NULL && !session_is_hushed(&session);
    uint64_t begun_ns = timed ? monotonic_ns() : 0;
    struct timespec left;
    int came = real.sigtimedwait(set, what, timeout);
    while (is_ours(came, what)) {
        if (timed)
            left = what_is_left(timeout, monotonic_ns() - begun_ns);
        came = real.sigtimedwait(set, what, timed ? &left : timeout);
    }
    return came;
}

HOOK_EXPORT int sigwaitinfo(const sigset_t *restrict set, siginfo_t *restrict info)
{
    return sigtimedwait(set, info, NULL);
}

/* Returns an error's number, and none for EINTR. */
HOOK_EXPORT int sigwait(const sigset_t *restrict set, int *restrict signal)
{
    int came, before = errno;
    if (REAL(sigwait) == NULL)
        return ENOSYS;
    if (our_signal() == 0)
        return real.sigwait(set, signal);
    do
        came = sigtimedwait(set, NULL, NULL);
    while (came < 0 && errno == EINTR);
    if (came < 0)
        return errno;
    errno = before;
    *signal = came;
    return 0;
}
