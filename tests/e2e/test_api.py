#!/usr/bin/env python3
"""The calls of selfsample.h, with and without the library, preloaded and linked."""

import os
import re
import shutil
import subprocess

from folded import BY_CLOCK, Profile
from harness import (BUILD, INCLUDE, ROOT, bare, both, expect, interrupts_ms, main, measured, near, near_ms, need,
                     need_kernel_samples, private_directory, program, run, test)



def api():
    return program("api", INCLUDE)


def by_label(profile, label):
    """Counts of the stacks with that label; "": of those with none."""
    return profile.sum_where(lambda s: s[1] == label if label else s[1] in ("_start", "clone3"))


def roots_of(profile):
    """The labels, and what stands at the root where there is none: but for the linker's last steps to the
    program, which one run in a hundred has a sample of."""
    return {s[1] for s in profile.stacks if s[1:] not in BY_CLOCK} - {"_dl_start_user"}


@test
def test_labels():
    """One function, under three labels in each of two threads."""
    profile = both(api(), "labels").profile
    for thread, root in (("a", "_start"), ("b", "clone3")):
        parts = [profile.sum_where(lambda s: s[1] == f"{thread}-sixty" and s[2] == root),
                 profile.sum_where(lambda s: s[1] == f"{thread}-thirty" and s[2] == root),
                 profile.sum_where(lambda s: s[1] == root)]
        measured(sum(parts) > 1000, f"{thread}: {parts}")
        for part, wanted in zip(parts, (0.6, 0.3, 0.1)):
            near(part / sum(parts), wanted, 0.03, f"label of thread {thread}: {parts}")
    known = {"a-sixty", "a-thirty", "b-sixty", "b-thirty", "_start", "clone3"}
    expect(roots_of(profile) <= known, f"{roots_of(profile)}")


@test
def test_threads_cancelled_in_calls():
    """No lock is left behind: the calls of others, and the exit, need not wait for one."""
    result = both(api(), "cancelled")
    expect(result.elapsed < 10, f"it took {result.elapsed:.1f} s")
    measured(result.profile.share("counted") > 0, str(result))


@test
def test_start_on_a_small_stack():
    """A session takes little of the stack of whoever starts it, the first of a process, too."""
    profile = both(api(), "small", options={"ENABLED": "no"}).profile
    near_ms(profile.sum_where(lambda s: "counted" in s), 200, 20 + interrupts_ms(200), "counted")


@test
def test_labels_of_threads_none():
    """Without threads' names the label is the first frame."""
    profile = run(api(), "labels", options={"THREADS": "none"}).profile
    near(profile.sum_where(lambda s: s[0].endswith("-sixty")) / profile.total(), 0.6, 0.03, "sixty")


@test
def test_labels_that_change_fast():
    """Ten thousand changes a second, four thousand samples: the shares are still right."""
    need_kernel_samples()
    result = run(api(), "fast", options={"RATE": 4000})
    truth = float(result.stdout)
    profile = result.profile
    both_labels = by_label(profile, "long") + by_label(profile, "short")
    measured(both_labels > 0.98 * profile.total(), profile.heaviest())
    near(by_label(profile, "long") / both_labels, truth, 0.03, "share of the long label")


@test
def test_changes_wake_the_helper():
    """At a low rate it sleeps long, but no queue of changes runs over."""
    result = run(api(), "fast", options={"RATE": 49})
    missed = re.search(rb"(\d+) changes of labels came too fast", result.stderr)
    # Without being woken it would miss four of five of the 19,000.
    near(int(missed.group(1)) if missed else 0, 0, 6000, "changes that were missed")


@test
def test_labels_in_a_signal_handler():
    """It interrupts the setting of labels again and again; nothing is torn, and in the end it is quiet."""
    profile = run(api(), "handler").profile
    known = {"start", "one", "another", "in a handler", "after a handler", "quiet", "_start"}
    expect(roots_of(profile) <= known | {"[truncated]"}, f"{roots_of(profile)}")
    near_ms(by_label(profile, "quiet"), 200, 15, "samples under the last label")


@test
def test_price_of_a_label():
    """No system call for each: a loop of them is far below what one would cost."""
    prices = [int(run(api(), "price").stdout) for _ in range(3)]
    measured(min(prices) < 1000, f"{prices} ns")


@test
def test_pauses():
    """Sixty pauses of 10 ms, and as much in between: one profile, of the half that counts."""
    result = both(api(), "pauses")
    profile = result.profile
    near_ms(profile.total(), 600, 20, "samples")
    near(profile.share("left_out"), 0, 0.03, "share of what was left out")
    near(profile.share("counted"), 1, 0.03, "share of what counts")


@test
def test_snapshot():
    """To a path of the program's, relative to where it is, and to where the profile goes."""
    directory = private_directory()
    result = both(api(), "snapshot", directory=directory)
    expect(sorted(result.files())[0] == "mid.folded", f"{result.files()}")
    middle = Profile(directory / "mid.folded")
    [final] = [p for p in result.profiles if p.path.name != "mid.folded"]
    near_ms(middle.total(), 300, 12, "samples in the snapshot")
    near_ms(final.total(), 600, 20, "samples at the end")
    expect("left_out" not in middle.functions(), "the snapshot knows what came later")
    for stack, count in middle.stacks.items():
        expect(count <= final.stacks.get(stack, 0) + 2, f"{stack}: {count} in the snapshot")


