#!/usr/bin/env python3
"""Real programs that compute: python3 and sqlite3, as root and as an ordinary user."""

from harness import EVERYONE, main, need, test
from real import check_real, run_real

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


@test(each=EVERYONE)
def test_python(who):
    result = run_real(who, need("python3"), "-S", "-c", PYTHON)
    check_real(who, result, "python3", need("python3"))


@test(each=EVERYONE)
def test_sqlite(who):
    result = run_real(who, need("sqlite3"), ":memory:", stdin=SQL)
    check_real(who, result, "sqlite3", need("sqlite3"))


main()
