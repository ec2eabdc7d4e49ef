#!/usr/bin/env python3
"""Inlined functions: shown at the end where that is asked for, with the names that addr2line gives."""

import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

from folded import Profile, has_path
from harness import (BUILD, Skip, expect, main, measured, near, need, need_root, private_directory,
                     program, run, shared, staged, state, test, the_command, wait_until)

MS = 300


def command():
    """The selfsample command with the program that does the work beside it."""
    helper = BUILD / "selfsample-inline"
    if not helper.exists():
        raise Skip("selfsample-inline is not built: needs libdw-dev")
    staged(helper)
    return the_command()


def tool(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=60)
    expect(done.returncode == 0, f"{words}: {done.stderr[-300:]}")
    return done.stdout


def profile_of(result):
    """The one folded file, and no file of places beside it."""
    files = list(result.directory.rglob("*.folded"))
    expect(len(files) == 1, f"{len(files)} folded files; {result}")
    return Profile(files[0])


def with_inlined(*words, **more):
    """A run under `selfsample --inline`."""
    result = run(command(), "--inline", *words, preload=False, **more)
    expect(result.status == 0, str(result))
    left = [name for name in result.files() if name.endswith(".places") or ".tmp" in name]
    expect(not left, f"left behind: {left}; {result}")
    return profile_of(result)


def check_shares(profile, tolerance=0.06):
    root = "work"
    for path, share in (((root, "sixty_[i]", "burn_us_[i]"), 0.6),
                        ((root, "thirty_[i]", "called", "burn_us_[i]"), 0.3),
                        ((root, "ten_[i]", "deeper_[i]", "deepest_[i]", "burn_us_[i]"), 0.1)):
        seen = profile.share_where(lambda s, path=path: has_path(s, *path))
        near(seen, share, tolerance, f"{path}; heaviest: {profile.heaviest(3)}")


BUILDS = {"plain": "", "gz": "-gz", "dwarf4": "-gdwarf-4",
          "no-pie": "-no-pie", "no build id": "-Wl,--build-id=none", "O3": "-O3",
          "split": "-gsplit-dwarf"}


def built(build, name="inlines"):
    return program("inlines", BUILDS[build], name=f"{name}-{build.replace(' ', '-')}")


@test(each=list(BUILDS))
def test_shares(build):
    check_shares(with_inlined(built(build), MS))


@test
def test_shares_of_a_long_run():
    check_shares(with_inlined(built("plain"), 2000), tolerance=0.03)


@test
def test_clang():
    need("clang")
    check_shares(with_inlined(program("inlines", name="inlines-clang", cc="clang"), MS))


@test
def test_in_a_shared_library():
    library = shared("inlines.c", "-DAS_LIBRARY", "libinlines.so")
    user = program("inlines", f"-DUSES_LIBRARY -L{library.parent} -linlines", name="useinlines")
    check_shares(with_inlined(user, MS, env={"LD_LIBRARY_PATH": str(library.parent)}))


def separated(directory):
    """A stripped copy with its debug information in a file beside it."""
    binary, debug = directory / "apart", directory / "apart.debug"
    shutil.copy(built("no build id"), binary)
    tool("objcopy", "--only-keep-debug", binary, debug)
    tool("strip", binary)
    tool("objcopy", f"--add-gnu-debuglink={debug}", binary)
    return binary, debug


@test
def test_debug_link():
    binary, _ = separated(private_directory())
    check_shares(with_inlined(binary, MS))


@test
def test_debug_link_to_the_wrong_file():
    binary, debug = separated(private_directory())
    shutil.copy(program("burners"), debug)
    profile = with_inlined(binary, 200)
    wrong = {f for f in profile.functions() if f.endswith("_[i]") and "burn" in f}
    expect(not wrong, f"names of another file: {wrong}")


@test
def test_build_id():
    need_root()
    build_id = "5e1f5a3b1e0123456789abcdef5e1f5a3b1e0124"
    source = program("inlines", f"-Wl,--build-id=0x{build_id}", name="inlines-identified")
    binary = private_directory() / "identified"
    shutil.copy(source, binary)
    debug = Path(f"/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug")
    existed = debug.parent.is_dir()
    debug.parent.mkdir(parents=True, exist_ok=True)
    try:
        tool("objcopy", "--only-keep-debug", binary, debug)
        tool("strip", binary)
        check_shares(with_inlined(binary, MS))
    finally:
        debug.unlink()
        if not existed:
            debug.parent.rmdir()


