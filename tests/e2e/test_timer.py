#!/usr/bin/env python3
"""The timer engine: where perf events are refused, and where it is asked for."""

import os
import re
import resource
import signal
from pathlib import Path

from harness import (bare, both, comm, expect, helpers, main, measured, near, need, program, run,
                     shared, state, test, top_directory, wait_until)

TIMER = {"ENGINE": "timer"}


def engine(result):
    """What the summary says made the samples."""
    match = re.search(rb"engine: (.*?) at ([0-9]+) Hz", result.stderr)
    expect(match, f"no engine: {result}")
    return match[1].decode()


def check_split(profile, **shares):
    for function, share in (shares or {"sixty": 60, "thirty": 30, "ten": 10}).items():
        near(100 * profile.share(function), share, 6, f"{function} of {profile.path.name}")


def seen_percent(result):
    match = re.search(rb"\(([0-9.]+) % of its clock\)", result.stderr)
    expect(match, f"no share of the clock: {result}")
    return float(match[1])


@test(each=[("root", False), ("user", True)])
def test_shares_and_sum(who):
    result = both(program("split"), 3000, user=who[1], options=TIMER)
    result.quiet()
    check_split(result.profile)
    measured(result.profile.whole_share() > 0.99, result.profile.broken())
    told = run(program("burners"), 8, 400, user=who[1], options={**TIMER, "SUMMARY": "yes"})
    near(seen_percent(told), 100, 2, "of the CPU clock")
    check_split(told.profile)
    for i in range(8):
        near(100 * told.profile.thread_share(f"burner-{i}"), 12.5, 2, f"thread {i}")
    expect(engine(told) == "timer", engine(told))


@test
def test_a_thread_without_room_for_a_signal():
    """Its alternate stack is too small: a signal would end the program. It has none meanwhile, which is told."""
    options = {**TIMER, "UNIT": "us"}
    both(program("smallstack"), 100, options=options).quiet()
    told = run(program("smallstack"), 700, options={**options, "SUMMARY": "yes"})
    expect(told.status == 0 and b"1 thread not covered" in told.stderr, str(told))
    profile = told.profile
    expect(profile.share("meanwhile") == 0, profile.heaviest())
    for function in ("ample", "before", "after"):
        near(profile.share(function) * profile.total() / 1000, 700, 60, f"ms in {function}")


@test
def test_a_handler_that_leaves_no_room_for_a_signal():
    """On its alternate stack a second signal would end the program. It has ours when it returns."""
    result = both(program("tightstack"), 60, 5, options={**TIMER, "UNIT": "us"})
    result.quiet()
    near(result.profile.total() / 1000, 600, 60, "ms in all")
    near(result.profile.share("outside") * result.profile.total() / 1000, 300, 40, "ms outside")


@test(each=["EPERM", "EACCES", "ENOSYS", "EINVAL"])
def test_perf_refused(error):
    result = run(program("refuse"), error, "perf_event_open", program("split"), 1500,
                 options={"SUMMARY": "yes", "ONLY": "split"})
    expect(result.status == 0 and b"done" in result.stdout, str(result))
    expect(engine(result).startswith("timer (perf refused: ") and error in engine(result),
           engine(result))
    near(seen_percent(result), 100, 2, "of the CPU clock")
    measured(result.profile.share("sixty") > result.profile.share("thirty") >
             result.profile.share("ten"), str(result))


@test
def test_stacks_where_their_copies_are_refused():
    """As by Docker's filter on older hosts, which knows neither call."""
    result = run(program("refuse"), "EPERM", "perf_event_open,process_vm_readv", program("split"),
                 1000, options={"ONLY": "split"})
    expect(result.status == 0 and result.stdout == b"done\n", str(result))
    result.quiet()
    measured(result.profile.whole_share() > 0.98, f"not whole: {result.profile.broken()}")
    check_split(result.profile, sixty=60)


@test
def test_perf_alone_is_wanted():
    result = run(program("refuse"), "EPERM", "perf_event_open", program("work"), 100000, 3,
                 options={"ENGINE": "perf", "ONLY": "work"})
    expect(result.status == 3 and not result.files(), str(result))
    expect(b"the kernel refuses sampling events" in result.stderr, str(result))


