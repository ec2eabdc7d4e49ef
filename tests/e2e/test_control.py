#!/usr/bin/env python3
"""A profiled process is spoken to from outside: snapshot, pause, resume, by signal and by command."""

import os
import signal
import subprocess
import time
from pathlib import Path

from folded import Profile
from harness import (COMMAND, USER_ID, expect, helpers, main, measured, near_ms, need, need_kernel_samples, need_root,
                     private_directory, program, run, signals_to_helper, test, wait_helper, wait_until)

FOR_EVER_US = 600_000_000  # killed before


def control(*words, **arguments):
    return subprocess.run([str(COMMAND), *map(str, words)], capture_output=True, text=True,
                          timeout=60, **arguments)


def phase(directory, number):
    """Lets the program `phases` do its NUMBERth phase, and waits until it has."""
    (directory / f"go.{number}").touch()
    wait_until((directory / f"done.{number}").exists, 30, f"phase {number} does not end")


def run_phases(steps, **arguments):
    """Runs `phases` with a call of STEPS(pid, helper, phase) while it runs."""
    directory = private_directory()

    def while_running(pid):
        steps(pid, wait_helper(pid), lambda number: phase(directory, number))

    result = run(program("phases"), directory=directory, while_running=while_running, **arguments)
    expect(result.status == 0, str(result))
    expect(result.stdout == b"signals: 0\n", f"the program got signals: {result.stdout!r}")
    return result


def is_part_of(part, whole):
    """Fails where a stack has more in the earlier profile than in the later (but for rounding)."""
    for stack, count in part.stacks.items():
        expect(count <= whole.stacks.get(stack, 0) + 2,
               f"{stack}: {count} in the snapshot, {whole.stacks.get(stack, 0)} at the end")


@test(each=["selfsample.%e.%p.folded", "fixed.folded", "sub/", "at-%n.folded", "taken.folded"])
def test_snapshot(pattern):
    """The command prints the file, which holds what has been so far; the end has the rest."""
    seen = {}

    def steps(pid, helper, go):
        directory = Path(f"/proc/{pid}/cwd").resolve()
        if pattern == "taken.folded":
            (directory / pattern).write_text("somebody's 1\n")
        go(1)
        asked = control("snapshot", pid, cwd="/")
        expect(asked.returncode == 0 and asked.stderr == "", str(asked))
        seen["path"] = Path(asked.stdout.rstrip("\n"))
        expect(seen["path"].is_absolute(), f"{seen['path']}")
        seen["profile"] = Profile(seen["path"])
        go(2)
        again = control("snapshot", helper, cwd="/")
        expect(again.returncode == 0, str(again))
        seen["again"] = Profile(again.stdout.rstrip("\n"))
        go(3)

    def setup():
        os.mkdir("sub")

    result = run_phases(steps, options={"OUT": pattern}, setup=setup)
    first, second = seen["profile"], seen["again"]
    near_ms(first.total(), 400, 20, "samples of the snapshot")
    expect("second" not in first.functions(), "the snapshot knows what came later")
    near_ms(second.total(), 800, 30, "samples of the second")
    finals = [p for p in result.profiles if p.path.name != "taken.folded"]
    if pattern == "at-%n.folded":
        expect([p.path.name for p in finals] == ["at-0.folded", "at-1.folded", "at-2.folded"],
               f"{result.files()}")
    else:
        expect(len(finals) == 1 and first.path == second.path == finals[0].path.resolve(),
               f"{result.files()}, snapshot at {first.path}")
    if pattern == "taken.folded":
        expect((result.directory / pattern).read_text() == "somebody's 1\n", "it was overwritten")
    near_ms(finals[-1].total(), 1200, 40, "samples at the end")
    is_part_of(first, second)
    is_part_of(second, finals[-1])
    left = [name for name in result.files() if ".tmp" in name]
    expect(not left, f"left behind: {left}")


@test
def test_snapshots_are_whole():
    """Whoever reads the file at any moment finds a whole one, which only grows."""
    totals = []

    def look(pid):
        directory = Path(f"/proc/{pid}/cwd").resolve()
        helper = wait_helper(pid)
        end = time.monotonic() + 1.2
        while time.monotonic() < end:
            os.kill(helper, signal.SIGUSR1)
            for path in directory.glob("*.folded"):
                totals.append(Profile(path).total())

    result = run(program("work"), 1800000, while_running=look)
    measured(len(set(totals)) > 5, f"{len(set(totals))} different snapshots")
    expect(totals == sorted(totals), "the file shrinks")
    near_ms(result.profile.total(), 1800, 60, "samples at the end")