@test
def test_alternate_file_of_dwz():
    """dwz moves what two programs have in common into a third file."""
    need("dwz")
    directory = private_directory()
    for name, build in (("one", "plain"), ("two", "O3")):
        shutil.copy(built(build), directory / name)
    tool("dwz", "-m", directory / "common.debug", directory / "one", directory / "two")
    expect((directory / "common.debug").exists(), "dwz found nothing in common")
    check_shares(with_inlined(directory / "one", MS))


# Nothing to show ------------------------------------------------------------------------------


def places_kept(binary, ms=MS, options=None):
    """A run of the bare library: a plain profile with a file of places beside it."""
    result = run(binary, ms, options={"INLINE": "yes", **(options or {})})
    result.quiet()
    folded = profile_of(result).path
    expect(folded.with_name(folded.name + ".places").exists(), f"no places; {result}")
    return result, folded


def expand(*files, env=None, preload=False, user=False):
    return run(command(), "inline", *files, preload=preload, env=env, user=user)


def own_part(folded, own_functions):
    """The samples of the program itself, from main on: the system's libraries may have debug information."""
    part = Counter()
    for functions, count in Profile(folded).stacks.items():
        below = functions[functions.index("main"):] if "main" in functions else ()
        if below and own_functions.issuperset(below):
            part[below] += count
    return part


@test
def test_no_debug_information():
    binary = private_directory() / "without"
    shutil.copy(built("plain"), binary)
    tool("strip", "--strip-debug", binary)
    own_functions = {line.split()[-1] for line in tool("nm", "--defined-only", binary).splitlines()}
    _, folded = places_kept(binary, 200)
    before = own_part(folded, own_functions)
    done = expand(folded)
    expect(done.status == 0, str(done))
    after = own_part(folded, own_functions)
    expect(before.total() >= 50 and after == before, f"changed: {before} {after}")


@test
def test_off_leaves_no_places():
    result = run(built("plain"), 200)
    expect(len(result.files()) == 1, str(result))
    expect(not any("_[i]" in f for f in result.profile.functions()), "inlined functions")


@test
def test_replaced_program():
    """A program built anew after its profile has other code at the same places."""
    binary = private_directory() / "replaced"
    shutil.copy(built("plain"), binary)
    _, folded = places_kept(binary, 200)
    os.unlink(binary)
    shutil.copy(built("O3"), binary)
    expand(folded)
    wrong = [f for f in Profile(folded).functions() if f in ("sixty_[i]", "ten_[i]")]
    expect(not wrong, f"names from another program: {wrong}")


# Names ----------------------------------------------------------------------------------------


def read_places(path):
    modules, frames, nodes = [], [], []
    for line in path.read_text().splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "module":
            modules.append(rest.split(" ", 2)[2])
        elif kind == "frame":
            module, address, name = rest.split(" ", 2)
            frames.append((None if module == "-" else int(module), int(address, 16), name))
        elif kind == "node":
            nodes.append([None if word == "-" else int(word) for word in rest.split()])
        elif kind == "unit_ns":
            unit_ns = int(rest)
    return modules, frames, nodes, unit_ns


def addr2line(binary, addresses):
    """{address: inlined functions, outermost first}, as binutils' addr2line has them.

    It takes the ELF symbol where a C++ function has no linkage name, so it is not shown the symbols.
    """
    bare = private_directory() / "bare"
    tool("strip", "--strip-all", "--keep-section=.debug_*", "-o", bare, binary)
    text = tool("addr2line", "-a", "-i", "-f", "-C", "-e", bare,
                *(hex(address) for address in addresses))
    found, names = {}, None
    for line in text.splitlines():
        if re.fullmatch(r"0x[0-9a-f]{16}", line):
            names = found.setdefault(int(line, 16), [])
        else:
            names.append(line)
    return {address: tuple(reversed(lines[0::2][:-1])) for address, lines in found.items()}


