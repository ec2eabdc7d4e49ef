#!/usr/bin/env python3
"""`selfsample flamegraph` and `selfsample --flamegraph` as commands: pages after runs, of series, what is told."""

import os
import pty
import re
import shutil
import subprocess
import time

from harness import COMMAND, bare, expect, library, main, private_directory, program, test, the_command
from pages import READY, browser, frame, frames, made, need_page, quiet, text
from stacks import view, write


@test
def after_a_run():
    """One page of all processes, with the program's status; a page that is there is left alone."""
    need_page()
    work = program("split")
    result = bare(the_command(), "--flamegraph", "--unit", "us", "/bin/sh", "-c",
                  f"i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done; {work} 300; {work} 300; exit 3")
    expect(result.status == 3 and result.stdout == b"done\ndone\n", str(result))
    told = re.search(r"flame graph: (\S+\.html) ", result.stderr.decode())
    expect(told, f"no page is told: {result.stderr.decode()}")
    expect(".split." in told.group(1), f"named by the process with fewer samples: {told.group(1)}")
    whole = sum(profile.total() for profile in result.profiles)
    page = browser().page(result.directory / told.group(1), ready=READY)
    expect(text(page, "title") == "sh", text(page, "title"))
    ms = re.search(r", (\d+) ms of CPU time", text(page, "facts"))
    expect(ms and abs(int(ms[1]) - whole / 1000) < 0.5001, f"{text(page, 'facts')}, wanted {whole}")
    drawn = {d[0] for d in frames(page)}
    expect({"all", "split"} <= drawn, f"no frame of the program: {drawn}")
    share = sum(p.total() for p in result.profiles if "split" in p.path.name) / whole
    expect(abs(frame(page, "split")[3] / frame(page, "all")[3] - share) < 0.002, f"split: not {share}")
    quiet(page)


@test
def time_of_a_run_by_timers():
    """A count is a period that the timers had, not the one that was asked for."""
    need_page()
    result = bare(the_command(), "-e", "timer", "--flamegraph=page.html", program("split"), "500")
    told = result.stderr.decode()
    rate = re.search(r"engine: timer at (\d+) Hz; ", told)
    seen = re.search(r"; ([0-9.]+) s of CPU time seen", told)
    expect(rate and seen, told)
    facts = text(browser().page(result.directory / "page.html", ready=READY), "facts")
    ms = re.search(r" at (\d+) Hz, (\d+) ms of CPU time", facts)
    expect(ms and ms[1] == rate[1], f"{facts}; {told}")
    expect(abs(int(ms[2]) - 1000 * float(seen[1])) <= 20, f"{facts}; {told}")


@test
def time_is_by_the_rate_of_the_file():
    """100 samples of a pprof file of 4 ms each."""
    need_page()
    directory = private_directory()
    folded, packed = write(directory / "a.folded", {("main", "f"): 100}), directory / "a.pb.gz"
    view("convert", "--to", "pprof", "--rate", 250, "-o", packed, folded)
    made(packed, "-o", directory / "a.html")
    page = browser().page(directory / "a.html", ready=READY)
    expect("100 samples at 250 Hz, 400 ms of CPU time" in text(page, "facts"), text(page, "facts"))
    quiet(page)


@test
def series_after_a_run():
    """A series of files is one profile: in the table, on the page, and by the command of the hint."""
    need_page()
    result = bare(the_command(), "--top", "--flamegraph=page.html", "-c", "1", "-u", "us", "-o",
                  "a b.%n.folded", program("split"), "2500")
    told = result.stderr.decode()
    count, us = len(result.profiles), sum(profile.total() for profile in result.profiles)
    expect(count >= 2 and f"wrote 'a b.'*.folded ({count} files; split, " in told, told)
    expect(f"{us} us, 1 thread name, {count} files" in told, told)
    page = browser().page(result.directory / "page.html", ready=READY)
    expect(f", {us / 1e6:.2f} s of CPU time" in text(page, "facts"), f"{text(page, 'facts')}, {us} us")
    expect({"split", "sixty"} <= {d[0] for d in frames(page)}, f"{frames(page)}")
    expect(not {"a b.0", "a b.1"} & {d[0] for d in frames(page)}, f"a frame of a file: {frames(page)}")


@test
def series_of_many_processes():
    """All files of one program stand under one frame of its name, whatever they are called."""
    need_page()
    script = f"{program('split')} 1500 & {program('work')} 1500000 & wait"
    result = bare(the_command(), "--flamegraph=page.html", "-c", "1", "-o", "part.%p.%n.folded", "sh", "-c", script)
    expect(len(result.profiles) >= 4, str(result))
    page = browser().page(result.directory / "page.html", ready=READY)
    found = {d[0] for d in frames(page)}
    expect({"split", "work"} <= found and not any(name.startswith("part") for name in found), f"{found}")


@test
def hint_of_some_processes():
    """A few are named all, of many the largest."""
    need_page()
    for others in 2, 5:
        script = f"{program('work')} 100000; " + f"{program('work')} 20000; " * others
        result = bare(the_command(), "--only=work", "-o", "%p.folded", "sh", "-c", script)
        hint = re.search(r"for a picture(.*): \S+ flamegraph (.*) > ", result.stderr.decode())
        expect(hint, str(result))
        largest = max(result.profiles, key=lambda profile: profile.total()).path.name
        expect(hint[2].split()[0] == largest, f"{hint}, {largest}")
        expect((hint[1], len(hint[2].split())) == (("", 3) if others == 2 else (" of the largest", 1)), hint[0])


