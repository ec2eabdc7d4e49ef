/* clang-format off */
/*
 * selfsample: a CPU profiler that lives inside the program it profiles.
 *
 * Nothing here is needed to be profiled: run the program under `selfsample` or with
 * LD_PRELOAD=libselfsample.so. This header is for programs that want to say what is profiled, when,
 * and what they are doing meanwhile.
 *
 * A program that uses it links with nothing: the functions look for the library at their first
 * call, in the process as it runs. Without the library all of them are harmless: they do nothing,
 * and those that return an int return -ENOSYS. So the same binary runs with and without it. (To
 * have the profiler in a program for good, link with what `pkg-config --libs selfsample` says; that
 * is the same as preloading it.)
 *
 *     LD_PRELOAD=libselfsample.so SELFSAMPLE_ENABLED=no ./app    # until it calls selfsample_start
 *
 * What holds for all of them:
 *
 *  - They return 0, or an error number of <errno.h> with a minus in front. errno itself is left
 *    alone. Nothing here ends the program or raises a signal.
 *  - Any thread may call them, at the same time as others. selfsample_label and selfsample_version
 *    never wait. The others take turns: one waits for another one's end.
 *  - A signal handler may call selfsample_label and selfsample_version, once any function of this
 *    header has returned in the program before (the first call looks the library up, by dlsym). The
 *    others return -EDEADLK in a handler that interrupts one of them, and are not for handlers
 *    otherwise.
 *  - Before the library's constructor has run (in the constructor of a library that is loaded
 *    earlier) labels can be set, selfsample_start returns -EAGAIN, and the others -ESRCH.
 *  - A forked child is profiled if its parent is, in a profile of its own; it is paused if its
 *    parent is, and its thread has the label that the forking thread had. A child made by vfork or
 *    posix_spawn must not call any of them before it execs. A program that is exec'd starts afresh,
 *    with the environment's options.
 *  - Once the program has entered seccomp none of them makes a system call, which its filter may
 *    kill for: selfsample_start returns -EBUSY, those that ask something of a profile -ESRCH,
 *    though it may be going on. Labels can be changed.
 *  - C11 or C++11, by gcc or clang.
 */
/* clang-format on */
#ifndef SELFSAMPLE_H
#define SELFSAMPLE_H

#define SELFSAMPLE_VERSION_MAJOR 0
#define SELFSAMPLE_VERSION_MINOR 1
#define SELFSAMPLE_VERSION_PATCH 0

/* Of a label, in bytes, its NUL not counted; what is longer is cut at a character of UTF-8. */
#define SELFSAMPLE_LABEL_BYTES 63
/* Different labels that one process may use. */
#define SELFSAMPLE_LABELS_MAX 1024

