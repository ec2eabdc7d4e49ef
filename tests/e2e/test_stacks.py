#!/usr/bin/env python3
"""Unwinding: however the program was compiled and linked, whole stacks and true shares."""

import functools
import re
import shutil
import subprocess
from pathlib import Path

from folded import entry_root, has_path, is_whole, thread_roots, user_frames
from harness import (EVERYONE, Skip, bare, expect, main, measured, near, private_directory, program,
                     run, same, test, wait_helper)
from machine import counts_writes

RATE_HZ = 3999

VARIANTS = {
    "omit-frame-pointer": "-fomit-frame-pointer",
    "frame-pointer": "-fno-omit-frame-pointer",
    "O0": "-O0",
    "O3-lto": "-O3 -flto=auto",
    "no-pie": "-no-pie",
    "separate-code": "-Wl,-z,separate-code",
    "noseparate-code": "-Wl,-z,noseparate-code",
    "gold": "-fuse-ld=gold",
    "lld": "-fuse-ld=lld",
    "mold": "-fuse-ld=mold",
    "preferred-base": "-Wl,-Ttext-segment=0x12340000",
    "compressed-debug": "-gz",
    "no-eh-frame-hdr": "-Wl,--no-eh-frame-hdr",
    "debug-frame-only": "-fno-asynchronous-unwind-tables -fno-unwind-tables",
}
SHARES = (("sixty", 0.6), ("thirty", 0.3), ("ten", 0.1))


bare_run = functools.cache(bare)


