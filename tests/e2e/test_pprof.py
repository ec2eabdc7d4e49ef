#!/usr/bin/env python3
"""pprof files: written by the library, read and written by the command, and read by other tools."""

import gzip
import random
import re
import subprocess
import time
from collections import Counter

from folded import Profile
from harness import (COMMAND, ROOT, expect, main, measured, near, private_directory, program, run, test, wait_helper,
                     wait_until)
from pprof import Pprof, go_top, go_traces
from stacks import made_up, parsed, sums, view, write


def profiled(*command, **arguments):
    """Runs a command, and returns its only pprof file, parsed, and the run."""
    options = {"FORMAT": "pprof", **arguments.pop("options", {})}
    result = run(*command, options=options, **arguments)
    files = [name for name in result.files() if "selfsample" in name]
    expect(len(files) == 1 and re.fullmatch(r"selfsample\.[^/]*\.\d+\.pb\.gz", files[0]), result)
    result.path = result.directory / files[0]
    return Pprof(result.path), result


def of_functions(stacks, roots=1):
    """{function: (self, total)} of stacks with so many frames in front of functions, as go names them:
    inlined ones, but where there is nothing that they were inlined into, like others."""
    functions = Counter()
    for stack, count in stacks.items():
        first, *others = stack[roots:]
        functions[(None, first, *(name.removesuffix("_[i]") for name in others))] += count
    own, total = sums(functions)
    return {name: (own[name], total[name]) for name in total}


@test
def a_profile_as_go_reads_it():
    profile, result = profiled(program("api", f"-I{ROOT}/include"), "labels", timeout=150)
    expect(profile.kinds == [("samples", "count"), ("cpu", "nanoseconds")], profile.kinds)
    expect(profile.period == 1001001, f"period {profile.period}")
    counts, ns = profile.folded(0), profile.folded(1)
    expect(abs(profile.total(0) - profile.total(1) / profile.period) <= 0.51, "counts and weights")
    near(profile.total(1) / 1e9, 2.4, 0.1, "CPU time")
    for label, share in (("a-sixty", 0.3), ("b-sixty", 0.3), ("a-thirty", 0.15)):
        seen = sum(c for s, c in ns.items() if s[1] == label) / profile.total(1)
        near(seen, share, 0.03, f"share of {label}")
    tids = {labels["tid"] for _, labels, _ in profile.samples}
    expect(len(tids) == 2 and all(labels["thread"] for _, labels, _ in profile.samples), tids)
    labels = sum(("label" in labels) * values[1] for _, labels, values in profile.samples)
    near(labels / profile.total(1), 0.9, 0.03, "labelled")
    for kind, which in (("samples", 0), ("cpu", 1)):
        wanted = Counter()
        for stack, _, values in profile.samples:
            wanted[("", *profile.names(stack))] += values[which]
        expect(go_top(result.path, kind) == of_functions(+wanted), f"go tool pprof, {kind}")
    expect(parsed(view("convert", "--to", "folded", result.path)) == dict(counts), "convert")
    expect(view("top", result.path).startswith(f"{profile.total(0)} samples, "), "top")


@test
def locations_are_where_the_code_was():
    """Mappings are those of /proc/PID/maps; addresses in them lead to the functions of the names."""
    maps = []
    binary = program("places")

    def look(pid):
        wait_helper(pid)  # all is loaded by then
        maps.append(open(f"/proc/{pid}/maps", encoding="utf-8").read())

    profile, _ = profiled(binary, while_running=look)
    there = set()
    for start, end, offset, path in re.findall(r"^(\w+)-(\w+) r-xp (\w+) \S+ \S+ +(\S+)$", maps[0],
                                               re.M):
        there.add((int(start, 16), int(end, 16), int(offset, 16), path))
    for mapping in profile.mappings.values():
        found = tuple(mapping[number] for number in (2, 3, 4)) + (profile.strings[mapping[5]],)
        expect(found in there, f"{found} is not in {there}")
    table = subprocess.run(["nm", "-S", binary], capture_output=True, text=True, check=True).stdout
    start, size = (int(n, 16) for n in re.search(r"^(\w+) (\w+) [tT] work$", table, re.M).groups())
    own = [m for m in profile.mappings.values() if profile.strings[m[5]] == str(binary)]
    notes = subprocess.run(["readelf", "-n", binary], capture_output=True, text=True, check=True)
    expect(f"Build ID: {profile.strings[own[0][6]]}\n" in notes.stdout, "build id")
    leaves = [stack[-1] for stack, _, _ in profile.samples if profile.names(stack)[-1] == "work"]
    expect(leaves, "no sample in work")
    for leaf in leaves:
        address = leaf[3] - own[0][2] + own[0][4]
        expect(leaf[2] == own[0][1] and start <= address < start + size, f"{address:#x} in work")


