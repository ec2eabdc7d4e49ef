#!/usr/bin/env python3
"""SELFSAMPLE_* in the environment: what each does, and what is said about a wrong one."""

import os
import re
import signal

from folded import Profile
from harness import (both, check_sum, expect, main, measured, near, near_ms, need_kernel_samples,
                     need_root, paranoid, private_directory, program, run, test, wait_until)

WRONG = [("RATE", "fast"), ("RATE", "0"), ("RATE", "-5"), ("STACK", "70000"), ("STACK", "x"),
         ("KERNEL", "maybe"), ("THREADS", "names"), ("UNIT", "ms"), ("CHILDREN", "2"),
         ("ENABLED", "onn"), ("SUMMARY", "full"), ("CHECKPOINT", "soon"),
         ("SECCOMP", "stop")]
WRONG_NAMES = [("RAET", "RATE"), ("OUTPUT", "OUT"), ("THREAD", "THREADS"), ("SUMARY", "SUMMARY"),
               ("SECOMP", "SECCOMP")]


def lines(result):
    return result.stderr.decode().splitlines()


@test(each=[(f"{name}={value}", name, value) for name, value in WRONG])
def test_wrong_value(case):
    _, name, value = case
    result = run(program("work"), 200000, 3, options={name: value})
    expect(result.status == 3, f"status {result.status}")
    expect(len(lines(result)) == 1, f"wanted one line: {result.stderr!r}")
    expect(lines(result)[0].startswith("selfsample: ") and name in lines(result)[0],
           f"the line does not name {name}: {lines(result)[0]}")
    near_ms(result.profile.total(), 200, 30, "samples at the default rate")


@test(each=WRONG_NAMES)
def test_wrong_name(case):
    wrong, right = case
    result = run(program("work"), 200000, 3, options={wrong: "1"})
    expect(result.status == 3, f"status {result.status}")
    expect(len(lines(result)) == 1, f"wanted one line: {result.stderr!r}")
    expect(wrong in lines(result)[0] and f"SELFSAMPLE_{right}" in lines(result)[0],
           f"no {right} in: {lines(result)[0]}")
    measured(result.profile.total() > 170, f"{result.profile.total()} samples")


@test
def test_wrong_option_is_told_once_in_a_tree():
    """Children inherit the variable, but not the line."""
    result = run(program("forks"), 5, 20000, options={"RATE": "fast"})
    expect(len(lines(result)) == 1, f"wanted one line: {result.stderr!r}")


@test(each=[("99", 99), ("999", 999), ("5000", 5000)])
def test_rate(case):
    _, rate = case
    result = run(program("work"), 1000000, options={"RATE": rate})
    near_ms(result.profile.total() * 1000 / rate, 1000, 30 if rate > 500 else 60, "sum")


@test
def test_unit_us():
    result = run(program("work"), 1000000, options={"UNIT": "us", "RATE": 99})
    near_ms(result.profile.total() / 1000, 1000, 30, "sum")


@test
def test_threads_name():
    result = run(program("burners"), 2, 200)
    # A helper that is kept from running may come when a thread has ended.
    measured(result.profile.threads() >= {"burner-0", "burner-1"}, f"{result.profile.threads()}")


@test
def test_threads_tid():
    result = run(program("rename"), options={"THREADS": "tid"})
    twins = [t for t in result.profile.threads() if t.startswith("twin/")]
    measured(len(twins) == 2, f"threads {result.profile.threads()}")
    for twin in twins:
        expect(twin.split("/")[1].isdigit(), f"thread {twin}")
        near(result.profile.thread_share(twin), 0.25, 0.03, twin)


@test
def test_threads_none():
    need_kernel_samples()
    profile = run(program("burners"), 2, 200, options={"THREADS": "none"}).profile
    expect(not any("burner" in frame for s in profile.stacks for frame in s), "thread names")
    merged = sum(c for s, c in profile.stacks.items() if "sixty" in s)
    near(merged / profile.total(), 0.6, 0.03, "share of sixty")


@test
def test_kernel_no():
    profile = run("/bin/dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=20000",
                  options={"KERNEL": "no"}).profile
    expect(not any(f.endswith("_[k]") for f in profile.functions()), "kernel frames")


@test
def test_kernel_frames_as_root():
    """A program that is in the kernel nearly all the time: kernel frames over whole stacks."""
    need_root()
    result = run("/bin/dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=20000",
                 options={"UNIT": "us"}, clock=True)
    profile = result.profile
    kernel = profile.share_where(lambda stack: stack[-1].endswith("_[k]"))
    measured(kernel > 0.8, f"kernel share {kernel:.3f}")
    check_sum(result, profile)


