#!/usr/bin/env python3
"""The command `selfsample`: it runs a program as if it were not there, and then sums up."""

import os
import re
import signal
import time

from harness import (EVERYONE, Skip, bare, expect, library, main, measured, near_ms, need_root, paranoid,
                     private_directory, program, stolen_ms, test, the_command, wait_until)


def selfsample(*arguments, **more):
    return bare(the_command(), *arguments, **more)


def ours(result):
    return [line for line in result.stderr.decode().splitlines() if line.startswith("selfsample: ")]


def rest(result):
    return [line for line in result.stderr.decode().splitlines()
            if not line.startswith("selfsample: ")]


def stacks_told(text):
    match = re.search(r"([0-9]+) stacks? recorded from", text)
    expect(match, f"no number of stacks in: {text}")
    return int(match.group(1))


def expect_sum_told(text, profiles):
    """The CPU time told is what the files sum up to, and the stacks told are what was recorded."""
    match = re.search(r"([0-9.]+) s of CPU time seen", text)
    expect(match, f"no CPU time in: {text}")
    counts = sum(profile.total() for profile in profiles)
    measured(abs(float(match.group(1)) - counts / 999) < 0.006 + 0.001 * len(profiles),
             f"{counts} periods in the files, but: {text}")
    measured(0 < stacks_told(text) <= 1.2 * counts, f"{counts} in the files, but: {text}")


@test(each=[0, 1, 42, 255])
def test_exit_status(status):
    result = selfsample(program("work"), 50000, status)
    expect(result.status == status, f"status {result.status}")


@test(each=["TERM", "INT", "KILL", "SEGV", "ABRT"])
def test_death_by_signal(name):
    number = getattr(signal, "SIG" + name)
    result = selfsample("--", program("leave"), 100, f"signal-{number.value}")
    expect(result.status == -number, f"status {result.status}, wanted {-number}")
    expect(len(result.profiles) == 1, f"files {result.files()}")


@test
def test_standard_streams():
    without = bare(program("io"), "a b", "", "*", stdin=b"one\ntwo\n")
    result = selfsample(program("io"), "a b", "", "*", stdin=b"one\ntwo\n")
    expect(result.stdout == without.stdout, f"stdout {result.stdout!r}")
    expect(result.status == without.status, f"status {result.status}")
    expect(rest(result) == without.stderr.decode().splitlines(), f"stderr {result.stderr!r}")


@test(each=["TERM", "INT", "HUP", "USR1"])
def test_passes_signals_on(name):
    number = getattr(signal, "SIG" + name)

    def send(pid):
        def ready():
            return open(f"/proc/{pid}/fd/1", "rb").read() == b"ready\n"  # the program has the same stdout
        wait_until(ready, 30, "the program does not start")
        time.sleep(0.3)
        os.kill(pid, number)

    result = selfsample(program("waits"), while_running=send)
    expect(result.status == -number, f"status {result.status}")
    expect(result.stdout == b"ready\n", f"stdout {result.stdout!r}")
    spent_ms = result.cpu_us / 1000
    near_ms(result.profile.total(), spent_ms, 0.1 * spent_ms + 30, "samples of what it has used")


@test
def test_program_not_found():
    result = selfsample("/nonexistent/program")
    expect(result.status == 127, f"status {result.status}")
    expect(len(ours(result)) == 1 and "/nonexistent/program" in ours(result)[0],
           f"stderr {result.stderr!r}")
    result = selfsample("no-such-program-here")
    expect(result.status == 127 and ours(result)[0].endswith("no such program in PATH"), f"by PATH: {result}")
    for wrong, right in (("flamegrph", "flamegraph"), ("snapshto", "snapshot"), ("lst", "list")):
        result = selfsample(wrong, "x")
        expect(result.status == 127 and f"the sub-command `{right}`" in ours(result)[0], f"{result}")


@test
def test_program_not_executable():
    directory = private_directory()
    (directory / "text").write_text("text")
    result = selfsample(directory / "text")
    expect(result.status == 126 and len(ours(result)) == 1, str(result))
    expect(selfsample("/tmp").status == 126, "a directory")


@test
def test_usage():
    result = selfsample()
    expect(result.status == 125 and b"usage" in result.stderr.lower(), str(result))
    for option in ("--no-such-option", "-X"):
        result = selfsample(option, program("io"), "x")
        expect(result.status == 125 and not result.stdout and option[-1:].encode() in result.stderr, str(result))
        expect(result.stderr.endswith(b"; the program was not run\n"), str(result))