@test
def test_start_and_stop_leave_nothing():
    """A hundred profiles of one process: memory, descriptors and children are as before."""
    result = run(api(), "cycles", 100, options={"ENABLED": "no"})
    expect(result.status == 0 and result.stderr == b"", str(result))
    mappings, kb, fds, children = map(int, re.findall(rb"-?\d+", result.stdout))
    expect(kb <= 64 and mappings <= 4 and fds == 0 and children == -1, f"{result.stdout!r}")
    profiles = result.profiles
    expect(len(profiles) == 100, f"{len(profiles)} profiles")
    total = sum(p.total() for p in profiles)
    counted = sum(p.sum_where(lambda s: "counted" in s) for p in profiles)
    near_ms(counted, 500, 60, "samples of 100 times 5 ms")
    left_out = sum(p.sum_where(lambda s: "left_out" in s) for p in profiles)
    measured(left_out < 0.02 * total, f"{left_out} samples between stop and start")


@test(each=["perf", "timer"])
def test_cycles_while_threads_come_and_go(engine):
    """At their births and ends threads have the rings in hand that a stop takes away."""
    result = run(api(), "churn", 400, options={"ENABLED": "no", "ENGINE": engine})
    expect(result.status == 0 and result.stderr == b"", str(result))
    found = re.fullmatch(rb"mappings (\d+)\n", result.stdout)
    expect(found is not None and int(found[1]) < 60, f"{result.stdout!r}")


@test
def test_dormant():
    """Loaded and not enabled: nothing at all, until it is started."""
    result = both(api(), "labels", options={"ENABLED": "no"})
    expect(result.files() == [], f"{result.files()}")


@test
def test_all_at_once():
    """Eight threads calling everything, forks among them: none hangs or crashes."""
    result = both(api(), "together")
    expect(result.status == 0, str(result))
    for profile in result.profiles:
        labels = roots_of(profile)
        expect(all(l in ("_start", "clone3", "child", "[truncated]", "[exec]")
                   or l.startswith("label ") for l in labels), f"labels {labels}")


@test
def test_forked_children():
    """They have the label of the thread that forked, and are paused where the parent is."""
    result = both(api(), "forks")
    profiles = {p.path.name: p for p in result.profiles}
    expect(len(profiles) == 3, f"{result.files()}")
    totals = sorted(p.total() for p in profiles.values())
    near_ms(totals[0], 100, 15, "samples of the parent")
    near_ms(totals[1] + totals[2], 400, 30, "samples of the children")
    for profile in profiles.values():
        measured(by_label(profile, "family") >= 0.97 * profile.total(), profile.heaviest())
        measured(profile.sum_where(lambda s: "left_out" in s) < 10, "the paused child is sampled")


@test
def test_errors():
    """What each call returns where it can't do its work."""
    result = run(api(), "errors")
    expect(result.status == 0, str(result))
    got = [line.rsplit(b" ", 1) for line in result.stdout.splitlines()]
    wanted = [(b"stop", (0, -61)), (b"stop", (-3,)), (b"pause", (-3,)), (b"snapshot", (-3,)),
              (b"start", (0,)), (b"start", (-114,)), (b"early", (0, -61)), (b"nowhere", (-2,)),
              (b"empty", (-21,)), (b"directory", (-21,)), (b"long", (-36,)),
              (b"pause", (0,)), (b"pause", (0,)), (b"resume", (0,)), (b"resume", (0,)),
              (b"errno", (77,)), (b"number 1024", (-28,)), (b"number 1099", (-28,))]
    expect(len(got) == len(wanted), f"{got}")
    for (name, value), (wanted_name, values) in zip(got, wanted):
        expect(name == wanted_name and int(value) in values, f"{name}: {value}, wanted {values}")
    expect(b"more than 1024 different labels" in result.stderr, f"{result.stderr!r}")
    expect(any("[other labels]" in stack for p in result.profiles for stack in p.stacks),
           "nothing under [other labels]")


@test
def test_lines_that_the_program_has_to_say():
    """Where stderr is a pipe the helper leaves all it has to tell to the program."""
    result = run(api(), "errors", options={"OUT": "/nonexistent/x"})
    expect(result.status == 0, str(result))
    for line in b"more than 1024 different labels", b"/nonexistent/x: the profile can't be written":
        expect(line in result.stderr, f"{line!r} is missing: {result.stderr!r}")


@test
def test_without_the_library():
    result = bare(api(), "errors")
    values = {line.rsplit(b" ", 1)[1] for line in result.stdout.splitlines()}
    expect(values == {b"-38", b"77"}, f"{result.stdout!r}")
    expect(bare(api()).stdout == b"version none\n", "version")
    expect(re.fullmatch(rb"version \d+\.\d+\.\d+\n", run(api()).stdout), "version")


