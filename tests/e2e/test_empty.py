#!/usr/bin/env python3
"""A run without a profile: the command's summary says why, as far as that can be known."""

import os
import re
import shutil
import struct

from harness import (Skip, bare, expect, main, measured, need, need_root, private_directory, program, test,
                     the_command)

# CAP_NET_RAW, permitted and effective, as setcap(8) writes it (struct vfs_cap_data, revision 2).
CAPABILITY = struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0)


def told(*command, **more):
    """The one line of the summary of a run that leaves no profile."""
    result = bare(the_command(), *command, **more)
    lines = result.stderr.decode().splitlines()
    expect(result.status == 0, str(result))
    measured(not result.profiles, str(result))
    expect(len(lines) == 1 and lines[0].startswith("selfsample: no "), f"{lines}")
    return lines[0]


def script(interpreter, body=""):
    path = private_directory() / "script"
    path.write_text(f"#!{interpreter}\n{body}\n")
    path.chmod(0o755)
    return path


def privileged(mode=0o755):
    """A program that an ordinary user may run and that is root's."""
    need_root()
    path = private_directory() / "privileged"
    shutil.copy(program("work"), path)
    path.chmod(mode)
    return path


@test
def test_static():
    static = program("work", "-static", name="work-static")
    expect("linked statically" in told(static, 1000), "static")
    expect("linked statically" in told(program("work", "-static-pie", name="work-pie"), 1000), "pie")
    line = told(script(static))
    expect("script" in line and str(static) in line and "linked statically" in line, line)


@test
def test_static_behind_another():
    """The program itself is seen, but is not what used the time."""
    static = program("work", "-static", name="work-static")
    line = told("--rate", 1, "/usr/bin/env", static, 500_000)
    match = re.search(r"; ([0-9.]+) s of CPU time went into programs that are not profiled", line)
    measured(match and 0.4 <= float(match.group(1)) <= 0.8, line)
    expect("slept" not in line, line)


@test
def test_setuid():
    for mode in (0o4755, 0o2755):
        line = told(privileged(mode), 1000, user=True)
        expect("setuid" in line, f"{mode:o}: {line}")


@test
def test_file_capabilities():
    path = privileged()
    try:
        os.setxattr(path, "security.capability", CAPABILITY)
    except OSError as error:
        raise Skip(f"no file capabilities here: {error}") from error
    expect("capabilities" in told(path, 1000, user=True), "capabilities")


@test
def test_left_out_by_options():
    line = told("--only", "cc1*,ld", program("work"), 1000)
    expect("--only" in line and "'cc1*,ld'" in line, line)
    line = told(program("work"), 1000, env={"SELFSAMPLE_ENABLED": "no"})
    expect("SELFSAMPLE_ENABLED" in line and "--only" not in line, line)


@test
def test_tracer():
    need("strace")
    expect("tracer" in told("strace", "-V"), "strace")


@test
def test_time_off_the_cpu():
    """The difference between a program that is short and one that waits."""
    line = told("--rate", 1, "/bin/sleep", 1)
    match = re.search(r"too short: .*; the run took ([0-9.]+) s: .*only CPU time", line)
    measured(match and float(match.group(1)) >= 1, line)
    expect("only CPU time" not in told("--rate", 1, "/bin/true"), "a short run")


@test
def test_time_off_the_cpu_of_many():
    result = bare(the_command(), "--rate", 1, "/bin/sh", "-c", "sleep 1 & sleep 1; wait")
    text = result.stderr.decode()
    measured(not result.profiles, str(result))
    expect("processes too short" in text and "only CPU time" in text, text)


main()
