#!/usr/bin/env python3
"""scripts/push-profiles, against a server of the test's own."""

import base64
import contextlib
import gzip
import json
import os
import socket
import subprocess
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import ROOT, expect, main, near_ms, private_directory, program, run, test
from pprof import Pprof
from stacks import made_up, view, write

PUSH = ROOT / "scripts" / "push-profiles"


class Server:
    """Takes requests into .requests [(path, query, headers, body)], and answers .status."""

    def __init__(self):
        self.requests, self.status, self.said = [], 200, b""
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                url = urllib.parse.urlsplit(self.path)
                query = dict(urllib.parse.parse_qsl(url.query))
                server.requests.append((url.path, query, self.headers, body))
                self.send_response(server.status)
                self.send_header("Content-Length", str(len(server.said)))
                self.end_headers()
                self.wfile.write(server.said)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()

    def accepted(self, since=0):
        return [body for _, _, _, body in self.requests[since:]]


def push(*arguments, status=0):
    """Runs it once; returns what it says."""
    done = subprocess.run([PUSH, "--once", *map(str, arguments)], capture_output=True, text=True,
                          timeout=60)
    expect(done.returncode == status, f"status {done.returncode}: {done.stderr}")
    return done.stderr


@contextlib.contextmanager
def pushing(*arguments):
    """It runs on; yields a function that ends it and returns what it said."""
    process = subprocess.Popen([PUSH, "--every", "0.1", *map(str, arguments)],
                               stderr=subprocess.PIPE, text=True)

    def end():
        process.terminate()
        return process.communicate(timeout=60)[1]

    try:
        yield end
    finally:
        if process.poll() is None:
            end()


def wait_for(condition, what):
    until = time.monotonic() + 60
    while not condition():
        expect(time.monotonic() < until, f"{what}: not within 60 s")
        time.sleep(0.02)


def profile_into(directory, name, seed=1):
    """Makes one; it is there at once, as the library's are."""
    elsewhere = private_directory()
    folded, made = write(elsewhere / "folded", made_up(seed, lines=20)), elsewhere / name
    view("convert", "--to", "pprof", "-o", made, folded)
    body = made.read_bytes()
    os.rename(made, directory / name)
    return body


@test
def a_series_arrives():
    """What a program leaves arrives as it was written, and is gone then."""
    directory = private_directory()
    began_s = time.time()
    with Server() as server, pushing("--label", "region=eu", "--header", "X-Scope-OrgID: me",
                                     directory, server.url) as end:
        result = run(program("work"), 1500000, directory=directory, timeout=150,
                     options={"FORMAT": "pprof", "CHECKPOINT": 1, "OUT": "%e.%p.%n.pb.gz"})
        expect(result.status == 0, result)
        wait_for(lambda: not list(directory.iterdir()), "an empty directory")
        said = end()
    expect(said == "", said)
    expect(len(server.requests) >= 2, f"{len(server.requests)} files")
    copy, sum_ns, last_s = private_directory() / "copy", 0, began_s - 1
    for path, query, headers, body in server.requests:
        expect(path == "/ingest" and query["format"] == "pprof", (path, query))
        expect(query["name"] == f"work{{host={socket.gethostname()},region=eu}}", query)
        expect(headers["X-Scope-OrgID"] == "me", headers)
        expect(last_s - 1 <= int(query["from"]) < int(query["until"]) <= time.time() + 1, query)
        last_s = int(query["from"])
        copy.write_bytes(body)
        sum_ns += Pprof(copy).total(1)
    near_ms(sum_ns / 1e6, 1500, 300, "all files")


@test
def to_parca_and_kept():
    directory, kept = private_directory(), private_directory()
    body = profile_into(directory, "one.pb.gz")
    with Server() as server:
        expect(push("--api", "parca", "--keep", kept, directory, server.url + "/") == "", "silent")
    (path, _, headers, got), = server.requests
    expect(path == "/profiles/writeraw" and headers["Content-Type"] == "application/json", path)
    series, = json.loads(got)["series"]
    labels = {label["name"]: label["value"] for label in series["labels"]["labels"]}
    expect(labels["__name__"] == "process_cpu" and labels["job"] == "one", labels)
    expect(base64.b64decode(series["samples"][0]["rawProfile"]) == body, "body")
    expect(os.listdir(directory) == [] and (kept / "one.pb.gz").read_bytes() == body, "kept")


