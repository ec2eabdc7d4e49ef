"""Reads pprof files by the rules of protocol buffers' encoding alone, and by `go tool pprof`."""

import gzip
import os
import re
import subprocess
from collections import Counter

from harness import expect, need, private_directory


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """(number, value) of each field of a message; numbers, or bytes."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        value, at = varint(data, at)
        if tag & 7 == 2:
            expect(at + value <= len(data), "a field beyond the end of its message")
            value, at = data[at:at + value], at + value
        else:
            expect(tag & 7 == 0, f"a field of type {tag & 7}")
        yield tag >> 3, value


def message(data):
    """{number: the last value}; absent ones are 0."""
    return Counter(dict(fields(data)))


def packed(data):
    at = 0
    while at < len(data):
        value, at = varint(data, at)
        yield value


class Pprof:
    """A file: .samples is [(stack root first, {label: value}, [count, ns])]."""

    def __init__(self, path):
        parts = {}
        for number, value in fields(gzip.decompress(path.read_bytes())):
            parts.setdefault(number, []).append(value)
        self.strings = [text.decode("utf-8") for text in parts[6]]
        expect(self.strings[0] == "", "the first string")
        kinds = [message(kind) for kind in parts[1]]
        self.kinds = [(self.strings[kind[1]], self.strings[kind[2]]) for kind in kinds]
        self.began_ns, self.duration_ns, self.period = (parts.get(n, [0])[0] for n in (9, 10, 12))
        self.mappings = {m[1]: m for m in map(message, parts.get(3, []))}
        self.functions = {f[1]: self.strings[f[2]] for f in map(message, parts.get(5, []))}
        self.locations = {entry[1]: entry for entry in map(message, parts.get(4, []))}
        self.lines = {message(data)[1]: [message(line)[1] for number, line in fields(data) if number == 4]
                      for data in parts.get(4, [])}
        expect(0 not in self.mappings.keys() | self.functions.keys() | self.locations.keys(), "ids")
        self.samples = [self.sample(data) for data in parts.get(2, [])]

    def sample(self, data):
        stack, values, labels = [], [], {}
        for number, value in fields(data):
            if number == 1:
                stack = [self.locations[i] for i in packed(value)]
            elif number == 2:
                values = list(packed(value))
            elif number == 3:
                label = message(value)
                labels[self.strings[label[1]]] = self.strings[label[2]] if label[2] else label[3]
        return stack[::-1], labels, values

    def names(self, stack):
        """Root first; those inlined at a place stand behind its function, marked."""
        return tuple(self.functions[function] + "_[i]" * (i > 0) for location in stack
                     for i, function in enumerate(reversed(self.lines[location[1]])))

    def folded(self, value=0):
        """What the folded file would be: {(thread, label, function, ...): count}."""
        stacks = Counter()
        for stack, labels, values in self.samples:
            roots = (labels[key] for key in ("program", "thread", "label") if key in labels)
            stacks[(*roots, *self.names(stack))] += values[value]
        return +stacks

    def total(self, value=0):
        return sum(values[value] for _, _, values in self.samples)


def go_pprof(*arguments):
    go = need("go")
    environment = {**os.environ, "HOME": str(private_directory()), "GOFLAGS": "-mod=mod"}
    told = subprocess.run([go, "tool", "pprof", *map(str, arguments)], capture_output=True, text=True,
                          env=environment, timeout=100)
    expect(told.returncode == 0, told.stderr)
    return told.stdout


def go_traces(path):
    """{(thread, function, ...): samples} as `go tool pprof` reads it; what it calls inline is marked _[i]."""
    found = Counter()
    for block in re.split(r"^-+\+-+$", go_pprof("-traces", "-sample_index=samples", path), flags=re.M)[1:]:
        labels, frames = {}, []
        for line in block.strip("\n").splitlines():
            label = re.match(r" *(\w+):  (.*)$", line)
            if label and not frames:
                labels[label[1]] = label[2]
            else:  # the count stands in front of the leaf
                frames.append((line[:10].strip(), re.sub(r" \(inline\)$", "_[i]", line[13:])))
        if frames:
            found[(labels["thread"], *(name for _, name in frames[::-1]))] += int(frames[0][0])
    return found


def go_top(path, kind, *arguments):
    """{function: (flat, cum)} as `go tool pprof` reads it, in the smallest unit of KIND."""
    unit = {"samples": "", "cpu": "nanoseconds"}[kind]
    told = go_pprof("-top", "-nodecount=0", "-nodefraction=0", f"-sample_index={kind}",
                    *([f"-unit={unit}"] if unit else []), *arguments, path)
    found = {}
    for line in told.splitlines():
        row = re.match(r" *(\d+)(?:ns)? +\S+% +\S+% +(\d+)(?:ns)? +\S+%  (.*)$", line)
        if row:
            found[re.sub(r" \((partial-)?inline\)$", "", row[3])] = (int(row[1]), int(row[2]))
    return found