@test
def test_workers_that_block_all_signals():
    need("xz")
    data = top_directory() / "data"
    data.write_bytes(bytes(i * i * 7919 >> 5 & 255 for i in range(1 << 20)) * 24)
    data.chmod(0o644)
    result = both("xz", "-T2", "-1", "--block-size=4MiB", "-k", "-c", data,
                  options={**TIMER, "THREADS": "tid"})
    result.quiet()
    profile = result.profile
    workers = [t for t in profile.threads() if profile.thread_share(t) > 0.05]
    measured(len(workers) >= 2, f"{ {t: profile.thread_share(t) for t in profile.threads()} }")


@test
def test_threads_that_block_all_signals_themselves():
    """Ours stays open in them, by whichever call: what they compute from then on is sampled as before."""
    result = both(program("blocked"), 400, options={**TIMER, "UNIT": "us"})
    result.quiet()
    for function in ("by_pthread_sigmask", "by_sigprocmask"):
        near(result.profile.share(function), 0.25, 0.06, f"{function}; {result.profile.heaviest()}")


@test
def test_a_program_that_is_born_with_all_signals_blocked():
    """As a child of one that blocks them: ours is unblocked, and the program can't tell."""
    def block():
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())

    result = both(program("work"), 200000, 3, setup=block, options={**TIMER, "UNIT": "us"})
    near(result.profile.total() / 1000, 200, 30, "ms of CPU time")


@test(each=[("root", False), ("user", True)])
def test_signals_as_bare(who):
    seen = bare(program("sigview"), 4000, user=who[1]).stdout
    result = both(program("sigview"), 4000, user=who[1], options={**TIMER, "CHILDREN": "no"})
    wrong = [(a, b) for a, b in zip(seen.split(b"\n"), result.stdout.split(b"\n")) if a != b]
    expect(seen == result.stdout, f"bare and with us: {wrong[:2]}")
    result.quiet()
    measured(result.profile.share("between") > 0.5, str(result))


@test
def test_signals_ignored_in_old_ways():
    """By sigignore, and changed by siginterrupt: ours is another one then."""
    result = both(program("sigview"), 4000, "ignore", options=TIMER)
    measured(result.profile.share("ignoring") > 0.5, str(result))


@test
def test_a_program_that_takes_every_signal():
    """By raw system calls: it gets none of ours once it has a thread; a line tells of the loss."""
    result = run(program("rawsignals"), options=TIMER)
    expect(result.stdout == b"0\n" and result.status == 5, str(result))
    lines = result.stderr.decode().splitlines()
    expect(len(lines) == 1 and "handles all signals" in lines[0], f"stderr {lines}")


@test(each=["notice", "signals"])
def test_nothing_is_noticed(what):
    """No call is interrupted, nothing is pending, blocked or handled that was not."""
    result = both(program(what), options=TIMER)
    expect(what != "notice" or b"interrupted: 0" in result.stdout, str(result))
    own = max(result.profiles, key=lambda profile: profile.total())  # a child may have a sample, too
    measured(own.whole_share() > 0.95, str(own.broken()))


@test(each=[("before", True), ("after", False)])
def test_a_thread_that_came_to_no_hook(where):
    """Made by a library's constructor, before ours has run."""
    libraries = {"before" if where[1] else "after": [shared("early")]}
    result = run(program("work"), 300000, 3, options={**TIMER, "UNIT": "us"}, **libraries)
    expect(result.status == 3, str(result))
    early = result.profile.share("in_early_thread") * result.profile.total() / 1000
    near(early, 400, 130, "ms in its thread")


