#!/usr/bin/env python3
"""Real programs that work on files: xz with two threads, and gcc with all that it starts."""

import random
import subprocess

from harness import EVERYONE, main, need, test
from real import check_real, run_real, work_file


def c_source():
    """A large C file with some variety in it."""
    parts = ["#include <stdint.h>\n"]
    for i in range(400):
        parts.append(f"""
static uint64_t mix{i}(uint64_t x, const uint32_t *p, int n)
{{
    uint64_t h = x ^ {i * 2654435761 % 4294967296}u;
    for (int i = 0; i < n; i++) {{
        switch ((p[i] + {i}) % 5) {{
        case 0: h = h * 31 + p[i]; break;
        case 1: h ^= h >> {i % 17 + 3}; break;
        case 2: h += (uint64_t)p[i] << {i % 11}; break;
        default: h = (h << 7 | h >> 57) - p[i] / {i % 9 + 3}; break;
        }}
    }}
    return h;
}}
uint64_t entry{i}(const uint32_t *p, int n) {{ return mix{i}({i}, p, n) ^ mix{i}(n, p, n / 2); }}
""")
    return "".join(parts).encode()


def compressible():
    """24 MB of text-like bytes, the same every time."""
    source = random.Random(5)
    words = [bytes(source.choices(b"etaoinshrdlu", k=source.randint(2, 9))) for _ in range(4000)]
    return b" ".join(source.choices(words, k=900000))


@test(each=EVERYONE)
def test_xz(who):
    data = work_file("text", compressible)
    result = run_real(who, need("xz"), "-T2", "-2", "--block-size=1MiB", "-c", data)
    check_real(who, result, "xz", need("xz"))


@test(each=EVERYONE)
def test_gcc(who):
    source = work_file("large.c", c_source)
    compiler = subprocess.run([need("gcc"), "-print-prog-name=cc1"], capture_output=True,
                              text=True, check=True).stdout.strip()
    result = run_real(who, need("gcc"), "-O2", "-c", source, "-o", "large.o", timeout=90)
    # Its passes over value ranges recurse, for less than 1 ms at a time, by frames of 4 KB to more
    # than any copy: 0.4 % here, and 0.3 % in the files of core/.
    check_real(who, result, "cc1", compiler, whole=0.994)


main()
