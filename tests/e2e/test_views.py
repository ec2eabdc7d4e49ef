#!/usr/bin/env python3
"""The sub-commands that show profiles: top, tree, merge, diff, convert, and `--top` after a run.

What they are held against is counted here, in another way, from stacks that the tests make up.
"""

import fcntl
import json
import math
import os
import pty
import random
import re
import struct
import subprocess
import termios
from collections import Counter

from harness import (COMMAND, bare, expect, main, private_directory, program, test, the_command)
from stacks import columns, made_up, parsed, picture, sums, view, write

VIEWS = ("top", "tree", "merge", "diff", "convert")


def rows(text):
    """{function: (self %, error, total %, error, self, total)} of a table of top, in its order."""
    found = {}
    for line in text.splitlines()[2:]:
        if re.match(r"and \d+ more|\+- if", line):
            continue
        match = re.fullmatch(r" *([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +(\d+) +(\d+)  (.*)", line)
        expect(match, f"not a row: {line!r}")
        found[match.group(7)] = tuple(map(float, match.groups()[:6]))
    return found


def whole(shown, functions):
    """The function that a table shows, the middle of its name left out where it is long."""
    if shown in functions:
        return shown
    head, _, tail = shown.partition("...")
    found = [f for f in functions if f.startswith(head) and f.endswith(tail)]
    expect(len(found) == 1, f"{shown}: {found}")
    return found[0]


@test(each=[1, 2])
def test_top_sums(seed):
    stacks = made_up(seed)
    own, total = sums(stacks)
    everything = sum(stacks.values())
    table = rows(view("top", "-n", 0, "--wide", write(private_directory() / "a.folded", stacks)))
    expect(set(table) == set(total), f"functions {set(table) ^ set(total)}")
    for function, row in table.items():
        expect(row[4:] == (own[function], total[function]), f"{function}: {row}, wanted "
               f"{own[function]}, {total[function]}")
        for share, error, count in ((row[0], row[1], own[function]),
                                    (row[2], row[3], total[function])):
            part = count / everything
            expect(abs(share - 100 * part) < 0.006, f"{function}: {share} %, wanted {100 * part}")
            wanted = 100 * math.sqrt(everything * part * (1 - part)) / everything
            expect(abs(error - wanted) < 0.006, f"{function}: +- {error}, wanted {wanted}")


@test
def test_top_order_and_rows():
    stacks = {("t", "z"): 5, ("t", "b"): 7, ("t", "a"): 7, ("t", "top", "c"): 3}
    path = write(private_directory() / "a.folded", stacks)
    expect(list(rows(view("top", path))) == ["a", "b", "z", "c", "top"], view("top", path))
    by_total = list(rows(view("top", "--sort", "total", path)))
    expect(by_total == ["a", "b", "z", "c", "top"], f"{by_total}")
    stacks[("t", "top")] = 6
    path = write(private_directory() / "a.folded", stacks)
    by_total = list(rows(view("top", "--sort=total", path)))
    expect(by_total == ["top", "a", "b", "z", "c"], f"{by_total}")
    text = view("top", "-n", 2, path)
    expect(len(text.splitlines()) == 5 and "and 3 more (--rows 0 shows all)" in text, text)


@test
def test_top_of_threads_and_files():
    """One thread of several; the frames in front of functions; stdin among the files."""
    directory = private_directory()
    stacks = made_up(3)
    path = write(directory / "a.folded", stacks)
    some = {stack: count for stack, count in stacks.items() if stack[0].startswith("worker-")}
    own, _ = sums(some)
    table = rows(view("top", "--thread", "worker-*", "-n0", "-w", path))
    expect({f: row[4] for f, row in table.items()} == {f: own[f] for f in table}, f"{table}")
    expect("no samples of a thread 'x'" in view("top", "--thread", "x", path, status=1), "x")

    both = view("top", "-n0", "-w", path, "-", stdin=path.read_bytes())
    own, total = sums(stacks)
    expect(all(row[4:] == (2 * own[f], 2 * total[f]) for f, row in rows(both).items()), both)

    plain = write(directory / "b.folded", {stack[1:]: 1 for stack in stacks})
    table = rows(view("top", "-n0", "-w", "--roots", 0, plain))
    _, total = sums({("t", *stack[1:]): 1 for stack in stacks})
    expect({f: row[5] for f, row in table.items()} == total, f"{table}")