@test
def nothing_is_lost_while_the_server_is_away():
    directory = private_directory()
    bodies = [profile_into(directory, f"{i}.pb.gz", i) for i in range(3)]
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        said = push(directory, url, status=1)
    expect(said.count("\n") == 1 and "Connection refused" in said and "files that wait: 3" in said,
           said)
    with Server() as server:
        server.status = 503
        with pushing(directory, server.url) as end:
            wait_for(lambda: len(server.requests) >= 3, "three tries")
            expect(len(list(directory.iterdir())) == 3, "files are kept")
            tried = len(server.requests) + 1
            server.status = 200
            wait_for(lambda: not list(directory.iterdir()), "an empty directory")
            said = end()
    expect(said.count("\n") == 2 and "503" in said and "answers again" in said, said)
    expect(sorted(server.accepted()[-3:]) == sorted(bodies), "all of them")
    expect(len(server.requests) <= tried + 3, "each once")


@test
def what_is_refused_or_damaged():
    directory = private_directory()
    profile_into(directory, "bad.pb.gz")
    (directory / "torn.pb.gz").write_bytes(b"\x1f\x8b\x08torn")
    (directory / "other.txt").write_text("not ours")
    (directory / ".hidden.pb.gz").write_text("being written")
    os.symlink("/etc/passwd", directory / "link.pb.gz")
    with Server() as server:
        server.status, server.said = 422, b"too old\nreally"
        said = push(directory, server.url)
        expect(len(server.requests) == 1, "one request")
        expect(push(directory, server.url) == "" and len(server.requests) == 1, "once only")
    lines = sorted(said.splitlines())
    expect(len(lines) == 2 and "bad.pb.gz: " in lines[0] and "refuses it: 422" in lines[0]
           and lines[0].endswith(": too old; renamed to bad.pb.gz.refused"), said)
    expect("torn.pb.gz: not a pprof file" in lines[1], said)
    expect(sorted(os.listdir(directory)) == [".hidden.pb.gz", "bad.pb.gz.refused", "link.pb.gz",
                                             "other.txt", "torn.pb.gz.refused"],
           os.listdir(directory))


@test
def numbers_that_are_bytes():
    """A field of the wrong kind makes its file damaged, and those behind it are sent."""
    directory = private_directory()
    time_nanos = bytes([9 << 3 | 2, 1, 65])
    (directory / "a.pb.gz").write_bytes(gzip.compress(b"\x32\0" + time_nanos))
    os.utime(directory / "a.pb.gz", (1, 1))
    body = profile_into(directory, "b.pb.gz")
    with Server() as server:
        said = push(directory, server.url)
        expect(server.accepted() == [body], "the other one")
    expect(said.count("\n") == 1 and "a.pb.gz: not a pprof file" in said, said)


@test
def what_cannot_be_put_away_is_sent_once():
    """A directory stands where the file is to be kept: one line, and the files behind it go on."""
    directory, kept = private_directory(), private_directory()
    first = profile_into(directory, "a.pb.gz")
    os.utime(directory / "a.pb.gz", (1, 1))
    (kept / "a.pb.gz" / "a.pb.gz").mkdir(parents=True)
    second = profile_into(directory, "b.pb.gz", 2)
    with Server() as server, pushing("--keep", kept, directory, server.url) as end:
        wait_for(lambda: (kept / "b.pb.gz").exists(), "the second")
        third = profile_into(directory, "c.pb.gz", 3)
        wait_for(lambda: (kept / "c.pb.gz").exists(), "the third")
        (kept / "a.pb.gz" / "a.pb.gz").rmdir()
        (kept / "a.pb.gz").rmdir()
        wait_for(lambda: not list(directory.iterdir()), "an empty directory")
        said = end()
    expect(server.accepted() == [first, second, third], f"{len(server.requests)} requests")
    expect(said.count("\n") == 1 and "a.pb.gz: " in said and "it stays where it is" in said, said)


@test
def wrong_options():
    directory = private_directory()
    for arguments, why in (((directory / "none", "http://h"), "no such directory"),
                           ((directory, "pyroscope:4040"), "not the URL of a server"),
                           ((directory, "http://h", "--label", "x"), "KEY=VALUE is wanted"),
                           ((directory, "http://h", "--every", "0"), "seconds, more than 0")):
        expect(why in push(*arguments, status=2), why)


main()