@test
def test_exec():
    """Each program has a file of its own, written when it is left, not at the process's end."""
    result = both(program("execself"), 4, options={**TIMER, "UNIT": "us"})
    expect(len(result.profiles) >= 4, f"{result.files()}")
    # Half of it behind an exec that fails.
    near(sum(p.share("in_image") * p.total() for p in result.profiles) / 1000, 200, 40, "ms in all images")

    def wait_and_kill(pid):
        wait_until(lambda: comm(pid) == "sleep" and all(state(helper) in ("Z", "") for helper in helpers(pid)), 20,
                   "its helper stays")
        os.kill(pid, signal.SIGTERM)

    result = run("/bin/sh", "-c", f"{program('split')} 100; exec sleep 30",
                 options={**TIMER, "ONLY": "sh"}, while_running=wait_and_kill)
    expect(result.status == -signal.SIGTERM, str(result))


@test
def test_libraries_that_come_and_go():
    """Two in turn, at one address: no record tells of them."""
    libraries = [shared("swapped.c", "-DNAME=first", "libswapped-first.so"),
                 shared("swapped.c", "-DNAME=second -DREVERSE", "libswapped-second.so")]
    result = run(program("swaps"), *libraries, 3, 400000, 200000, options=TIMER)
    expect(result.status in (0, 77), str(result))
    profile = result.profile
    first = profile.share_where(lambda s: any(f.startswith("first_") for f in s))
    second = profile.share_where(lambda s: any(f.startswith("second_") for f in s))
    near(first, 2 / 3, 0.12, f"of the first; {profile.heaviest()}")
    near(second, 1 / 3, 0.12, f"of the second; {profile.heaviest()}")
    measured(profile.whole_share() > 0.95, f"not whole: {profile.broken()}")


@test(each=["exit", "main-pthread-exit", "signal-9"])
def test_ends(how):
    result = both(program("leave"), 400, how, options=TIMER)
    profile = result.profile
    measured(profile.share("work") + profile.share("work_after_main") > 0.95, str(result))
    near(profile.total() / (150 if how == "main-pthread-exit" else 100), 1, 0.12, "of its time")


@test
def test_many_threads_and_little_to_have():
    result = run(program("burners"), 200, 20, user=True, options={**TIMER, "SUMMARY": "yes"},
                 limits={resource.RLIMIT_MEMLOCK: 0})
    expect(b"joined" in result.stdout, str(result))
    measured(b" 0 threads not covered" in result.stderr, str(result))
    # Where the machine is busy a thread of five ticks may live between them.
    measured(seen_percent(result) > 70, f"{seen_percent(result)} % of the CPU clock")
    # A processor is handed on at a tick: threads begin in step with what samples them, and live for five.
    near(result.profile.share("sixty"), 0.6, 0.2, "sixty")
    near(result.profile.share("thirty"), 0.3, 0.15, "thirty")


@test
def test_rings_that_cannot_be_had():
    """Threads without a perf event have a timer, in the same profile."""
    result = run(program("burners"), 160, 40, 1370, "at once", user=True, limits={resource.RLIMIT_MEMLOCK: 0,
                 resource.RLIMIT_NOFILE: 8}, options={"SUMMARY": "yes"})
    granted_kb = int(Path("/proc/sys/kernel/perf_event_mlock_kb").read_text()) * os.cpu_count()
    least_kb = 20  # the smallest ring; half of them can be had at most, or the machine grants much
    if granted_kb < 160 * least_kb / 2:
        measured(engine(result) == "perf and timers", engine(result))
    expect(b" 0 threads not covered" in result.stderr, str(result))
    near(seen_percent(result), 100, 4, "of the CPU clock")


@test
def test_what_timers_miss_is_not_the_kernels():
    """Where perf shows no kernel samples, points without a record are the kernel's; timers have no such points."""
    result = run(program("burners"), 64, 150, user=True, limits={resource.RLIMIT_MEMLOCK: 0}, clock=True,
                 options={"SUMMARY": "yes", "KERNEL": "no", "UNIT": "us"})
    measured(engine(result) == "perf and timers", engine(result))
    _, _, _, _, user_us, system_us = result.process_clocks[0]
    near(100 * result.profile.share("[kernel]"), 0, 8 + 100 * system_us / (user_us + system_us),
         "percent of the kernel's")


if __name__ == "__main__":
    main()