def through_pipes(view_name, *paths):
    """What a view writes of these files when each comes from a pipe."""
    writers = [subprocess.Popen(["cat", path], stdout=subprocess.PIPE) for path in paths]
    descriptors = [writer.stdout.fileno() for writer in writers]
    try:
        done = subprocess.run([COMMAND, view_name, *(f"/dev/fd/{fd}" for fd in descriptors)],
                              pass_fds=descriptors, capture_output=True, text=True, timeout=60)
    finally:
        for writer in writers:
            writer.stdout.close()
            writer.wait(timeout=60)
    expect(done.returncode == 0, f"status {done.returncode}: {done.stderr}")
    return done.stdout


@test
def test_pipes_are_read_once():
    """A profile that comes from a pipe gives what it gives as a file, in full."""
    directory = private_directory()
    before, after = (write(directory / f"{i}.folded", made_up(i)) for i in (1, 2))
    for view_name, *paths in (("top", before), ("top", before, after), ("diff", before, after)):
        piped = through_pipes(view_name, *paths)
        expect(piped == view(view_name, *paths), f"{view_name} of {len(paths)}: {piped}")
    piped = view("top", "/dev/stdin", stdin=before.read_bytes())
    expect(piped == view("top", before), f"/dev/stdin: {piped}")
    fifo = directory / "fifo"
    os.mkfifo(fifo)
    writer = subprocess.Popen(["cp", before, fifo])
    try:
        piped = view("top", fifo)
        expect(piped == view("top", before), f"a FIFO: {piped}")
        expect(writer.wait(timeout=60) == 0, "all of the FIFO is read")
    finally:
        writer.kill()
        writer.wait()


@test
def test_top_by_thread():
    """A function of two threads is two, each behind its thread's name."""
    stacks = {("a", "f", "g"): 3, ("b", "f"): 4, ("b", "g"): 5, ("c",): 6}
    table = rows(view("top", "--by-thread", write(private_directory() / "a.folded", stacks)))
    expect({f: row[4:] for f, row in table.items()} ==
           {"a: f": (0, 3), "a: g": (3, 3), "b: f": (4, 4), "b: g": (5, 5), "c": (6, 6)}, f"{table}")


@test
def test_top_of_microseconds():
    """The number of samples is the rate's: 4 s of CPU time at 100 Hz, a quarter in f."""
    stacks = {("t", "f"): 1_000_000, ("t", "g"): 3_000_000}
    path = write(private_directory() / "a.folded", stacks)
    text = view("top", "--unit", "us", "--rate", 100, path)
    wanted = 100 * math.sqrt(0.25 * 0.75 / 400)
    expect(abs(rows(text)["f"][1] - wanted) < 0.006, text)
    expect("4000000 us" in text and "+- if 100 samples a second" in text, text)
    text = view("tree", "--unit", "us", "--rate", 100, path)
    line = next(line for line in text.splitlines() if line.endswith(" f"))
    expect(abs(float(line.split()[1]) - wanted) < 0.006 and "+- if 100 samples a second" in text, text)


@test
def test_stack_without_functions():
    """A thread alone, as of a stack cut by others: it counts as the function."""
    path = write(private_directory() / "a.folded", {("main",): 3, ("main", "f", "main"): 4})
    table = rows(view("top", path))
    expect(table["main"][4:] == (7, 7) and table["f"][4:] == (0, 4), f"{table}")


@test
def test_tree():
    """Each node at or above the cut, under its callers, with its share."""
    stacks = made_up(4)
    everything = sum(stacks.values())
    own, total = Counter(stacks), Counter()
    for stack, count in stacks.items():
        for depth in range(1, len(stack) + 1):
            total[stack[:depth]] += count
    path = write(private_directory() / "a.folded", stacks)
    for cut, argument in ((0.01, []), (0.05, ["--cut", "5%"]), (0, ["--cut=0"])):
        shown, stack = {}, ()
        for line in view("tree", "-w", *argument, path).splitlines()[2:]:
            match = re.fullmatch(r" *([\d.]+) +([\d.]+) +([\d.]+)  ( *)(.*)", line)
            depth = len(match.group(4))
            expect(depth <= len(stack), f"nobody above {line}")
            stack = (*stack[:depth], match.group(5))
            shown[stack] = tuple(float(match.group(i)) for i in (1, 2, 3))
        expect(set(shown) == {s for s, c in total.items() if c >= cut * everything}, f"cut {cut}")
        for stack, (share, error, self_share) in shown.items():
            part = total[stack] / everything
            expect(abs(error - 100 * math.sqrt(part * (1 - part) / everything)) < 0.006, f"{stack}: +- {error}")
            expect(abs(share - 100 * total[stack] / everything) < 0.006
                   and abs(self_share - 100 * own[stack] / everything) < 0.006, f"{stack}: {share}")


