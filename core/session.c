/* The app's side of a session: configuration, start, questions to the helper, end. Never allocates,
 * never touches errno. */
#include "session.h"

#include <linux/futex.h>

#include "engine.h"
#include "former.h"
#include "message.h"
#include "number_file.h"
#include "pattern.h"
#include "sampling.h"
#include "seccomp_filter.h"
#include "sys.h"
#include "task_status.h"
#include "text.h"

#define EXEC_NEAR_NS     20000000u /* then it has failed, or been seen */
#define QUIET_WAIT_NS    20000000u
#define STUCK_NS         3000000000u
#define END_WAIT_NS      10000000000u
#define END_WAIT_PART_NS 100000000u
#define PAUSE_WAIT_NS    1000000000u
#define FOLLOW_WAIT_NS   1000000000u
#define ANSWER_PART_NS   20000000u
#define BIRTHS_PART_NS   100000u
#define BIRTHS_PARTS     200u

static void tell(const struct session *session, const char *line)
{
    message_tell(&session->stderr_place, line);
}

static void complain(void *context, const char *line)
{
    tell(context, line);
}

static unsigned rate_capped(const struct session *session, unsigned asked_hz)
{
    unsigned limit_hz = engine_rate_limit_hz();
    if (asked_hz <= limit_hz)
        return asked_hz;
    char line[256];
    struct text text = text_over(line, sizeof line);
    text_put(&text, "selfsample: SELFSAMPLE_RATE=");
    text_put_u64(&text, asked_hz);
    text_put(&text,
             ": more than the program could bear, or than kernel.perf_event_max_sample_rate; ");
    text_put_u64(&text, limit_hz);
    text_put(&text, " samples per second are used");
    tell(session, line);
    return limit_hz;
}

/* Is this program one to be profiled, by its name and by the options? */
static bool is_wanted(const struct config *config, const char *program)
{
    if (config->only[0] != '\0')
        return pattern_list_match(config->only, program);
    return !pattern_list_match(SESSION_TRACERS, program);
}

bool session_configure(struct session *session, const char *program, char *const *environment)
{
    struct text name = text_over(session->program, sizeof session->program);
    session->process_pid = (pid_t)sys0(SYS_getpid);
    session->stderr_place = message_place_now();
    config_read(&session->config, environment, complain, session);
    text_put(&name, outpath_base(program));
    if (!is_wanted(&session->config, session->program))
        return false;
    session->config.rate_hz = rate_capped(session, session->config.rate_hz);
    return true;
}

static void out_path_expand(struct session *session, char *const *environment)
{
    char host[65] = "";
    struct text path = text_over(session->out_path, sizeof session->out_path);
    struct outpath_facts facts = {
        .pid = (int)session->app_pid,
        .program = session->program,
        .host = host,
        .start_seconds = sys_clock_ns(CLOCK_REALTIME) / 1000000000u,
        .environment = environment,
        .ending = config_ending(&session->config),
    };
    struct utsname_field {
        char fields[6][65];
    } names;
    if (sys1(SYS_uname, &names) == 0)
        __builtin_memcpy(host, names.fields[1], sizeof host);
    if (outpath_expand(&path, session->config.out_pattern, &facts, complain, session) != 0)
        tell(session, "selfsample: SELFSAMPLE_OUT: longer than a path may be; it is cut");
}

static void refusal_tell(const struct session *session, int error, const char *what,
                         const char *remedy)
{
    char line[512];
    struct text text = text_over(line, sizeof line);
    text_put(&text, "selfsample: ");
    text_put(&text, what);
    text_put(&text, ": ");
    text_put_error(&text, -error);
    text_put(&text, "; the program runs without a profile");
    text_put(&text, remedy);
    tell(session, line);
}

static const char *probe_remedy(int error)
{
    if (error == -EACCES || error == -EPERM)
        return " (needs kernel.perf_event_paranoid at 2 or less, and a container that allows "
               "perf_event_open)";
    return "";
}

