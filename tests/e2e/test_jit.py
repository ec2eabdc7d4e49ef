#!/usr/bin/env python3
"""Code that is made at run time: its names out of /tmp/perf-PID.map, and its callers."""

import contextlib
import glob
import os
import re
import shutil
import subprocess
from pathlib import Path

from folded import has_path
from harness import (USER_ID, Skip, expect, main, measured, near, need, need_root, private_directory, program,
                     run, test)

OUTER = "js outer: of the page"


def map_of(pid):
    return Path(f"/tmp/perf-{pid}.map")


def run_jit(*command, meanwhile=None, **arguments):
    """Runs a program that may write a map, and takes that away afterwards."""
    pids = []

    def started(pid):
        pids.append(pid)
        if meanwhile:
            meanwhile(pid)

    try:
        return run(*command, while_running=started, **arguments)
    finally:
        for pid in pids:
            with contextlib.suppress(FileNotFoundError):
                map_of(pid).unlink()


def page(how, **arguments):
    result = run_jit(program("jitpage", "-fno-omit-frame-pointer"), how, **arguments)
    expect(result.status == 0, f"{result}")
    return result


def check_named(profile):
    near(profile.leaf_share("inner"), 2 / 3, 0.06, f"inner; {profile.heaviest()}")
    near(profile.leaf_share(OUTER), 1 / 3, 0.06, f"outer; {profile.heaviest()}")
    right = profile.share_where(lambda s: has_path(s, "main", "call_code", OUTER, "inner"))
    near(right, 2 / 3, 0.06, f"main;call_code;outer;inner; {profile.heaviest()}")
    measured(profile.whole_share() > 0.98, f"not whole: {profile.broken()}")


@test(each=["named", "late", "gone"])
def test_page(how):
    """Named whenever the file comes and goes, with the callers in C below."""
    result = page(how)
    result.quiet()
    check_named(result.profile)


@test
def test_page_of_a_user():
    """An ordinary user's map is his own."""
    check_named(page("named", user=True).profile)


@test
def test_page_without_map():
    """One frame for all that has no name; its callers are there."""
    result = page("nothing")
    result.quiet()
    profile = result.profile
    right = profile.share_where(lambda s: has_path(s, "main", "call_code", "[jit]"))
    near(right, 1, 0.03, f"[jit]; {profile.heaviest()}")
    twice = [s for s in profile.stacks if has_path(s, "[jit]", "[jit]")]
    expect(not twice, f"{twice[:2]}")
    measured(profile.whole_share() > 0.98, f"not whole: {profile.broken()}")


@test(each=["reused", "again"])
def test_address_used_again(how):
    """Each sample has the name of its own moment, which its caller tells."""
    profile = page(how).profile
    for name, other in (("first", "second"), ("second", "first")):
        right, wrong = (profile.share_where(lambda s: f"call_{name}" in s and f"{n}_inner" in s)
                        for n in (name, other))
        near(right, 1 / 3, 0.06, f"{name}; {profile.heaviest()}")
        near(wrong, 0, 0.025, f"{other} under call_{name}; {profile.heaviest()}")


@test
def test_leaf_without_a_frame():
    """A leaf that has none is under its caller all the same."""
    profile = page("leaf").profile
    right = profile.share_where(lambda s: has_path(s, "main", "call_code", "leaf"))
    near(right, 1 / 3, 0.03, profile.heaviest())


@test
def test_return_address_that_was_pushed():
    """As interpreters do that are made at run time: they push where to return to, and jump."""
    profile = page("jumps").profile
    right = profile.share_where(lambda s: has_path(s, "main", "call_code", "jumping", "inner"))
    near(right, 1, 0.03, profile.heaviest())


@test
def test_stub_without_a_frame_pointer():
    """As python's trampolines are: its callers are found by what it does next. Nothing here has a
    frame pointer."""
    binary = program("jitpage", "-fomit-frame-pointer", name="jitpage-bare")
    profile = run_jit(binary, "stub").profile
    right = profile.share_where(lambda s: has_path(s, "main", "call_stub", "stub", "below_stub"))
    near(right, 1, 0.03, profile.heaviest())
    measured(profile.whole_share() > 0.98, f"not whole: {profile.broken()}")


@test(each=["owner", "link", "pipe"])
def test_map_that_is_refused(what):
    """Not read, and told; the run is as without a map."""
    need_root()
    target = private_directory() / "target"
    target.write_text("0 7fffffffffff wrong\n")

    def put(pid):
        path = map_of(pid)
        if what == "owner":
            shutil.copy(target, path)
            os.chown(path, USER_ID - 1, USER_ID - 1)
        elif what == "link":
            path.symlink_to(target)
        else:
            os.mkfifo(path)

    result = page("nothing", meanwhile=put, user=True)
    expect(result.stderr.count(b"\n") == 1 and b".map: it " in result.stderr and
           b"[jit]" in result.stderr, f"{result.stderr!r}")
    measured(result.profile.share("[jit]") > 0.97, result.profile.heaviest())
    expect("wrong" not in result.profile.functions(), result.profile.heaviest())


