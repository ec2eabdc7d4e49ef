#!/usr/bin/env python3
"""Where the clone that makes the helper is refused: it is a thread of the program."""

import os
import re
import resource
import signal
import subprocess
from pathlib import Path

from harness import (COMMAND, EVERYONE, ROOT, USER_ID, bare, both, comm, expect, main, measured, near,
                     near_ms, need_root, private_directory, program, run, test, wait_until)

BURN_US = 100000


def under(calls, error="EPERM"):
    """How to run a program so that these system calls are refused."""
    return {"launcher": [program("refuse"), error, calls]}


def only(name, **options):
    """The launcher gets the library too."""
    return {"options": {"ONLY": name, **options}}


@test(each=EVERYONE)
def test_shares_and_summary(who):
    command, place = [program("burners"), 2, 400], {**under("apart"), "user": who.user}
    result = both(*command, **place, **only("burners"))
    near_ms(result.profile.total(), 800, 40, "samples")
    for name, share in (("sixty", 0.6), ("thirty", 0.3), ("ten", 0.1)):
        near(result.profile.share(name), share, 0.06, name)
    told = run(*command, **place, **only("burners", SUMMARY="yes")).stderr
    expect(b"helper a thread" in told and b" 0 threads not covered" in told and
           b" in 3 threads\n" in told, told.decode())


@test(each=["return", "exit", "quick_exit", "thread-exit", "main-pthread-exit",
            "return-with-threads", "thread-by-thread"])
def test_ends_that_it_covers(way):
    result = both(program("leave"), 200, way, **under("apart"), **only("leave"), timeout=20)
    near_ms(result.profile.total(), 300 if way == "main-pthread-exit" else 200, 25, "samples")


@test(each=["_exit", "exit_group", "segv", "signal-9"])
def test_ends_that_it_does_not(way):
    result = both(program("leave"), 100, way, **under("apart"), **only("leave"))
    expect(not result.files(), str(result))


@test
def test_a_checkpoint_is_what_other_ends_leave():
    """There is one now and then, though nobody asked for any."""
    directory = private_directory()

    def kill(pid):
        wait_until(lambda: list(directory.glob("selfsample.waits.*")), 30, "there is no checkpoint")
        os.kill(pid, signal.SIGKILL)

    result = run(program("waits"), directory=directory, while_running=kill, **under("apart"),
                 **only("waits"))
    expect(result.status == -signal.SIGKILL, str(result))
    measured(result.profile.total() > 100, f"{result.profile.total()} samples")


def asked(*words):
    return subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, timeout=60)


def listed(pid):
    """Its line of `selfsample list`, as words."""
    lines = [line.split() for line in asked("list").stdout.splitlines()[1:]]
    return next((words for words in lines if words[0] == str(pid)), [])


def helper_thread(pid):
    return next((int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()
                 if comm(int(task.name)) == "selfsample"), 0)


@test
def test_it_can_be_spoken_to():
    """From outside, by the program's number and by its own; the program gets no signal."""
    def look(pid):
        directory = Path(f"/proc/{pid}/cwd").resolve()

        def phase(number):
            (directory / f"go.{number}").touch()
            wait_until((directory / f"done.{number}").exists, 30, f"phase {number} does not end")

        wait_until(lambda: listed(pid), 30, "it is not listed")
        phase(1)
        wait_until(lambda: int(listed(pid)[3]) > 300, 30, "no samples are listed")
        expect(listed(pid)[4:6] == ["running", "phases"], f"{listed(pid)}")
        for number in (pid, helper_thread(pid)):
            told = asked("live", number, "--count", 1, "--all", "--interval", 0.2)
            expect(told.returncode == 0 and f"phases (pid {pid}): all so far" in told.stdout and
                   "first" in told.stdout, str(told))
            told = asked("snapshot", number)
            expect(told.returncode == 0 and told.stdout == f"{directory}/selfsample.phases.{pid}.folded\n",
                   str(told))
            expect(len(Path(told.stdout[:-1]).read_bytes()) > 0, "the snapshot is empty")
        expect(asked("pause", pid).returncode == 0 and listed(pid)[4] == "paused", f"{listed(pid)}")
        phase(2)
        expect(asked("resume", pid).returncode == 0 and listed(pid)[4] == "running", f"{listed(pid)}")
        phase(3)

    result = run(program("phases"), **under("apart"), **only("phases"), while_running=look)
    expect(result.stdout == b"signals: 0\n", f"the program got signals: {result.stdout!r}")
    expect("second" not in result.profile.functions(), "the pause was sampled")
    near_ms(result.profile.total(), 800, 40, "samples of the phases that were not paused")