def profiled(who, *command, samples=1100, options=None, **arguments):
    """Runs it at a high rate for about so many samples, told by its last argument, the ms that it
    is to compute; it must look as it does bare."""
    command += (samples * 1000 // RATE_HZ,)
    result = run(*command, user=who.user, options={"RATE": RATE_HZ, **(options or {})}, **arguments)
    if "SUMMARY" not in (options or {}):
        same(bare_run(*command), result)
    return result


def check_split(profile):
    for function, share in SHARES:
        near(profile.share(function), share, 0.03, f"{function}; heaviest: {profile.heaviest()}")
        right = profile.share_where(lambda s: has_path(s, "main", "middle", function))
        measured(right >= 0.995 * profile.share(function),
                 f"{function} is not below middle and main: {profile.paths_to(function)}")
    measured(profile.whole_share() > 0.995, f"not whole: {profile.broken()}")


@test(who=EVERYONE, each=VARIANTS)
def test_built(who, variant):
    flags = VARIANTS[variant]
    linker = re.search(r"-fuse-ld=(\w+)", flags)
    if linker and not shutil.which({"gold": "ld.gold", "lld": "ld.lld", "mold": "mold"}[linker[1]]):
        raise Skip(f"needs {linker[1]}")
    check_split(profiled(who, program("split", flags, name="split-" + variant)).profile)


@test(who=EVERYONE)
def test_built_by_clang(who):
    if not shutil.which("clang"):
        raise Skip("needs clang")
    check_split(profiled(who, program("split", name="split-clang", cc="clang")).profile)


@test(who=EVERYONE, each=["", "-no-pie"])
def test_stripped(who, flags):
    """One frame per function, named by the function's start, which nm of the twin tells."""
    name = "split-named" + flags
    twin = program("split", flags, name=name)
    stripped = program("split", flags, name="split-stripped" + flags, strip=True)
    text = subprocess.run(["nm", twin], capture_output=True, text=True, check=True).stdout
    base = 0x400000 if flags else 0
    starts = {line.split()[2]: int(line.split()[0], 16) - base
              for line in text.splitlines() if line.split()[1] in "Tt"}
    profile = profiled(who, stripped).profile
    for function, share in SHARES:
        wanted = {f"{stripped.name}+0x{starts[function] + b:x}" for b in {0, base}}
        near(sum(profile.share(frame) for frame in wanted), share, 0.03, f"{function} {wanted}")
    roots = entry_root(stripped)
    measured(profile.whole_share(roots) > 0.995, f"not whole: {profile.broken(roots)}")


@test(who=EVERYONE)
def test_static_pie_steps_aside(who):
    """Nothing can be preloaded into it; it runs as ever."""
    static = program("split", "-static-pie", name="split-static-pie")
    expect(not profiled(who, static, samples=400).profiles, "a profile of a static program")


def shape(who, name):
    profile = profiled(who, program("shapes"), name).profile
    measured(profile.total() > 1000, f"{profile.total()} samples")
    measured(profile.whole_share() > 0.99, f"not whole: {profile.broken()}")
    return profile


def without_libunwind():
    """Environment for a run in which libunwind is found to be of no use."""
    fake = private_directory() / "libunwind-x86_64.so.8"
    subprocess.run(["cc", "-shared", "-x", "c", "-o", fake, "/dev/null"], check=True)
    return {"LD_LIBRARY_PATH": str(fake.parent)}


@test(who=EVERYONE)
def test_without_libunwind(who):
    """Rules do, also where a function aligns its stack; the summary tells."""
    result = profiled(who, program("split", "-mstackrealign", name="split-realign"),
                      env=without_libunwind(),
                      options={"LIBUNWIND": "yes", "SUMMARY": "yes", "UNIT": "us"})
    check_split(result.profile)
    expect(b"perf without libunwind" in result.stderr, f"not told: {result.stderr[-400:]}")


@test
def test_with_libunwind():
    """It is only loaded where it is asked for, and then follows what rules cannot."""
    def libraries(pid):
        wait_helper(pid)
        maps.append(Path(f"/proc/{pid}/maps").read_text())

    maps = []
    run(program("shapes"), "base", 300, while_running=libraries)
    result = run(program("shapes"), "base", 1100, options={"LIBUNWIND": "yes"},
                 while_running=libraries)
    expect("libunwind" not in maps[0], maps[0])
    expect("libunwind" in maps[1], maps[1])
    measured(result.profile.whole_share() > 0.99, f"not whole: {result.profile.broken()}")
    right = result.profile.share_where(
        lambda s: has_path(s, "main", "caller", "based", "reached"))
    measured(right > 0.9, f"reached has {right:.3f}")


@test(who=EVERYONE)
def test_prologue(who):
    """Leaves without a frame, sampled at any instruction: their caller is there."""
    profile = shape(who, "prologue")
    for leaf in ("leaf", "pushing_leaf"):
        stacks = [s for s in profile.stacks if leaf in s]
        measured(stacks, f"no sample in {leaf}")
        right = profile.sum_where(lambda s: has_path(s, "main", "caller", leaf))
        measured(right >= 0.995 * profile.sum_where(lambda s: leaf in s),
                 f"{leaf} without its caller: {profile.paths_to(leaf)}")


@test(who=EVERYONE)
def test_plt(who):
    profile = shape(who, "plt")
    measured(profile.share("caller") > 0.98, f"caller has {profile.share('caller'):.3f}")


@test(who=EVERYONE)
def test_ifunc(who):
    profile = shape(who, "ifunc")
    measured(profile.share("caller") > 0.98, f"caller has {profile.share('caller'):.3f}")
    measured(profile.share("chosen") > 0.02, f"chosen has {profile.share('chosen'):.3f}")


@test(who=EVERYONE)
def test_tail_call(who):
    """The function that jumped away is not on the stack; the one above it is."""
    profile = shape(who, "tail")
    right = profile.share_where(lambda s: has_path(s, "main", "caller", "reached"))
    measured(right > 0.98, f"caller<reached has {right:.3f}: {profile.paths_to('reached')}")


@test(who=EVERYONE)
def test_vdso(who):
    profile = shape(who, "vdso")
    measured(profile.share("caller") > 0.98, f"caller has {profile.share('caller'):.3f}")
    named = [f for f in profile.functions() if "vdso" in f or "clock_gettime" in f]
    expect(any("clock_gettime" in f for f in named), f"the vDSO's function has no name: {named}")


@test(who=EVERYONE)
def test_deep(who):
    profile = shape(who, "deep")
    full = profile.share_where(lambda s: s.count("recurse") == 201)
    measured(full > 0.98, f"all 201 frames in {full:.3f} of the samples")


def is_cut(stack):
    return "[truncated]" in stack


def check_outer(profile, right, least):
    """The outer frames are right where debug registers watch them; else the stack is cut, and says so."""
    if counts_writes():
        measured(right >= least, f"right: {right:.4f}: {profile.broken()}")
        measured(profile.whole_share() > 0.99, f"not whole: {profile.broken()}")
    else:
        marked = profile.share_where(is_cut)
        measured(right + marked >= least, f"right {right:.4f}, marked {marked:.4f}: {profile.broken()}")


@test(who=EVERYONE)
def test_deeper_than_the_copy(who):
    """240 KB of frames: what is above the copy is read from the living stack."""
    profile = run(program("deep"), 1500, user=who.user).profile
    right = profile.share_where(lambda s: s.count("deeper") == 61 and "innermost" in s)
    check_outer(profile, right, 0.98)


@test(who=EVERYONE)
def test_signal_stack(who):
    """A handler on a stack of its own: what it interrupted is on the other, and in no copy."""
    profile = run(program("altstack"), 1100, user=who.user).profile
    right = profile.share_where(
        lambda s: s.count("filler") == 30 and has_path(s, "main", "filler")
        and has_path(s, "filler", "interrupted", "raise") and "in_handler" in s)
    check_outer(profile, right, 0.98)


def deepest(who, how, ms):
    profile = run(program("deepstacks"), how, ms, user=who.user).profile
    measured(profile.total() > 0.8 * ms, f"{profile.total()} samples")
    return profile


@test(who=EVERYONE, each=[("small", "recurse", 30000), ("pages", "paged", 2000), ("large", "large", 1)])
def test_far_deeper_than_the_copy(who, case):
    """30,000 small frames, 2000 of 4 KB, one of 100 KB: whole, or cut and marked."""
    how, function, frames = case
    profile = deepest(who, how, 2500)  # until the watch is set, some 10 ms, all are cut
    right = profile.share_where(
        lambda s: s.count(function) == frames and is_whole(s, thread_roots()))
    check_outer(profile, right, 0.99)
    wrong = profile.sum_where(lambda s: s.count(function) != frames and not is_cut(s)
                              and "innermost" in s)
    expect(wrong == 0, f"{wrong} samples have another number of frames")


@test
def test_a_frame_with_pages_never_touched():
    """The kernel copies up to the first page that is not there: such pages are made to be."""
    profile = deepest(EVERYONE[0], "holes", 1500)
    right = profile.share_where(lambda s: has_path(s, "holes", "innermost")
                                and is_whole(s, thread_roots()))
    measured(right >= 0.95, f"whole: {right:.4f}: {profile.broken()}")


@test(who=EVERYONE, each=["fast", "turns"])
def test_deep_frames_that_change(who, how):
    """No stack that the program never had: cut and marked instead."""
    profile = deepest(who, how, 2500)
    seen = {"left": 0, "right": 0}
    for stack, count in profile.stacks.items():
        sides = {side for side in seen if side in stack or side + "_leaf" in stack}
        expect(len(sides) < 2, f"a mixture: {count} x {user_frames(stack)}")
        leaf = any(side + "_leaf" in stack for side in seen)
        frames = stack.count("common")
        expect(is_cut(stack) or frames == 20 or not leaf, f"{frames} frames: {user_frames(stack)}")
        for side in sides:
            seen[side] += count
    measured(min(seen.values()) > 0.2 * profile.total(), f"{seen} of {profile.total()}")


@test(who=EVERYONE)
def test_deep_after_long_shallow(who):
    """Deeper than the first copy: it grows at once."""
    profile = deepest(who, "late", 3600)
    frames = profile.share_where(lambda s: s.count("again") == 14 and "innermost" in s)
    near(frames, 1 / 3, 0.03, "deep and whole")
    measured(profile.whole_share() > 0.97, f"not whole: {profile.broken()}")


@test(who=EVERYONE)
def test_deep_frames_that_come_back(who):
    """The same deep stack every 50 ms anew: known again soon after. The summary tells how often not."""
    result = run(program("deepstacks"), "again", 2000, user=who.user, options={"SUMMARY": "yes"})
    profile = result.profile
    whole = profile.share_where(lambda s: s.count("again") == 20 and not is_cut(s))
    measured(whole > 0.4 or not counts_writes(), f"whole: {whole:.3f}; {profile.heaviest()}")
    cut = profile.share_where(is_cut)
    told = re.search(rb"stacks: ([0-9.]+) % whole, ([0-9]+) truncated", result.stderr)
    expect(told, f"not told: {result.stderr[-400:]}")
    near(1 - float(told[1]) / 100, cut, 0.03, "truncated, as the summary tells it")


def strange(who, what, samples=1100):
    profile = profiled(who, program("strange"), what, samples=samples).profile
    measured(profile.total() > 0.8 * samples, f"{profile.total()} samples")
    return profile


@test(who=EVERYONE)
def test_alloca(who):
    profile = strange(who, "alloca", samples=2500)  # the first copies cut some 20 of them
    right = profile.share_where(lambda s: s.count("sized") == 51 and has_path(s, "main", "sized"))
    measured(right > 0.98, f"whole: {right:.3f}; {profile.broken()}")


COROUTINES = (("entry_0", "fifty", 0.5), ("entry_1", "thirty", 0.3), ("entry_2", "twenty", 0.2))


@test(who=EVERYONE, each=["context", "switched"])
def test_coroutines(who, how):
    """Each ends at its entry (makecontext: at what called that), and main is in none of them."""
    profile = strange(who, how, samples=1500)
    for entry, function, share in COROUTINES:
        near(profile.share(function), share, 0.03, f"{function}; {profile.heaviest()}")
        right = profile.share_where(
            lambda s: has_path(s, entry, "coroutine", function)
            and s.index(entry) == (2 if how == "context" else 1))
        measured(right >= 0.995 * profile.share(function), f"{profile.paths_to(function)}")
    measured(profile.share_where(is_cut) < 0.01, f"cut: {profile.heaviest()}")


@test(who=EVERYONE)
def test_assembly_without_unwind_information(who):
    profile = strange(who, "bare")
    for path in (("calls_bare", "bare_leaf"), ("calls_bare", "bare_between", "work")):
        near(profile.share_where(lambda s: has_path(s, "main", *path)), 0.5, 0.05, f"{path}")
    measured(profile.whole_share() > 0.99, f"not whole: {profile.broken()}")


@test(who=EVERYONE)
def test_unwind_information_that_lies(who):
    """What is nearer to the leaf than the lie is right, and every stack ends."""
    profile = strange(who, "lying")
    for name in ("lying_large", "lying_small", "lying_loop"):
        right = profile.share_where(lambda s: has_path(s, name, "work") and len(s) < 40)
        near(right, 1 / 3, 0.05, f"{name}; {profile.heaviest()}")


@test(who=EVERYONE)
def test_wild_jumps(who):
    """Through the handler that caught it, and the bad address, to whoever called that."""
    profile = strange(who, "wild")
    right = profile.share_where(
        lambda s: has_path(s, "main", "jumps_wildly") and "on_fault" in s and "work" in s)
    measured(right > 0.98, f"{profile.heaviest()}")
    measured(profile.whole_share() > 0.99, f"not whole: {profile.broken()}")


main()
