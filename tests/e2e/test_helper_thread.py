#!/usr/bin/env python3
"""Where the clone that makes the helper is refused: it is a thread of the program."""

import os
import re
import resource
import signal
import subprocess
from pathlib import Path

from harness import (COMMAND, EVERYONE, ROOT, bare, both, comm, expect, main, measured, near,
                     near_ms, need_root, program, run, test, wait_until)

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
    result = run(program("leave"), 2500, "_exit", **under("apart"), **only("leave", CHECKPOINT=1))
    expect(result.status == 1, str(result))
    measured(700 < result.profile.total() < 2500, f"{result.profile.total()} samples")


@test
def test_the_command_says_whom_it_cannot_ask():
    def ask(pid):
        wait_until(lambda: "selfsample" in [comm(int(task.name)) for task in
                                            Path(f"/proc/{pid}/task").iterdir()], 10, "no helper")
        said = subprocess.run([COMMAND, "snapshot", str(pid)], capture_output=True, text=True)
        expect(said.returncode != 0 and "its helper is a thread of it" in said.stderr, str(said))
        os.kill(pid, signal.SIGTERM)

    run(program("waits"), **under("apart"), **only("waits"), while_running=ask)


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