@test
def test_who_may_ask():
    """Another user's is counted, not shown, and not asked."""
    need_root()

    def look(pid):
        wait_until(lambda: listed(pid), 30, "it is not listed")
        for words in (["list"], ["live", pid], ["snapshot", helper_thread(pid)]):
            told = subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, timeout=60,
                                  user=USER_ID, group=USER_ID, extra_groups=[])
            expect(told.stdout.count(str(pid)) == 0, str(told))
            expect("not shown" in told.stderr or "not permitted" in told.stderr, str(told))
        os.kill(pid, signal.SIGTERM)

    run(program("waits"), **under("apart"), **only("waits"), while_running=look)


@test
def test_start_and_stop_leave_nothing():
    result = run(program("api", f"-I{ROOT}/include"), "cycles", 30, **under("apart"),
                 **only("api", ENABLED="no"))
    expect(result.status == 0 and result.stderr == b"", str(result))
    *errors, last = result.stdout.splitlines()
    measured(not errors, f"{errors}")  # a stop that has not been answered in time
    mappings, kb, fds, children = map(int, re.findall(rb"-?\d+", last))
    expect(kb <= 64 and mappings <= 4 and fds == 0 and children == -1, f"{result.stdout!r}")
    expect(len(result.profiles) == 30, f"{len(result.profiles)} profiles")


@test
def test_one_more_task_is_all_to_be_noticed():
    place = under("apart")
    without = bare(program("notice"), **place).stdout.decode().splitlines()
    result = run(program("notice"), **place, **only("notice"))
    changed = [(a, b) for a, b in zip(without, result.stdout.decode().splitlines()) if a != b]
    expect(changed and all(a.startswith("/proc/self/task: ") and
                           int(b.split()[1]) == int(a.split()[1]) + 1 for a, b in changed),
           f"{changed}")
    result.quiet()


@test
def test_its_own_signals():
    both(program("signals"), **under("apart"), **only("signals"))


@test
def test_children_and_programs():
    """Children have a helper each; what is executed starts afresh."""
    result = both(program("daemon"), **under("apart"), **only("daemon"))
    near_ms(max(p.total() for p in result.profiles), 300, 30, "samples of the daemon")
    result = both(program("forks"), 20, 10000, **under("apart"), **only("forks"))
    near_ms(max(p.total() for p in result.profiles), 400, 40, "samples of the parent")
    command = f"for i in 1 2 3; do {program('work')} 100000 $i; echo $?; done"
    result = both("/bin/bash", "-c", command, **under("apart"), **only("work"))
    expect(len(result.profiles) == 3, str(result))


@test
def test_few_descriptors():
    result = both(program("burners"), 3, 100, **under("apart"), **only("burners"), user=True,
                  limits={resource.RLIMIT_NOFILE: 8})
    result.quiet()


@test(each=["setuid", "capset", "raw"])
def test_credentials_are_followed(way):
    """libc does not know the thread, and so can't give it what it gives all others."""
    need_root()
    result = run(program("credentials"), way, BURN_US, **under("apart"), **only("credentials"))
    expect(result.status == 0 and b"alone" not in result.stdout and b"never" not in result.stdout,
           str(result))
    result.quiet()
    measured(result.profile.total() > 150, f"{result.profile.total()} samples")


@test(each=["prctl", "syscall", "strict", "all", "threads"])
def test_the_profile_ends_where_seccomp_begins(way):
    result = both(program("filters"), way, BURN_US, **under("apart"), **only("filters"))
    profile = result.profile
    near_ms(profile.share("outside") * profile.total(), BURN_US / 1000, 15, "samples outside")
    expect(profile.share("inside") == 0, f"share of inside: {profile.share('inside')}")


@test(each=["apart,unshare", "apart,threads"])
def test_no_way_at_all(calls):
    """No descriptors of its own, or no thread: one line, and the program runs."""
    place = under(calls, "EACCES")
    result = run(program("work"), BURN_US, 3, **place, **only("work"))
    lines = result.stderr.decode().splitlines()
    expect(result.status == 3 and not result.files(), str(result))
    expect(len(lines) == 1 and "the helper could not be started: Permission denied (EACCES)"
           in lines[0], str(lines))


main()