@test(each=["folded", "pb.gz"])
def test_tree_of_all_threads(ending):
    """As of a profile that never had threads; with --thread of those alone."""
    directory = private_directory()
    stacks = made_up(5)
    path = write(directory / "a.folded", stacks)
    if ending == "pb.gz":
        path = directory / "a.pb.gz"
        view("convert", "--to", "pprof", "-o", path, directory / "a.folded")
    for arguments, pattern in (([], ""), (["-t", "worker*"], "worker")):
        bare_stacks = Counter()
        for stack, count in stacks.items():
            if stack[0].startswith(pattern):
                bare_stacks[stack[1:] or stack] += count
        wanted = write(directory / "wanted.folded", bare_stacks)
        expect(view("tree", "-m", "-w", "--cut", 0, *arguments, path) ==
               view("tree", "-w", "--cut", 0, "--roots", 0, wanted), f"{arguments}")
    expect("--roots 0" in view("tree", "--merge-threads", "--roots", 0, path, status=1), "no threads")


@test
def test_merge():
    """Exact sums, each program's under its name, and a tool of others reads it."""
    directory = private_directory()
    names = {"selfsample.app.1234.folded": "app", "selfsample.app.1300.1.folded": "app",
             "selfsample.python3.11.4321.folded": "python3.11", "other.folded": "other",
             "selfsample.my;app.77.folded": "my:app"}
    wanted, paths = Counter(), []
    for seed, (name, root) in enumerate(names.items()):
        stacks = made_up(seed)
        paths.append(write(directory / name, stacks))
        for stack, count in stacks.items():
            wanted[(root, *stack)] += count
    text = view("merge", *paths)
    expect(parsed(text) == wanted, f"{Counter(parsed(text)) - wanted}")
    expect(parsed(view("merge", "--root", "all", *paths)).keys() ==
           {("all", *stack[1:]) for stack in wanted}, "--root all")
    expect(parsed(view("merge", "--root", "", paths[3])) == made_up(3), "without a root")

    expect(view("merge", *paths, "-o", directory / "m.folded") == "", "stdout")
    expect((directory / "m.folded").read_text() == text, "-o")
    expect("1 file" in view("top", "--roots", 2, directory / "m.folded"), "top of it")
    picture(text, sum(wanted.values()))


def speedscope(text):
    """{(profile's name, frame, ...): weight}, after a look at what the format demands."""
    file = json.loads(text)
    expect(file["$schema"] == "https://www.speedscope.app/file-format-schema.json", "schema")
    expect(isinstance(file["version"], str) and isinstance(file["name"], str), "version, name")
    expect(0 <= file["activeProfileIndex"] < len(file["profiles"]), "index")
    frames = [frame["name"] for frame in file["shared"]["frames"]]
    expect(len(set(frames)) == len(frames), "a frame twice")
    stacks = {}
    for profile in file["profiles"]:
        expect(set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples",
                                "weights"} and profile["type"] == "sampled", f"{profile.keys()}")
        expect(len(profile["samples"]) == len(profile["weights"]) > 0, "lengths")
        expect(profile["startValue"] == 0 and profile["endValue"] == sum(profile["weights"]), "end")
        for sample, weight in zip(profile["samples"], profile["weights"]):
            stack = (profile["name"], *(frames[i] for i in sample))
            expect(stack not in stacks and sample, f"twice or empty: {stack}")
            stacks[stack] = weight
    return stacks, {profile["unit"] for profile in file["profiles"]}