@test
def test_pid_namespace():
    """The file has the number that the process knows itself by."""
    need_root()
    binary = program("jitpage", "-fno-omit-frame-pointer")
    result = run("sh", "-c", f"{binary} named; true",
                 launcher=[need("unshare"), "--pid", "--fork", "--mount-proc"])
    expect(result.status == 0, f"{result}")
    map_of(int(result.stdout)).unlink()
    check_named(next(p for p in result.profiles if p.total() > 100))


# Real compilers ------------------------------------------------------------------------------

NODE = """
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
function spin(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) | 0; return s; }
let t = 0;
for (let i = 0; i < 5; i++) t += fib(32) ^ spin(10000000);
console.log(t);
"""

JAVA = """
public class Busy {
    static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
    static long spin(int n) {
        long s = 0;
        for (int i = 0; i < n; i++)
            s = s * 31 + (i ^ s >> 3);
        return s;
    }
    public static void main(String[] arguments) {
        long t = 0;
        for (int i = 0; i < 5; i++)
            t += fib(36) ^ spin(40000000);
        System.out.println(t);
    }
}
"""

PYTHON = """
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
def spin(n):
    s = 0
    for i in range(n):
        s = (s * 31 + i) % 1000003
    return s
def work():
    return fib(27) + spin(1000000)
print(work())
"""

LUA = """
local function spin(n) local s = 0 for i = 1, n do s = (s * 31 + i) % 1000003 end return s end
print(spin(3e7))
"""


def source(name, text):
    path = private_directory() / name
    path.write_text(text)
    return path


def share_like(profile, pattern):
    return profile.share_where(lambda s: any(re.search(pattern, f) for f in s[1:]))


@test
def test_node():
    script = source("busy.js", NODE)
    result = run_jit(need("node"), "--perf-basic-prof", script)
    profile = result.profile
    for function in ("fib", "spin"):
        measured(share_like(profile, rf"^JS:.?{function} .*busy\.js") > 0.15,
                 f"{function}: {profile.heaviest()}")
    measured(profile.share("[jit]") < 0.05, f"[jit]: {profile.heaviest()}")
    measured(profile.whole_share() > 0.97, f"not whole: {profile.broken()}")


@test
def test_node_without_map():
    profile = run_jit(need("node"), source("busy.js", NODE)).profile
    measured(profile.share("[jit]") > 0.5, profile.heaviest())
    expect(not any(has_path(s, "[jit]", "[jit]") for s in profile.stacks), "[jit];[jit]")
    measured(profile.whole_share() > 0.97, f"not whole: {profile.broken()}")


@test
def test_java():
    """Its map is written at its end, and has no line that says when code was made."""
    path = source("Busy.java", JAVA)
    subprocess.run([need("javac", "java"), path], check=True, timeout=60)
    flags = ["-XX:+PreserveFramePointer", "-XX:+UnlockDiagnosticVMOptions",
             "-XX:+DumpPerfMapAtExit", "-Xshare:auto"]
    result = run_jit(need("java"), *flags, "-cp", path.parent, "Busy")
    if b"Unrecognized VM option" in result.stderr + result.stdout:
        raise Skip("needs java 17, which writes a map")
    profile = result.profile
    for function in (r"int Busy\.fib\(int\)", r"long Busy\.spin\(int\)"):
        measured(share_like(profile, function) > 0.1, f"{function}: {profile.heaviest()}")
    measured(profile.share("[jit]") < 0.05, f"[jit]: {profile.heaviest()}")
    measured(profile.whole_share() > 0.95, f"not whole: {profile.broken()}")


def python_with_trampolines():
    places = [shutil.which(f"python3.{minor}") for minor in (12, 13, 14)]
    places += glob.glob(os.path.expanduser("~/.pyenv/versions/3.1[2-9]*/bin/python3"))
    tidy = "import os; os.unlink(f'/tmp/perf-{os.getpid()}.map')"
    for python in filter(None, places):
        if subprocess.run([python, "-X", "perf", "-c", tidy], capture_output=True).returncode == 0:
            return python
    raise Skip("needs python 3.12 with -X perf")


@test
def test_python():
    """Its trampolines have neither unwind tables nor, as a rule, frame pointers."""
    profile = run_jit(python_with_trampolines(), "-X", "perf", source("busy.py", PYTHON)).profile
    for function in ("fib", "spin", "work"):
        measured(share_like(profile, rf"^py::{function}:.*busy\.py") > 0.2,
                 f"{function}: {profile.heaviest()}")
    measured(profile.whole_share() > 0.97, f"not whole: {profile.broken()}")


@test
def test_luajit():
    """It writes no map, and its traces have no frames: one frame each."""
    profile = run_jit(need("luajit"), source("busy.lua", LUA)).profile
    measured(profile.share("[jit]") > 0.8, profile.heaviest())
    wrong = [s for s in profile.stacks if "[jit]" in s and s[1:3] != ("[truncated]", "[jit]")]
    measured(len(wrong) < 5, f"{wrong[:2]}")


main()
