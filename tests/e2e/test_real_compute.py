#!/usr/bin/env python3
"""Real programs that compute: python3, sqlite3, xz, gcc, as root and as an ordinary user."""

import random
import subprocess

from harness import EVERYONE, expect, main, need, test
from real import check_real, run_real, work_file

PYTHON = """
import threading
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
def words():
    return sorted(str(i * 7919 % 100003) for i in range(100000))
def worker(results):
    results.append(sum(len(w) for w in words()))
results = []
threads = [threading.Thread(target=worker, args=(results,)) for _ in range(3)]
[t.start() for t in threads]
print(fib(27))
[t.join() for t in threads]
table = {}
for i in range(2500000):
    table[i * 31 % 4099] = table.get(i % 4099, 0) + i
print(results, sum(table.values()))
"""

SQL = b"""
create table t(a integer, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000)
insert into t select i * 7919 % 100003, 'row ' || i, i / 7.0 from n;
create index ta on t(a);
select count(*), sum(c), max(b) from t where b like '%99%';
select a % 10, avg(c), count(distinct b) from t group by 1 order by 2 desc;
select count(*) from t x join t y on x.a = y.a + 1 where x.c > y.c;
"""


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
def test_python(who):
    result = run_real(who, need("python3"), "-S", "-c", PYTHON)
    check_real(who, result, "python3", need("python3"))


@test(each=EVERYONE)
def test_sqlite(who):
    result = run_real(who, need("sqlite3"), ":memory:", stdin=SQL)
    check_real(who, result, "sqlite3", need("sqlite3"))


@test(each=EVERYONE)
def test_xz(who):
    data = work_file("text", compressible)
    result = run_real(who, need("xz"), "-T2", "-2", "--block-size=1MiB", "-c", data)
    profile = check_real(who, result, "xz", need("xz"))
    expect(len(profile.threads()) >= 1, "no threads")


@test(each=EVERYONE)
def test_gcc(who):
    source = work_file("large.c", c_source)
    compiler = subprocess.run([need("gcc"), "-print-prog-name=cc1"], capture_output=True,
                              text=True, check=True).stdout.strip()
    result = run_real(who, need("gcc"), "-O2", "-c", source, "-o", "large.o", timeout=90)
    check_real(who, result, "cc1", compiler)


main()