def short(name):
    """Without scope, parameters and result: addr2line has them only where a linkage name is."""
    while re.search(r"<[^<>]*>|\([^()]*\)|\{[^{}]*\}| const$", name):
        name = re.sub(r"<[^<>]*>|\([^()]*\)|\{[^{}]*\}| const$", "", name)
    return name.split("::")[-1].split(" ")[-1]


def expected_stacks(places, binary):
    """{stack: ns}, with the functions that addr2line finds inlined in the binary."""
    modules, frames, nodes, unit_ns = read_places(places)
    of_binary = {a for m, a, _ in frames if m is not None and modules[m] == str(binary)}
    expect(len(of_binary) > 5, f"{len(of_binary)} places in {binary}")
    inlined = addr2line(binary, sorted(of_binary))
    stacks, sums = [], Counter()
    for parent, frame, weight in nodes:
        module, address, name = frames[frame]
        stack = (() if parent is None else stacks[parent]) + (name,)
        if module is not None and modules[module] == str(binary):
            stack += tuple(short(name) + "_[i]" for name in inlined[address])
        stacks.append(stack)
        sums[stack] += weight
    return sums, unit_ns


def functions_in(places, binary):
    modules, frames, _, _ = read_places(places)
    return {name for module, _, name in frames
            if module is not None and modules[module] == str(binary)}


def check_against_addr2line(binary):
    """Every stack with the functions and the weight that the places and addr2line give it."""
    _, folded = places_kept(binary, options={"UNIT": "us"})
    plain = Profile(folded)
    places = folded.with_name(folded.name + ".places")
    expected, unit_ns = expected_stacks(places, binary)
    ours = functions_in(places, binary)
    done = expand(folded, env={"PATH": "/nowhere"})
    expect(done.status == 0 and not places.exists(), str(done))
    profile = Profile(folded)
    expect(profile.total() == plain.total(), f"{profile.total()} of {plain.total()}")
    seen = Counter()
    for stack, count in profile.stacks.items():
        # Other files may have debug information as well.
        own = [f for i, f in enumerate(stack)
               if not f.endswith("_[i]") or base_of(stack, i) in ours]
        seen[tuple(short(f[:-4]) + "_[i]" if f.endswith("_[i]") else f for f in own)] += count
    for stack in {*seen, *expected}:
        near(seen[stack], expected[stack] / unit_ns, 1 + expected[stack] / unit_ns / 1000,
             ";".join(stack))
    expect(any(f.endswith("_[i]") for stack in seen for f in stack), "nothing was inlined")


def base_of(stack, index):
    """The function that the inlined one at the index is in."""
    while index > 0 and stack[index].endswith("_[i]"):
        index -= 1
    return stack[index]


@test(each=["C", "C++", "clang"])
def test_names_are_those_of_addr2line(kind):
    if kind == "C":
        binary = built("plain")
    elif kind == "C++":
        binary = program("inlinenames.cc")
    else:
        need("clang")
        # binutils 2.40 misses functions whose ranges are in DWARF 5's lists.
        binary = program("inlinenames.cc", "-gdwarf-4", name="inlinenames-clang", cc="clang++")
    check_against_addr2line(binary)


@test
def test_names_of_cpp():
    profile = with_inlined(program("inlinenames.cc"), MS)
    for name, share in (("void shapes::Burner<60>::run<long>(long)_[i]", 0.6),
                        ("void shapes::Burner<30>::run<int>(int)_[i]", 0.3),
                        ("(anonymous namespace)::hidden_[i]", 0.1)):
        near(profile.share(name), share, 0.06, f"{name}; {profile.heaviest(3)}")


# The files ------------------------------------------------------------------------------------


@test
def test_a_changed_profile_is_left_alone():
    _, folded = places_kept(built("plain"), 200)
    folded.write_text("mine 1\n")
    done = expand(folded)
    expect(done.status == 1 and b"changed since" in done.stderr, str(done))
    expect(folded.read_text() == "mine 1\n", folded.read_text())
    expect(folded.with_name(folded.name + ".places").exists(), "the places are gone")