#ifdef __cplusplus
extern "C" {
#endif

/* The functions as the library has them. The program finds the table by the name
 * `selfsample_calls`; later versions only add to its end. */
struct selfsample_calls {
    unsigned count; /* of the pointers that follow */
    const char *(*version)(void);
    int (*start)(void);
    int (*stop)(void);
    int (*pause)(void);
    int (*resume)(void);
    int (*snapshot)(const char *path);
    int (*label)(const char *label);
};

#ifdef SELFSAMPLE_LIBRARY
#define SELFSAMPLE_CALL(type, name, arguments, call, otherwise) type name arguments
#else

/* Weak, so that a program is linked where dlsym is not to be had (a static one, say). */
static void *selfsample_dlsym_(void *handle, const char *name)
    __attribute__((weakref("dlsym"), unused));

/* What the look-up has found, for the whole program: NULL: nobody has looked yet. */
__attribute__((weak, visibility("hidden"))) const struct selfsample_calls *selfsample_calls_found_;
__attribute__((weak, visibility("hidden"))) struct selfsample_calls selfsample_calls_none_;

static inline const struct selfsample_calls *selfsample_calls_(void)
{
    const struct selfsample_calls *calls =
        __atomic_load_n(&selfsample_calls_found_, __ATOMIC_ACQUIRE);
    if (calls != 0)
        return calls;
    if (selfsample_dlsym_ != 0)
        calls = (const struct selfsample_calls *)selfsample_dlsym_(0, "selfsample_calls");
    if (calls == 0)
        calls = &selfsample_calls_none_;
    __atomic_store_n(&selfsample_calls_found_, calls, __ATOMIC_RELEASE);
    return calls;
}

#define SELFSAMPLE_CALL(type, name, arguments, call, otherwise)                                    \
    static inline type name arguments                                                              \
    {                                                                                              \
        const struct selfsample_calls *calls = selfsample_calls_();                                \
        return calls->count != 0 ? calls->call : otherwise;                                        \
    }                                                                                              \
    struct selfsample_calls
#endif

#define SELFSAMPLE_NO_LIBRARY (-38) /* -ENOSYS */

/* The version of the library that is loaded, as "0.1.0"; NULL without it. The string is static. */
SELFSAMPLE_CALL(const char *, selfsample_version, (void), version(), 0);

/* clang-format off */
/*
 * Starts a profile of this process: all its threads, from now on. For a program whose library is
 * loaded but silent (SELFSAMPLE_ENABLED=no), and after selfsample_stop. The options are those of
 * the environment when the process began; a new profile gets a file of its own, as ever: `%n` in
 * its name counts on, and a name that is taken gets `.1`, `.2` ... Takes about a millisecond. The
 * environment must not be changed by other threads meanwhile.
 *
 * 0
 * -EALREADY  this process is being profiled already; that goes on, paused or not
 * -EPERM     the program is not to be profiled: SELFSAMPLE_ONLY leaves it out, or it is
 *            set-user-id, a tracer, or under valgrind
 * -EACCES, -EPERM, -ENOSYS ...
 *            the system refuses sampling events; a line on stderr says what would help
 * -EAGAIN    too early (see above), or, like -ENOMEM, resources are short
 * -EBUSY     an earlier profile was given up with -ETIMEDOUT, or the program has entered seccomp
 * -ENOSYS    there is no library
 */
/* clang-format on */
SELFSAMPLE_CALL(int, selfsample_start, (void), start(), SELFSAMPLE_NO_LIBRARY);

/*
 * Ends the profile and writes its file; returns when the file is there. Nothing of it stays in the
 * process: no memory, no child. Waits as long as the writing gets on, 10 s at the most.
 *
 * 0
 * -ESRCH      this process is not being profiled
 * -ENODATA    there was nothing to write: less than one period of CPU time seen
 * -EOWNERDEAD the helper was killed: what came after the last checkpoint or snapshot is lost
 * -ETIMEDOUT  the helper is stuck. It is left behind, and there can be no other profile
 * others      why the file could not be written: -EACCES, -ENOENT, -ENOSPC ...
 * -ENOSYS     there is no library
 */
SELFSAMPLE_CALL(int, selfsample_stop, (void), stop(), SELFSAMPLE_NO_LIBRARY);

/*
 * Leaves out of the profile what all threads do until selfsample_resume. Both return when that is
 * in force, most often after less than a millisecond. What was before and what comes after a pause
 * is in one profile. While it is paused a thread that has been running for more than some
 * milliseconds of CPU time costs nothing more than an idle event. Pauses do not nest: one resume
 * ends them, and so does `selfsample resume PID` from outside.
 *
 * 0           also where it was so already
 * -ESRCH      this process is not being profiled
 * -ETIMEDOUT  the helper got no processor for a second; it will be in force once it does
 * -EOWNERDEAD the helper was killed
 * -ENOSYS     there is no library
 */
SELFSAMPLE_CALL(int, selfsample_pause, (void), pause(), SELFSAMPLE_NO_LIBRARY);
SELFSAMPLE_CALL(int, selfsample_resume, (void), resume(), SELFSAMPLE_NO_LIBRARY);

/*
 * Writes the profile so far to PATH, whole or not at all, and returns when it is there; the profile
 * goes on. A relative PATH is taken from the working directory of the caller, an absolute one
 * from the root directory that the process began with. A name that is taken gets `.1`, `.2` ...
 * before its ending; nothing is overwritten, no symbolic link followed. NULL: to where the profile
 * will go at its end, as `selfsample snapshot PID` does; what a snapshot wrote there before is
 * replaced. Waits 10 s at the most.
 *
 * 0
 * -ESRCH      this process is not being profiled
 * -ENODATA    there is no sample yet, or less than one period of CPU time seen
 * -ENAMETOOLONG, -EISDIR (PATH is empty or ends in a slash), -EACCES, -ENOENT, -ENOSPC ...
 * -ETIMEDOUT  not written in time; it may still come
 * -EBUSY      one that timed out is still being written
 * -EOWNERDEAD the helper was killed
 * -ENOSYS     there is no library
 */
SELFSAMPLE_CALL(int, selfsample_snapshot, (const char *path), snapshot(path),
                SELFSAMPLE_NO_LIBRARY);

/*
 * Gives the calling thread a label, until its next: a frame of its own under the thread's, above
 * all its functions. `thread;LABEL;root;...;leaf`. NULL or "": none, as threads have at first. The
 * text is copied. `;` becomes `:`, control characters become `_`.
 *
 * Labels are for phases and kinds of work ("parse", "GET /users"), not for single requests: a
 * process may use SELFSAMPLE_LABELS_MAX different ones. A call costs about as much as
 * clock_gettime, some 50 ns, and no system call (but those of a thread's first label, and one now
 * and then where labels change faster than some thousand times a second). Changes that come faster
 * than the helper can take them may put some samples under the label before or after, which a line
 * on stderr tells at the end; up to 100,000 a second are safe where a processor is free for the
 * helper.
 *
 * A label may be set whether the process is being profiled or not, and stays over starts and
 * stops.
 *
 * 0
 * -ENOSPC  too many different labels: the thread's is `[other labels]` now
 * -EAGAIN  a thousand threads have labels already, or the program has entered seccomp before this
 *          one had any, or there is no memory for any: it gets none
 * -ENOSYS  there is no library
 */
SELFSAMPLE_CALL(int, selfsample_label, (const char *label), label(label), SELFSAMPLE_NO_LIBRARY);

#ifdef SELFSAMPLE_LIBRARY
extern const struct selfsample_calls selfsample_calls;
#endif

#ifdef __cplusplus
}
#endif

#endif
