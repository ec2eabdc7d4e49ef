#!/usr/bin/env python3
"""Libraries that come and go, and C++ exceptions through them."""

import os
import shutil

from folded import has_path
from harness import (Skip, at_scale, both, expect, main, measured, near, need_kernel_samples, need_root,
                     private_directory, program, run, shared, test)


def plugin():
    return shared("plugin.cc", "-DNAME=one", "libplugin-one.so")


@test(each=["inside", "across"])
def test_throws(where):
    """A million throws; the profile is whole and has the thrower in it."""
    result = both(program("throws"), where, plugin(), 1000000, timeout=120)
    expect(result.stdout == b"caught 1000000\n", f"{result.stdout!r}")
    profile = result.profile
    measured(profile.whole_share() > 0.98, f"not whole: {profile.broken()}")
    name = "throw_it" if where == "across" else "throw_inside"
    measured(profile.share(name) > 0.9, f"{name} has {profile.share(name):.3f}")


@test
def test_throws_while_libraries_come_and_go():
    """At 10 kHz, where a profiler that takes a lock of the loader's stops all progress."""
    count, seconds = 300000, at_scale(0, 30)
    result = both(program("throws"), "churn", plugin(), count, seconds, timeout=600,
                  options={"RATE": 9999})
    expect(result.stdout.count(b"caught %d\n" % count) == 3, f"{result.stdout!r}")
    result.quiet()
    measured(result.profile.total() > 1000, f"{result.profile.total()} samples")
    measured(result.profile.whole_share() > 0.97, f"not whole: {result.profile.broken()}")


@test(each=["yes", "no"])
def test_a_constructor_that_waits_for_a_thread(enabled):
    """While a library is being loaded no other thread can look a function up: ours need not."""
    result = both(program("constructs"), shared("constructs.c", "-DLIBRARY"), timeout=20, options={"ENABLED": enabled})
    expect(result.stdout == b"6 calls went well\n", f"{result}")


def swapped(name, reverse):
    return shared("swapped.c", f"-DNAME={name}" + (" -DREVERSE" if reverse else ""),
                  name=f"libswapped-{name}.so")


@test
def test_two_libraries_at_one_address():
    """5000 times in turn: each sample has the names of its own moment, though both are gone."""
    need_kernel_samples()
    result = run(program("swaps"), swapped("first", False), swapped("second", True), 2500, 200,
                 100, timeout=120)
    if result.status == 77:
        raise Skip("the libraries are not loaded at one address here")
    expect(result.status == 0, f"{result}")
    result.quiet()
    profile = result.profile
    counts = {f"{name}_{part}": profile.sum_where(
        lambda s: has_path(s, "run_plugin", "plugin_run", f"{name}_{part}"))
        for name in ("first", "second") for part in ("upper", "lower")}
    total = sum(counts.values())
    # They have 750 ms; the rest is the linker's and the kernel's.
    measured(total > 600, f"{counts}; {profile.heaviest()}")
    for name, share in (("first", 2 / 3), ("second", 1 / 3)):
        near(counts[f"{name}_upper"] / total, share * 3 / 4, 0.05, f"{name}; {counts}")
        near(counts[f"{name}_lower"] / total, share / 4, 0.05, f"{name}; {counts}")


def beside(*files):
    """Copies in a directory of their own."""
    directory = private_directory()
    os.chmod(directory, 0o777)
    copies = []
    for i, file in enumerate(files):
        copies.append(directory / f"{i}-{file.name}")
        shutil.copy(file, copies[-1])
    return copies


def check_replaced(command, path, who):
    if who == "root":
        need_root()
    result = run(*command, user=who == "user")
    expect(result.status == 0, f"{result}")
    profile = result.profile
    right = profile.share_where(lambda s: has_path(s, "main", *path))
    near(right, 1, 0.04, f"{path}; {profile.heaviest()}")
    return profile


@test(each=[f"{who}-{how}" for who in ("root", "user") for how in ("deleted", "replaced")])
def test_program_gone_before_its_first_sample(case):
    who, how = case.split("-")
    binary, other = beside(program("replaced"), program("split"))
    command = [binary, "exe", binary] + ([other] if how == "replaced" else [])
    check_replaced(command, ["own_work"], who)


@test(each=["deleted", "replaced"])
def test_library_gone_before_its_first_sample(how):
    """Only the privileged may open what is mapped and nothing more."""
    need_root()
    library, other = beside(swapped("first", False), swapped("second", True))
    command = [program("replaced"), "library", library] + ([other] if how == "replaced" else [])
    check_replaced(command, ["plugin_run"], "root")


@test
def test_library_gone_before_its_first_sample_for_a_user():
    """No names rather than those of the new file."""
    library, other = beside(swapped("first", False), swapped("second", True))
    profile = run(program("replaced"), "library", library, other, user=True).profile
    wrong = {f for f in profile.functions() if f.startswith("second")}
    expect(not wrong, f"names of the new file: {wrong}")
    near(profile.share_where(lambda s: any("swapped-first" in f or f.startswith("first")
                                           for f in s)), 1, 0.04, profile.heaviest())


@test(each=["root-memory", "root-closed", "user-memory"])
def test_library_in_a_memory_file(case):
    who, how = case.split("-")
    check_replaced([program("replaced"), how, swapped("first", False)], ["plugin_run"], who)


main()
