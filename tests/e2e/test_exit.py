#!/usr/bin/env python3
"""However the process ends, its status is its own and the profile holds every sample."""

import os
import signal
import time

from harness import (bare, both, check_sum, expect, main, measured, near, near_ms, need, need_root,
                     private_directory, program, run, same, shared, state, test,
                     wait_helper, wait_until)

ENDS = [("return", 0), ("exit", 42), ("_exit", 1), ("_Exit", 255), ("quick_exit", 3),
        ("exit_group", 5), ("thread-exit", 42), ("return-with-threads", 0),
        ("main-pthread-exit", 0)]
SIGNALS = ["HUP", "INT", "QUIT", "ALRM", "TERM", "USR1", "KILL", "PIPE", "XCPU", "RTMIN"]
DEATHS = [("signal-%d" % getattr(signal, "SIG" + name), -getattr(signal, "SIG" + name))
          for name in SIGNALS] + [("segv", -signal.SIGSEGV), ("abort", -signal.SIGABRT),
                                  ("ill", -signal.SIGILL), ("fpe", -signal.SIGFPE)]


def check_all_there(profile, burnt_us):
    """At least 99 % of the time burnt by construction, and not more than there can be."""
    total = profile.total()
    near_ms(total / 1000, burnt_us / 1000 + 4, burnt_us / 1e5 + 4, "sum")
    measured(profile.share("work") + profile.share("work_after_main") > 0.97,
             f"work has {profile.share('work'):.3f}")
    measured(profile.whole_share() > 0.99, f"not whole: {profile.broken()}")


@test(each=ENDS)
def test_end(case):
    how, status = case
    result = both(program("leave"), 300, how, options={"UNIT": "us"})
    expect(result.status == status, f"status {result.status}, wanted {status}")
    burnt_us = 450000 if how == "main-pthread-exit" else 300000
    check_all_there(result.profile, burnt_us)


@test(each=["return", "exit", "quick_exit"])
def test_file_is_there_at_once(how):
    """Whoever has waited for the program finds its profile: the exit waits until it is written."""
    leave = program("leave")
    script = f"""for i in 1 2 3 4 5 6; do
        {leave} 60 {how}; n=0
        for file in selfsample.leave.*.folded; do [ -e $file ] && n=$((n + 1)); done
        echo $n
    done"""
    result = run("/bin/sh", "-c", script)
    expect(result.stdout.split() == [b"1", b"2", b"3", b"4", b"5", b"6"], str(result))


REAPER = """import ctypes, os, subprocess, sys, time
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
status = subprocess.call(sys.argv[1:])
time.sleep(0.3)
try:
    print(status, os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print(status, "nobody")
"""


@test
def test_nobody_is_left_to_the_reaper():
    result = run("python3", "-c", REAPER, program("leave"), 60, "exit")
    expect(result.stdout == b"42 nobody\n", str(result))


@test(each=DEATHS)
def test_death(case):
    how, status = case
    result = both(program("leave"), 300, how, options={"UNIT": "us"})
    expect(result.status == status, f"status {result.status}, wanted {status}")
    check_all_there(result.profile, 300000)
    measured(result.file_delay < 0.5 + 0.5, f"the file took {result.file_delay:.2f} s")


@test
def test_exit_among_burning_threads():
    result = both(program("leave"), 300, "exit-among-burners", options={"UNIT": "us"})
    expect(result.status == 7, f"status {result.status}")
    cpu_ms = result.cpu_us / 1000  # with what went before the program, more on a busy machine
    near_ms(result.profile.total() / 1000, cpu_ms - 5, cpu_ms * 0.03 + 5, "sum")


@test
def test_handlers_and_destructors():
    """CPU time after exit: atexit, a destructor that runs after ours, threads started there."""
    late = shared("late")
    result = run(program("atexit"), options={"UNIT": "us"}, after=[late])
    same(bare(program("atexit"), after=[late]), result)
    for function in ("in_main", "in_handler", "in_handler_thread", "in_destructor",
                     "in_destructor_thread"):
        counted = result.profile.share(function) * result.profile.total()
        near_ms(counted / 1000, 300, 9, function)


@test
def test_brief_program_leaves_nothing():
    for _ in range(20):
        result = both(program("work"), 100, 3)
        expect(not result.profiles or result.profile.total() > 0, "an empty file")
        result.quiet()
    left = sum(len(run(program("work"), 0, options={"RATE": 500}).profiles) for _ in range(100))
    measured(left < 12, f"{left} of 100 runs without work leave a file")


@test
def test_less_than_a_period_leaves_nothing():
    """Even where its first sample has come before that."""
    left = sum(len(run(program("work"), 80000, options={"RATE": 5}).profiles) for _ in range(12))
    measured(left == 0, f"{left} of 12 runs of 80 ms leave a file, at 200 ms a period")