@test(each=["by command", "by signal"])
def test_pause(how):
    """What is done in a pause is in no account, and costs no samples."""
    need_kernel_samples()
    def steps(pid, helper, go):
        go(1)
        if how == "by command":
            expect(control("pause", pid).returncode == 0, "pause")
            expect(control("pause", pid).returncode == 0, "pause once more")
        else:
            os.kill(helper, signal.SIGUSR2)
            wait_until(lambda: "paused yes" in Path(f"/proc/{helper}/fd/0").read_text(), 5,
                       "it does not pause")
        go(2)
        if how == "by command":
            expect(control("resume", helper).returncode == 0, "resume")
        else:
            os.kill(helper, signal.SIGUSR2)
            wait_until(lambda: "paused no" in Path(f"/proc/{helper}/fd/0").read_text(), 5,
                       "it does not resume")
        go(3)

    result = run_phases(steps, options={"SUMMARY": "yes"})
    profile = result.profile
    near_ms(profile.total(), 800, 25, "samples of the phases that were not paused")
    expect("second" not in profile.functions(), "the pause was sampled")
    near_ms(profile.sum_where(lambda s: "third" in s), 400, 15, "samples after the pause")
    text = result.stderr.decode()
    clock = float(text.split(" of its clock")[0].rsplit("(", 1)[1].rstrip(" %"))
    measured(96 < clock < 104, f"of its clock: {clock} %")
    expect("threads not covered" in text, text)
    measured(", 0 lost; 0 threads not covered" in text, text)


@test
def test_ends_in_a_pause():
    def steps(pid, _, go):
        go(1)
        expect(control("pause", pid).returncode == 0, "pause")
        go(2)
        go(3)

    result = run_phases(steps)
    expect(not result.profile.functions() & {"second", "third"}, "the pause was sampled")
    near_ms(result.profile.total(), 400, 15, "samples before the pause")


@test
def test_threads_in_a_pause():
    """Threads born and ended in a pause: nothing of them."""
    result = run(program("burners"), 4, 500,
                 while_running=signals_to_helper((0, signal.SIGUSR2)))
    expect(result.status == 0, str(result))
    total = sum(p.total() for p in result.profiles)
    measured(total < 500, f"{total} samples of 2000 in the pause")


@test(each=["descriptors", "no pidfd_open", "no pidfd_send_signal"])
def test_signal_finds_the_helper_alone(how):
    """The command holds the process, looks who it is, and then signals what it holds: a helper that ended may have
    left its number to somebody else. Kernels without such descriptors get the plain signal."""
    log = private_directory() / "calls"
    trace = [need("strace"), "-o", log, "-e", "trace=pidfd_open,pidfd_send_signal,rt_sigqueueinfo,readlink"]
    if how != "descriptors":
        trace += ["-e", f"inject={how.split()[1]}:error=ENOSYS"]

    def steps(pid, helper, go):
        go(1)
        asked = subprocess.run([*map(str, trace), str(COMMAND), "snapshot", str(pid)], capture_output=True,
                               text=True, timeout=60)
        expect(asked.returncode == 0, str(asked))
        go(2)
        go(3)
        calls = log.read_text()
        calls = calls[calls.index("pidfd_open"):]
        expect(calls.startswith(f"pidfd_open({helper}, "), calls)
        last = "pidfd_send_signal(" if how != "no pidfd_open" else f"rt_sigqueueinfo({helper}, "
        expect(-1 < calls.find(f'readlink("/proc/{helper}/fd/0"') < calls.find(last), calls)
        expect(("rt_sigqueueinfo" in calls) == (how != "descriptors"), calls)

    run_phases(steps)


@test
def test_errors():
    """One line on stderr, status 1, nothing on stdout."""
    def fails(asked, text):
        expect(asked.returncode == 1 and asked.stdout == "" and asked.stderr.count("\n") == 1
               and text in asked.stderr, f"wanted {text!r}: {asked}")

    for word in ("snapshot", "pause", "resume"):
        fails(control(word, os.getpid()), "not being profiled")
        fails(control(word, 4194304 + 5), "no such process")

    def too_early(pid):
        wait_helper(pid)
        fails(control("snapshot", pid), "no sample")
        os.kill(pid, signal.SIGKILL)

    # At the usual rate its first tenth of a millisecond has a sample in one run of 25.
    run("sleep", 30, options={"RATE": 1}, while_running=too_early)


@test
def test_another_user():
    """A user may not control what is not theirs."""
    need_root()

    def look(pid):
        wait_helper(pid)
        asked = control("snapshot", pid, user=USER_ID, group=USER_ID, extra_groups=[])
        expect(asked.returncode == 1 and "not permitted" in asked.stderr, str(asked))
        os.kill(pid, signal.SIGKILL)

    run(program("work"), FOR_EVER_US, while_running=look)


@test
def test_command_is_not_the_program():
    """The process id of the command, rather than the program's, is told apart."""
    seen = []

    def look(pid):
        wait_until(lambda: helpers_below(pid), 5, "no helper")
        seen.append(control("snapshot", pid))
        os.kill(pid, signal.SIGTERM)  # which it passes on

    def helpers_below(pid):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [h for child in children for h in helpers(int(child))]

    run(COMMAND, program("work"), FOR_EVER_US, preload=False, while_running=look)
    expect(seen[0].returncode == 1 and "is the selfsample command" in seen[0].stderr, str(seen[0]))


main()
