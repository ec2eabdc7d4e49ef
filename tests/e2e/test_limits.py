#!/usr/bin/env python3
"""Programs under resource limits, in namespaces of their own, with rights that nothing may add to."""

import contextlib
import os
import re
import resource
import shutil
import signal
from pathlib import Path

from harness import (Skip, both, expect, library, main, measured, near, near_ms, need, need_root,
                     private_directory, program, run, test, top_directory, wait_helper, wait_until)

MIB = 1 << 20


def uncovered(result):
    """The summary's count of threads without an event."""
    match = re.search(rb"([0-9]+) threads? not covered", result.stderr)
    expect(match, f"no count of threads: {result}")
    return int(match[1])


def check_told(command, expected_ms, **arguments):
    """The same outside; and what is not in the profile is told by the summary."""
    result = both(*command, **arguments)
    result.quiet()
    told = run(*command, **arguments, options={"SUMMARY": "yes"})
    expect(told.status == result.status, str(told))
    if uncovered(told) == 0:
        near_ms(told.profile.total(), expected_ms, expected_ms * 0.1 + 10, "samples")


@test(each=[("root", False), ("user", True)])
def test_little_address_space(who):
    limits = {resource.RLIMIT_AS: 150 * MIB}
    result = both(program("work"), 200000, 3, user=who[1], limits=limits)
    near_ms(result.profile.total(), 200, 15, "samples")
    result.quiet()
    check_told([program("burners"), 3, 100], 300, user=who[1], limits=limits)


@test
def test_too_little_address_space():
    """Where the program has room enough and we have not, what is said names the limit, and no other place."""
    told = set()
    for mib in range(8, 24):
        result = run(program("work"), 20000, 3, limits={resource.RLIMIT_AS: mib * MIB})
        lines = [line for line in result.stderr.decode().splitlines() if line.startswith("selfsample: ")]
        told |= {part for line in lines for part in ("can't be written", "could not be started") if part in line}
        expect(all("`ulimit -v`" in line and "another place" not in line for line in lines), f"{mib} MiB: {lines}")
    expect(told, "no limit between 8 and 23 MiB was too small")


@test
def test_no_locked_memory():
    check_told([program("burners"), 8, 100], 800, user=True, limits={resource.RLIMIT_MEMLOCK: 0})


@test
def test_few_descriptors():
    limits = {resource.RLIMIT_NOFILE: 8}
    result = both(program("work"), 200000, 3, user=True, limits=limits)
    near_ms(result.profile.total(), 200, 15, "samples")
    check_told([program("burners"), 8, 100], 800, user=True, limits=limits)
    # Events of threads must not take what the modules' files need: the program, libc, and what a sample at the start
    # may be in, the loader and the library.
    limits = {resource.RLIMIT_NOFILE: 10}
    profile = run(program("burners"), 4, 500, user=True, limits=limits).profile
    expect(profile.whole_share() > 0.98, f"not whole: {profile.broken()}")
    limits = {resource.RLIMIT_NOFILE: 32}
    check_told([program("burners"), 60, 20], 1200, user=True, limits=limits)


@test
def test_pending_signals():
    """Timers count as pending signals."""
    result = run(program("work"), 1000, 3, user=True, limits={resource.RLIMIT_SIGPENDING: 0},
                 options={"ENGINE": "timer"})
    expect(result.status == 3 and not result.profiles, str(result))
    expect(result.stderr.count(b"\n") == 1 and b"RLIMIT_SIGPENDING" in result.stderr, str(result))


@test(each=["perf", "timer"])
def test_data(engine):
    """RLIMIT_DATA counts what the library has of zeros, before the program begins, and nothing else of ours: a
    program that all but reaches it runs as bare, and is profiled."""
    result = both(program("room"), 1400 * 1024, 200000, 3, limits={resource.RLIMIT_DATA: 2 * MIB},
                  options={"ENGINE": engine, "UNIT": "us"})
    expect(result.status == 3, str(result))
    result.quiet()
    near_ms(result.profile.total() / 1000, 200, 15, "of CPU time")


