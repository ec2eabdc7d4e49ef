#!/usr/bin/env python3
"""Servers of many processes: nginx, postgres, memcached, redis-server's children.

Each is started bare as well, for what it prints and how it ends.
"""

import glob
import os
import signal
import subprocess

from harness import (EVERYONE, Skip, expect, main, measured, need, private_directory, run, test, wait_until)
from real import check_tree

NGINX = """
worker_processes 2;
error_log log;
pid {directory}/pid;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4;
    scgi_temp_path t5;
    gzip on; gzip_http_version 1.0; gzip_comp_level 9; gzip_types *;
    server {{ listen unix:{directory}/s; root {directory}; }}
}}
"""

QUERIES = """
create table t as select i, i::bigint * 7919 % 100003 as a, 'row ' || i as b from generate_series(1, 300000) i;
analyze t;
set parallel_setup_cost = 0; set parallel_tuple_cost = 0; set min_parallel_table_scan_size = 0;
set max_parallel_workers_per_gather = 2;
select count(*), sum(a), max(b) from t where b like '%99%';
select a % 10 as d, avg(i)::int, count(distinct b) from t group by 1 order by 1;
select count(*) from t x join t y on x.a = y.a + 1;
"""


def served(command, work, who=EVERYONE[0], directory=None, options=None, env=None):
    """Runs a server bare and under the library, with the same work done on it."""
    options = {"UNIT": "us", **(options or {})}
    for preload in (False, True):
        place = directory() if directory else private_directory(who.user)
        line = [str(part).format(directory=place) for part in command]
        result = run(*line, preload=preload, user=who.user, directory=place, env=env,
                     options=options if preload else None, clock=preload,
                     while_running=lambda pid, place=place: work(pid, place))
        if not preload:
            without = result
    expect((without.status, without.stderr) == (result.status, result.stderr),
           f"bare {without}; with us {result}")
    return result


def fetch(socket, times):
    """Asks an HTTP server on a socket for /page, one request after the other."""
    script = ("import socket, sys\n"
              "for i in range(int(sys.argv[2])):\n"
              "    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
              "    s.sendall(b'GET /page HTTP/1.0\\r\\nAccept-Encoding: gzip\\r\\n\\r\\n')\n"
              "    n = 0\n"
              "    while True:\n"
              "        part = s.recv(65536)\n"
              "        if not part: break\n"
              "        n += len(part)\n"
              "    assert n > 1000, n\n")
    done = subprocess.run(["/usr/bin/python3", "-S", "-c", script, str(socket), str(times)],
                          timeout=60, capture_output=True, text=True)
    expect(done.returncode == 0, f"requests fail: {done.stderr[-300:]}")


def children(pid, name):
    found = subprocess.run(["/usr/bin/pgrep", "-P", str(pid), "-x", name], capture_output=True,
                           text=True).stdout.split()
    return [int(p) for p in found]


def nginx_place():
    place = private_directory()
    (place / "conf").write_text(NGINX.format(directory=place))
    (place / "page").write_text("".join(f"{i * 7919 % 100003} lines of text\n"
                                        for i in range(60000)))
    return place


@test(each=["QUIT", "TERM"])
def test_nginx(how):
    """Two workers; a reload replaces them while they are asked; then a polite or a quick end."""
    def work(pid, place):
        wait_until((place / "s").exists, 20, "nginx does not listen")
        fetch(place / "s", 5)
        before = wait_until(lambda: children(pid, "nginx"), 10, "no workers")
        os.kill(pid, signal.SIGHUP)
        wait_until(lambda: not set(before) & set(children(pid, "nginx")), 20,
                   "the old workers stay after a reload")
        fetch(place / "s", 5)
        os.kill(pid, getattr(signal, "SIG" + how))

    result = served([need("nginx"), "-p", "{directory}", "-c", "{directory}/conf", "-e", "log",
                     "-g", "daemon off; user root;"], work, directory=nginx_place)
    expect(result.status == 0, str(result))
    check_tree(result, "nginx")


