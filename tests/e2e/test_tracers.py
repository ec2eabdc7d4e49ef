#!/usr/bin/env python3
"""Programs that watch others: they are left alone, and what they run is as it is bare."""

import os
import re
import signal
import subprocess
from pathlib import Path

from harness import (both, expect, library, main, measured, near_ms, need, program, run, test,
                     wait_helper, wait_until)


@test
def test_preloaded_strace():
    """It is left out, what it runs is not."""
    result = run(need("strace"), "-f", "-o", "/dev/null", program("split"), 200, timeout=60)
    expect(result.status == 0, str(result))
    programs = [p.path.name.split(".")[1] for p in result.profiles]
    expect("strace" not in programs, f"profiles of {programs}")
    expect("split" in programs, f"profiles of {programs}")


@test
def test_profiled_strace():
    """Where it is asked for. It ends though the helper, its child, does not before it."""
    result = run(need("strace"), "-f", "-o", "/dev/null", program("split"), 200, timeout=60,
                 options={"ONLY": "strace"})
    programs = {p.path.name.split(".")[1] for p in result.profiles}
    expect(result.status == 0 and programs == {"strace"}, f"{result}; profiles of {programs}")


def cpu_ms(pid):
    """What a process has used so far, by ticks."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return sum(map(int, ticks)) * 1000 / os.sysconf("SC_CLK_TCK")


def strace_of_burners(*options):
    """The library is in the program alone."""
    result = run(need("strace"), *options, "-E", f"LD_PRELOAD={library()}", "-o", "trace",
                 program("burners"), 3, 60, preload=False, timeout=60)
    expect(result.status == 0 and result.stdout == b"joined\n", str(result))
    return result


@test(each=["", "-f"])
def test_strace_of_a_profiled_program(option):
    """The helper is not traced, and nobody waits for it."""
    result = strace_of_burners(*option.split())
    expect(not result.stderr, str(result))
    measured(result.profile.share("sixty") > 0.3, f"sixty has {result.profile.share('sixty'):.2f}")
    if option == "-f":
        lines = (result.directory / "trace").read_text().splitlines()
        traced = {line.split()[0] for line in lines}
        expect(len(traced) == 4, f"main and three threads, but there were traced {traced}")


@test
def test_strace_by_a_filter():
    """What the filter hands to strace is not there for a helper that is not traced: a profile, or
    one line that says why there is none."""
    result = strace_of_burners("-f", "--seccomp-bpf", "-e", "trace=openat")
    lines = result.stderr.splitlines()
    expect(bool(lines) != bool(result.profiles), str(result))
    expect(not lines or (len(lines) == 1 and b"can't be written" in lines[0]), str(result))


@test
def test_ltrace():
    result = run(need("ltrace"), "-o", "trace", program("split"), 50, timeout=60)
    expect(result.status == 0 and not result.stderr, str(result))
    programs = [p.path.name.split(".")[1] for p in result.profiles]
    expect("ltrace" not in programs, f"profiles of {programs}")


@test
def test_gdb_of_a_profiled_program():
    """A breakpoint in a thread, its stack, and on to the end."""
    result = run(need("gdb"), "-batch", "-q", "-ex", f"set exec-wrapper env LD_PRELOAD={library()}",
                 "-ex", "break ten", "-ex", "run 2 100", "-ex", "bt 2", "-ex", "delete", "-ex",
                 "continue", program("burners"), preload=False, timeout=90)
    text = result.stdout.decode()
    expect("exited normally" in text and re.search(r"#0 +ten .*\n#1 .*body", text), str(result))
    measured(result.profile.share("sixty") > 0.5, f"sixty has {result.profile.share('sixty'):.2f}")


@test
def test_gdb_and_timers():
    """It stops at their signal, which has the number that README names, unless it is told not to."""
    command = [need("gdb"), "-batch", "-q", "-ex", "run 300", program("split")]
    stopped = run(*command, options={"ENGINE": "timer"}, timeout=90)
    expect(b"received signal SIG63" in stopped.stdout, str(stopped))
    command[3:3] = ["-ex", "handle SIG63 nostop noprint"]
    result = run(*command, options={"ENGINE": "timer"}, timeout=90)
    expect(b"exited normally" in result.stdout and b"signal" not in result.stdout, str(result))


@test
def test_gdb_that_attaches():
    """The program is stopped, looked at and let go; then it goes on until it is told to end, as does its helper."""
    def attach(pid):
        wait_helper(pid)
        seen = subprocess.run([need("gdb"), "-batch", "-q", "-p", str(pid), "-ex", "bt", "-ex",
                               "detach"], capture_output=True, text=True, timeout=60)
        expect("work" in seen.stdout, f"gdb: {seen.stdout[-300:]} {seen.stderr[-300:]}")
        before_ms = cpu_ms(pid)
        wait_until(lambda: cpu_ms(pid) > before_ms + 500, 30, "it does not go on")
        os.kill(pid, signal.SIGTERM)

    result = run(program("waits"), while_running=attach)
    expect(result.status == -signal.SIGTERM and not result.stderr, str(result))
    spent_ms = result.cpu_us / 1000
    near_ms(result.profile.total(), spent_ms, 0.02 * spent_ms + 40, "samples")


@test
def test_preloaded_gdb():
    result = run(need("gdb"), "-batch", "-q", "-ex", "run 100", program("split"), timeout=90)
    expect(b"exited normally" in result.stdout, str(result))


@test(each=["none", "memcheck"])
def test_valgrind(checker):
    """A thread is the helper, and timers interrupt the program, not valgrind; nothing is reported."""
    command = [need("valgrind"), "-q", f"--tool={checker}", program("burners"), 2, 300]
    result = both(*command, options={"ONLY": "burners"}, timeout=90)
    result.quiet()
    profile = result.profile
    sixty, ten = profile.share("sixty"), profile.share("ten")
    measured(sixty > 2 * ten > 0 and sixty > 0.25, f"sixty {sixty}, ten {ten} of {profile.total()}")


@test
def test_valgrind_and_exec():
    """What the program executes has its signal mask, not that of a timer's handler."""
    script = "exec grep SigBlk /proc/self/status"
    for _ in range(3):
        result = run(need("valgrind"), "-q", need("bash"), "-c", script,
                     options={"ONLY": "bash"}, timeout=90)
        expect(result.stdout.split() == [b"SigBlk:", b"0" * 16], str(result))


@test(each=[("helgrind", {}), ("drd", {}), ("memcheck", {"ENGINE": "perf"})])
def test_valgrind_where_there_is_no_profile(case):
    """A checker of races, or the wrong engine: one line, and the program runs."""
    result = run(need("valgrind"), "-q", f"--tool={case[0]}", program("split"), 50,
                 options={"ONLY": "split", **case[1]}, timeout=90)
    expect(result.status == 0 and not result.profiles, str(result))
    lines = result.stderr.decode().splitlines()
    expect(len(lines) == 1 and lines[0].startswith("selfsample: ") and
           lines[0].endswith("without a profile"), str(lines))


main()
