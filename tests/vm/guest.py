#!/usr/bin/env python3
"""Whole runs on Debian's kernel: what test_arm64 and test_amd64 have a virtual machine run.

The programs are built when this file is read: on the host, for AArch64 by the cross compiler, where
it is told to run none of its tests; the machine, which has the same files in the same places, finds
them built. Where it is emulated its CPU time is counted in instructions, so what is measured
depends on neither the host's speed nor its load.
"""

import re
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

from folded import has_path  # noqa: E402
from harness import (BUILD, EVERYONE, LEVEL_3, Skip, check_sum, expect, main, measured,  # noqa: E402
                     near, program, run, shared, test)

# The processor by the number that ELF has for it.
AARCH64 = (BUILD / "libselfsample.so").read_bytes()[18] == 183
WHO = [who for who in EVERYONE if who.level != 1]
ALL = [*WHO, LEVEL_3]
SPLITS = {
    "plain": program("split"),
    "O0": program("split", "-O0", name="split-O0"),
    "no-frame-pointer": program("split", "-fomit-frame-pointer", name="split-omit"),
}
if AARCH64:
    SPLITS["signed"] = program("split", "-mbranch-protection=standard", name="split-signed")
BURNERS, FORKS, EXECSELF, LEAVE, REFUSE, SHAPES, DEEP, ALTSTACK = map(program, (
    "burners", "forks", "execself", "leave", "refuse", "shapes", "deep", "altstack"))
shared("cpuclock")
THREADS = 4
SPLIT = (("sixty", 60), ("thirty", 30), ("ten", 10))


def check_whole(profile):
    measured(profile.whole_share() >= 0.99, f"not whole: {profile.broken()}")


def check_split(profile, off=3):
    """Shares among the three alone: a slow processor takes its time to start a program."""
    burnt = sum(profile.share(function) for function, _ in SPLIT)
    shares = {function: 100 * profile.share(function) / burnt for function, _ in SPLIT}
    for function, percent in SPLIT:
        near(shares[function], percent, off, f"{function} of {shares}")


def check_engine(result, engine):
    expect(re.search(rf"engine: {engine}\b".encode(), result.stderr), f"no {engine}: {result}")


def burnt_ms(profiles, function):
    return [profile.share(function) * profile.total() / 1000 for profile in profiles]


@test
def test_return_addresses_are_signed():
    """Else the others would show nothing of it."""
    if not AARCH64:
        raise Skip("AArch64 alone signs them")
    features = Path("/proc/cpuinfo").read_text()
    expect(" paca " in features, f"no pointer authentication: {features}")
    expect(b"\x3f\x23\x03\xd5" in SPLITS["signed"].read_bytes(), "no paciasp in the program")


@test(who=WHO, each=["perf", "timer"])
def test_threads(who, engine):
    result = run(BURNERS, THREADS, 600, user=who.user, clock=True,
                 options={"UNIT": "us", "SUMMARY": "yes", "ENGINE": engine})
    expect(result.status == 0 and result.stdout == b"joined\n", str(result))
    check_engine(result, engine)
    profile = result.profile
    for i in range(THREADS):
        near(100 * profile.thread_share(f"burner-{i}"), 100 / THREADS, 3, f"thread {i}")
    # Timers look at the kernel's ticks, which here are also where the threads' turns end: always
    # at the same few places of their cycle. test_split_by_timer has a thread without others.
    if engine == "perf":
        check_split(profile)
    check_sum(result, profile, tolerance=0.03, slack_ms=12)
    check_whole(profile)


@test(who=WHO, each=SPLITS)
def test_split(who, build):
    result = run(SPLITS[build], 800, user=who.user)
    expect(result.status == 0, str(result))
    result.quiet()
    profile = result.profile
    check_split(profile)
    check_whole(profile)
    for function, _ in SPLIT:
        right = profile.share_where(lambda s, f=function: has_path(s, "main", "middle", f))
        measured(right >= 0.99 * profile.share(function), f"{profile.paths_to(function)}")


