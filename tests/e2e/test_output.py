#!/usr/bin/env python3
"""Where the profile goes, under what name, and what happens where it can't."""

import os
import re
import resource
import socket
import subprocess

from folded import Profile
from harness import (Failure, bare, both, expect, main, measured, near_ms, need_root, private_directory,
                     program, run, same, test)


def run_to(pattern, command=None, **arguments):
    """Half a second of work with OUT=pattern in a directory of its own."""
    return run(*(command or (program("work"), 300000)), options={"OUT": pattern}, **arguments)


def expect_files(result, *names):
    expect(result.files() == sorted(names), f"files {result.files()}, wanted {sorted(names)}")


def expect_one_line(result, *words):
    """One line of ours on stderr, with all the words in it."""
    lines = result.stderr.decode().splitlines()
    expect(len(lines) == 1 and lines[0].startswith("selfsample: ")
           and all(word in lines[0] for word in words), f"stderr {lines}, wanted a line: {words}")


@test
def test_default_name():
    result = run(program("work"), 100000)
    expect(len(result.files()) == 1 and
           re.fullmatch(r"selfsample\.work\.[0-9]+\.folded", result.files()[0]),
           f"files {result.files()}")
    result.quiet()


@test
def test_pattern():
    host = socket.gethostname()
    result = run_to("a-%e-%h-%%-%{E2E_WORD}.folded", env={"E2E_WORD": "word"})
    expect_files(result, f"a-work-{host}-%-word.folded")
    result = run_to("%p_%t.folded")
    match = re.fullmatch(r"([0-9]+)_(.+)\.folded", result.files()[0])
    expect(match and "%" not in result.files()[0], f"files {result.files()}")


@test
def test_counter():
    result = run_to("n%n.folded")
    expect_files(result, "n0.folded")


@test
def test_counter_of_checkpoints():
    """Each goes to a file of its own, with what is new, and so does the end of the run."""
    result = run(program("work"), 3000000, options={"OUT": "%%n%n.folded", "CHECKPOINT": 1})
    names = [f"%n{i}.folded" for i in range(len(result.files()))]
    expect_files(result, *names)
    totals = [Profile(result.directory / name).total() for name in names]
    expect(len(totals) >= 3, f"totals {totals}")
    near_ms(sum(totals), 3000, 90, "samples of all files")


@test(each=["sub/", "sub", "./%%s%{E2E_WORD}b"])
def test_directory(pattern):
    """With a slash behind it or without: one that is there is not a file's name."""
    directory = private_directory()
    name = "%sub" if "%" in pattern else "sub"
    (directory / name).mkdir()
    result = run_to(pattern, directory=directory, env={"E2E_WORD": "u"})
    names = [n for n in result.files() if n != name]
    expect(len(names) == 1 and re.fullmatch(name + r"/selfsample\.work\.[0-9]+\.folded", names[0]),
           f"files {names}")


@test
def test_directory_of_a_tree():
    """Of each process, wherever it works, and in its format; but not where the name is one of a series."""
    directory = private_directory()
    (directory / "sub").mkdir()
    (directory / "0").mkdir()
    work = program("work")
    script = f"{work} 100000; cd /; {work} 100000; :"
    result = run_to(f"{directory}/sub", ("/bin/sh", "-c", script), directory=directory)
    works = [n for n in result.files() if re.fullmatch(r"sub/selfsample\.work\.[0-9]+\.folded", n)]
    expect(len(works) == 2, f"files {result.files()}")
    result = run(work, 100000, options={"OUT": "sub", "FORMAT": "pprof"}, directory=directory)
    expect(any(re.fullmatch(r"sub/selfsample\.work\.[0-9]+\.pb\.gz", n) for n in result.files()), f"{result.files()}")
    result = run_to("%n", directory=directory)
    expect("0.1" in result.files(), f"files {result.files()}")