@test
def test_convert_to_speedscope():
    directory = private_directory()
    stacks = made_up(7)
    stacks[("main", 'quotes " and \\ back')] = 5
    one = write(directory / "selfsample.app.1.folded", stacks)
    found, units = speedscope(view("convert", "--to", "speedscope", one))
    expect(found == stacks and units == {"none"}, "one file")
    _, units = speedscope(view("convert", "--to=speedscope", "--unit=us", one))
    expect(units == {"microseconds"}, f"{units}")

    two = write(directory / "selfsample.tool.2.folded", made_up(8))
    found, _ = speedscope(view("convert", "--to", "speedscope", one, two))
    wanted = {(f"{root}: {s[0]}", *s[1:]): count for root, some in
              (("app", stacks), ("tool", made_up(8))) for s, count in some.items()}
    expect(found == wanted, "two files")
    found, _ = speedscope(view("convert", "--to", "speedscope", "--roots", 0, one))
    expect(found == {("all threads", *s): count for s, count in stacks.items()}, "no threads")

    merged = {("app",): 5, ("app", "main"): 4, ("app", "main", "f"): 3}
    found, _ = speedscope(view("convert", "--to", "speedscope", "--roots", 2,
                               write(directory / "merged", merged)))
    expect(found == {("app", "app"): 5, ("app: main", "main"): 4, ("app: main", "f"): 3}, f"{found}")

    (directory / "bytes").write_bytes(b"main;\xff\xc3\x28\x1b[31m 4\nmain 2\n")
    found, _ = speedscope(view("convert", "--to", "speedscope", directory / "bytes"))
    expect(found == {("main", "\ufffd\ufffd(\x1b[31m"): 4, ("main", "main"): 2}, f"{found}")


@test
def test_same_whatever_the_order():
    directory = private_directory()
    chance = random.Random(1)
    outputs = set()
    for _ in range(4):
        paths = []
        for seed in (9, 10):
            items = list(made_up(seed).items())
            chance.shuffle(items)
            paths.append(write(directory / f"selfsample.app.{seed}.folded", dict(items)))
        outputs.add((view("top", "-n0", *paths), view("tree", "--cut=0", *paths),
                     view("merge", *paths), view("diff", "--rows=0", *paths),
                     view("diff", "-f", "-n", *paths)))
    expect(len(outputs) == 1, "the output depends on the order of lines")


DAMAGED = {
    "empty": (b"", 1, "empty"),
    "no count": (b"a;b 3\na;b\n", 2, "number"),
    "count alone": (b"12\n", 1, "number"),
    "space and count": (b" 12\n", 1, "without a name"),
    "negative": (b"a;b -3\n", 1, "number"),
    "fraction": (b"a;b 3.5\n", 1, "number"),
    "dos": (b"a;b 3\r\n", 1, "number"),
    "empty line": (b"a;b 3\n\na;c 3\n", 2, "number"),
    "empty frame": (b"a;b 3\na;;b 3\n", 2, "without a name"),
    "last frame empty": (b"a; 3\n", 1, "without a name"),
    "cut": (b"a;b 3\na;b 1", 2, "ends within"),
    "nul": (b"a;b 3\na;\0b 1\n", 2, "NUL"),
    "binary": (b"\x7fELF\2\1\1" + bytes(100_000), 1, "NUL"),
    "large count": (b"a;b 18446744073709551616\n", 1, "64 bits"),
    "large sum": (b"a;b 18446744073709551615\na;c 1\n", 2, "64 bits"),
    "huge line": (b"a;b 3\n" + b"x" * 17_000_000, 2, "16 MB"),
    "zeros": (b"a;b 0\n", None, "all counts are 0"),
}


@test(each=DAMAGED)
def test_damaged(what):
    content, line, reason = DAMAGED[what]
    path = private_directory() / "damaged.folded"
    path.write_bytes(content)
    place = f"{path}:{line}: " if line else f"{path}: "
    for name in VIEWS:
        files = [path, path] if name == "diff" else [path]
        told = view(name, *(["--to", "speedscope"] if name == "convert" else []), *files, status=1)
        expect(told.startswith(f"selfsample: {place}") and reason in told and
               told.count("\n") == 1, f"{name}: {told}")


@test
def test_files_that_cannot_be_read():
    directory = private_directory()
    expect("No such file" in view("top", directory / "none", status=1), "none")
    expect("directory" in view("merge", directory, status=1), "a directory")
    path = write(directory / "a", {("t", "f"): 1})
    expect("No space" in view("merge", path, "-o", "/dev/full", status=1), "a full disk")
    large = write(path.with_name("large.folded"), {("main", f"{i:0100}"): 1 for i in range(1000)})
    expect("No space" in view("merge", large, "-o", "/dev/full", status=1), "long before the end")
    for words in (["doctor", "sh"], ["top", path]):
        with open("/dev/full", "w", encoding="ascii") as full:
            told = subprocess.run([COMMAND, *words], stdout=full, stderr=subprocess.PIPE,
                                  text=True, timeout=60, check=False)
        expect(told.returncode == 1 and told.stderr.startswith("selfsample: stdout: not all was"),
               f"{words}: {told}")