@test
def test_left_out_programs_can_not_start():
    result = run(api(), "errors", options={"ONLY": "another"})
    expect(b"start -1\n" in result.stdout and result.files() == [], str(result))


@test
def test_labels_of_many_threads():
    """Three thousand threads with a label, one after the other: their places come free again."""
    result = both(api(), "many", timeout=120)
    expect(result.status == 0 and result.stdout == b"", str(result))


@test(each=["-no-pie -fno-pie", "-static", "-static-pie", "-O0", "-flto", "-Wl,-z,lazy"])
def test_links_of_all_kinds(flags):
    """The library is found, or not missed, however the program is linked."""
    name = "api" + re.sub(r"[^a-z]", "", flags)
    built = program("api", f"{INCLUDE} {flags} -Wno-unused-result", name=name)
    expect(bare(built).stdout == b"version none\n", "without the library")
    found = run(built).stdout
    expect((found == b"version none\n") == ("static" in flags), f"with the library: {found!r}")


@test(each=["gcc", "clang", "g++", "clang++"])
def test_header_compiles_cleanly(compiler):
    """As C11 and C++11, with all warnings, in two files of one program, without anything else."""
    need(compiler)
    directory = private_directory()
    cpp = compiler.endswith("++")
    ending = "cc" if cpp else "c"
    (directory / f"one.{ending}").write_text(
        '#include <selfsample.h>\n#include <stdio.h>\nint two(void);\n'
        'int main(void) { printf("%d %d\\n", selfsample_pause(), two()); return 0; }\n')
    (directory / f"two.{ending}").write_text(
        '#include <selfsample.h>\nint two(void);\n'
        'int two(void) { return selfsample_label("x"); }\n')
    built = subprocess.run(
        [compiler, f"-std={'c++11' if cpp else 'c11'}", "-Wall", "-Wextra", "-Wshadow", "-Werror",
         *([] if cpp else ["-Wstrict-prototypes"]), "-pedantic", INCLUDE, f"one.{ending}",
         f"two.{ending}", "-o", "both"], cwd=directory, capture_output=True, text=True, timeout=60)
    expect(built.returncode == 0, built.stderr)
    expect(bare(directory / "both").stdout == b"-38 -38\n", "without the library")
    expect(run(directory / "both").stdout == b"0 0\n", "with the library")


@test
def test_linked_by_pkg_config():
    """`make install`, then a program built by what pkg-config says: profiled without a preload."""
    need("pkg-config")
    directory = private_directory()
    prefix = directory / "usr"
    made = subprocess.run(["make", "-s", "-C", str(ROOT), f"B={BUILD}", f"PREFIX={prefix}",
                           "install"], capture_output=True, text=True, timeout=120)
    expect(made.returncode == 0, made.stderr)
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "selfsample"], text=True,
                           capture_output=True, check=True,
                           env=dict(os.environ, PKG_CONFIG_PATH=f"{prefix}/lib/pkgconfig"))
    source = ROOT / "tests" / "programs" / "api.c"
    subprocess.run(["gcc", "-O2", "-g", "-pthread", "-Wl,--as-needed", str(source), "-o",
                    str(directory / "linked"), *flags.stdout.split()], check=True, timeout=60)
    place = private_directory()
    result = bare(directory / "linked", "labels", env={"LD_LIBRARY_PATH": f"{prefix}/lib"},
                  directory=place)
    expect(result.status == 0 and result.stderr == b"", str(result))
    profile = result.profile
    near(by_label(profile, "a-sixty") / profile.total(), 0.3, 0.03, "share of a label")
    shutil.rmtree(prefix)


@test
def test_from_another_language():
    """The functions are plain exported ones as well."""
    python = need("python3")
    script = ("import ctypes, time\n"
              "api = ctypes.CDLL(None)\n"
              "api.selfsample_label(b'in python')\n"
              "end = time.process_time() + 0.4\n"
              "while time.process_time() < end: pass\n"
              "print(api.selfsample_snapshot(b'python.folded'))\n")
    directory = private_directory()
    result = run(python, "-c", script, directory=directory)
    expect(result.stdout == b"0\n", str(result))
    profile = Profile(directory / "python.folded")
    measured(by_label(profile, "in python") > 300, profile.heaviest())


@test
def test_example():
    """examples/phases.c, as its own opening comment says."""
    directory = private_directory()
    subprocess.run(["gcc", "-O1", "-g", INCLUDE, str(ROOT / "examples" / "phases.c"), "-o",
                    str(directory / "phases")], check=True, timeout=60)
    place = private_directory()
    result = run(directory / "phases", directory=place, options={"ENABLED": "no"})
    expect(result.status == 0 and result.stderr == b"", str(result))
    first = Profile(place / "first-sort.folded")
    [final] = [p for p in result.profiles if p.path.name != "first-sort.folded"]
    expect(roots_of(first) <= {"first sort", "_start"}, first.heaviest())
    labels = {s[1] for s in final.stacks}
    expect({"first sort", "sort what is sorted"} <= labels, f"{labels}")
    expect("words_make" not in final.functions(), "what came before the start")
    without = bare(directory / "phases")
    expect(without.stdout == result.stdout and without.stderr == b"", str(without))


main()