@test
def names_clash_and_nothing_else_is_left():
    directory = private_directory()
    for wanted in ("p.pb.gz", "p.1.pb.gz"):
        run(program("places"), directory=directory, options={"FORMAT": "pprof", "OUT": "p.pb.gz"})
        measured(Pprof(directory / wanted).total(0) > 300, wanted)
    expect(len(list(directory.iterdir())) == 2, "files")


@test
def threads_as_asked():
    profile, _ = profiled(program("places"), options={"THREADS": "name"})
    expect({tuple(labels) for _, labels, _ in profile.samples} == {("thread",)}, "name")
    profile, result = profiled(program("places"), options={"THREADS": "none"})
    expect({tuple(labels) for _, labels, _ in profile.samples} == {()}, "none")
    expect(view("top", "--roots", 0, result.path).split("\n")[0].endswith(" 1 file"), "top")


def parts(directory):
    """The files of a series so far, in their order; each is whole whenever it is there."""
    paths = sorted(directory.glob("part.*"), key=lambda path: int(path.name.split(".")[1]))
    return [(path.name, read(path)) for path in paths]


def read(path):
    """What a file holds as folded stacks, its sum, and its time, if it tells that."""
    if path.name.endswith(".folded"):
        profile = Profile(path)
        return profile.stacks, profile.total(), None
    profile = Pprof(path)
    return profile.folded(1), profile.total(1), (profile.began_ns, profile.duration_ns)


@test(each=("pprof", "folded"))
def series_of_intervals(form):
    """Each file has the function that ran since the one before; all of them are the whole."""
    directory = private_directory()
    began_ns = time.time_ns()
    ending, unit = ("pb.gz", 1e9) if form == "pprof" else ("folded", 1e6)
    functions = ("first", "second", "third")
    of_function = []  # the numbers of the parts that each begins with

    def drive(pid):
        for number, function in enumerate(functions, 1):
            before = len(parts(directory))
            of_function.append(before)
            (directory / f"go.{number}").touch()
            wait_until((directory / f"done.{number}").exists, 60, f"{function} does not end")
            if number == 3:
                break  # the program ends, and leaves the last part
            wait_until(lambda: len(parts(directory)) > before, 60, f"no part with {function}")
            # What came after the checkpoint goes into a part of its own now, if there is anything.
            told = subprocess.run([COMMAND, "snapshot", str(pid)], capture_output=True,
                                  timeout=60)
            expect(told.returncode == 0 or b"no sample since the last file" in told.stderr, told)

    result = run(program("phases"), directory=directory, while_running=drive, timeout=200,
                 options={"FORMAT": form, "CHECKPOINT": 1, "OUT": f"part.%n.{ending}",
                          "UNIT": "us", "SUMMARY": "yes"})
    expect(result.status == 0, result)
    files = parts(directory)
    expect([int(name.split(".")[1]) for name, _ in files] == list(range(len(files))), files)
    for function, (first, end) in zip(functions, zip(of_function, [*of_function[1:], len(files)])):
        burnt = Counter()
        for _, (stacks, _, _) in files[first:end]:
            for stack, weight in stacks.items():
                burnt.update({f: weight / unit for f in stack if f in functions})
        near(burnt.pop(function, 0), 0.4, 0.1, f"seconds of {function}, in its parts")
        # Less than a period may be booked where the last sample was.
        measured(sum(burnt.values()) < 0.04, f"with {function}: {burnt}")
    seen = float(re.search(rb"([0-9.]+) s of CPU time \(", result.stderr)[1])
    expect(abs(sum(total for _, (_, total, _) in files) / unit - seen) <= 0.0011, "sum of parts")
    end_ns = began_ns
    for name, (_, _, when) in files:
        if when:
            expect(end_ns <= when[0], f"{name} begins before the last one ends")
            end_ns = when[0] + when[1]
    expect(end_ns <= time.time_ns(), "the last one ends in the future")