@test
def test_numbers_that_are_whole():
    path = write(private_directory() / "a", {("t", "f"): 1})
    for option in ("--rows", "--roots"):
        told = view("top", option, "2.7", path, status=1)
        expect("2.7: a whole number from 0 to 1000" in told and told.count("\n") == 1, told)


@test
def test_files_that_are_not_wanted():
    """What lies beside profiles, a name of pprof's for a folded file, files that are too many: each is told."""
    directory = private_directory()
    path = write(directory / "a.folded", {("t", "f"): 1})
    page, places = directory / "a.html", directory / "a.folded.places"
    page.write_text("<!doctype html>\n<title>a</title>\n")
    places.write_text("t;f 1\n")
    for other, kind in (page, "a page"), (places, "the places"):
        told = view("tree", path, other, status=1)
        expect(told.startswith(f"selfsample: {other}: {kind}") and ".folded" in told, told)
    told = view("diff", path, path, path, status=1)
    expect("two files are wanted" in told and "3 are given" in told and "merge" in told, told)
    told = view("diff", "-n", 20, path, path, status=1)
    expect("3 are given" in told and "--rows" in told, told)
    told = view("list", path, status=1)
    expect(told.startswith("selfsample: usage: selfsample list; "), told)
    told = view("merge", path, "-o", directory / "all.pb.gz", status=1)
    expect("convert --to pprof" in told and not (directory / "all.pb.gz").exists(), told)


@test(each=[("merge",), ("diff", "--folded"), ("convert", "--to", "speedscope")])
def test_a_profile_is_not_written_over(words):
    """By whatever name; other files are."""
    directory = private_directory()
    paths = [write(directory / name, {("t", "f"): count}) for name, count in (("a", 1), ("b", 2))]
    other, page = directory / "other", directory / "page"
    other.symlink_to(paths[1])
    page.write_text("what was there")
    told = view(*words, "-o", other, *paths, status=1)
    expect(str(other) in told and "left as it is" in told and paths[1].read_text() == "t;f 2\n", told)
    with paths[1].open(encoding="ascii") as one:
        read = subprocess.run([COMMAND, *words, "-o", paths[1], paths[0], "-"], stdin=one,
                              capture_output=True, timeout=60, check=False)
    expect(read.returncode == 1 and paths[1].read_text() == "t;f 2\n", f"as the input: {read}")
    view(*words, "-o", page, *paths)
    expect("what was there" not in page.read_text(), "another file was to be written over")


@test
def test_largest_count():
    path = write(private_directory() / "a", {("t", "f"): 2**64 - 2, ("t", "g"): 1})
    table = view("top", "-w", path)
    expect(str(2**64 - 2) in table and str(2**64 - 1) in table, table)
    expect(parsed(view("merge", "--root=", path)) == {("t", "f"): 2**64 - 2, ("t", "g"): 1}, "merge")
    first, second = columns(view("diff", "-fn", path, path))
    expect(first == second, f"{first}, {second}")


@test
def test_deep_stack():
    """Nothing in the views is on a stack of calls: 100,000 frames, the same function twice each."""
    stack = ("t", *(f"f{i // 2}" for i in range(100_000)))
    path = write(private_directory() / "a", {stack: 1000})
    expect(rows(view("top", "-n", 0, path))["f7"][4:] == (0, 1000), "top")
    expect(parsed(view("merge", "--root=", path)) == {stack: 1000}, "merge")
    expect(len(view("tree", path).splitlines()) == 100_003, "tree")
    expect(speedscope(view("convert", "--to", "speedscope", path))[0] == {stack: 1000}, "convert")