@test
def test_format_by_the_ending():
    """Of the name, unless one is given."""
    directory = private_directory()
    for name, format_given, packed in (("a.pb.gz", "", True), ("b.pb", "", True), ("c.pb.gz", "folded", False)):
        run(program("work"), 50000, options={"OUT": name, "FORMAT": format_given}, directory=directory).quiet()
        expect((directory / name).read_bytes().startswith(b"\x1f\x8b") == packed, name)


@test
def test_clash():
    directory = private_directory()
    (directory / "x.folded").write_text("mine\n")
    (directory / "plain").write_text("mine\n")
    run_to("x.folded", directory=directory)
    run_to("x.folded", directory=directory)
    result = run_to("plain", directory=directory)
    expect_files(result, "x.folded", "x.1.folded", "x.2.folded", "plain", "plain.1")
    expect((directory / "x.folded").read_text() == "mine\n", "an existing file was overwritten")
    result.quiet()


@test
def test_other_directory_before_the_end():
    without = bare(program("places"), "chdir")
    result = run_to("here.folded", (program("places"), "chdir"))
    same(without, result)
    expect_files(result, "here.folded")
    measured(result.profile.total() > 450, f"{result.profile.total()} samples of 500 ms")


@test
def test_other_root_before_the_end():
    need_root()
    jail = private_directory()
    without = bare(program("places"), "chroot", jail)
    directory = private_directory()
    (directory / "here").mkdir()
    result = run_to("here", (program("places"), "chroot", jail), directory=directory)
    same(without, result)
    expect(len(result.files()) == 2 and result.files()[1].startswith("here/"), f"files {result.files()}")
    measured(result.profile.total() > 450, f"{result.profile.total()} samples of 500 ms")
    measured(result.profile.share("work") > 0.97, "names are lost after chroot")
    expect(not os.listdir(jail), "something was left in the new root")


@test
def test_removed_directory():
    def removed():
        path = private_directory()
        inner = path / "inner"
        inner.mkdir()
        return path, inner

    path, inner = removed()
    without = bare(program("places"), "rmdir", directory=inner)
    path, inner = removed()
    result = run(program("places"), "rmdir", directory=inner)
    expect((result.status, result.stdout) == (without.status, without.stdout), str(result))
    expect_one_line(result)
    expect(not list(path.rglob("*.folded*")), "a file appeared somewhere else")


@test
def test_missing_directory():
    result = run_to("missing/x.folded")
    same_but_for_the_line(result, "missing/x.folded", "SELFSAMPLE_OUT or --out")
    expect_files(result)


@test
def test_no_line_in_a_file_of_the_program():
    """One that has the number of stderr by then: not even the line that the profile is lost."""
    for stderr in "a pipe", "a file":
        script = 'exec "$0" 2>>log' if stderr == "a file" else 'exec "$0"'
        result = run("sh", "-c", script, program("lowfds"),
                     options={"OUT": "missing/%e.folded", "ONLY": "lowfds"})
        expect(result.status == 5, f"{stderr}: status {result.status}")
        data = (result.directory / "data").read_bytes()
        expect(data == b"payload\n", f"{stderr}: in the program's file: {data}")
        if stderr == "a file":
            log = (result.directory / "log").read_text()
            expect(log.count("\n") == 1 and "missing/lowfds.folded: " in log, f"log {log!r}")


@test
def test_error_is_in_the_summary_alone():
    options = {"OUT": "missing/x%n.folded", "SUMMARY": "yes"}
    result = run(program("work"), 300000, options=options)
    lines = result.stderr.decode().splitlines()
    expect(len([line for line in lines if "missing/x0.folded: " in line]) == 1, f"stderr {lines}")
    expect(lines[-1] == "selfsample: nothing written", f"stderr {lines}")


@test
def test_read_only_directory():
    """An ordinary user can't write there."""
    need_root()
    directory = private_directory()
    result = run(program("work"), 300000, 4, user=True, directory=directory)
    same_but_for_the_line(result, "selfsample.work.", "Permission denied", status=4)
    expect_files(result)


def same_but_for_the_line(result, *words, status=0):
    expect(result.status == status, f"status {result.status}")
    expect_one_line(result, *words)