@test
def test_thirty_milliseconds_are_thirty_samples():
    totals = [run(program("work"), 30000, options={"RATE": 1000}).profile.total()
              for _ in range(10)]
    near_ms(sum(totals) / len(totals), 30.5, 1.5, f"mean of {totals}")


@test
def test_many_runs():
    script = f'i=0; while [ $i -lt 1000 ]; do {program("work")} 2000 7 || : ; i=$((i+1)); done'
    result = both("/bin/sh", "-c", script, options={"CHILDREN": "yes"}, timeout=120)
    runs = [p for p in result.profiles if ".work." in "." + p.path.name]
    measured(len(runs) > 800, f"{len(runs)} of 1000 runs of 2 ms left a profile")
    near_ms(sum(p.total() for p in runs), 1000 * 2.2, 400, "sum")


@test
def test_own_handlers():
    result = both(program("handler"), options={"UNIT": "us"})
    expect(result.status == 9, f"status {result.status}")
    near(result.profile.share("in_handler"), 0.6, 0.03, "share of the handler")
    measured(result.profile.whole_share() > 0.99, f"not whole: {result.profile.broken()}")


@test
def test_helper_killed():
    """The app neither hangs nor dies, what was checkpointed is there, stderr says so."""
    directory = private_directory()

    def kill(pid):
        helper = wait_helper(pid)
        wait_until(lambda: list(directory.glob("*.folded")), 20, "there is no checkpoint")
        time.sleep(0.3)
        os.kill(helper, signal.SIGKILL)

    result = run(program("work"), 2500000, 5, options={"CHECKPOINT": 1}, directory=directory, while_running=kill)
    expect(result.status == 5, f"status {result.status}")
    measured(0.15 * 999 < result.profile.total() < 1.7 * 999,
             f"{result.profile.total()} samples after a checkpoint at 1 s")
    expect(b"selfsample" in result.stderr and result.stderr.count(b"\n") == 1,
           f"stderr: {result.stderr!r}")


@test
def test_stopped_helper_does_not_hold_a_death_up():
    """The app can be killed while its helper is stopped; that sets the helper going, which finishes."""
    def stop_helper(pid):
        helper = wait_helper(pid)
        time.sleep(0.3)
        os.kill(helper, signal.SIGSTOP)
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: state(pid) in ("Z", ""), 5, "the app does not die")
        wait_until(lambda: state(helper) in ("Z", ""), 15, "the helper does not end")

    result = run(program("waits"), while_running=stop_helper)
    expect(result.status == -signal.SIGTERM, f"status {result.status}")
    measured(result.profile.total() > 50, f"{result.profile.total()} samples")


@test(each=["KILL", "TERM", "INT"])
def test_signal_to_the_process_group(name):
    """As by Ctrl-C, or by a shell that ends a job: the helper is no part of the group."""
    number = getattr(signal, "SIG" + name)

    def strike(pid):
        helper = wait_helper(pid)
        wait_until(lambda: os.getpgid(helper) != pid, 10, "it stays in the group of the program")
        time.sleep(0.3)
        os.killpg(pid, number)

    result = run(program("waits"), while_running=strike)
    expect(result.status == -number, f"status {result.status}")
    measured(result.profile.total() > 20, f"{result.profile.total()} samples")


@test
def test_first_process_of_a_pid_namespace():
    need_root()
    need("unshare")
    launcher = ["unshare", "-fp", "--mount-proc", "--kill-child"]
    result = both(program("leave"), 300, "exit", launcher=launcher, options={"UNIT": "us"})
    profiles = [p for p in result.profiles if "leave" in p.path.name]
    expect(len(profiles) == 1, f"files: {result.files()}")
    check_all_there(profiles[0], 300000)


@test
def test_killed_first_process_of_a_pid_namespace():
    """The kernel kills the helper with it: there is a checkpoint, though nobody asked for any."""
    need_root()
    need("unshare", "pgrep")
    launcher = ["unshare", "-fp", "--mount-proc", "--kill-child"]
    directory = private_directory()

    def kill_first(pid):
        first = wait_until(lambda: os.popen(f"pgrep -P {pid} -x work").read().split(), 10,
                           "the program does not start")[0]
        wait_until(lambda: list(directory.glob("selfsample.work.*")), 30, "there is no checkpoint")
        os.kill(int(first), signal.SIGKILL)

    result = run(program("work"), 60000000, launcher=launcher, directory=directory,
                 while_running=kill_first)
    works = [p for p in result.profiles if ".work." in p.path.name]
    measured(len(works) == 1 and works[0].total() > 100, f"{result.files()}; {result}")


@test
def test_sum_of_a_plain_run():
    result = run(program("split"), 1500, options={"UNIT": "us"}, clock=True)
    check_sum(result, result.profile)
    result.quiet()


main()
