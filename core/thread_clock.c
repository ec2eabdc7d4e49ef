/* What threads have used by their clocks. Runs in the helper. */
#include "thread_clock.h"

#include "number_file.h"
#include "proc_tasks.h"

/* Of a thread's clock that pass at a switch to it without being counted: 3 to 7 us were seen. */
#define SWITCH_NS_MAX 20000u

/* The first COUNT of: CPU time, time spent waiting for a CPU, both ns, and times on a CPU. */
static bool schedstat_read(pid_t app_pid, pid_t tid, uint64_t *numbers, unsigned count)
{
    char path[PROC_PATH_BYTES];
    proc_task_path(path, app_pid, tid, "/schedstat");
    return number_file_read_list(path, numbers, count);
}

uint64_t thread_read_cpu_ns(pid_t app_pid, pid_t tid)
{
    uint64_t cpu_ns;
    return schedstat_read(app_pid, tid, &cpu_ns, 1) ? cpu_ns : 0;
}

uint64_t thread_stolen_ns(const struct threads *threads, struct thread *thread, uint64_t count_ns,
                          uint64_t most_ns)
{
    uint64_t slack_ns = thread->end_cpu_ns != 0 || thread->one_in > 1 ? 0 : THREAD_CLOCK_LATE_NS;
    uint64_t cpu_ns = thread->end_cpu_ns != 0
                          ? thread->end_cpu_ns
                          : thread_read_cpu_ns(threads_proc_pid(threads), thread->tid);
    if (thread->base_cpu_ns == 0 || (cpu_ns < thread->base_cpu_ns && thread->one_in == 1))
        return 0;
    /* Of one that is gone and told nothing: what it used before. */
    uint64_t used_ns = thread->count_ns;
    if (cpu_ns >= thread->base_cpu_ns) {
        used_ns = cpu_ns - thread->base_cpu_ns + slack_ns + thread->stolen_ns;
        used_ns -= thread->switched_ns < used_ns ? thread->switched_ns : used_ns;
    }
    uint64_t stolen_ns = count_ns > used_ns ? count_ns - used_ns : 0;
    if (stolen_ns > most_ns)
        stolen_ns = most_ns;
    thread->stolen_ns += stolen_ns;
    return stolen_ns;
}

bool thread_times_read(const struct threads *threads, const struct thread *thread,
                       struct thread_times *times)
{
    uint64_t schedstat[3];
    *times = (struct thread_times){thread->end_cpu_ns, thread->end_switches};
    if (thread->end_cpu_ns != 0)
        return true;
    if (!schedstat_read(threads_proc_pid(threads), thread->tid, schedstat, 3))
        return false;
    *times = (struct thread_times){schedstat[0], schedstat[2]};
    return true;
}

bool thread_may_have_switched(const struct thread *thread, const struct thread_times *times,
                              uint64_t least_ns)
{
    uint64_t since = times->switches > thread->switches ? times->switches - thread->switches : 0;
    return since * SWITCH_NS_MAX >= least_ns;
}

/* That switches can have taken and that was not told. */
static uint64_t switches_most_ns(const struct thread *thread, const struct thread_times *times)
{
    uint64_t most_ns = times->switches * SWITCH_NS_MAX;
    return most_ns > thread->switched_ns ? most_ns - thread->switched_ns : 0;
}

uint64_t thread_switched_ns(struct thread *thread, const struct thread_times *times,
                            uint64_t count_ns, uint64_t least_ns)
{
    uint64_t counted_ns = thread->base_cpu_ns + thread->switched_ns +
                          (count_ns > thread->stolen_ns ? count_ns - thread->stolen_ns : 0);
    uint64_t ns = times->cpu_ns > counted_ns ? times->cpu_ns - counted_ns : 0;
    uint64_t most_ns = switches_most_ns(thread, times);
    thread->switches = times->switches;
    if (ns > most_ns)
        ns = most_ns;
    if (thread->base_cpu_ns == 0 || ns < least_ns)
        return 0;
    thread->switched_ns += ns;
    return ns;
}