def make_memory_cgroup(limit_bytes):
    """A cgroup of so much memory, of either version."""
    for top, limit in ("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"):
        group = Path(top) / f"selfsample-test-{os.getpid()}"
        if not (Path(top) / "cgroup.procs").exists():
            continue
        with contextlib.suppress(OSError):
            group.mkdir()
            if (group / limit).exists():
                (group / limit).write_text(str(limit_bytes))
                for swap, value in ("memory.swap.max", 0), ("memory.memsw.limit_in_bytes", limit_bytes):
                    if (group / swap).exists():
                        (group / swap).write_text(str(value))
                return group
            group.rmdir()
    raise Skip("no cgroup with a limit of memory can be made")


@test
def test_memory_runs_out():
    """The kernel ends every task that shares the memory, the helper among them: the last checkpoint is left."""
    need_root()
    group = make_memory_cgroup(64 * MIB)
    try:
        enter = lambda: (group / "cgroup.procs").write_text(str(os.getpid()))  # noqa: E731
        result = both(program("greedy"), 100, setup=enter)
        expect(result.status == -signal.SIGKILL and not result.files(), str(result))
        result.quiet()
        result = both(program("greedy"), 2500, setup=enter, options={"CHECKPOINT": 1})
        expect(result.status == -signal.SIGKILL, str(result))
        measured(result.profile.total() > 500, str(result))
        near(result.profile.share("before"), 1, 0.02, "share of what came before")
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text(), 5, "the cgroup is not empty")
        group.rmdir()


@test
def test_no_more_processes():
    """The helper is one; without it there is one line and no profile."""
    need_root()
    result = run(program("work"), 100000, 3, user=True, limits={resource.RLIMIT_NPROC: 1})
    lines = result.stderr.decode().splitlines()
    expect(result.status == 3 and len(lines) == 1, str(result))
    expect("the helper could not be started" in lines[0] and "EAGAIN" in lines[0], str(result))
    expect(not result.files(), str(result))


@test(each=["user", "join", "mount"])
def test_namespaces_as_bare(way):
    need_root()
    for user in (False, True):
        result = both(program("namespaces"), way, 200000, user=user)
        result.quiet()
        near_ms(max(p.total() for p in result.profiles), 200, 25, "samples")


@test
def test_child_of_the_same_number():
    """A copy of the process in a pid namespace of its own does not wait for the process's helper."""
    need_root()
    need("unshare")
    result = both(program("namespaces"), "nested", 200000,
                  launcher=["unshare", "-fp", "--mount-proc", "--kill-child"])
    expect(result.stdout == b"child: 1, in time: 1\n", str(result))
    profiles = [p for p in result.profiles if "namespaces" in p.path.name]
    near_ms(max(p.total() for p in profiles), 200, 25, "samples")


@test
def test_root_of_another_user_namespace_has_no_helper_with_rights():
    """root there is nobody here: the helper, which stays here, loses its capabilities."""
    need_root()
    seen = {}

    def watch(pid):
        helper = wait_helper(pid)
        status = Path(f"/proc/{helper}/status")
        wait_until(lambda: "CapPrm:\t0000000000000000" in status.read_text(), 5,
                   f"the helper kept {re.findall('Cap.*', status.read_text())}")
        seen["helper"] = helper

    result = run(program("namespaces"), "user", 1000000, while_running=watch)
    expect(seen and result.stdout == b"unshare: yes\n", str(result))
    measured(result.profile.total() > 900, str(result))


@test
def test_set_user_id():
    """A program that brings the library along itself, as nothing else gets it in under AT_SECURE."""
    need_root()
    lib = library()
    secured = program("work", name="secured", flags=f"-Wl,--no-as-needed {lib} -Wl,-rpath,{lib.parent}")
    own = top_directory() / "secured"
    shutil.copy2(secured, own)
    directory = private_directory(user=True)
    expect(run(own, 200000, 3, user=True, preload=False).profiles, "the library is not in it")
    os.chown(own, 0, 0)
    os.chmod(own, 0o4755)
    result = run(own, 200000, 3, user=True, preload=False, directory=directory,
                 options={"SUMMARY": "yes", "RATE": "nonsense", "OUT": "x.folded"})
    expect(result.status == 3 and not result.files(), str(result))
    result.quiet()


if __name__ == "__main__":
    main()