@test(who=WHO)
def test_split_by_timer(who):
    profile = run(SPLITS["plain"], 2000, user=who.user, options={"ENGINE": "timer"}).profile
    check_split(profile, 6)
    check_whole(profile)


@test(each=["prologue", "plt", "ifunc", "tail", "vdso", "deep"])
def test_shape(shape):
    result = run(SHAPES, shape, 400)
    expect(result.status == 0, str(result))
    profile = result.profile
    check_whole(profile)
    right = profile.share_where(lambda s: has_path(s, "main", "caller"))
    measured(right > 0.85, f"below caller and main: {right:.3f}; {profile.heaviest()}")
    if shape == "deep":
        full = profile.share_where(lambda s: s.count("recurse") == 201)
        measured(full > 0.85, f"all frames: {full:.3f}; {profile.heaviest(3)[:900]}")


@test
def test_deeper_than_the_copy():
    profile = run(DEEP, 600).profile
    inner = profile.share("innermost")
    right = profile.share_where(lambda s: s.count("deeper") == 61 and "innermost" in s)
    measured(right > 0.95 * inner, f"61 frames above innermost: {right:.3f} of {inner:.3f}")


@test
def test_through_a_signal():
    profile = run(ALTSTACK, 1000).profile
    right = profile.share_where(
        lambda s: has_path(s, "main", "filler") and has_path(s, "interrupted", "raise")
        and "in_handler" in s)
    measured(right > 0.95 * profile.share("in_handler"), f"{right:.3f}; {profile.broken()}")


@test(who=ALL, each=[("exit", 42), ("_exit", 1), ("abort", -signal.SIGABRT),
                     ("segv", -signal.SIGSEGV), ("signal-9", -signal.SIGKILL),
                     ("main-pthread-exit", 0)])
def test_end(who, case):
    how, status = case
    result = run(LEAVE, 200, how, user=who.user, options={"UNIT": "us"})
    expect(result.status == status, str(result))
    result.quiet()
    near(burnt_ms([result.profile], "work")[0], 200, 15, "ms in work()")
    check_whole(result.profile)


@test(who=ALL)
def test_forks(who):
    result = run(FORKS, 5, 50000, user=who.user, options={"UNIT": "us"})
    expect(result.status == 0 and len(result.profiles) == 6, str(result))
    near(sum(burnt_ms(result.profiles, "in_child")), 250, 30, "ms in children")
    near(sum(burnt_ms(result.profiles, "in_parent")), 400, 20, "ms in the parent")


@test(who=ALL)
def test_exec(who):
    result = run(EXECSELF, 4, user=who.user, options={"UNIT": "us"})
    expect(result.status == 6 and len(result.profiles) == 4, str(result))
    near(sum(burnt_ms(result.profiles, "in_image")), 200, 30, "ms in all images")


@test(who=[LEVEL_3])
def test_refused_by_the_level(who):
    """Plain kernels refuse nothing then."""
    result = run(BURNERS, THREADS, 600, user=who.user, options={"SUMMARY": "yes"})
    expect(result.status == 0 and result.stdout == b"joined\n", str(result))
    expect(b"engine: timer (perf refused: Permission denied (EACCES); "
           b"`sysctl kernel.perf_event_paranoid=2` would allow it)" in result.stderr,
           str(result.stderr))
    check_whole(result.profile)
    for i in range(THREADS):
        near(100 * result.profile.thread_share(f"burner-{i}"), 100 / THREADS, 3, f"thread {i}")


@test(each=[("perf_event_open", "timer"), ("apart", "perf"), ("apart,perf_event_open", "timer")])
def test_refused(case):
    calls, engine = case
    result = run(REFUSE, "EPERM", calls, BURNERS, THREADS, 300,
                 options={"ONLY": "burners", "SUMMARY": "yes"})
    expect(result.status == 0 and result.stdout == b"joined\n", str(result))
    check_engine(result, engine)
    check_whole(result.profile)
    for i in range(THREADS):
        measured(result.profile.thread_share(f"burner-{i}") > 0.15, f"thread {i}: {result}")


if __name__ == "__main__":
    main()
