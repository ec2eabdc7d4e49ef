#!/usr/bin/env python3
"""redis-server under redis-benchmark, and node: ended politely and by a signal."""

import os
import signal
import subprocess

from folded import entry_root, is_whole, thread_roots
from harness import EVERYONE, expect, main, measured, need, private_directory, run, test, wait_until
from real import check_real, profile_of, run_real

NODE = """
const crypto = require('crypto');
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
function words() {
  const list = [];
  for (let i = 0; i < 200000; i++) list.push(String(i * 7919 % 100003));
  return list.sort().length;
}
console.log(fib(32), words());
let hash = 'x';
for (let i = 0; i < 100000; i++) hash = crypto.createHash('sha256').update(hash).digest('hex');
console.log(hash);
const sorted = JSON.parse(JSON.stringify([...Array(300000).keys()].map(i => ({i, s: 'v' + i}))));
console.log(sorted.length);
"""


def serve(who, how):
    """Runs redis-server on a socket, works it with redis-benchmark, and ends it."""
    server, benchmark, client = (need(t) for t in ("redis-server", "redis-benchmark", "redis-cli"))
    directory = private_directory(who.user)
    socket = directory / "s"

    def work(pid):
        wait_until(socket.exists, 20, "redis-server does not listen")
        subprocess.run([benchmark, "-s", socket, "-q", "-n", "60000", "-P", "4", "-t",
                        "set,get,lpush,lrange_100,zadd"], check=True, timeout=60,
                       stdout=subprocess.DEVNULL)
        if how == "SHUTDOWN":
            subprocess.run([client, "-s", socket, "shutdown", "nosave"], timeout=20)
        else:
            os.kill(pid, signal.SIGTERM)

    return run(server, "--port", "0", "--unixsocket", socket, "--save", "", "--logfile", "log",
               user=who.user, directory=directory, clock=True, while_running=work,
               options={"UNIT": "us", "SUMMARY": "yes"})


def redis(who, how):
    result = serve(who, how)
    result.summary = result.stderr.decode()
    expect(result.status == 0, f"status {result.status}; {result.summary}")
    expect(all(l.startswith("selfsample: ") for l in result.summary.splitlines()), result.summary)
    check_real(who, result, "redis-server", need("redis-server"))


@test(each=EVERYONE)
def test_redis_shutdown(who):
    redis(who, "SHUTDOWN")


@test(each=EVERYONE)
def test_redis_term(who):
    redis(who, "TERM")


@test(each=EVERYONE)
def test_node(who):
    """Stacks through JIT code are whole or marked."""
    node = need("node")
    result = run_real(who, node, "-e", NODE)
    profile = profile_of(result, "node")
    roots = thread_roots() | entry_root(node)
    good = profile.share_where(lambda s: is_whole(s, roots) or s[1:2] == ("[truncated]",))
    measured(good > 0.995, f"neither whole nor marked: {profile.broken(entry_root(node))}")
    whole = profile.whole_share(entry_root(node))
    measured(whole > 0.6, f"whole {whole:.3f}: {profile.broken(entry_root(node))}")
    expect(not profile.ours(), f"frames of ours: {profile.ours()}")


main()
