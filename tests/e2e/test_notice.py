#!/usr/bin/env python3
"""The app must not notice: descriptors, signals, children, allocators, symbols, speed paths."""

import contextlib
import os
import subprocess
import time

from harness import (EVERYONE, Off, bare, both, expect, library, main, measured, near_ms, program, run, same, test,
                     wait_helper)


@test(each=EVERYONE)
def test_what_a_program_can_see(who):
    result = both(program("notice"), user=who.user)
    expect(b"interrupted: 0" in result.stdout and b"ECHILD" in result.stdout, str(result))
    expect(result.stdout.count(b"single-threaded 1") == 2, "libc believes in threads")


@test(each=EVERYONE)
def test_its_own_signals(who):
    result = both(program("signals"), user=who.user)
    expect(b"timer ran: 1" in result.stdout, f"{result.stdout!r}")
    near_ms(result.profile.share("work") * result.profile.total(), 660, 40, "samples in work")


@test(each=EVERYONE)
def test_its_own_malloc(who):
    result = both(program("ownmalloc"), user=who.user)
    expect(result.status == 0, f"status {result.status}")
    profile = result.profile
    near_ms(profile.share("allocate_us") * profile.total(), 400, 20, "samples in the allocator")


@test(each=[("perf", {}), ("timer", {"ENGINE": "timer"})])
def test_waits_of_all_kinds(engine):
    """As tracers wait, who would wait for the helper for ever."""
    result = both(program("waitkinds"), options=engine[1], timeout=60)
    expect(result.status == 6 and result.stdout.count(b"No child processes") == 9, str(result))


@test(each=[("perf", {}), ("timer", {"ENGINE": "timer"})])
def test_a_wait_before_the_helper_has_settled(engine):
    """It is told from other children by its process group, and may be late to have one of its own."""
    result = both(program("waitkinds"), "late", options=engine[1], timeout=30)
    expect(result.stdout == b"late: 0, No child processes\n", str(result))


@test(each=[("open", {}), ("blocked", {}), ("open", {"ONLY": "execsees"}), ("open", {"ENGINE": "timer"})])
def test_what_an_exec_leaves(case):
    """The former image's helper is a child that the next one has not made: no word of its end. (It is waited for
    100 ms, which a busy machine may keep it from.)"""
    how, options = case
    for _ in range(4):
        without = bare(program("execsees"), how)
        result = run(program("execsees"), how, options=options)
        measured("late" not in result.files() or without.stdout == result.stdout, f"the helper is late: {result}")
        same(without, result)
        expect(result.stdout == b"poll 0, came 0, pending 0, dead 0\n", str(result))


@test
def test_fast_paths_of_one_thread():
    """What libc and libstdc++ do without locks for a single thread stays so: 7.5 times for putc."""
    took = []
    for preload in (False, True):
        result = run(program("speed.cc"), "took", preload=preload)
        expect(result.status == 0, str(result))
        lines = (result.directory / "took").read_text().splitlines()
        took.append({line.split()[0]: int(line.split()[1]) for line in lines})
    for loop, bare_us in took[0].items():
        if took[1][loop] > 2 * bare_us:
            raise Off(f"{loop} takes {took[1][loop]} us, bare {bare_us}")


@test
def test_helper_from_outside():
    """Its own descriptors only, its own name, no signal that the app's user can hit it by."""
    seen = {}

    def look(pid):
        helper = wait_helper(pid)
        time.sleep(0.3)
        seen["fds"] = []
        for fd in os.listdir(f"/proc/{helper}/fd"):
            with contextlib.suppress(FileNotFoundError):  # one that it has closed meanwhile
                seen["fds"].append(os.readlink(f"/proc/{helper}/fd/{fd}"))
        seen["tasks"] = os.listdir(f"/proc/{pid}/task")
        seen["app_fds"] = len(os.listdir(f"/proc/{pid}/fd"))
        seen["given"] = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (0, 1)}
        seen["app"] = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        with open(f"/proc/{helper}/status") as status:
            seen["status"] = dict(line.split(":\t", 1) for line in status if ":\t" in line)

    result = run(program("work"), 1000000, while_running=look)
    expect(result.status == 0, str(result))
    # Files are opened anew; a pipe or a terminal in common could only be inherited.
    expect(seen["fds"], "it has no descriptors")
    own = [f for f in seen["fds"] if f in seen["app"] and not f.startswith("/")]
    own += seen["given"].intersection(seen["fds"])  # files, but none that it would open
    expect(not own, f"the helper holds descriptors of the app: {seen['fds']}")
    expect(len(seen["tasks"]) == 1, f"tasks of the app: {seen['tasks']}")
    expect(seen["app_fds"] == 3, f"{seen['app_fds']} descriptors in the app")
    expect(int(seen["status"]["Threads"]) == 1, "the helper has threads")


@test
def test_exported_names():
    """Only what is meant to be seen: the hooks and the public functions."""
    text = subprocess.run(["nm", "-D", "--defined-only", library()], capture_output=True,
                          text=True, check=True).stdout
    names = {line.split()[-1].split("@")[0] for line in text.splitlines()}
    wrong = {n for n in names if n.startswith(("_Unwind", "unw_", "_U", "cplus", "rust", "HASH"))
             or n in ("memcpy", "memset", "memmove", "memcmp", "strlen", "malloc", "free")}
    expect(not wrong, f"exported: {wrong}")
    expect("pthread_create" in names, "pthread_create is not hooked")
    expect(len(names) < 70, f"{len(names)} names exported")


@test
def test_what_it_needs():
    text = subprocess.run(["readelf", "-d", library()], capture_output=True, text=True,
                          check=True).stdout
    needed = {line.split("[")[1].rstrip("]\n") for line in text.splitlines() if "(NEEDED)" in line}
    expect(needed <= {"libc.so.6", "ld-linux-x86-64.so.2"}, f"NEEDED {needed}")


@test
def test_libunwind_is_not_reachable():
    """The app's global scope has one unwinder, libgcc's, whatever the library loads for itself."""
    code = ("import ctypes; g = ctypes.CDLL(None); "
            "print([n for n in ('unw_step', '_Ux86_64_step', 'unw_init_remote')"
            " if hasattr(g, n)])")
    result = both("/usr/bin/python3", "-c", code, options={"LIBUNWIND": "yes"})
    expect(result.stdout == b"[]\n", f"{result.stdout!r}")


main()
