#!/usr/bin/env python3
"""fork, vfork, exec, spawn, daemons: every process has its own whole profile."""

import contextlib
import os
import re
import signal
import time
from pathlib import Path

from harness import (EVERYONE, Off, Skip, at_scale, bare, both, expect, helpers, interrupts_ms, main, measured, near,
                     near_ms, private_directory, program, run, same, state, test, wait_helper, wait_until)
from machine import late_us

BIG_MB = at_scale(512, 4096)
CHILDREN = at_scale(600, 2000)


def by_program(result, name):
    return [p for p in result.profiles if p.path.name.startswith(f"selfsample.{name}.")]


@test
def test_two_hundred_children():
    result = both(program("forks"), 200, 20000, timeout=120)
    profiles = result.profiles
    parents = [p for p in profiles if "in_parent" in p.functions()]
    children = [p for p in profiles if "in_child" in p.functions()]
    expect(len(parents) == 1 and len(profiles) == 201, f"{len(parents)} parents, {len(profiles)} files")
    # A child whose helper gets no processor has its first records alone, which may be of its start.
    measured(len(children) == 200, f"{len(children)} of 200 children seen in their own function")
    measured("in_child" not in parents[0].functions(), "children's samples are with the parent")
    near_ms(parents[0].count_of("in_parent"), 400, 12 + interrupts_ms(400), "samples of the parent")
    counts = [p.share("in_child") * p.total() for p in children]
    near_ms(sum(counts), 200 * 20, 200, "samples of the children")
    few = [count for count in counts if count < 15]
    measured(len(few) <= 4, f"children with {few} of 20 samples")
    broken = [p.broken() for p in profiles if p.whole_share() < 0.95]
    measured(not broken, f"{len(broken)} profiles are not whole: {broken[:1]}")


@test(each=EVERYONE)
def test_children_of(who):
    result = both(program("forks"), 20, 50000, user=who.user)
    expect(len(result.profiles) == 21, f"{len(result.profiles)} files")
    near_ms(sum(p.total() for p in result.profiles), 1400, 70, "samples of all")


@test
def test_forks_under_load():
    """The parent's helper is at work when its memory is copied: no child's helper may hang."""
    result = both(program("forkburn"), 400, options={"RATE": 9999, "LIBUNWIND": "yes"}, timeout=100)
    # A helper that got no processor in its child's few ms knows the child's first records only.
    measured(len(result.profiles) > 390, f"{len(result.profiles)} profiles of 400 children")
    children = [p for p in result.profiles if "in_child" in p.functions()]
    measured(len(children) > 320, f"{len(children)} of 400 children seen in their own function")
    # A child of a fork that did not wait for the helper's libunwind goes without it.
    whole = sum(p.whole_share() > 0.5 for p in children) / len(children)
    measured(whole > 0.97, f"{whole:.3f} of the children have libunwind")


@test
def test_forks_among_four_burners():
    """Many children that allocate and leave at once: none hangs or crashes."""
    result = both(program("forkburn"), CHILDREN, 4, 0, options={"LIBUNWIND": "yes"}, timeout=600)
    expect(result.stdout == b"%d children, 0 bad\n" % CHILDREN, str(result))
    result.quiet()
    parents = [p for p in result.profiles if p.share("in_burner") > 0.5]
    expect(len(parents) == 1, f"{len(parents)} profiles of the parent")


@test
def test_fork_with_much_memory():
    """At 10 kHz: a fork that samples interrupted would begin anew again and again."""
    with open("/proc/meminfo") as meminfo:
        free_kb = next(int(l.split()[1]) for l in meminfo if l.startswith("MemAvailable"))
    if free_kb < 3 * BIG_MB * 1024:
        raise Skip(f"needs {3 * BIG_MB} MB of free memory, there are {free_kb // 1024}")
    medians_us = []
    for preload in (False, True):
        result = run(program("bigfork"), BIG_MB, 15, "median", preload=preload,
                     options={"RATE": 9999}, timeout=300)
        expect(result.status == 0 and result.stdout == b"forked\n", str(result))
        result.quiet()
        medians_us.append(int((result.directory / "median").read_text()))
    parent = max(result.profiles, key=lambda p: p.total())
    measured(parent.share("in_parent") * parent.total() > 2000, f"{parent.total()} samples")
    if medians_us[1] > 3 * medians_us[0] + 10000:
        raise Off(f"a fork takes {medians_us[1]} us, bare {medians_us[0]}")


