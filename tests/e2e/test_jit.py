#!/usr/bin/env python3
"""Code that is made at run time: its names out of /tmp/perf-PID.map, and its callers."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

from folded import has_path
from harness import (USER_ID, Skip, expect, main, near, need, need_root, private_directory, program,
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
    near(profile.leaf_share("inner"), 2 / 3, 0.03, f"inner; {profile.heaviest()}")
    near(profile.leaf_share(OUTER), 1 / 3, 0.03, f"outer; {profile.heaviest()}")
    right = profile.share_where(lambda s: has_path(s, "main", "call_code", OUTER, "inner"))
    near(right, 2 / 3, 0.03, f"main;call_code;outer;inner; {profile.heaviest()}")
    expect(profile.whole_share() > 0.98, f"not whole: {profile.broken()}")


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
    expect(profile.whole_share() > 0.98, f"not whole: {profile.broken()}")


@test(each=["reused", "again"])
def test_address_used_again(how):
    """Each sample has the name of its own moment."""
    profile = page(how, options={"RATE": 2000}).profile
    near(profile.leaf_share("first_inner"), 2 / 9, 0.03, f"first; {profile.heaviest()}")
    near(profile.leaf_share("second_inner"), 4 / 9, 0.03, f"second; {profile.heaviest()}")
    near(profile.leaf_share("[jit]"), 1 / 3, 0.03, f"outer; {profile.heaviest()}")


@test
def test_leaf_without_a_frame():
    """A leaf that has none is under its caller all the same."""
    profile = page("leaf").profile
    right = profile.share_where(lambda s: has_path(s, "main", "call_code", "leaf"))
    near(right, 1 / 3, 0.03, profile.heaviest())


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
    expect(result.profile.share("[jit]") > 0.97, result.profile.heaviest())
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


main()