@test
def inlined_functions_are_refused():
    result = run(program("places"), options={"FORMAT": "pprof", "INLINE": "yes"})
    expect(result.stderr == b"selfsample: SELFSAMPLE_INLINE=yes: not with SELFSAMPLE_FORMAT=pprof; "
           b"inlined functions are not shown\n", result)
    expect([name[-6:] for name in result.files()] == [".pb.gz"], result)
    told = subprocess.run([COMMAND, "-i", "-f", "pprof", "true"], capture_output=True, text=True,
                          timeout=60)
    expect(told.returncode == 125 and "--inline: not with pprof files" in told.stderr, told)


@test
def convert_to_pprof_and_back():
    directory = private_directory()
    one = write(directory / "one.folded", made_up(1))
    packed = directory / "one.pb.gz"
    view("convert", "--to", "pprof", "-o", packed, one)
    profile = Pprof(packed)
    expect(profile.folded(0) == made_up(1), "samples")
    expect(profile.total(1) == profile.total(0) * 1001001, "nanoseconds")
    expect(view("convert", "--to", "folded", packed) == view("merge", "--root", "", one), "back")
    expect(view("top", packed) == view("top", one), "top")
    expect(view("tree", packed) == view("tree", one), "tree")
    expect(view("top", "--thread", "worker*", packed) == view("top", "--thread", "worker*", one),
           "thread")
    two = write(directory / "two.folded", made_up(2))
    expect(view("diff", packed, two) == view("diff", one, two), "diff")
    view("convert", "--to", "pprof", "-o", packed, "--unit", "us", "--rate", "100", one)
    profile = Pprof(packed)
    us = {stack: count * 1000 for stack, count in made_up(1).items()}
    expect(profile.folded(1) == us and profile.period == 10000000, "us")
    expect(profile.total(0) == round(sum(us.values()) / profile.period), "samples of us")
    expect(parsed(view("convert", "--to", "folded", "--unit", "us", packed)) == made_up(1), "us back")
    view("convert", "--to", "pprof", "-o", packed, one, two)
    both = {("one", *stack): count for stack, count in made_up(1).items()}
    both |= {("two", *stack): count for stack, count in made_up(2).items()}
    expect(Pprof(packed).folded(0) == both, "two files")
    expect(parsed(view("convert", "--to", "folded", "--roots", 2, packed)) == both, "both back")
    threads = {stack[1] for stack in both}
    listed = {line.split()[-1] for line in view("top", packed).splitlines()[2:]}
    expect(listed and not threads & listed, f"threads among the functions: {listed}")
    expect(parsed(view("convert", "--to", "folded", packed)) == both, "without --roots")
    wanted = of_functions(both, roots=2)
    expect(go_top(packed, "samples") == wanted, "go tool pprof of two")
    expect(go_top(packed, "samples", "-tagfocus=program=one") == of_functions(made_up(1)), "label")


@test
def inlined_functions_are_lines_of_their_callers():
    """What a folded file marks; as go reads it, and back again to the letter."""
    stacks = {("t", "work"): 5, ("t", "work", "sixty_[i]"): 7, ("t", "work", "sixty_[i]", "spin_[i]"): 60,
              ("t", "work", "ten_[i]", "called", "spin_[i]"): 10, ("t", "other", "sixty_[i]"): 3, ("t", "sixty"): 2,
              ("t", "sixty", "sixty_[i]", "sixty_[i]"): 1, ("u", "work", "sixty_[i]", "spin_[i]"): 4}
    directory = private_directory()
    folded, packed = write(directory / "a.folded", stacks), directory / "a.pb.gz"
    view("convert", "--to", "pprof", "-o", packed, folded)
    expect(parsed(view("convert", "--to", "folded", packed)) == stacks, "back")
    expect(go_traces(packed) == stacks, f"{go_traces(packed)}")
    expect(go_top(packed, "samples") == of_functions(stacks), f"{go_top(packed, 'samples')}")
    functions = Pprof(packed).functions.values()
    expect(sorted(functions) == ["called", "other", "sixty", "spin", "ten", "work"], f"{functions}")
    locations = len(Pprof(packed).locations)
    expect(locations == 8, f"{locations} locations")


