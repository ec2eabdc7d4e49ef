"""Stacks that tests make up, and what the command's views print of them."""

import os
import random
import subprocess
from collections import Counter

from harness import COMMAND, FLAMEGRAPH, Skip, expect

FUNCTIONS = ["parse", "read file", "std::map<int, char*>::find(int const&)", "copy_user_[k]",
             "inlined_[i]", "größe", "a", "b"]


def view(*arguments, stdin=b"", columns=None, status=0):
    """What a sub-command prints."""
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    if columns:
        environment["COLUMNS"] = str(columns)
    result = subprocess.run([str(COMMAND), *map(str, arguments)], input=stdin, capture_output=True,
                            env=environment, timeout=60)
    expect(result.returncode == status, f"{arguments}: {result.returncode}, {result.stderr!r}")
    expect((result.stderr == b"") == (status == 0), f"{arguments}: {result.stderr!r}")
    return result.stdout.decode() if status == 0 else result.stderr.decode()


def write(path, stacks):
    """A folded file of {(frame, ...): count}."""
    path.write_text("".join(f"{';'.join(stack)} {count}\n" for stack, count in stacks.items()))
    return path


def made_up(seed, lines=300, threads=("main", "worker-1", "worker-2")):
    """Stacks with recursion, and different ones of one weight."""
    chance = random.Random(seed)
    stacks = {}
    for _ in range(lines):
        depth = chance.randrange(1, 9)
        stack = (chance.choice(threads), *(chance.choice(FUNCTIONS) for _ in range(depth)))
        stacks[stack] = chance.choice([1, 2, 3, 50, 1000])
    return stacks


def parsed(text):
    """{stack: count} of folded text; a stack stands once."""
    stacks = {}
    for line in text.splitlines():
        stack, count = line.rsplit(" ", 1)
        expect(tuple(stack.split(";")) not in stacks, f"twice: {line}")
        stacks[tuple(stack.split(";"))] = int(count)
    return stacks


def sums(stacks):
    """The self and the total of each function, what is behind the thread."""
    own, total = Counter(), Counter()
    for stack, count in stacks.items():
        own[stack[-1]] += count
        for function in set(stack[1:]):
            total[function] += count
    return own, total


def columns(text):
    """Of a folded file with two counts: {(frame, ...): count} of the first and of the second."""
    first, second = {}, {}
    for stack, count in parsed(text).items():
        *frames, leaf = stack
        name, number = leaf.rsplit(" ", 1)
        first[(*frames, name)], second[(*frames, name)] = int(number), count
    return first, second


def picture(text, total):
    """Through flamegraph.pl, whose first frame tells the sum that it read."""
    if not os.path.exists(FLAMEGRAPH):
        raise Skip("needs flamegraph.pl")
    made = subprocess.run([FLAMEGRAPH], input=text.encode(), capture_output=True, timeout=60)
    expect(made.returncode == 0 and not made.stderr, f"flamegraph.pl: {made.stderr[:300]!r}")
    svg = made.stdout.decode(errors="replace")  # it shortens names by bytes
    expect(f"all ({total:,} samples" in svg, "another sum in the picture")
    return svg