static const char *start_remedy(int error)
{
    return error == -ENOMEM ? " (`ulimit -v` and `ulimit -d` leave too little memory)" : "";
}

/* With KERNEL=auto the summary tells it. */
static void kernel_refusal_tell(struct session *session)
{
    if (session->config.kernel != CONFIG_KERNEL_YES || session->refusal_told)
        return;
    char line[512];
    struct text text = text_over(line, sizeof line);
    text_put(&text, "selfsample: SELFSAMPLE_KERNEL=yes: the kernel refuses kernel samples "
                    "(kernel.perf_event_paranoid is ");
    text_put_i64(&text, session->paranoid);
    text_put(&text, "); user stacks alone are sampled");
    if (session->paranoid > 1)
        text_put(&text, "; `sysctl kernel.perf_event_paranoid=1` would allow them");
    tell(session, line);
    session->refusal_told = true;
}

/* The kernel counts timers among the signals that may be pending. The summary, if it is wanted,
 * tells how many threads have none. */
static void timer_refusal_tell(struct session *session, int error)
{
    if (error != -EAGAIN || !session->traits.by_timer || session->refusal_told)
        return;
    tell(session, "selfsample: the kernel refuses timers, of which RLIMIT_SIGPENDING (`ulimit -i`) "
                  "is too low; threads without one are not in the profile");
    session->refusal_told = true;
}

bool session_is_hushed(const struct session *session)
{
    return __atomic_load_n(&session->hushed, __ATOMIC_RELAXED) != 0;
}

bool session_is_mine(const struct session *session)
{
    return session->app_pid != 0 && !session_is_hushed(session) &&
           session->app_pid == (pid_t)sys0(SYS_getpid);
}

/* Did other libraries' constructors make threads? A directory of proc has a link for each entry,
 * and two of its own. */
static bool has_other_threads(void)
{
    struct stat status;
    return sys4(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &status, 0) != 0 ||
           status.st_nlink != 3;
}

/* In containers there are filters, which seldom kill; a service manager's may. The caller's stack
 * may be as small as they come. */
static bool inherited_filters_kill(struct session *session)
{
    static char text[TASK_STATUS_BYTES];
    struct task_status own;
    if (session->filters_tried)
        return session->filters_kill;
    session->filters_tried = true;
    int fd = sys_open("/proc/self/status", O_RDONLY, 0);
    if (fd < 0)
        return false;
    int error = task_status_read(&own, fd, text);
    sys_close(fd);
    session->filters_kill = error == 0 && own.seccomp_mode != 0 && seccomp_filter_inherited_kills();
    return session->filters_kill;
}

void session_await_former(struct session *session)
{
    if (!inherited_filters_kill(session))
        former_await();
}

/* What the kernel grants, and what there is in this process already: nothing in a child that was
 * just forked. 0 or -errno, after one line on stderr. */
static int surroundings_ask(struct session *session)
{
    int result = engine_choose(&session->traits, &session->config, &session->timers);
    if (result != 0) {
        refusal_tell(session, result, "the kernel refuses sampling events", probe_remedy(result));
        return result;
    }
    session->granted_to = (uint32_t)sys0(SYS_geteuid);
    session->period_ns = engine_period_ns(&session->traits, session->config.rate_hz);
    if (session->traits.kernel_refusal != 0 || session->traits.perf_refusal != 0)
        session->paranoid = number_file_read_signed("/proc/sys/kernel/perf_event_paranoid", 2);
    if (session->traits.kernel_refusal != 0)
        kernel_refusal_tell(session);
    session->had_threads = has_other_threads();
    return 0;
}

static enum helper_stderr stderr_for_helper(const struct session *session)
{
    if (!message_place_holds(&session->stderr_place))
        return HELPER_STDERR_GOES;
    return session->config.summary ? HELPER_STDERR_STAYS : HELPER_STDERR_BY_KIND;
}

