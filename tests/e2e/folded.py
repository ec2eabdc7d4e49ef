"""Reads folded files, and knows what a whole stack looks like."""

import glob
import re
import subprocess
from pathlib import Path

UNSEEN = ("[kernel]",)
# Under a thread; known by clocks, not by samples.
BY_CLOCK = {UNSEEN, ("[thread start]",), ("[thread switch]",), ("[thread end]",)}


class Malformed(Exception):
    """A file is not a folded profile."""


def _demand(condition, text):
    if not condition:
        raise Malformed(text)


class Profile:
    """A folded file: {(thread, root, ..., leaf): count}."""

    def __init__(self, path):
        self.path = Path(path)
        self.stacks = {}
        text = self.path.read_bytes().decode("utf-8", "surrogateescape")
        _demand(text.endswith("\n"), f"{path}: cut after {len(text)} characters: {text[-60:]!r}")
        for line in text.split("\n")[:-1]:
            match = re.fullmatch(r"([^\x00-\x1f\x7f]+) ([1-9][0-9]*)", line)
            _demand(match, f"{path}: not a folded line: {line[:200]!r}")
            stack = tuple(match.group(1).split(";"))
            _demand(all(stack), f"{path}: an empty frame in {line[:200]!r}")
            _demand(stack not in self.stacks, f"{path}: a stack twice: {line[:200]!r}")
            self.stacks[stack] = int(match.group(2))

    def total(self):
        return sum(self.stacks.values())

    def sum_where(self, condition):
        return sum(count for stack, count in self.stacks.items() if condition(stack))

    def unseen(self):
        """What is booked as the kernel's, without stacks, where kernel samples are refused."""
        return self.sum_where(lambda stack: stack[1:] == UNSEEN)

    def by_clock(self):
        return self.sum_where(lambda stack: stack[1:] in BY_CLOCK)

    def count_of(self, function):
        """Of the stacks that have the function somewhere."""
        return self.sum_where(lambda stack: function in stack[1:])

    def share_where(self, condition):
        """The part of what was seen."""
        return self.sum_where(condition) / max(1, self.total() - self.by_clock())

    def share(self, function):
        """The part of what was seen that has the function somewhere in its stack."""
        return self.share_where(lambda stack: function in stack[1:])

    def leaf_share(self, function):
        return self.share_where(lambda stack: user_frames(stack)[-1:] == (function,))

    def thread_share(self, thread):
        return self.sum_where(lambda stack: stack[0] == thread) / max(1, self.total())

    def threads(self):
        return {stack[0] for stack in self.stacks}

    def functions(self):
        return {frame for stack in self.stacks for frame in stack[1:]}

    def whole_share(self, extra_roots=()):
        roots = thread_roots() | set(extra_roots)
        return self.share_where(lambda stack: is_whole(stack, roots))

    def broken(self, extra_roots=(), limit=3):
        """The heaviest stacks that are not whole, as text."""
        roots = thread_roots() | set(extra_roots)
        bad = [(c, s) for s, c in self.stacks.items()
               if not is_whole(s, roots) and s[1:] not in BY_CLOCK]
        bad.sort(reverse=True)
        return "; ".join(f"{count} x {'<'.join(reversed(s[-12:]))}" if len(s) <= 12 else
                         f"{count} x {s[:3]}...{s[-6:]}" for count, s in bad[:limit])

    def heaviest(self, limit=8):
        """The stacks with the highest counts, as text."""
        stacks = sorted(self.stacks.items(), key=lambda item: -item[1])[:limit]
        return "; ".join(f"{count} x {'<'.join(reversed(s[-4:]))}" for s, count in stacks)

    def ours(self):
        """Frames that belong to the profiler."""
        return {f for f in self.functions() if "selfsample" in f}

    def paths_to(self, function):
        """The distinct stacks, without thread, that end (kernel frames aside) in the function."""
        return {user_frames(s) for s in self.stacks if user_frames(s)[-1:] == (function,)}


def user_frames(stack):
    """The frames of a stack without its thread and without kernel frames."""
    return tuple(frame for frame in stack[1:] if not frame.endswith("_[k]"))


def has_path(stack, *frames):
    """True if the frames stand in the stack one directly above the other."""
    return any(stack[i:i + len(frames)] == frames for i in range(len(stack)))


def is_whole(stack, roots):
    return len(stack) > 1 and stack[1] in roots


def _code_roots(path, patterns):
    """`name+0xSTART` of the functions that begin at or contain one of the instruction patterns.

    For objects without symbols: the start is that of the FDE, as readelf prints it.
    """
    data = Path(path).read_bytes()
    hits = [m.start() for p in patterns for m in re.finditer(re.escape(p), data)]
    loads = re.findall(r"LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)", _readelf("-lW", path))
    spots = []
    for hit in hits:
        for offset, address, size in ((int(x, 16) for x in load) for load in loads):
            if offset <= hit < offset + size:
                spots.append(hit - offset + address)
    roots = set()
    for start, end in re.findall(r"FDE .*pc=(\w+)\.\.(\w+)", _readelf("-wf", path)):
        start, end = int(start, 16), int(end, 16)
        if any(start < spot + 64 and spot < end for spot in spots):
            roots.add(f"{Path(path).name}+0x{start:x}")
    return roots


def _readelf(*arguments):
    return subprocess.run(["readelf", *map(str, arguments)], capture_output=True, text=True,
                          timeout=120).stdout


_thread_roots = None


def thread_roots():
    """How the outermost frame of a whole stack may be called, in a program with symbols.

    A libc without debug symbols does not name clone3: there it is the code around the system call.
    """
    global _thread_roots
    if _thread_roots is None:
        _thread_roots = {"_start", "clone3", "__clone3", "clone", "__clone", "[exec]",
                         "_dl_start_user", "thread_start"}  # the last one is AArch64's
        for libc in glob.glob("/lib/x86_64-linux-gnu/libc.so.6"):
            calls = [b"\xb8" + number.to_bytes(4, "little") + b"\x0f\x05" for number in (435, 56)]
            _thread_roots |= _code_roots(libc, calls)
    return _thread_roots


def entry_root(path):
    """The name of the entry of a program without symbols: prog+0xENTRY."""
    path = Path(path).resolve()
    entry = re.search(r"Entry point address: +(0x\w+)", _readelf("-hW", path)).group(1)
    kind = re.search(r"Type: +(\w+)", _readelf("-hW", path)).group(1)
    base = 0
    if kind == "EXEC":
        first = re.search(r"LOAD +0x0+ 0x(\w+)", _readelf("-lW", path))
        base = int(first.group(1), 16)
    return {f"{path.name}+{entry}", f"{path.name}+0x{int(entry, 16) - base:x}"}
