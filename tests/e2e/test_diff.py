#!/usr/bin/env python3
"""`selfsample diff`: what changed, what of it may be chance, and what other names hide."""

import math
import re
import subprocess
from collections import Counter

from harness import COMMAND, expect, main, private_directory, test
from stacks import columns, made_up, picture, view, write


@test
def test_diff_folded():
    """Two columns, as of difffolded.pl."""
    directory = private_directory()
    before, after = made_up(5), made_up(6)
    after.update({stack: 2 * count for stack, count in list(before.items())[::2]})
    paths = [write(directory / "a", before), write(directory / "b", after)]
    text = view("diff", "--folded", *paths)
    first, second = columns(text)
    expect(Counter(first) == Counter(before) and Counter(second) == Counter(after), "counts")
    expect(set(first) == set(second) == {*before, *after}, "stacks")
    svg = picture(text, sum(after.values()))
    expect(re.search(r"\+[0-9.]+%", svg), "flamegraph.pl saw no difference")

    first, second = columns(view("diff", "--folded", "-n", *paths))
    expect(Counter(second) == Counter(after), "the second column stays")
    expect(sum(first.values()) == sum(after.values()), "sums of normalised columns differ")
    factor = sum(after.values()) / sum(before.values())
    expect(all(abs(first[s] - before.get(s, 0) * factor) <= 1 for s in first), "scaled counts")


@test
def test_diff_of_other_names():
    """Of stacks under other names, of threads or of programs, nothing is common: that is told, with what helps."""
    def told(roots, before, after, *words):
        directory = private_directory()
        paths = [write(directory / "a", before), write(directory / "b", after)]
        done = subprocess.run([str(COMMAND), "diff", "--folded", "--roots", str(roots), *words, *map(str, paths)],
                              capture_output=True, text=True, timeout=60)
        expect(done.returncode == 0 and done.stderr.count("\n") <= 1, f"{done}")
        return done.stderr, columns(done.stdout)

    old, new = {("old", "main", "f"): 60, ("pool", "f"): 40}, {("new", "main", "f"): 70, ("pool", "f"): 30}
    line, _ = told(1, old, new)
    expect("threads" in line and "(35 %" in line and "--merge-threads" in line, line)
    line, counts = told(1, old, new, "--merge-threads")
    expect(line == "" and counts == ({("main", "f"): 60, ("f",): 40}, {("main", "f"): 70, ("f",): 30}), f"{counts}")
    line, _ = told(1, {**old, ("pool", "g"): 60}, {**new, ("pool", "g"): 50})
    expect(line == "", f"more than half is common: {line}")
    line, _ = told(2, *({("p" + name, "t", "f"): 9} for name in "12"))
    expect("programs" in line and "--root NAME" in line, line)


@test
def test_diff_table():
    """The functions that changed most, by count and by share, and which changes may be chance."""
    directory = private_directory()
    paths = [write(directory / "a", {("t", "f", "g"): 100, ("t", "h"): 100, ("t", "same"): 50}),
             write(directory / "b", {("t", "f", "g"): 400, ("t", "h"): 108, ("t", "same"): 50})]
    lines = [line.split() for line in view("diff", *paths).splitlines()[2:-1]]
    expect(lines == [["100", "400", "+300", str(round(math.sqrt(500))), "g"],
                     ["100", "108", "+8", str(round(math.sqrt(208))), "~", "h"]], f"{lines}")
    lines = [line.split() for line in view("diff", "-n", *paths).splitlines()[2:] if line[0] != "~"]
    shares = {line[-1]: line for line in lines}
    wanted = 100 * (400 / 558 - 100 / 250)
    expect(lines[0][-1] == "g" and abs(float(lines[0][2]) - wanted) < 0.006, f"{lines}")
    error = 100 * math.hypot(math.sqrt(0.4 * 0.6 / 250), math.sqrt(400 / 558 * 158 / 558 / 558))
    expect(abs(float(lines[0][3]) - error) < 0.006, f"{lines}, wanted +- {error}")
    expect(float(shares["h"][2]) < 0 and float(shares["same"][2]) < 0, f"{lines}")
    by_total = view("diff", "--sort", "total", *paths).splitlines()[2:-1]
    expect([line.split()[-1] for line in by_total] == ["f", "g", "h"], f"{by_total}")
    text = view("diff", "--rows", 1, *paths)
    expect(len(text.splitlines()) == 4 and "more (--rows 0 shows all)" in text, text)
    expect(view("diff", paths[0], paths[0]).count("\n") == 2, "no difference")


@test
def test_diff_of_none():
    """That a few samples have none of a function, or nothing else, may be chance; of many it is not."""
    directory = private_directory()
    few, many = {("t", "f"): 100}, {("t", "f"): 99900, ("t", "g"): 100}
    lots = {("t", "f"): 100000}
    paths = [write(directory / name, stacks) for name, stacks in (("few", few), ("many", many), ("lots", lots))]
    for before, after, least, chance in ((0, 1, 1.0, True), (1, 0, 1.0, True), (2, 1, 0.01, False)):
        text = view("diff", "-n", paths[before], paths[after])
        lines = [line.split() for line in text.splitlines()[2:] if line[0] != "~"]
        expect(sorted(line[-1] for line in lines) == ["f", "g"], text)
        expect(all(("~" in line) == chance and abs(float(line[3]) - least) < 0.006 for line in lines), text)
    three = write(directory / "three", {("t", "f"): 100, ("t", "g"): 3})
    line = view("diff", paths[0], three).splitlines()[2].split()
    expect(line == ["0", "3", "+3", str(round(math.sqrt(1 + 3))), "~", "g"], f"{line}")


main()
