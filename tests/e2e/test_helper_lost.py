#!/usr/bin/env python3
"""The helper is killed or frozen: the program goes on, ends in time, and says what became of it."""

import os
import re
import signal
import time
from pathlib import Path

from harness import (INCLUDE, expect, helpers, main, measured, near_ms, program, run,
                     signals_to_helper, state, test, wait_helper, wait_until)

NO_ANSWER, NO_HELPER, BUSY = b"-110", b"-130", b"-16"


def freeze(helper):
    os.kill(helper, signal.SIGSTOP)
    wait_until(lambda: state(helper) == "T", 5, "the helper does not stop")


def is_waiting(pid):
    """Has the program come to its end, where it waits for the helper?"""
    try:
        return "futex" in Path(f"/proc/{pid}/wchan").read_text()
    except OSError:
        return False


def is_idle(pid, seconds=0.3):
    """Does its process use no CPU time for so long?"""
    def ticks():
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    before = ticks()
    time.sleep(seconds)
    return ticks() == before


def one_line(stderr, words):
    expect(stderr.count(b"\n") == 1 and words in stderr, f"stderr {stderr!r}, wanted {words!r}")


@test
def test_frozen_at_exit():
    """The program's end waits no longer than some seconds; the helper then is set going."""
    def look(pid):
        helper = wait_helper(pid)
        time.sleep(0.2)
        freeze(helper)
        wait_until(lambda: state(pid) in ("Z", ""), 30, "the program does not end")
        wait_until(lambda: state(helper) in ("Z", ""), 15, "the helper does not end")

    result = run(program("work"), 1000000, 7, while_running=look)
    expect(result.status == 7, f"status {result.status}")
    expect(result.elapsed < 10, f"it took {result.elapsed:.1f} s")
    one_line(result.stderr, b"the helper is stuck")
    near_ms(result.profile.total(), 1000, 40, "samples")


@test
def test_frozen_while_threads_come():
    """There is room for the news of some hundred threads; how many were beyond it is told."""
    def look(pid):
        helper = wait_helper(pid)
        freeze(helper)
        wait_until(lambda: is_waiting(pid) and is_idle(pid), 60, "the program does not wait")
        os.kill(helper, signal.SIGCONT)

    result = run(program("births"), 5000, 100, while_running=look, options={"SUMMARY": "yes"},
                 timeout=100)
    expect(result.status == 0, str(result))
    missed = re.search(rb"([0-9]+) threads? not covered", result.stderr)
    measured(missed and 1000 < int(missed[1]) < 5000, f"of 5000 threads were told as missed: {result}")


@test
def test_killed_while_the_exit_waits():
    """Noticed at once, not when the patience is over."""
    seen = {}

    def look(pid):
        helper = wait_helper(pid)
        freeze(helper)
        wait_until(lambda: is_waiting(pid), 20, "the program does not wait")
        os.kill(helper, signal.SIGKILL)
        killed = time.monotonic()
        wait_until(lambda: state(pid) in ("Z", ""), 20, "the program does not end")
        seen["after"] = time.monotonic() - killed

    result = run(program("work"), 800000, 7, while_running=look)
    expect(result.status == 7, f"status {result.status}")
    measured(seen["after"] < 1.5, f"noticed after {seen['after']:.2f} s")
    one_line(result.stderr, b"the helper was killed")


@test
def test_killed_while_the_program_waits_for_any_child():
    """With a look that leaves the child there, and so would find the helper again and again."""
    def watch(pid):
        os.kill(wait_helper(pid), signal.SIGKILL)

    result = run(program("waitkinds"), 1500, while_running=watch, timeout=60)
    expect(result.status == 6 and result.stdout == b"the child\n", str(result))


@test
def test_killed_long_before():
    """Threads, forks and the exit of a program whose helper is gone."""
    kill = signals_to_helper((0, signal.SIGKILL))
    result = run(program("burners"), 8, 200, while_running=kill)
    expect(result.status == 0, str(result))
    one_line(result.stderr, b"the helper was killed")
    result = run(program("forkburn"), while_running=kill)
    expect(result.status == 0, str(result))


@test
def test_threads_that_nobody_takes_over():
    """Those born after the helper's death get no events: nobody would ever unmap their rings."""
    grown = []

    def rings(pid):
        return Path(f"/proc/{pid}/maps").read_text().count("[perf_event]")

    def look(pid):
        helper = wait_helper(pid)
        os.kill(helper, signal.SIGKILL)
        wait_until(lambda: state(helper) in ("Z", ""), 5, "it is not dead")
        before = rings(pid)
        time.sleep(0.5)
        grown.append(rings(pid) - before)

    result = run(program("births"), 20000, 100, while_running=look)
    expect(result.status == 0, str(result))
    expect(grown[0] < 20, f"{grown[0]} more rings")
    one_line(result.stderr, b"the helper was killed")


@test
def test_thawed_after_a_long_time():
    """What a frozen helper was asked meanwhile it does when it can; the program never notices."""
    def look(pid):
        helper = wait_helper(pid)
        time.sleep(0.1)
        freeze(helper)
        time.sleep(0.6)
        os.kill(helper, signal.SIGCONT)

    result = run(program("work"), 1200000, while_running=look)
    expect(result.stderr == b"" and result.status == 0, str(result))
    near_ms(result.profile.total(), 1200, 40, "samples")


def attack(what):
    """Runs the calls of the API around something that is done to the helper."""
    def look(pid):
        directory = Path(f"/proc/{pid}/cwd")
        wait_until((directory / "ready").exists, 20, "the program is not ready")
        [helper] = helpers(pid)
        what(helper)
        (directory / "go").touch()
        if what is freeze:
            wait_until(lambda: state(pid) in ("Z", ""), 60, "the program does not end")
            os.kill(helper, signal.SIGCONT)

    result = run(program("api", INCLUDE), "attacked", while_running=look)
    expect(result.status == 0, str(result))
    values = [line.split() for line in result.stdout.splitlines()]
    return result, [value for _, value in values]


@test
def test_calls_without_a_helper():
    """They say so at once, and a new profile can be started."""
    def kill(helper):
        os.kill(helper, signal.SIGKILL)
        wait_until(lambda: state(helper) in ("Z", ""), 5, "it is not dead")

    result, values = attack(kill)
    expect(values == [b"0", NO_HELPER, NO_HELPER, NO_HELPER, b"0", b"0"], f"{values}")
    expect(result.elapsed < 10, f"it took {result.elapsed:.1f} s")
    one_line(result.stderr, b"the helper was killed")
    totals = [p.total() for p in result.profiles]
    expect(len(totals) == 2, f"{result.files()}")
    for total in totals:
        near_ms(total, 200, 12, "samples of the snapshot, and of the second profile")


@test
def test_calls_with_a_frozen_helper():
    """They wait for a bounded time; after a stop that was in vain nothing new is begun."""
    result, values = attack(freeze)
    expect(values == [b"0", NO_ANSWER, NO_ANSWER, NO_ANSWER, BUSY, b"-3"], f"{values}")
    expect(result.elapsed < 25, f"it took {result.elapsed:.1f} s")
    one_line(result.stderr, b"the helper is stuck")


main()
