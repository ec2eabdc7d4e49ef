#!/usr/bin/env python3
"""Programs that watch others: they are left alone, and what they run is as it is bare."""

import shutil

from harness import Skip, expect, main, program, run, test


def tool(name):
    path = shutil.which(name)
    if path is None:
        raise Skip(f"{name} is not installed")
    return path


@test
def test_preloaded_strace():
    """It waits for all of its children, whatever their kind: one of ours would keep it for ever."""
    result = run(tool("strace"), "-f", "-o", "/dev/null", program("split"), 200, timeout=60)
    expect(result.status == 0, str(result))
    programs = [p.path.name.split(".")[1] for p in result.profiles]
    expect("strace" not in programs, f"profiles of {programs}")
    expect("split" in programs, f"profiles of {programs}")


@test
def test_preloaded_gdb():
    result = run(tool("gdb"), "-batch", "-q", "-ex", "run 100", program("split"), timeout=90)
    expect(b"exited normally" in result.stdout, str(result))


@test
def test_valgrind():
    """No profile, one line, and the program runs."""
    result = run(tool("valgrind"), "-q", program("split"), 50, options={"ONLY": "split"}, timeout=90)
    expect(result.status == 0, str(result))
    lines = result.stderr.decode().splitlines()
    expect(len(lines) == 1 and lines[0].startswith("selfsample: under valgrind"), str(lines))
    expect(not result.profiles, f"{result.profiles}")


main()