def told_of(*options, **more):
    """What is said of options while two processes run, one after the other."""
    script = f"{program('work')} 20000; {program('work')} 20000"
    lines = ours(selfsample(*options, "sh", "-c", script, **more))
    return [line for line in lines if "more than" in line or "refuses" in line]


@test
def test_what_the_system_does_not_give():
    """It is told once, of the option where it was one that asked, and of the variable where that did."""
    lines = told_of("-r", 99999)
    expect(len(lines) == 1 and " --rate 99999: more than" in lines[0], f"{lines}")
    lines = told_of(env={"SELFSAMPLE_RATE": "99999"})
    expect(lines and all(" SELFSAMPLE_RATE=99999: more than" in line for line in lines), f"{lines}")
    need_root()
    with paranoid(2):
        lines = told_of("-k", "yes", user=True)
        expect(len(lines) == 1 and " --kernel yes: the kernel refuses" in lines[0], f"{lines}")
        lines = told_of(env={"SELFSAMPLE_KERNEL": "yes"}, user=True)
        expect(lines and all(" SELFSAMPLE_KERNEL=yes: the" in line for line in lines), f"{lines}")


@test
def test_timers_say_nothing_of_the_kernel():
    text = "\n".join(ours(selfsample("-e", "timer", program("work"), 300000)))
    expect("kernel frames: no (timers see user stacks alone)" in text and "kernel time" not in text, text)


def refused(option, value, text, **more):
    """The program is not run; one line says why."""
    result = selfsample(option, value, program("io"), "x", env={"E2E_SLASH": "/root"}, **more)
    expect(result.status == 125 and not result.stdout and not result.files(), str(result))
    lines = result.stderr.decode().splitlines()
    expect(len(lines) == 1 and text in lines[0] and lines[0].endswith("the program was not run"),
           f"stderr {lines}")


@test(each=[("rate", "--rate", "fast", ": --rate fast: not a whole number"),
            ("part", "--checkpoint", "0.2", "0.2: not a whole number; allowed is 0 (never) or 1 to 86400 (seconds)"),
            ("rate-0", "--rate", "0", "allowed is 1 to 20000 "),
            ("children", "--children=ja", "--", ": --children=ja: no such value"),
            ("placeholder", "--out", "x%q", ": --out: %q: no such placeholder"),
            ("bracket", "--out", "%{HOME", "%{HOME: no } behind it"),
            ("directory", "--out", "/missing/", "/missing/: no such directory"),
            ("relative", "--out", "missing/x%p.folded", "missing/: no such directory"),
            ("file", "--out", "/dev/null/x", "/dev/null/: not a directory"),
            ("stdout", "--out", "-", ": --out -: profiles go to files"),
            ("device", "--out", "/dev/null", ": --out /dev/null: not a file"),
            ("descriptor", "--out", "/dev/stdout", ": --out /dev/stdout: not a file"),
            ("variable", "--out", "x.%{E2E_SLASH}.folded", "x./: no such directory")])
def test_refuses_wrong_values(case):
    refused(*case[1:])


@test
def test_a_wrong_variable_is_named():
    for more, text in (({"OUT": "/missing/"}, "SELFSAMPLE_OUT=/missing/: /missing/: no such directory"),
                       ({"INLINE": "yes", "OUT": "x.pb"}, "SELFSAMPLE_INLINE=yes: not with pprof files")):
        result = selfsample(program("io"), "x", env={f"SELFSAMPLE_{name}": value for name, value in more.items()})
        expect(result.status == 125 and not result.stdout and f"selfsample: {text}".encode() in result.stderr, f"{result}")


@test
def test_refuses_directories_of_others():
    """Before the program runs for nothing, whoever named the directory."""
    need_root()
    others = private_directory()
    others.chmod(0o755)
    for out in (f"{others}/", others):
        refused("--out", out, f"{others}/: Permission denied", user=True)
    refused("--rate", "100", "no profile can be written to this directory: Permission denied", user=True,
            directory=others)


@test
def test_output_in_a_directory_with_placeholders():
    """It is known to the program alone; one that exists is not refused."""
    directory = private_directory()
    for out in ("./", f"{directory}/x%%y", "%{HOME}/x", "/%e/x"):
        result = selfsample("--out", out, program("io"), "x")
        expect(result.stdout == b"<x>\n", f"{out}: {result}")


@test(each=[("no", 0), ("yes", 1), ("", 1)])
def test_children(case):
    value, profiles = case
    result = selfsample(f"--children={value}" if value else "--children", "/bin/sh", "-c",
                        f"{program('work')} 200000; :")
    works = [p for p in result.profiles if ".work." in p.path.name]
    expect(len(works) == profiles, f"files {result.files()}")


