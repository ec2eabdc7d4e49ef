#!/usr/bin/env python3
"""Places with less than all that a profiler wants: the engine, the shares and the sum are right, and
the program is as it is bare."""

from environments import ALL, measure
from harness import expect, main, measured, near, program, run, test

BURN_MS = 600

# What old kernels lack or filters of containers do not know, of what the helper and the start call.
# getppid and gettid are left out: nobody refuses them, and they tell who is who.
CALLS = """capget clone3 close_range faccessat fchmod fstatfs ftruncate getcwd getdents64 getgroups
    getpriority linkat lseek madvise memfd_create mincore pipe2 poll prctl prlimit64
    process_vm_readv pwrite64 readlinkat renameat renameat2 sched_setattr seccomp setpgid setpriority
    setsid timer_create timer_settime uname unlinkat unshare wait4 writev""".split()


@test(each=ALL)
def test_environment(environment):
    row = measure(environment, BURN_MS)
    expect(row.same, f"not as bare: {row.lines}")
    expect(environment.engine is None or row.engine.startswith(environment.engine), str(row))
    expect(("a thread" in row.engine) == environment.thread, str(row))
    expect(environment.says in row.described, row.described)
    expect(row.kernel == ("yes" if environment.kernel else "no"), str(row))
    if environment.engine == "perf" and environment.user and not environment.kernel:
        expect("`sysctl kernel.perf_event_paranoid=1`" in row.reason, row.reason)
    for share, right in zip(row.shares, (0.6, 0.3, 0.1)):
        near(share, right, environment.off, f"share, {row}")
    near(row.sum, environment.sum, environment.sum_off, f"sum, {row}")


@test(each=CALLS)
def test_without(call):
    """One call that is missing costs no profile."""
    check_without([call], "ENOSYS")


# One of renameat2 and linkat gives the file its name, and a line for the user needs writev.
ANY_BUT = ("linkat", "unlinkat", "writev")


@test(each=["ENOSYS", "EPERM", "EINVAL"])
def test_without_any_of_them(error):
    check_without([call for call in CALLS if call not in ANY_BUT], error)


def check_without(calls, error):
    result = run(program("work"), 60000, 5, launcher=[program("refuse"), error, ",".join(calls)],
                 options={"ONLY": "work"})
    expect((result.status, result.stdout, result.stderr) == (5, b"", b""), str(result))
    measured(40 < result.profile.total() < 100, f"{result.profile.total()} samples of 60")
    measured(result.profile.whole_share() > 0.9, f"{result.profile.whole_share()} whole")


main()