int session_start(struct session *session, char *const *environment)
{
    if (session->given_up || session->hushed)
        return -EBUSY;
    if (inherited_filters_kill(session)) {
        tell(session, "selfsample: a seccomp filter that this program was started under would "
                      "kill it for the system calls of a profiler; the program runs without a "
                      "profile");
        return -EPERM;
    }
    session->app_pid = (pid_t)sys0(SYS_getpid);
    session->seed = sampling_mix(sys_clock_ns(CLOCK_MONOTONIC) ^ (uint64_t)session->app_pid << 36);
    out_path_expand(session, environment);
    int result = session->is_copy ? 0 : surroundings_ask(session);
    session->is_copy = false;
    if (result != 0) {
        session->app_pid = 0;
        return result;
    }
    result = helper_start(&session->helper, session->helper_wanted, session_run, session,
                          stderr_for_helper(session));
    if (result != 0) {
        refusal_tell(session, result, "the helper could not be started", start_remedy(result));
        session->app_pid = 0;
        return result;
    }
    timer_refusal_tell(session, session_open_first(session));
    return 0;
}

bool session_exec_is_near(const struct session *session)
{
    uint64_t asked_ns = __atomic_load_n(&session->exec_asked_ns, __ATOMIC_SEQ_CST);
    return asked_ns != 0 && sys_clock_ns(CLOCK_MONOTONIC) - asked_ns < EXEC_NEAR_NS;
}

void session_note_exec(struct session *session)
{
    if (!session_is_mine(session))
        return;
    session->exec_tid = (pid_t)sys0(SYS_gettid);
    session->exec_tid_ns = sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    __atomic_store_n(&session->exec_asked_ns, sys_clock_ns(CLOCK_MONOTONIC), __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&session->sleeps_long, __ATOMIC_SEQ_CST) != 0)
        helper_wake(&session->helper);
    else
        helper_nudge(&session->helper);
    __atomic_store_n(&session->exec_cpu_ns, sys_clock_ns(CLOCK_PROCESS_CPUTIME_ID),
                     __ATOMIC_RELEASE);
}

/* Makes the words that both sides share ready for another session. */
static void forget(struct session *session)
{
    session->app_pid = 0;
    session->births_one_in = session->born_unsettled = session->sleeps_long = 0;
    session->birth_ring_bytes = session->mailbox.unannounced = 0;
    session->finish_wanted = session->progress = 0;
    session->follow_asked = session->follow_answered = 0;
    if (session->exec_cpu_ns != 0)
        session->exec_cpu_ns = session->exec_asked_ns = 0;
    if (session->notice[0] != '\0') /* what is not written to need not be copied in a child */
        session->notice[0] = '\0';
    session->paused = 0;
    if (session->snapshot.state != SESSION_ASK_NONE)
        session->snapshot.state = SESSION_ASK_NONE;
}

void session_abandon(struct session *session, struct quiet_fork fork)
{
    session->is_copy = session->app_pid != 0 && !session->hushed && !session->traits.by_timer &&
                       session->follow_asked == 0 &&
                       session->granted_to == (uint32_t)sys0(SYS_geteuid);
    session->had_threads = false;
    session->app_pid = 0;
    session->process_pid = session->hushed ? 0 : (pid_t)sys0(SYS_getpid);
    /* A copy of libunwind with a lock taken would never come free. */
    if (!quiet_is_sure(&session->quiet, fork))
        session->library.address_space = NULL;
    quiet_reset(&session->quiet);
    if (session->births_opening != 0)
        session->births_opening = 0;
    session->writings = 0;
    session->given_up = false;
    helper_forked(&session->helper);
    forget(session);
    if (!session->hushed)
        session_close_births(session);
    timers_forget(&session->timers);
    mailbox_clear(&session->mailbox);
}

