#!/usr/bin/env python3
"""Interpreters and virtual machines: threads, processes and the code that they make at run time."""

from harness import EVERYONE, expect, main, measured, need, test
from machine import counts_writes
from real import check_real, check_tree, optional, run_real, work_file

ROOT_USER = EVERYONE[0]

PROCESSES = b"""
import multiprocessing, subprocess, sys

def work(n):
    return sum(i * i % 7 for i in range(n))

if __name__ == "__main__":
    for how in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(how).Pool(2) as pool:
            print(how, pool.map(work, [300000] * 4))
    print(subprocess.run([sys.executable, "-S", "-c", "print(sum(range(3000000)))"],
                         stdout=subprocess.PIPE).stdout)
    print(subprocess.check_output("echo hello | tr a-z A-Z", shell=True))
"""

PERL = r"""
my %h;
for my $i (1 .. 1500000) { $h{$i % 5003} .= chr(65 + $i % 26); }
my $n = 0;
for (sort keys %h) { $n += () = $h{$_} =~ /A[B-Z]*/g; }
print "$n\n";
open(my $inner, '-|', $^X, '-e', 'my $x = 0; $x += $_ % 7 for 1 .. 900000; print "$x\n"') or die;
print <$inner>;
"""

WORKERS = b"""
const {Worker, isMainThread, parentPort, workerData} = require('worker_threads');
if (isMainThread) {
  let ended = 0, sum = 0;
  for (let i = 0; i < 3; i++) {
    const worker = new Worker(__filename, {workerData: i});
    worker.on('message', m => { sum += m; });
    worker.on('exit', () => { if (++ended === 3) console.log(sum); });
  }
} else {
  let x = workerData;
  for (let i = 0; i < 60000000; i++) x = (x * 31 + i) % 1000003;
  parentPort.postMessage(x);
}
"""

JAVA = b"""
public class Load {
    static class Node { int value; }
    static int nulls(int n) {
        int caught = 0;
        for (int i = 0; i < n; i++) {
            try {
                Node node = i % 3 == 0 ? null : new Node();
                caught += node.value;
            } catch (NullPointerException e) {
                caught++;
            }
        }
        return caught;
    }
    public static void main(String[] arguments) throws Exception {
        Thread[] threads = new Thread[4];
        int[] results = new int[4];
        for (int i = 0; i < 4; i++) {
            int mine = i;
            threads[i] = new Thread(() -> {
                results[mine] = nulls(300000);
                long sum = 0;
                for (int j = 0; j < 40000000; j++)
                    sum += j * 31 % 7;
                results[mine] += (int) (sum % 1000);
            });
            threads[i].start();
        }
        for (Thread thread : threads)
            thread.join();
        System.out.println(results[0] + results[1] + results[2] + results[3]);
    }
}
"""

LUA = """
local t = {}
for i = 1, 20000000 do t[i % 1000] = i * 2 end
local s = 0
for k = 1, 300 do s = s + #string.rep('x', k * 1000):gsub('x', 'y') end
print(s)
"""

# Its threads have their outermost frames beyond 1 MB of alloca: their first samples stay cut.
RUBY = """
def fib(n) n < 2 ? n : fib(n - 1) + fib(n - 2) end
puts fib(28)
threads = 2.times.map { Thread.new { (1..2000000).map { |x| x * 7919 % 100003 }.sort.sum } }
puts threads.map(&:value).sum
puts Process.wait2(fork { exit!(fib(20) % 7) })[1].exitstatus
puts `echo inner`
"""

PHP = r"""
function fib($n) { return $n < 2 ? $n : fib($n - 1) + fib($n - 2); }
echo fib(29), "\n";
$a = [];
for ($i = 0; $i < 2000000; $i++) $a[$i % 4099] = md5((string)$i);
sort($a);
echo $a[0], "\n";
"""

R = """
x <- matrix(as.numeric(1:250000 %% 7919), 500)
print(sum(solve(x %*% t(x) + diag(500) * 9)) > 0)
print(sum(sort(sapply(1:300000, function(i) i * 7919 %% 10007))))
"""


@test
def test_python_processes():
    """Pools by fork, by spawn and by fork server; subprocesses."""
    script = work_file("processes.py", lambda: PROCESSES)
    result = run_real(ROOT_USER, need("python3"), script)
    check_tree(result, "python3")
    measured(len(result.profiles) >= 8, f"{len(result.profiles)} profiles: {result.files()[:12]}")


def computes(stack):
    """In an operator of perl's other than the one that makes the second perl."""
    return any(function.startswith("Perl_pp_") and function != "Perl_pp_open" for function in stack)


@test
def test_perl():
    result = run_real(ROOT_USER, need("perl"), "-e", PERL)
    check_tree(result, "perl", whole=0.99)
    # The copy of the first that executes the second has its own where its short life takes more than a period.
    perls = [p for p in result.profiles if p.sum_where(computes)]
    expect(len(perls) == 2, f"{len(perls)} profiles of two perls: {result.files()}")


@test
def test_node_workers():
    result = run_real(ROOT_USER, need("node"), work_file("workers.js", lambda: WORKERS))
    check_real(ROOT_USER, result, "node", need("node"), whole=0.95)


@test
def test_java():
    """Null checks by SIGSEGV, four threads; its code has no unwind tables."""
    source = work_file("Load.java", lambda: JAVA)
    optional("javac")
    result = run_real(ROOT_USER, optional("java"), source, timeout=90)
    check_tree(result, "java", marked=True)


@test
def test_luajit():
    result = run_real(ROOT_USER, need("luajit"), "-e", LUA)
    check_tree(result, "luajit", whole=0.99, marked=True)


@test
def test_ruby():
    result = run_real(ROOT_USER, need("ruby"), "-e", RUBY)
    # Its threads have a megabyte between their outermost frames and the others.
    check_tree(result, "ruby", marked=not counts_writes())


@test
def test_php():
    result = run_real(ROOT_USER, need("php"), "-r", PHP)
    check_tree(result, "php", whole=0.99)


@test
def test_r():
    result = run_real(ROOT_USER, optional("R"), "--vanilla", "--slave", "-e", R)
    check_tree(result, "R", path="/usr/lib/R/bin/exec", marked=True)


main()