@test
def test_kernel_refused_is_quiet_by_default():
    with paranoid(2):
        result = run(program("split"), 500, user=True)
        result.quiet()
        expect(not any(f.endswith("_[k]") for f in result.profile.functions()), "kernel frames")
        near(result.profile.share("sixty"), 0.6, 0.03, "share of sixty")


@test
def test_kernel_yes_but_refused():
    with paranoid(2):
        result = run(program("split"), 500, user=True, options={"KERNEL": "yes"})
    expect(result.status == 0 and len(lines(result)) == 1, f"stderr {result.stderr!r}")
    for word in ("SELFSAMPLE_KERNEL=yes", "kernel.perf_event_paranoid is 2", "user stacks",
                 "sysctl kernel.perf_event_paranoid=1"):
        expect(word in lines(result)[0], f"no {word} in: {lines(result)[0]}")
    measured(result.profile.total() > 400, "the run is not profiled all the same")


@test
def test_kernel_refusal_is_told_once():
    """Forked children do not repeat it."""
    with paranoid(2):
        result = run(program("forks"), 3, 20000, user=True, options={"KERNEL": "yes"})
    expect(len(lines(result)) == 1, f"wanted one line: {result.stderr!r}")


@test
def test_enabled_no():
    result = both(program("work"), 200000, 3, options={"ENABLED": "no"})
    expect(not result.files(), f"files {result.files()}")


@test
def test_only():
    script = f'{program("work")} 100000; {program("split")} 100'
    result = both("/bin/sh", "-c", script, options={"ONLY": "spl*"})
    names = [p.path.name.split(".")[1] for p in result.profiles]
    expect(names == ["split"], f"profiles of {names}")
    result = both("/bin/sh", "-c", script, options={"ONLY": "work,split"})
    names = sorted(p.path.name.split(".")[1] for p in result.profiles)
    expect(names == ["split", "work"], f"profiles of {names}")


@test
def test_children_no():
    result = both(program("forks"), 5, 50000, options={"CHILDREN": "no"})
    near_ms(result.profile.total(), 400, 30, "samples of the parent")
    measured("in_child" not in result.profile.functions(), "a child is in the parent's profile")
    result = both("/bin/sh", "-c", f'{program("work")} 200000; :', options={"CHILDREN": "no"})
    expect(not [p for p in result.profiles if ".work." in p.path.name], f"{result.files()}")


@test
def test_summary_yes():
    result = run(program("split"), 1000, options={"SUMMARY": "yes"})
    text = result.stderr.decode()
    told = re.search(r"([0-9]+) stacks, ([0-9.]+) s of CPU time", text)
    expect(told, f"no samples and CPU time in: {text}")
    measured(abs(float(told.group(2)) - result.profile.total() / 999) < 0.002,
             f"{result.profile.total()} periods in the file, but: {text}")
    measured(0 < int(told.group(1)) <= 1.2 * result.profile.total(), text)
    expect(all(line.startswith("selfsample: ") for line in text.splitlines()), text)
    expect(result.profile.path.name in text, f"the file is not named in: {text}")
    expect(len(text.splitlines()) < 10, text)


@test
def test_stack_size():
    """Small copies cut deep stacks, and say so; large ones do not."""
    shapes = program("shapes")
    small = run(shapes, "deep", 500, options={"STACK": 1024}).profile
    large = run(shapes, "deep", 500, options={"STACK": 65528}).profile
    measured(large.whole_share() > 0.99, f"large copies: {large.broken()}")
    good = small.whole_share() + small.share_where(lambda s: s[1:2] == ("[truncated]",))
    measured(good > 0.99, f"neither whole nor marked: {small.broken()}")


@test
def test_checkpoint():
    """A profile is there while the program still runs, whole, and replaced by the next."""
    seen = []

    def look(pid):
        def two():
            seen.extend(Profile(path).total() for path in directory.glob("*.folded"))
            return len(set(seen)) > 1
        wait_until(two, 30, "there are no two checkpoints")
        os.kill(pid, signal.SIGTERM)

    directory = private_directory()
    result = run(program("waits"), directory=directory, options={"CHECKPOINT": 1}, while_running=look)
    expect(seen == sorted(seen), f"checkpoints shrink: {seen}")
    spent_ms = result.cpu_us / 1000
    near_ms(result.profile.total(), spent_ms, 0.03 * spent_ms + 30, "samples at the end")


main()