@test
def marks_that_are_inlined_into_nothing():
    """A mark with no function in front of it, a name that is a mark, and chains that never end come back."""
    stacks = {("t", "lone_[i]"): 1, ("t", "_[i]"): 2, ("t", "f", "_[i]", "g"): 3,
              ("t", "f", *(f"g{i}_[i]" for i in range(200))): 4}
    directory = private_directory()
    folded, packed = write(directory / "a.folded", stacks), directory / "a.pb.gz"
    view("convert", "--to", "pprof", "-o", packed, folded)
    expect(parsed(view("convert", "--to", "folded", packed)) == stacks, "back")


@test
def rate_is_that_of_the_file():
    """Of a file of 4 ms a sample: it is told, and counts for another rate are made of the time."""
    directory = private_directory()
    stacks = {("main", "f"): 25, ("main", "g"): 75}
    folded, slow = write(directory / "a.folded", stacks), directory / "slow.pb.gz"
    again, quick = directory / "again.pb.gz", directory / "quick.pb.gz"
    view("convert", "--to", "pprof", "--rate", 250, "-o", slow, folded)
    view("convert", "--to", "pprof", "-o", again, slow)
    expect(Pprof(again).period == 4_000_000 and Pprof(again).total(1) == 400_000_000, "again")
    error = 100 * (0.25 * 0.75 / 100) ** 0.5
    row = next(line for line in view("top", "-u", "us", slow).splitlines() if line.endswith(" f"))
    expect(abs(float(row.split()[1]) - error) < 0.006, row)
    view("convert", "--to", "pprof", "--rate", 1000, "-o", quick, folded)
    both = parsed(view("convert", "--to", "folded", quick, slow))
    expect(both == {("quick", "main", "f"): 25, ("quick", "main", "g"): 75,
                    ("slow", "main", "f"): 100, ("slow", "main", "g"): 300}, f"{both}")


@test
def files_of_other_writers():
    """What `go tool pprof` writes anew, of two of ours taken together."""
    directory = private_directory()
    for seed in (1, 2):
        folded = write(directory / f"{seed}.folded", made_up(seed))
        view("convert", "--to", "pprof", "-o", directory / f"{seed}.pb.gz", folded)
    written = subprocess.run(["go", "tool", "pprof", "-proto", "-output=merged",
                              directory / "1.pb.gz", directory / "2.pb.gz"], capture_output=True,
                             env={"HOME": str(directory), "PATH": "/usr/bin:/bin"}, cwd=directory,
                             timeout=60)
    expect(written.returncode == 0, written.stderr)
    sum_of_both = made_up(1)
    for stack, count in made_up(2).items():
        sum_of_both[stack] = sum_of_both.get(stack, 0) + count
    expect(parsed(view("convert", "--to", "folded", directory / "merged")) == sum_of_both, "merged")


@test
def damaged_files_cost_a_line():
    directory = private_directory()
    packed = directory / "a.pb.gz"
    view("convert", "--to", "pprof", "-o", packed, write(directory / "a", made_up(3, lines=40)))
    whole = packed.read_bytes()
    damaged = directory / "damaged"
    damaged.write_bytes(whole[:len(whole) // 2])
    told = view("top", damaged, status=1)
    expect(told.startswith(f"selfsample: {damaged}: a damaged gzip file"), told)
    damaged.write_bytes(gzip.compress(b"not one"))
    told = view("top", damaged, status=1)
    expect(told.startswith(f"selfsample: {damaged}: not a pprof profile"), told)
    for behind in (whole, b"\0"):
        damaged.write_bytes(whole + behind)
        told = view("top", damaged, status=1)
        expect("more follows behind the end" in told and told.count("\n") == 1, told)
    chance, text = random.Random(7), gzip.decompress(whole)
    for _ in range(150):
        wrong = bytearray(text)
        for _ in range(chance.randrange(1, 4)):
            wrong[chance.randrange(len(wrong))] = chance.randrange(256)
        damaged.write_bytes(gzip.compress(bytes(wrong), 1))
        result = subprocess.run([COMMAND, "top", damaged], capture_output=True, text=True,
                                timeout=60)
        expect(result.returncode in (0, 1), f"status {result.returncode} of {wrong.hex()}")
        expect(result.stderr.count("\n") == result.returncode, result.stderr)


main()