@test(each=["snapshot", "pause", "resume"])
def test_control_without_a_process_id(word):
    for operands, said in (([], f"{word} PID|PROGRAM"), (["1", "2"], f"{word} PID|PROGRAM"),
                           (["--no"], f"{word} PID|PROGRAM"), (["1x"], ": 1x: no profiled process runs"),
                           (["0"], ": 0: no profiled process runs"), (["9" * 20], "9: no profiled process runs")):
        result = selfsample(word, *operands)
        expect(result.status == 1 and not result.stdout, str(result))
        expect(len(ours(result)) == 1 and said in ours(result)[0], str(result))


@test
def test_asan_that_comes_too_late():
    """What is not set is not named as the cause, and the likely one is."""
    binary = program("allocs.cc", "-fsanitize=address", "allocs-asan")
    result = selfsample(binary, 100)
    line = ours(result)[-1]
    expect("did not load" in line and "sanitizer" in line and "SELFSAMPLE_" not in line, line)
    line = ours(selfsample(binary, 100, env={"SELFSAMPLE_ENABLED": "no"}))[-1]
    expect("SELFSAMPLE_ENABLED" in line and "sanitizer" not in line, line)


@test
def test_help_and_version():
    result = selfsample("--help")
    expect(result.status == 0 and not result.stderr, str(result))
    for option in ("--out", "--rate", "--stack", "--kernel", "--threads", "--unit", "--only",
                   "--checkpoint"):
        expect(option.encode() in result.stdout, f"{option} is not in --help")
    result = selfsample("--version")
    expect(result.status == 0 and result.stdout.startswith(b"selfsample "), str(result))


@test
def test_options():
    result = selfsample("--rate", "5000", "--out", "x.folded", "--threads=none", "--unit", "us",
                        program("burners"), 2, 200)
    expect(result.files() == ["x.folded"], f"files {result.files()}")
    profile = result.profile
    near_ms(profile.total() / 1000, 400, 20, "sum")
    expect(not profile.threads() & {"burner-0", "burner-1"}, "thread frames")


@test
def test_options_end_at_the_program():
    result = selfsample(program("io"), "--rate", "-x")
    expect(result.stdout == b"<--rate>\n<-x>\n", f"stdout {result.stdout!r}")


@test(each=EVERYONE)
def test_summary(who):
    result = selfsample(program("split"), 1000, user=who.user)
    text = "\n".join(ours(result))
    profile = result.profile
    expect(not rest(result) and result.stdout == b"done\n", str(result))
    expect_sum_told(text, [profile])
    expect(profile.path.name in text, f"the file is not in: {text}")
    expect("lost: " in text, f"no `lost: ` in: {text}")
    measured("lost: 0" in text, f"no `lost: 0` in: {text}")
    expect("perf" in text or "engine" in text, f"no engine in: {text}")
    expect("flamegraph" in text, f"no next command in: {text}")


@test
def test_clock_of_who_was_reaped_at_once():
    """Nobody can ask for it then, and what the helper read last may be old. (Nor for what the host has taken.)"""
    for _ in range(8):
        before_ms = stolen_ms()
        text = selfsample("nice", "-n", "19", program("leave"), 140, "_exit").stderr.decode()
        share = re.search(r"CPU time seen, ([0-9.]+) % of", text)
        taken = 100 * (stolen_ms() - before_ms) / 140
        measured(share and float(share[1]) < 103 + taken, text)


HINTS = [((), ""), (("-u", "us"), " --unit=us"), (("-r", "5000"), " --rate=5000"),
         (("-t", "none", "-u", "us", "-r", "100"), " --roots=0 --unit=us --rate=100")]


@test(each=HINTS)
def test_hint_has_what_the_file_does_not_tell(case):
    options, wanted = case
    text = selfsample(*options, program("split"), 100).stderr.decode()
    hint = re.search(r"for a picture: \S+ flamegraph(.*) selfsample\.split\.\d+\.folded > ", text)
    if hint is None:
        raise Skip("built without the packages of npm")
    expect(hint[1] == wanted, text)
    rate = re.search(r"--rate=(\d+)", wanted)
    expect(f" at {rate[1] if rate else 999} Hz; " in text, text)


@test(each=["selfsample.html", "selfsample.svg"])
def test_hint_is_not_to_write_over_the_profile(name):
    text = selfsample("-o", name, program("split"), 100).stderr.decode()
    hint = re.search(r"for a picture: .* (\S+) > (\S+)", text)
    expect(hint and hint[1] == name and hint[2] != name, text)