@test(each=EVERYONE[:2])
def test_memcached(who):
    def work(pid, place):
        wait_until((place / "s").exists, 20, "memcached does not listen")
        script = ("import socket, sys\n"
                  "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f = s.makefile('rb')\n"
                  "for i in range(600):\n"
                  "    s.sendall(b''.join(b'set k%d 0 0 9\\r\\nsome text\\r\\n' % j"
                  " for j in range(i, i + 200)))\n"
                  "    for j in range(200): assert f.readline() == b'STORED\\r\\n'\n")
        subprocess.run(["/usr/bin/python3", "-S", "-c", script, str(place / "s")], check=True,
                       timeout=60)
        os.kill(pid, signal.SIGTERM)

    user = ["-u", "nobody"] if not who.user else []
    result = served([need("memcached"), "-s", "{directory}/s", "-t", "2", *user], work, who,
                    directory=lambda: private_directory(True))
    check_tree(result, "memcached", least_us=10000, marked=True)


@test
def test_redis_bgsave():
    """A child that is forked to save writes its own profile; the dump can be read again."""
    need("redis-server", "redis-cli")

    def client(place, *command):
        return subprocess.run([need("redis-cli"), "-s", place / "s", *command], timeout=60,
                              capture_output=True, text=True).stdout

    def work(pid, place):
        wait_until((place / "s").exists, 20, "redis-server does not listen")
        client(place, "debug", "populate", "400000")
        expect("started" in client(place, "bgsave"), "no background save")
        wait_until(lambda: "rdb_bgsave_in_progress:0" in client(place, "info", "persistence"), 30,
                   "the background save does not end")
        expect("rdb_last_bgsave_status:ok" in client(place, "info", "persistence"), "save failed")
        client(place, "bgrewriteaof")
        expect("OK" in client(place, "debug", "reload"), "the dump can't be read")
        expect(client(place, "dbsize").strip() == "400000", "not all keys are there")
        client(place, "shutdown", "nosave")

    result = served([need("redis-server"), "--port", "0", "--unixsocket", "{directory}/s", "--save",
                     "", "--logfile", "log", "--enable-debug-command", "yes"], work)
    expect(result.status == 0, str(result))
    check_tree(result, "redis-server")
    measured(len(result.profiles) >= 2, f"{len(result.profiles)} profiles: {result.files()}")


def postgres_binaries():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not found:
        raise Skip("needs postgresql")
    return found[-1]


@test
def test_postgres():
    """As a user of its own, which it demands: parallel workers, then a fast shutdown."""
    binaries = postgres_binaries()
    model = private_directory(True)
    user = dict(user=65534, group=65534, extra_groups=[]) if os.geteuid() == 0 else {}
    made = subprocess.run([f"{binaries}/initdb", "-D", model / "data", "-A", "trust", "-U", "me",
                           "-N", "--no-instructions"], capture_output=True, text=True, timeout=90,
                          cwd=model, env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}, **user)
    expect(made.returncode == 0, f"initdb: {made.stderr[-300:]}")
    answers = []

    def place():
        directory = private_directory(True)
        subprocess.run(["cp", "-a", model / "data", directory], check=True)
        return directory

    def work(pid, directory):
        socket = directory / ".s.PGSQL.5432"
        wait_until(socket.exists, 30, "postgres does not listen")
        command = [f"{binaries}/psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", directory, "-U", "me", "-d",
                   "postgres"]
        wait_until(lambda: subprocess.run([*command, "-c", "select 1"], capture_output=True,
                                          timeout=20).returncode == 0, 20, "postgres does not answer")
        done = subprocess.run(command, input=QUERIES, capture_output=True, text=True, timeout=60)
        expect(done.returncode == 0 and "ERROR" not in done.stderr, f"psql: {done.stderr[-300:]}")
        answers.append(done.stdout)
        os.kill(pid, signal.SIGINT)

    with EVERYONE[2].active():
        result = served([f"{binaries}/postgres", "-D", "{directory}/data", "-k", "{directory}",
                         "-c", "listen_addresses=", "-c", "fsync=off", "-c", "jit=off", "-c",
                         "log_min_messages=panic"],
                        work, EVERYONE[2], directory=place)
    expect(answers[0] == answers[1] and answers[0].count("\n") > 15, f"answers {answers}")
    expect(result.status == 0, str(result))
    check_tree(result, "postgres", path=binaries)
    measured(len(result.profiles) >= 4, f"{len(result.profiles)} profiles: {result.files()}")


main()