/* Waits for the helper's end in short parts, so that one that no longer gets on is noticed. */
static bool end_wait(struct session *session)
{
    uint32_t progress = 0;
    uint64_t start_ns = sys_clock_ns(CLOCK_MONOTONIC), moved_ns = start_ns;
    while (!helper_wait_end(&session->helper, END_WAIT_PART_NS)) {
        uint64_t now_ns = sys_clock_ns(CLOCK_MONOTONIC);
        uint32_t now = __atomic_load_n(&session->progress, __ATOMIC_RELAXED);
        if (now != progress) {
            progress = now;
            moved_ns = now_ns;
        }
        if (now_ns - moved_ns > STUCK_NS || now_ns - start_ns > END_WAIT_NS)
            return false;
    }
    return true;
}

/* Has the helper finish, and says what is to be said. 0, -ETIMEDOUT or -EOWNERDEAD. */
static int finish(struct session *session, enum session_finish how)
{
    pid_t helper_pid = (pid_t)__atomic_load_n(&session->helper.tid, __ATOMIC_ACQUIRE);
    bool was_alive = helper_pid != 0;
    __atomic_store_n(&session->finish_wanted, how, __ATOMIC_RELEASE);
    helper_wake(&session->helper);
    bool ended = end_wait(session);
    bool done = __atomic_load_n(&session->progress, __ATOMIC_ACQUIRE) == SESSION_DONE;
    int result = done ? 0 : ended ? -EOWNERDEAD : -ETIMEDOUT;
    if (session->notice[0] != '\0')
        tell(session, session->notice);
    if (result == -ETIMEDOUT)
        tell(session, "selfsample: the helper is stuck; the profile may be missing");
    else if (result == -EOWNERDEAD)
        tell(session, "selfsample: the helper was killed; the profile since the last checkpoint "
                      "is lost");
    if (ended && was_alive)
        helper_reap(&session->helper, helper_pid);
    return ended ? result : -ETIMEDOUT;
}

void session_end(struct session *session)
{
    if (!session_is_mine(session) || !helper_is_child(&session->helper))
        return;
    finish(session, SESSION_ENDS);
    former_reap();
    session->app_pid = 0;
}

/* Lets threads that are at their births or ends get done with these, which the machine may keep
 * them from. */
static void births_wait(const struct session *session)
{
    for (unsigned i = 0; i < BIRTHS_PARTS && mailbox_has_reserved(&session->mailbox); i++) {
        struct timespec part = {0, BIRTHS_PART_NS}; /* of which the kernel writes what is left */
        sys5(SYS_ppoll, NULL, 0, &part, NULL, 0);
    }
}

static int stop(struct session *session)
{
    int result = finish(session, SESSION_STOPS);
    session->app_pid = 0;
    session->given_up = result == -ETIMEDOUT;
    if (session->given_up)
        return result;
    helper_free(&session->helper);
    quiet_resign(&session->quiet);
    births_wait(session);
    session_discard_births(session);
    timers_close(&session->timers);
    session->helper = (struct helper){0};
    forget(session);
    return result != 0 ? result : session->finish_result;
}

int session_stop(struct session *session)
{
    return session_is_mine(session) ? stop(session) : -ESRCH;
}

/* Waits for a part of the time until END_NS, unless *WORD is not NOW any more. 0, -EOWNERDEAD or
 * -ETIMEDOUT. */
static int change_wait(const struct session *session, const uint32_t *word, uint32_t now,
                       uint64_t end_ns)
{
    const struct timespec part = {0, ANSWER_PART_NS};
    if (__atomic_load_n(&session->helper.tid, __ATOMIC_ACQUIRE) == 0)
        return -EOWNERDEAD;
    if (sys_clock_ns(CLOCK_MONOTONIC) > end_ns)
        return -ETIMEDOUT;
    sys4(SYS_futex, word, FUTEX_WAIT, now, &part);
    return 0;
}

/* Wakes the helper and waits until *WORD is WANTED. 0, -EOWNERDEAD or -ETIMEDOUT. */
static int answer_wait(struct session *session, const uint32_t *word, uint32_t wanted,
                       uint64_t limit_ns)
{
    uint64_t end_ns = sys_clock_ns(CLOCK_MONOTONIC) + limit_ns;
    helper_wake(&session->helper);
    for (;;) {
        uint32_t now = __atomic_load_n(word, __ATOMIC_ACQUIRE);
        if (now == wanted)
            return 0;
        int result = change_wait(session, word, now, end_ns);
        if (result != 0)
            return result;
    }
}