@test
def test_processes_of_different_rates():
    """A table of all has each process's CPU time, since the files say what their counts are; else it is told."""
    work = program("split")
    script = f"{work} 400; SELFSAMPLE_ENGINE=timer {work} 400"
    result = selfsample("--top", "-r", "2000", "-o", "p%p.folded", "sh", "-c", script)
    said = result.stderr.decode()
    if any(not os.listxattr(profile.path) for profile in result.profiles):
        expect("all counts for those of 2000 Hz, and is wrong by that of split (" in said, said)
        return
    expect("all counts for those" not in said, said)
    near_ms(int(re.search(r"^([0-9]+) samples, ", said, re.M)[1]) / 2, 800, 60, "CPU time of both")


@test(each=EVERYONE)
def test_summary_of_kernel_time(who):
    """Where there are no kernel frames it tells the kernel's share, and what would show them."""
    result = selfsample("/bin/dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=20000",
                        user=who.user)
    text = "\n".join(ours(result))
    match = re.search(r"engine: perf at 999 Hz; kernel frames: no \(kernel.perf_event_paranoid=2; `sysctl "
                      r"kernel.perf_event_paranoid=1` shows them\).*\n.*"
                      r"kernel time at least ([0-9.]+) % \(stacks not visible\)", text)
    expect(bool(match) == (not who.sees_kernel), f"for {who.name}: {text}")
    if match:
        measured(30 < float(match.group(1)) <= 100, text)


@test
def test_sums_up_the_whole_tree():
    """All processes of the tree, and those that had their work still to do when the first ended."""
    script = f"{program('work')} 200000 & {program('work')} 300000; wait"
    result = selfsample("/bin/sh", "-c", script)
    works = [p for p in result.profiles if ".work." in p.path.name]
    expect(len(works) == 2, f"files {result.files()}")
    near_ms(sum(p.total() for p in works), 500, 40, "sum")
    text = "\n".join(ours(result))
    expect_sum_told(text, result.profiles)


@test
def test_a_process_that_stays():
    """A daemon does not hold the command up for ever: it says that one still runs."""
    script = f"{program('work')} 2500000 >/dev/null 2>&1 & exec {program('work')} 100000"
    result = selfsample("/bin/sh", "-c", script)
    text = "\n".join(ours(result))
    measured("still running" in text or stacks_told(text) > 2400, f"stderr: {text}")
    expect(len([p for p in result.profiles if ".work." in p.path.name]) == 2, f"{result.files()}")


@test
def test_a_program_that_goes_to_the_background():
    """It ends before its orphan's helper has told of itself; that one is not passed over, whether the shell itself
    has a profile (it has at the higher rate) or not, nor where it is long in coming."""
    begins_late = f"env -u LD_PRELOAD sh -c 'sleep 0.05; LD_PRELOAD={library()} exec {program('work')} 600000'"
    for rate_hz, orphan in (99, f"{program('work')} 600000"), (20000, begins_late):
        result = selfsample("--rate", rate_hz, "/bin/sh", "-c", f"({orphan} >/dev/null 2>&1 &); exit 5")
        text = "\n".join(ours(result))
        expect(result.status == 5, str(result))
        measured("1 process still running" in text, f"stderr: {text}")


@test(each=[("turnabout", 60000), ("work", 300000)])
def test_what_switches_between_threads_take(what):
    """Where it is much that is told, and how to be rid of it."""
    name, argument = what
    result = selfsample(program(name), argument)
    lines = "\n".join(ours(result))
    told = re.search(r"switches between threads: ([0-9.]+) % of the CPU time, .* --engine timer", lines)
    share = result.profile.count_of("[thread switch]") / result.profile.total()
    expect((told is not None) == (share >= 0.05) or abs(share - 0.05) < 0.002, f"{share:.3f} of the profile: {lines}")
    measured(name == "work" or share > 0.02, f"{share:.3f} of the profile: {lines}")


@test
def test_timers_cost_nothing_where_threads_switch():
    lines = "\n".join(ours(selfsample("--engine", "timer", program("turnabout"), 60000)))
    expect("switches between" not in lines, lines)


@test
def test_program_without_the_library():
    """A static program is run, and the summary says why there is nothing."""
    static = program("work", "-static", name="work-static")
    result = selfsample(static, 100000, 5)
    expect(result.status == 5 and not result.files(), str(result))
    expect("static" in "\n".join(ours(result)), f"stderr {result.stderr!r}")


@test
def test_write_error_is_told_once():
    result = selfsample("--out", "missing%e/x.folded", program("work"), 100000, 3)
    about = [line for line in ours(result) if "missing" in line]
    expect(result.status == 3 and not rest(result) and len(about) == 1, f"stderr {result.stderr!r}")
    expect("No such file" in about[0] and "--out" in about[0], about[0])