@test
def test_spawns():
    """vfork, a failing exec after vfork, posix_spawn, system: the parent's profile is intact."""
    result = both(program("spawns"), 334, timeout=120)
    mine = by_program(result, "spawns")
    expect(len(mine) == 1, f"{len(mine)} profiles of the parent: {result.files()[:5]}")
    counted = mine[0].count_of("in_parent")
    # A point so shortly before each of the 1002 sleeps makes its sample behind it, in in_parent.
    near_ms(counted, 500, 35 + 1.5 * late_us() + interrupts_ms(500), "samples in in_parent")
    measured(mine[0].whole_share() > 0.98, f"not whole: {mine[0].broken()}")


@test
def test_descriptors_are_the_programs_own_at_once():
    """main begins when the helper has closed its copies, however long that takes: here one by one."""
    slow = [program("refuse"), "ENOSYS", "close_range"]
    without = bare(program("apart"), 5, launcher=slow)
    if without.status == 77:
        raise Skip("needs 10,000 descriptors")
    result = run(program("apart"), 5, launcher=slow, options={"ONLY": "apart"})
    expect((without.status, without.stdout, result.status) == (0, b"5\n", 0), f"{without}; {result}")
    measured(int(result.stdout) >= 4, str(result))  # the wait is bounded


@test
def test_exec_itself():
    result = both(program("execself"), 20, timeout=120)
    expect(result.status == 6, f"status {result.status}")
    profiles = result.profiles
    expect(len(profiles) == 20, f"{len(profiles)} files of 20 images: {result.files()[:4]}")
    counts = [p.share("in_image") * p.total() for p in profiles]
    # The task clock also counts what a hypervisor takes, and after an exec nothing is left to tell.
    near = [count for count in counts if 44 <= count <= 56]
    measured(len(near) >= 17, f"samples per image, wanted 50: {counts}")
    near_ms(sum(near), 50 * len(near), 1.5 * len(near), "samples of all those images")
    measured(min(counts) >= 44, f"samples per image, wanted 50: {counts}")


@test
def test_exec_leaves_no_dead_helpers():
    """A helper of an image before is nobody's to wait for; they must not pile up."""
    most = []

    def count(pid):
        while os.path.exists(f"/proc/{pid}/exe"):
            most.append(len(helpers(pid)))
            time.sleep(0.005)

    result = run(program("execself"), 20, while_running=count)
    expect(result.status == 6, str(result))
    expect(max(most) <= 3, f"{max(most)} helpers of one process at a time")


@test
def test_exec_fixed_name():
    result = both(program("execself"), 3, options={"OUT": "one.folded"})
    expect(result.files() == ["one.1.folded", "one.2.folded", "one.folded"], f"{result.files()}")


@test
def test_exec_out_of_a_thread_of_many():
    """exec while other threads burn: their samples are there as well."""
    result = both(program("execmany"))
    first = [p for p in result.profiles if "in_burner" in p.functions()]
    expect(len(first) == 1, f"{len(first)} files with the burners: {result.files()}")
    for function, wanted in (("in_burner", 400), ("in_main", 200)):
        near_ms(first[0].share(function) * first[0].total(), wanted, 30, function)