int session_pause(struct session *session, bool paused)
{
    if (!session_is_mine(session))
        return -ESRCH;
    __atomic_store_n(&session->helper.pause_wanted, paused, __ATOMIC_RELEASE);
    return answer_wait(session, &session->paused, paused, PAUSE_WAIT_NS);
}

/* The helper has a working directory of its own. */
static int snapshot_name(struct session_snapshot *snapshot, const char *path)
{
    struct text text = text_over(snapshot->path, sizeof snapshot->path);
    if (path[0] != '/' && path[0] != '\0') {
        long length = sys2(SYS_getcwd, snapshot->path, sizeof snapshot->path);
        if (length < 0)
            return (int)length;
        text.length = (size_t)length - 1;
        text_put_char(&text, '/');
    }
    text_put(&text, path);
    return text.cut ? -ENAMETOOLONG : 0;
}

int session_snapshot(struct session *session, const char *path)
{
    struct session_snapshot *snapshot = &session->snapshot;
    if (!session_is_mine(session))
        return -ESRCH;
    /* The last one was given up, and is still being written. */
    if (__atomic_load_n(&snapshot->state, __ATOMIC_ACQUIRE) == SESSION_ASK_WAITS)
        return -EBUSY;
    int named = snapshot_name(snapshot, path);
    if (named != 0)
        return named;
    __atomic_store_n(&snapshot->state, SESSION_ASK_WAITS, __ATOMIC_RELEASE);
    int result = answer_wait(session, &snapshot->state, SESSION_ASK_ANSWERED, END_WAIT_NS);
    return result != 0 ? result : snapshot->result;
}

void session_follow(struct session *session)
{
    if (!session_is_mine(session))
        return;
    uint32_t asked = __atomic_add_fetch(&session->follow_asked, 1, __ATOMIC_SEQ_CST);
    uint64_t end_ns = sys_clock_ns(CLOCK_MONOTONIC) + FOLLOW_WAIT_NS;
    helper_wake(&session->helper);
    for (;;) {
        uint32_t answered = __atomic_load_n(&session->follow_answered, __ATOMIC_ACQUIRE);
        /* Later calls of other threads may have been answered with it. */
        if ((int32_t)(answered - asked) >= 0 ||
            change_wait(session, &session->follow_answered, answered, end_ns) != 0)
            return;
    }
}

bool session_ends_at_seccomp(const struct session *session)
{
    return session->config.seccomp_end || session->helper.kind == HELPER_THREAD ||
           session->traits.by_timer;
}

bool session_hush(struct session *session)
{
    if (session_is_hushed(session) || session->process_pid != (pid_t)sys0(SYS_getpid) ||
        __atomic_exchange_n(&session->hushed, 1, __ATOMIC_SEQ_CST) != 0)
        return true;
    if (session->app_pid != 0 && session_ends_at_seccomp(session) &&
        helper_is_child(&session->helper))
        stop(session);
    timers_silence(&session->timers, true);
    return false;
}

void session_unhush(struct session *session)
{
    __atomic_store_n(&session->hushed, 0, __ATOMIC_SEQ_CST);
    timers_silence(&session->timers, false);
}

struct quiet_fork session_quiet(struct session *session)
{
    /* A helper that was killed at work will never be done. */
    if (!session_is_mine(session) || __atomic_load_n(&session->helper.tid, __ATOMIC_RELAXED) == 0)
        return (struct quiet_fork){0};
    struct quiet_fork fork = quiet_ask(&session->quiet, QUIET_WAIT_NS);
    session_wait_births(session);
    return fork;
}

void session_resume(struct session *session, struct quiet_fork fork)
{
    quiet_release(&session->quiet, fork);
}