@test
def test_write_errors_of_a_tree_are_told_once():
    script = f"{program('work')} 100000 & {program('work')} 100000; wait"
    result = selfsample("--only", "work", "--out", "missing%e/", "/bin/sh", "-c", script)
    about = [line for line in ours(result) if "missing" in line]
    expect(len(about) == 1 and "2 processes with an error" in about[0], f"{result.stderr!r}")


@test
def test_process_of_less_than_a_period():
    """It leaves no file, and is told so rather than counted with those that do."""
    result = selfsample("--rate", 1, "/bin/true")
    measured(not result.profiles, str(result))
    expect(not result.files() and len(ours(result)) == 1, str(result))
    match = re.search(r"too short: ([0-9.]+) ms of CPU time, less than one period", ours(result)[0])
    measured(match and float(match.group(1)) < 50, f"stderr {result.stderr!r}")
    expect("; --rate 20000 makes a period 0.05 ms instead of 1000.00 ms" in ours(result)[0], f"stderr {result.stderr!r}")


@test
def test_top_without_a_profile():
    lines = ours(selfsample("--rate", 1, "--top", "/bin/true"))
    expect(len(lines) == 2 and lines[1] == "selfsample: no table: there is no profile", f"{lines}")


@test
def test_brief_time_is_told_in_milliseconds():
    text = "\n".join(ours(selfsample("--rate", 20000, program("work"), 3000)))
    match = re.search(r"; ([0-9.]+) ms of CPU time seen, [0-9.]+ % of ([0-9.]+) ms", text)
    measured(match and all(2 < float(told) < 10 for told in match.groups()), text)


@test
def test_many_processes_of_less_than_a_period():
    script = f"for i in 1 2 3 4 5 6 7 8 9; do /bin/true; done; exec {program('work')} 300000"
    result = selfsample("--rate", 10, "/bin/sh", "-c", script)
    text = "\n".join(ours(result))
    short = [line for line in ours(result) if "too short" in line]
    expect(len(short) == 1 and "no sample" not in text, f"stderr {text}")
    count = int(re.search(r"([0-9]+) processes too short for a file", short[0]).group(1))
    expect(count + len(result.profiles) == 11 and count >= 9, f"{result.files()}, stderr {text}")
    told = re.search(r"from ([0-9]+) process", text)
    expect(int(told.group(1)) == len(result.profiles), f"{result.files()}, stderr {text}")


@test
def test_program_that_ends_at_once():
    """By _exit, so that nobody waits for the helper, which has hardly begun then."""
    for _ in range(30):
        result = selfsample("/bin/sh", "-c", "exit 7")
        expect(result.status == 7, f"status {result.status}")
        expect(ours(result) and b"did not load" not in result.stderr, f"stderr {result.stderr!r}")


@test
def test_names_that_a_terminal_would_obey():
    """They are left out of what is said, and the files are found all the same."""
    result = selfsample("--top", "-o", "a\tb%%41\x1b[31m.folded", program("split"), 100)
    said = result.stderr.decode()
    expect("wrote a?b%41?[31m.folded" in said and "\x1b" not in said and " sixty" in said, said)


@test
def test_temporary_directory():
    """One that is not there is named, and one of a long name is not taken."""
    result = selfsample(program("io"), "x", env={"TMPDIR": "/missing"})
    expect(result.status == 125 and not result.stdout and "/missing/selfsample." in ours(result)[0] and
           "TMPDIR" in ours(result)[0] and ours(result)[-1].endswith("the program was not run"), f"{result}")
    long = private_directory() / ("x" * 100) / ("y" * 100)
    long.mkdir(parents=True)
    result = selfsample(program("work"), 50000, env={"TMPDIR": str(long)})
    expect(len(result.files()) == 1 and "recorded from 1 process" in "\n".join(ours(result)), f"{result}")


@test
def test_nothing_is_left():
    """Neither temporary files nor variables for the program beyond those of the library."""
    place = private_directory()
    result = selfsample("/usr/bin/env", env={"TMPDIR": place})
    names = {line.split("=")[0] for line in result.stdout.decode().splitlines()}
    strange = {n for n in names if "SAMPLE" in n and not n.startswith("SELFSAMPLE_")}
    expect(not strange, f"variables {strange}")
    expect(f"SELFSAMPLE_REPORT={place}/".encode() in result.stdout, f"{result}")
    expect(not os.listdir(place), f"left in TMPDIR: {os.listdir(place)}")


main()