@test
def test_what_is_no_file():
    """Devices, pipes and descriptors: nothing goes into them, and nothing beside them. The helper's own descriptors
    are not the program's: what /dev/stdout leads to is not what it is there."""
    directory = private_directory()
    os.mkfifo(directory / "pipe")
    (directory / "link").symlink_to("/proc/self/fd/1")
    before = os.listdir("/dev")
    for name in "/dev/null", "pipe", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link":
        result = run_to(name, directory=directory)
        expect(result.stdout == b"", f"{name}: {result.stdout}")
        same_but_for_the_line(result, f"{name}: the profile can't be written: not a file, ")
        expect_files(result, "link", "pipe")
    made = set(os.listdir("/dev")).difference(before)
    expect(not [name for name in made if name.startswith(("std", "null", ".selfsample"))], f"in /dev: {made}")


@test
def test_full_disk():
    need_root()
    directory = private_directory()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", directory])
    if mount.returncode != 0:
        raise Failure("can't mount a tmpfs")
    try:
        (directory / "filler").write_bytes(b"x" * 65536)
        result = run(program("work"), 300000, 4, directory=directory)
        same_but_for_the_line(result, status=4)
        expect_files(result, "filler")
    finally:
        subprocess.run(["umount", "-l", directory], check=True)


@test
def test_file_size_limit():
    """Writing means SIGXFSZ then, which must hit nobody."""
    limited = f"(ulimit -f 0; {program('work')} 300000 4; echo status $?) 2>&1 | cat"
    result = run("/bin/sh", "-c", limited, options={"ONLY": "work"})
    lines = result.stdout.decode().splitlines()
    expect(len(lines) == 2 and "can't be written" in lines[0] and "EFBIG" in lines[0] and "`ulimit -f`" in lines[0]
           and lines[1] == "status 4", str(result))
    expect_files(result)


@test
def test_file_size_limit_of_stderr():
    """A line that the program's stderr, a file, has no room for must not cost it its life either."""
    limits = {resource.RLIMIT_FSIZE: 0}
    result = run(program("work"), 50000, 4, limits=limits, options={"RATE": "nonsense"})
    expect(result.status == 4 and result.stderr == b"", str(result))


@test
def test_symlink_in_a_shared_directory():
    """A link that lies in wait under the output's name is neither followed nor replaced."""
    directory = private_directory()
    directory.chmod(0o1777)
    victim = private_directory() / "victim"
    victim.write_text("precious\n")
    (directory / "x.folded").symlink_to(victim)
    (directory / "x.1.folded").symlink_to(victim.parent / "nothing")
    result = run_to("x.folded", directory=directory)
    expect(victim.read_text() == "precious\n", "the link was followed")
    expect((directory / "x.folded").is_symlink(), "the link was replaced")
    expect(not (victim.parent / "nothing").exists(), "a dangling link was followed")
    expect("x.2.folded" in result.files(), f"files {result.files()}")


@test
def test_nothing_partial_is_left():
    """A process killed at any moment leaves whole files only, under final names only."""
    directory = private_directory()
    script = f'for i in 1 2 3 4 5 6 7 8; do timeout -s KILL 0.$i {program("split")} 5000; done'
    result = run("/bin/sh", "-c", script, directory=directory, options={"CHECKPOINT": 1})
    for name in result.files():
        expect(name.endswith(".folded"), f"left behind: {name}")
    # One that got no processor for its first tenth of a second has none.
    measured(len([p for p in result.profiles if "split" in p.path.name]) == 8,
             f"files {result.files()}")


@test
def test_same_name_for_a_process_tree():
    """The first keeps the name, the others get a suffix."""
    result = both(program("forks"), 5, 100000, options={"OUT": "tree.folded"})
    names = ["tree.folded"] + [f"tree.{i}.folded" for i in range(1, 6)]
    expect_files(result, *names)
    totals = sorted(p.total() for p in result.profiles)
    measured(totals[0] > 90 and totals[-1] > 380, f"totals {totals}")


main()
