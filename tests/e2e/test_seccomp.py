#!/usr/bin/env python3
"""Programs that enter seccomp: with filters that kill for calls which only a profiler makes."""

import re
from pathlib import Path

from harness import (Skip, bare, both, expect, helpers, main, measured, near_ms, need, program, run, test,
                     wait_helper, wait_until)

BURN_US = 150000
BURN_MS = BURN_US // 1000


def samples(profile, function):
    return profile.total() * profile.share(function)


def check_profile(result, inside_ms=BURN_MS, outside_ms=BURN_MS):
    profile = result.profile
    for name, ms in (("inside", inside_ms), ("outside", outside_ms)):
        measured(ms * 0.93 - 5 < samples(profile, name) < ms * 1.4 + 30,
                 f"{samples(profile, name)} samples in {name}, {ms} ms; {result}")


@test(each=["prctl", "syscall", "trap", "strict", "privs", "raw"])
def test_profiled_inside_to_the_end(way):
    result = both(program("filters"), way, BURN_US)
    expect(result.status == 5 and result.stdout == b"done\n", str(result))
    if way == "strict":
        measured(result.profile.share("inside") > 0.2, str(result))
    else:
        check_profile(result)


@test
def test_as_an_ordinary_user():
    result = both(program("filters"), "syscall", BURN_US, user=True)
    expect(result.status == 5, str(result))
    check_profile(result)


@test(each=["prctl", "syscall", "generic", "threads", "thread", "fork", "trap"])
def test_it_is_known_at_once(way):
    """A program that hardly lives on inside is not killed for what it does at its end."""
    for _ in range(3):
        result = both(program("filters"), way, 500, 2)
        expect(result.status == 5, str(result))


@test(each=["yes", "no"])
def test_the_calls_of_the_header_make_none(enabled):
    """Whether there is a profile, or there could be one."""
    result = both(program("filters"), "calls", 500, options={"ENABLED": enabled})
    expect(result.status == 5, str(result))


LIBSECCOMP = """
import ctypes, threading, sys
library = ctypes.CDLL("libseccomp.so.2")
library.seccomp_init.restype = ctypes.c_void_p
context = ctypes.c_void_p(library.seccomp_init(0x7fff0000))  # allow
for name in b"perf_event_open", b"prctl", b"wait4", b"getpid", b"process_vm_readv":
    number = library.seccomp_syscall_resolve_name(name)
    assert library.seccomp_rule_add(context, 0x80000000, number, 0) == 0  # kill the process
assert library.seccomp_load(context) == 0
def work():
    for _ in range(12000000):
        pass
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("done")
"""


@test
def test_libseccomp():
    """A filter by the library that most programs use, in a program that then makes threads."""
    python = need("python3")
    if bare(python, "-c", "import ctypes; ctypes.CDLL('libseccomp.so.2')").status != 0:
        raise Skip("needs libseccomp")
    result = both(python, "-c", LIBSECCOMP)
    expect(result.stdout == b"done\n", str(result))
    measured(result.profile.total() > 100, str(result))


@test
def test_threads_made_inside():
    """They can't come by themselves; the helper finds them."""
    result = both(program("filters"), "threads", BURN_US, 4)
    expect(result.status == 5, str(result))
    check_profile(result, inside_ms=5 * BURN_MS)


@test
def test_children_made_inside():
    """They run without a profile, and the parent's is whole."""
    result = both(program("filters"), "fork", BURN_US)
    expect(result.status == 5, str(result))
    check_profile(result)


@test
def test_attempts_that_fail_change_nothing():
    result = both(program("filters"), "refused", BURN_US, 2)
    expect(result.status == 5, str(result))
    check_profile(result, inside_ms=5 * BURN_MS)
    command = f"{program('filters')} refused 100000; echo *.folded"
    for _ in range(5):
        result = run("/bin/bash", "-c", command, options={"ONLY": "filters", "OUT": "x.folded"})
        expect(result.stdout == b"done\nx.folded\n", f"the end did not wait for the file: {result}")


@test(each=["prctl", "syscall", "strict", "raw"])
def test_the_end_of_the_profile(way):
    """SECCOMP=end: what comes inside is not in it, and no helper is left."""
    result = both(program("filters"), way, BURN_US, options={"SECCOMP": "end"})
    expect(result.status == 5, str(result))
    profile = result.profile
    near_ms(samples(profile, "outside"), BURN_MS, 15, "samples outside")
    measured(samples(profile, "inside") <= (60 if way == "raw" else 0),
             f"{samples(profile, 'inside')} samples inside")


@test(each=["syscall", "raw"])
def test_nothing_is_left_inside(way):
    """No helper, and no event that goes on interrupting the program."""
    seen = []

    def watch(pid):
        wait_helper(pid)
        status, maps = Path(f"/proc/{pid}/status"), Path(f"/proc/{pid}/maps")
        wait_until(lambda: "Seccomp:\t2" in status.read_text(), 10, "never inside")
        if way == "raw": # once it is noticed; nobody reaps the helper there
            seen.append(wait_until(lambda: re.search("^(?!.*perf_event).*stack", maps.read_text(), re.S),
                                   5, "events inside") is not None)
        else:
            seen.append("perf_event" not in maps.read_text() and helpers(pid) == [])

    run(program("filters"), way, 1000000, options={"SECCOMP": "end"}, while_running=watch)
    expect(seen == [True], "something is left inside")


@test
def test_a_filter_from_before_that_would_kill():
    """One line, and the program runs."""
    work = program("work")
    result = run(program("filters"), "exec", 1000, work, 200000, 7, options={"ONLY": "work"})
    lines = result.stderr.decode().splitlines()
    expect(result.status == 7 and len(lines) == 1 and "seccomp filter" in lines[0], str(result))
    expect(not result.profiles, str(result))


@test
def test_a_filter_from_before_that_bears():
    """As in containers: what was there at the start is no reason to hold back."""
    inner = program("filters", name="inner")
    result = both(program("filters"), "bear", 1000, inner, "refused", BURN_US, 2,
                  options={"ONLY": "inner"})
    expect(result.status == 5, str(result))
    check_profile(result, inside_ms=5 * BURN_MS)


@test
def test_the_helper_has_a_filter_of_its_own():
    found = {}

    def watch(pid):
        helper = wait_helper(pid)
        text = wait_until(
            lambda: re.search(r"NoNewPrivs:\t1\nSeccomp:\t2",
                              Path(f"/proc/{helper}/status").read_text()),
            5, "no filter on the helper")
        found["helper"] = text is not None
        found["app"] = "NoNewPrivs:\t0\nSeccomp:\t0" in Path(f"/proc/{pid}/status").read_text()

    run(program("work"), 1000000, while_running=watch)
    expect(found == {"helper": True, "app": True}, f"{found}")


@test
def test_other_calls_are_passed_on_untouched():
    result = both(program("passing"))
    expect(result.status == 0, str(result))


if __name__ == "__main__":
    main()