@test
def hint_of_a_series():
    """The command that it names shows what all the files have."""
    need_page()
    result = bare(the_command(), "-c", "1", "-o", "a b.%n.folded", program("split"), "1500")
    hint = re.search(r"for a picture: (.*)", result.stderr.decode())
    expect(hint and " --sum 'a b.'*.folded > selfsample.html" in hint[1], result.stderr)
    subprocess.run(hint[1], shell=True, check=True, cwd=result.directory, timeout=60)
    page = browser().page(result.directory / "selfsample.html", ready=READY)
    whole = sum(profile.total() for profile in result.profiles)
    expect(f"{whole} samples" in text(page, "facts").replace(",", ""), text(page, "facts"))


@test
def page_that_cannot_be_written_is_told_before_the_run():
    need_page()
    directory = private_directory()
    for page, why in (("missing/x.html", "No such file"), (directory, "Is a directory")):
        result = bare(the_command(), f"--flamegraph={page}", program("split"), "100")
        expect(result.status == 125 and not result.stdout and not result.files(), str(result))
        expect(why in result.stderr.decode() and result.stderr.endswith(b"the program was not run\n"), str(result))


@test
def page_after_a_run_is_a_new_one():
    """Beside the profile, under a name that is free; or where the option says."""
    need_page()
    directory = private_directory()
    (directory / "a.html").write_text("mine")
    for option, wanted in (("--flamegraph", "a.1.html"), (f"--flamegraph={directory}/b.html", "b.html")):
        (directory / "a.folded").unlink(missing_ok=True)
        result = bare(the_command(), option, "-o", directory / "a.folded", program("split"), "100")
        expect(result.status == 0, str(result))
        expect((directory / wanted).read_text().startswith("<!doctype html>"), f"{wanted} is no page")
    expect((directory / "a.html").read_text() == "mine", "a page was overwritten")
    expect(len(list(directory.glob("*.html"))) == 3, str(list(directory.iterdir())))


def fed_slowly(terminal):
    """What stands on stderr, a terminal or a pipe, where the profile takes its time to come."""
    ours, theirs = pty.openpty() if terminal else os.pipe()
    process = subprocess.Popen([str(COMMAND), "flamegraph", "-"], stdin=subprocess.PIPE, stderr=theirs,
                               stdout=subprocess.DEVNULL)
    os.close(theirs)
    for _ in range(4):
        process.stdin.write(b"main;a 1\n" * 40000)
        process.stdin.flush()
        time.sleep(0.3)
    process.stdin.close()
    said = b""
    try:
        while piece := os.read(ours, 1 << 16):
            said += piece
    except OSError:
        pass  # a terminal whose other side is closed
    os.close(ours)
    expect(process.wait(30) == 0, f"{process.returncode}: {said!r}")
    return said


@test
def progress():
    """On a terminal, and it leaves nothing there; none in a pipe."""
    need_page()
    said = fed_slowly(terminal=True)
    expect(b"reading" in said and b"\n" not in said and said.endswith(b"\r\x1b[K"), f"{said!r}")
    said = fed_slowly(terminal=False)
    expect(said == b"", f"{said!r}")


@test
def mistakes():
    """Cost a line that says what to do, and leave no page."""
    directory = private_directory()
    folded = write(directory / "a.folded", {("main", "a"): 1})
    for arguments, wanted in (((), "usage"), (("--diff", folded), "two files"),
                              ((folded, directory / "none"), "No such file"),
                              (("--rate", "0", folded), "--rate"), (("--thread", "x", folded), "'x'")):
        said = made(*arguments, "-o", directory / "page.html", status=1)
        expect(wanted in said and said.count("\n") == 1, f"{arguments}: {said}")
    expect(not (directory / "page.html").exists(), "a page was left")
    ours, theirs = pty.openpty()
    result = subprocess.run([str(COMMAND), "flamegraph", str(folded)], stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    os.close(ours)
    expect(result.returncode == 1 and b"-o page.html" in result.stderr, f"to a terminal: {result.stderr}")


@test
def without_the_page():
    """A command that was built without npm's packages, as one is here made to be, says what to do."""
    need_page()
    command = private_directory() / "selfsample"
    place = b'id="profile">@PROFILE@'
    built = the_command().read_bytes()
    expect(built.count(place) == 1, "the page is not where it is looked for")
    command.write_bytes(built.replace(place, place.replace(b"@PROFILE@", b"@nothing@")))
    command.chmod(0o755)
    result = subprocess.run([str(command), "flamegraph", "a.folded"], capture_output=True, text=True, timeout=60)
    expect(result.returncode == 1 and result.stdout == "", f"{result}")
    expect("`make deps`" in result.stderr and result.stderr.count("\n") == 1, f"{result}")
    shutil.copy(library(), command.parent)
    result = bare(command, "--flamegraph", program("work"), 50000, 7)
    said = result.stderr.decode()
    expect(result.status == 7 and len(result.profiles) == len(result.files()) == 1, f"{result}")
    expect("for a picture: " in said and said.splitlines()[-1].startswith("selfsample: no flame graph: "), said)
    expect(said.count("`make deps`") == 1, said)

main()
