/* What threads have used by their clocks. Runs in the helper. */
#include "thread_clock.h"

#include "number_file.h"
#include "proc_tasks.h"

/* Clocks of running threads are updated every tick; the slowest kernels have 100 a second. */
#define CLOCK_LATE_NS 10000000u

uint64_t thread_read_cpu_ns(pid_t app_pid, pid_t tid)
{
    char path[PROC_PATH_BYTES];
    proc_task_path(path, app_pid, tid, "/schedstat");
    return number_file_read(path, 0);
}

uint64_t thread_stolen_ns(const struct threads *threads, struct thread *thread, uint64_t count_ns,
                          uint64_t most_ns)
{
    uint64_t slack_ns = thread->end_cpu_ns != 0 || thread->one_in > 1 ? 0 : CLOCK_LATE_NS;
    uint64_t cpu_ns = thread->end_cpu_ns != 0
                          ? thread->end_cpu_ns
                          : thread_read_cpu_ns(threads_proc_pid(threads), thread->tid);
    if (thread->base_cpu_ns == 0 || (cpu_ns < thread->base_cpu_ns && thread->one_in == 1))
        return 0;
    /* Of one that is gone and told nothing: what it used before. */
    uint64_t used_ns = cpu_ns >= thread->base_cpu_ns
                           ? cpu_ns - thread->base_cpu_ns + slack_ns + thread->stolen_ns
                           : thread->count_ns;
    uint64_t stolen_ns = count_ns > used_ns ? count_ns - used_ns : 0;
    if (stolen_ns > most_ns)
        stolen_ns = most_ns;
    thread->stolen_ns += stolen_ns;
    return stolen_ns;
}