@test(each=[("yes", "yes", False), ("no", "no", False), ("late", "no", True)])
def test_exec_among_burning_threads(case):
    """What the summary compares with is the clock of that moment, though the helper has not looked for long; and
    looks when the next program has burnt as well, or ended."""
    _, kernel_frames, late = case
    directory = private_directory()

    def stop_over_the_exec(pid):
        helper = wait_helper(pid)
        wait_until(lambda: (directory / "ready").exists(), 20, "not ready")
        try:
            os.kill(helper, signal.SIGSTOP)
        except ProcessLookupError:
            raise Off("the exec was over before this test came to run") from None
        wait_until(lambda: b"again" in Path(f"/proc/{pid}/cmdline").read_bytes() or state(pid) == "Z", 20, "no exec")
        if late:
            wait_until(lambda: state(pid) in ("Z", ""), 20, "the next program does not end")
        with contextlib.suppress(ProcessLookupError):  # the program's end sets it going, too
            os.kill(helper, signal.SIGCONT)

    result = run(program("execthreads"), 2, 300, 120, directory=directory, while_running=stop_over_the_exec,
                 options={"UNIT": "us", "SUMMARY": "yes", "KERNEL": kernel_frames})
    expect(result.status == 0, str(result))
    first, second = sorted(result.profiles, key=lambda profile: "after" in profile.functions())
    before_ms, after_ms = (int(us) / 1000 for us in (directory / "used").read_text().split())
    near_ms(first.total() / 1000, before_ms, before_ms * 0.02 + 4, "before the exec")
    near_ms(second.total() / 1000, after_ms, 6, "after it")
    told = re.search(rb"execthreads .*\(([0-9.]+) % of its clock\)", result.stderr)
    near(first.total() / float(told.group(1)) / 10, before_ms, 12, "the clock told, ms")


@test
def test_daemon():
    result = both(program("daemon"))
    daemons = [p for p in result.profiles if "in_daemon" in p.functions()]
    expect(len(daemons) == 1, f"{len(daemons)} profiles of the daemon: {result.files()}")
    near_ms(daemons[0].share("in_daemon") * daemons[0].total(), 300, 10, "samples of the daemon")
    result.quiet()


@test
def test_static_program_after_exec():
    """A static image can't be profiled: it runs as ever, and nothing is said about it."""
    static = program("work", "-static", name="work-static")
    result = both("/bin/sh", "-c", f"exec {static} 100000 5")
    expect(result.status == 5 and not by_program(result, "work-static"), str(result))


@test
def test_other_word_size_after_exec():
    script = f"exec {program('bits32')}"
    without = bare("/bin/sh", "-c", script)
    if without.status != 5:
        raise Skip(f"this kernel runs no 32-bit programs: {without}")
    result = run("/bin/sh", "-c", script)
    same(without, result)
    result.quiet()


@test
def test_nothing_of_ours_after_exec():
    """A static image finds no descriptor, mapping or task that a bare run has not."""
    static = program("inventory", "-static", name="inventory-static")
    script = f"{program('work')} 20000; exec {static} 200 plain"
    result = both("/bin/sh", "-c", script)
    expect(result.status == 5 and b"children: none" in result.stdout, str(result))


@test(each=[("only", {"ONLY": "nothing"}), ("disabled", {"ENABLED": "no"})])
def test_nothing_of_ours_in_those_left_out(case):
    """No task, descriptor, event, mapping of libunwind or file in a program that is not wanted."""
    result = both(program("inventory"), 100, options=case[1])
    expect(result.status == 5 and b"events 0, of libunwind 0" in result.stdout, str(result))
    expect(not result.files(), f"{result.files()}")


@test
def test_nothing_of_ours_in_a_child_left_out():
    """CHILDREN=no: a program that is run does not even load the library."""
    result = both("/bin/sh", "-c", f"{program('inventory')} 100; exit $?",
                  options={"CHILDREN": "no"})
    expect(result.status == 5 and b"events 0, of libunwind 0" in result.stdout, str(result))
    expect(not [p for p in result.profiles if "inventory" in p.path.name], f"{result.files()}")


@test
def test_clean_environment_after_exec():
    result = both("/usr/bin/env", "-i", str(program("work")), 100000, 5)
    expect(result.status == 5 and not by_program(result, "work"), str(result))


main()
