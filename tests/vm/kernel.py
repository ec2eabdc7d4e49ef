#!/usr/bin/env python3
"""Tests of what depends on the kernel, on Debian's: what test_amd64 has a virtual machine run.

    kernel.py [--build] [NAME...]

Unit tests as root, and as an ordinary user at each level of perf_event_paranoid, of which 3 is a
patch of Debian's; then guest.py and end-to-end tests as root: they become an ordinary user by
themselves.
NAMEs choose others than EVERYDAY's: files that have one of them in their label, as in
root:unit/test_event, and of e2e/test_exit.py:death only tests of such a name. With --build it only
has them build, on the host, the programs that they run.

What the files say is passed on: lines `ok NAME`, `not ok NAME why` and `skip NAME why` with the
label in front of the name, all else as comments. Status 1 if anything failed.
"""

import ast
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "e2e"))

import harness  # noqa: E402
from harness import BUILD, EVERYONE, LEVEL_3, PARANOID, USER_ID  # noqa: E402

LIMIT_S = 900
SKIPPED = 77
LINE = re.compile(r"(ok|not ok|skip) (\S+)(.*)")
UNIT = [BUILD / "unit" / f"test_{name}" for name in (
    "app_memory", "births", "credentials", "deep_stack", "descriptors", "event", "helper",
    "helper_making", "housekeeping", "housekeeping_births", "kallsyms", "kernel_cache",
    "kernel_symbols", "labels", "mailbox", "message", "modules", "nap", "outfile", "perf_map",
    "proc_maps", "proc_tasks", "process_watch", "quiet", "requests", "ring", "ring_writer",
    "seccomp_filter", "series", "session", "stack_frames", "status", "task_status", "teller",
    "thread_clock", "thread_ends", "threads", "threads_rings", "timers", "unwind", "writing")]
WHOLE_RUNS = [TESTS / "vm" / "guest.py", *sorted((TESTS / "e2e").glob("test_*.py"))]
# What is run unless something else is asked for: end-to-end tests of what the kernel decides,
# without those that make processes by the hundred, measure costs or compile, for which one emulated
# processor is too slow.
EVERYDAY = ["unit/test_", "vm/guest.py", "e2e/test_stacks.py:signal_stack", *(
    f"e2e/test_credentials.py:{name}" for name in (
        "followed", "raw_calls", "lands", "taken_name", "series", "checkpoint", "kept_the_name",
        "stopped_helper", "real_launchers", "ordinary_user")), *(
    f"e2e/test_environments.py:{name}" for name in (
        "[root]", "paranoid", "refused", "RLIMIT", "no /proc", "read-only", "namespace")), *(
    f"e2e/test_exit.py:{name}" for name in (
        "end[", "file_is_there", "reaper", "death", "among_burning", "handlers", "helper_killed",
        "process_group", "namespace"))]


def label(who, path):
    return f"{who.name}:{path.parent.name}/{path.name}"


def start(path, user, tests):
    """Starts a file, as an ordinary user or not; what it says, of whatever kind, can be read."""
    identity = dict(user=USER_ID, group=USER_ID, extra_groups=[]) if user else {}
    return subprocess.Popen([path, *tests], cwd="/tmp", stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            errors="replace", start_new_session=True, **identity)


def run_file(who, path, tests):
    """Runs one and passes on what it says; returns whether nothing failed."""
    name = label(who, path)
    began = time.monotonic()
    bad = False
    with start(path, who.user, tests) as process:
        limit = threading.Timer(LIMIT_S, os.killpg, (process.pid, signal.SIGKILL))
        limit.start()
        for line in process.stdout:
            match = LINE.fullmatch(line.rstrip("\n"))
            bad |= bool(match) and match[1] == "not ok"
            print(f"{match[1]} {name}:{match[2]}{match[3]}" if match else f"# {line.rstrip()}",
                  flush=True)
        process.wait()
        limit.cancel()
    if process.returncode not in (0, SKIPPED) and not bad:
        print(f"not ok {name} status {process.returncode}")
        bad = True
    print(f"# {name}: {time.monotonic() - began:.0f} s", flush=True)
    return not bad


def build(path):
    """Has a file build its programs, those within its tests as well as far as their names and flags
    stand there and are for this processor: compilers take long in a machine that is emulated."""
    subprocess.run([path, "none of its tests"], check=True, stdout=subprocess.DEVNULL)
    for call in ast.walk(ast.parse(path.read_text())):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("program", "shared"):
            with contextlib.suppress(ValueError, harness.Failure):
                arguments = [ast.literal_eval(argument) for argument in call.args]
                named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
                getattr(harness, call.func.id)(*arguments, **named)


def run_files(files):
    """The level of whole runs that set none is that of plain kernels: they count on perf events for
    ordinary users."""
    good = True
    PARANOID.write_text("2")
    for who, path, tests in files:
        with who.active():
            good &= run_file(who, path, tests)
    return good


def chosen(who, path, names):
    """The names of tests that are wanted of a file, none for all; None: the file is not wanted."""
    parts = [name.partition(".py:") for name in names]
    tests = [test for part, colon, test in parts if f"{part}{colon[:-1]}" in label(who, path)]
    return None if not tests else [] if "" in tests else tests


def main():
    names = [argument for argument in sys.argv[1:] if argument != "--build"] or EVERYDAY
    files = [(who, path, chosen(who, path, names)) for who in (*EVERYONE, LEVEL_3)
             for path in (UNIT if who.user else UNIT + WHOLE_RUNS)]
    files = [file for file in files if file[2] is not None]
    if "--build" in sys.argv:
        for _, path, _ in files:
            if path in WHOLE_RUNS:
                build(path)
    else:
        sys.exit(0 if run_files(files) else 1)


if __name__ == "__main__":
    main()