DAMAGES = {
    "empty": lambda text: "",
    "cut": lambda text: text[:len(text) // 2],
    "no end": lambda text: text.replace("\nend\n", "\n"),
    "version": lambda text: text.replace("places 1", "places 2"),
    "parent": lambda text: text.replace("\nnode - ", "\nnode 99999999 "),
    "frame": lambda text: re.sub(r"\nnode - \d+", "\nnode - 99999999", text),
    "module": lambda text: text.replace("\nframe 0 ", "\nframe 4294967295 "),
    "number": lambda text: text.replace("\nunit_ns ", "\nunit_ns -"),
    "NUL": lambda text: text.replace("\nnode - ", "\nnode \0 "),
}


@test
def test_damaged_places():
    _, folded = places_kept(built("plain"), 60)
    before = folded.read_bytes()
    places = folded.with_name(folded.name + ".places")
    text = places.read_text()
    for damage, do in DAMAGES.items():
        expect(do(text) != text, f"{damage}: nothing was damaged")
        places.write_text(do(text))
        done = expand(folded)
        expect(done.status == 1 and done.stderr.count(b"\n") == 1, f"{damage}: {done}")
        expect(folded.read_bytes() == before, f"{damage}: the profile was changed")
        expect(sorted(os.listdir(folded.parent)) == [folded.name, places.name],
               f"{damage}: {os.listdir(folded.parent)}")


@test
def test_links_are_not_followed():
    _, folded = places_kept(built("plain"), 60)
    elsewhere = private_directory() / "elsewhere"
    shutil.move(folded, elsewhere)
    folded.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    done = expand(folded)
    expect(done.status == 1 and elsewhere.read_bytes() == before, str(done))


@test
def test_places_in_the_way():
    """Somebody's file is not overwritten, and the profile is whole without."""
    directory = private_directory()
    (directory / "p.folded.places").write_text("mine")
    result = run(built("plain"), 200, options={"INLINE": "yes", "OUT": "p.folded"},
                 directory=directory)
    expect((directory / "p.folded.places").read_text() == "mine", "overwritten")
    measured(Profile(directory / "p.folded").total() > 100, str(result))
    expect(result.stderr.count(b"\n") == 1 and b"p.folded.places" in result.stderr, str(result))


@test
def test_done_twice():
    _, folded = places_kept(built("plain"), 60)
    expect(expand(folded).status == 0, "first")
    before = folded.read_bytes()
    again = expand(folded)
    expect(again.status == 1 and b"done already" in again.stderr, str(again))
    expect(folded.read_bytes() == before, "changed")


@test
def test_without_the_program():
    """The command alone, as where libdw is missing: plain names, and one line."""
    directory = private_directory()
    for name in ("selfsample", "libselfsample.so"):
        shutil.copy(BUILD / name, directory)
    result = run(directory / "selfsample", "-i", built("plain"), 200, preload=False)
    expect(result.status == 0, str(result))
    expect(result.stderr.count(b"inlined functions are not shown") == 1, str(result))
    measured(profile_of(result).share("work") > 0.9, str(result))


@test
def test_tree():
    """Each process's file is done."""
    result = run(command(), "-i", "sh", "-c", f"{built('plain')} 300; {built('O3')} 300",
                 preload=False)
    done = [p for p in map(Profile, result.directory.rglob("*.folded"))
            if any(f == "sixty_[i]" for f in p.functions())]
    expect(len(done) == 2, str(result))
    expect(not list(result.directory.rglob("*.places")), str(result))


@test
def test_as_ordinary_user():
    need_root()
    result = run(command(), "-i", built("plain"), 200, preload=False, user=True)
    expect(any(f == "sixty_[i]" for f in profile_of(result).functions()), str(result))


@test
def test_file_of_another_user():
    """Root does it with the rights of the owner."""
    need_root()
    result = run(built("plain"), 200, options={"INLINE": "yes"}, user=True)
    folded = profile_of(result).path
    done = expand(folded)
    expect(done.status == 0, str(done))
    expect(folded.stat().st_uid == result.directory.stat().st_uid != 0, "another owner")
    expect(any(f == "sixty_[i]" for f in Profile(folded).functions()), "not done")


@test(each=["root's", "everybody's"])
def test_after_a_change_of_users(whose):
    """The places land where the profile lands, also where the new user may make no files."""
    need_root()
    directory = private_directory()
    directory.chmod(0o1777 if whose == "everybody's" else 0o755)
    result = run(program("credentials"), "daemon", 200000, directory=directory,
                 options={"OUT": "here.folded", "INLINE": "yes"})
    expect(result.files() == ["here.folded", "here.folded.places"], str(result))
    done = expand(directory / "here.folded")
    expect(done.status == 0, str(done))
    functions = Profile(directory / "here.folded").functions()
    expect(any(f.endswith("_[i]") for f in functions), f"{functions}; {result}")


@test
def test_killed_program():
    result = run(command(), "-i", "timeout", "-s", "KILL", "0.5", built("plain"), 5000,
                 preload=False)
    profiles = [Profile(path) for path in result.directory.rglob("*inlines*.folded")]
    expect(len(profiles) == 1 and "sixty_[i]" in profiles[0].functions(), str(result))


@test
def test_crash_over_debug_information():
    """One line, the plain profile, and the program's own exit status."""
    directory = private_directory()
    for name in ("selfsample", "libselfsample.so"):
        shutil.copy(BUILD / name, directory)
    crash = directory / "selfsample-inline"
    crash.write_text("#!/bin/sh\nkill -SEGV $$\n")
    crash.chmod(0o755)
    result = run(directory / "selfsample", "-i", "sh", "-c", f"{built('plain')} 200; exit 7",
                 preload=False)
    expect(result.status == 7, str(result))
    expect(result.stderr.count(b"inlined functions are not shown") == 1, str(result))
    profiles = [Profile(path) for path in result.directory.rglob("*inlines*.folded")]
    measured(len(profiles) == 1 and profiles[0].share("work") > 0.9, str(result))


@test
def test_mode_is_kept():
    _, folded = places_kept(built("plain"), 60)
    folded.chmod(0o600)
    expand(folded)
    expect(folded.stat().st_mode & 0o777 == 0o600, oct(folded.stat().st_mode))


def expect_inlined(part):
    """One file of a series: it may hold a few samples alone, if the run ends soon after the one before it."""
    expect("sixty_[i]" in part.functions() or part.total() < 20, f"{part.path}: {part.functions()}")


@test
def test_snapshots():
    """Files with %n each have their places."""
    result = run(built("plain"), 1200, options={"INLINE": "yes", "CHECKPOINT": "1",
                                                "OUT": "c%n.folded"})
    names = result.files()
    folded = [n for n in names if n.endswith(".folded")]
    measured(len(folded) >= 2, str(result))
    expect(all(n + ".places" in names for n in folded), str(result))
    done = expand(*(result.directory / n for n in folded))
    expect(done.status == 0, str(done))
    for name in folded:
        expect_inlined(Profile(result.directory / name))


@test
def test_series():
    """All files of one, with the counts that each had; the command does so by itself."""
    result = run(built("plain"), 2300, options={"INLINE": "yes", "CHECKPOINT": "1",
                                                "OUT": "c%n.folded", "RATE": "7"})
    totals = {path: Profile(path).total() for path in result.directory.glob("*.folded")}
    expect(expand(*totals).status == 0, "not done")
    expect(len(totals) >= 2 and totals == {path: Profile(path).total() for path in totals},
           f"{totals}, then {[Profile(path).total() for path in totals]}")

    result = run(command(), "--inline", "-c", "1", "-o", "c%n.folded", built("plain"), 2300,
                 preload=False)
    names = result.files()
    expect(len(names) >= 2 and all(n.endswith(".folded") for n in names), str(result))
    for profile in result.profiles:
        expect_inlined(profile)


@test
def test_a_checkpoint_that_was_worked_on_stays():
    directory = private_directory()
    folded = directory / "c.folded"

    def work_on_it(pid):
        wait_until((directory / "c.folded.places").exists, 20, "no checkpoint")
        done = expand(folded)
        measured(state(pid) not in ("Z", ""), "the program has ended before the work on its checkpoint")
        expect(done.status == 0, str(done))

    result = run(built("plain"), 1700, options={"INLINE": "yes", "CHECKPOINT": "1",
                                                "OUT": "c.folded"},
                 directory=directory, while_running=work_on_it)
    expect(result.files() == ["c.1.folded", "c.1.folded.places", "c.folded"], str(result))
    expect("sixty_[i]" in Profile(folded).functions(), "replaced")


if __name__ == "__main__":
    main()