def on_terminal(width, *arguments):
    """The lines that the command prints on a terminal of that width."""
    terminal, program_side = pty.openpty()
    fcntl.ioctl(program_side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    process = subprocess.Popen([str(COMMAND), *map(str, arguments)], stdout=program_side,
                               env=environment)
    os.close(program_side)
    text = b""
    try:
        while piece := os.read(terminal, 65536):
            text += piece
    except OSError:
        pass  # the last writer is gone
    os.close(terminal)
    expect(process.wait(30) == 0, "status")
    return text.decode().replace("\r", "").splitlines()


@test
def test_fits_the_terminal():
    long_name = "std::" + "very_long::" * 30 + "name"
    stacks = {("t", "caller", long_name + kind): 100 for kind in ("_[k]", "_[i]", "")}
    stacks[("t", *("f" * (i % 40 + 1) for i in range(200)))] = 50
    path = write(private_directory() / "a", stacks)
    other = write(private_directory() / "b", {stack: 2 * count for stack, count in stacks.items()})
    for name, files in (("top", [path]), ("tree", [path]), ("diff", [path, other])):
        for width in (40, 60, 80, 133):
            for lines in (on_terminal(width, name, *files),
                          view(name, *files, columns=width).splitlines()):
                table = [line for line in lines if line.strip()]
                expect(max(map(len, table)) <= width, f"{name}, {width}: {max(table, key=len)}")
                expect(any("..." in line for line in table), f"{name}, {width}: nothing shortened")
                expect(any(line.endswith("_[k]") for line in table) and
                       any(line.endswith("_[i]") for line in table), f"{name}, {width}: {table}")
        expect(max(map(len, view(name, *files).splitlines())) == 80, f"{name} in a pipe")
        expect(long_name + "_[k]" in view(name, "--wide", *files), f"{name} --wide")


@test
def test_names_do_not_speak_to_the_terminal():
    path = private_directory() / "a"
    path.write_bytes(b"t\x1b[2J;f\x07\xc2\x9b\xff \xc3\xb6 3\n")
    for name in ("top", "tree"):
        line = view(name, path).splitlines()[-1]
        expect(line.endswith("f???? \u00f6") or line.endswith("f??? \u00f6"), f"{line!r}")
    # What is no UTF-8 to some is a control character to others: in more bytes than it needs.
    path.write_bytes(b"t;f\xe0\x82\x9bg\xed\xa0\x80 3\n")
    for name in ("top", "tree"):
        line = view(name, path).splitlines()[-1]
        expect(line.endswith("f???g???"), f"{line!r}")


@test
def test_help():
    for name in VIEWS:
        text = view(name, "--help")
        expect(text.startswith(f"usage: selfsample {name} "), text)
        expect(f"selfsample -- {name}" in text and max(map(len, text.splitlines())) <= 100, text)
        told = view(name, status=1)
        expect(told.count("\n") == 1 and f"selfsample -- {name}" in told, told)
    expect("--cut 5x" in view("tree", "--cut", "5x", "-", status=1), "a wrong number")
    expect("--sort me" in view("top", "--sort", "me", "-", status=1), "a wrong word")


@test
def test_programs_of_the_same_names():
    directory = private_directory()
    for name in VIEWS:
        (directory / name).write_text(f"#!/bin/sh\necho program {name} $1\n")
        (directory / name).chmod(0o755)
        result = bare(the_command(), "--", name, "x",
                      env={"PATH": f"{directory}:{os.environ['PATH']}"})
        expect(result.stdout == f"program {name} x\n".encode(), f"{name}: {result}")


@test(each=[("samples", "name"), ("us", "none")])
def test_top_after_a_run(how):
    """A program that spends a known half; in a real profile, and of both its processes."""
    unit, threads = how
    work = program("split")
    result = bare(the_command(), "--top", "--unit", unit, "--threads", threads, "/bin/sh", "-c",
                  f"{work} 600 & {work} 600; wait; exit 3")
    expect(result.status == 3 and result.stdout == b"done\ndone\n", str(result))
    lines = result.stderr.decode().splitlines()
    at = next((i for i, line in enumerate(lines) if re.match(rf"\d+ {unit}, ", line)), None)
    expect(at and all(line.startswith("selfsample: ") for line in lines[:at]), f"{lines}")
    stacks = Counter()
    for profile in result.profiles:
        for stack, count in profile.stacks.items():
            stacks[stack if threads == "name" else ("t", *stack)] += count
    own, total = sums(stacks)
    table = rows("\n".join(lines[at:]))
    expect(f"{sum(stacks.values())} {unit}" in lines[at], f"{lines[at]}")
    table = {whole(function, total): row for function, row in table.items()}
    for function, row in table.items():
        expect(row[4:] == (own[function], total[function]), f"{function}: {row}")
    expect(set(list(table)[:2]) <= {f for f, _ in own.most_common(3)}, f"{table}")


main()
