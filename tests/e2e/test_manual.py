#!/usr/bin/env python3
"""The man pages and the shell completion, against what the command itself says in --help."""

import os
import re
import shutil
import signal
import subprocess

from harness import COMMAND, ROOT, expect, main, need, private_directory, program, run, test, wait_until

SCRIPTS = ROOT / "scripts"
COMPLETION = SCRIPTS / "selfsample.bash"
VIEWS = ("top", "tree", "merge", "diff", "convert", "flamegraph", "list", "live", "doctor")
OTHERS = ("snapshot", "pause", "resume", "inline")


def output(*words, **more):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=60, **more)
    expect(done.returncode == 0, f"{words}: {done}")
    return done.stdout


def options_of_help(name):
    """{option: takes a value} of a sub-command; of the command itself where NAME is run."""
    found = {}
    for line in output(COMMAND, *([] if name == "run" else [name]), "--help").splitlines():
        match = re.match(r" +(?:(-\w), )?(--[a-z-]+)( \S)?", line)
        if match:
            for option in match.group(1, 2):
                if option:
                    found[option] = match.group(3) is not None
    return found


def options_of_page(name):
    """The options that have a heading in a page."""
    text = (SCRIPTS / ("selfsample.1" if name == "run" else f"selfsample-{name}.1")).read_text()
    if text.startswith(".so man1/"):
        text = (SCRIPTS / text.split("/")[1].strip()).read_text()
    section = text.split(".SH OPTIONS\n")[1].split("\n.SH ")[0]
    found = set()
    for item in section.split(".TP\n")[1:]:
        head = "\n".join(line for line in item.split("\n")[:2] if line.startswith(".B"))
        plain = re.sub(r"\\f[A-Z]|\\c", " ", head.replace("\\-", "-"))
        found.update(re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", plain))
    return found


def completion(*words, directory=None):
    """What bash offers for the last of WORDS."""
    script = (f'. "{COMPLETION}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _selfsample; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    return [w for w in output("bash", "-c", script, "bash", *words, cwd=directory).split("\n") if w]


@test(each=["run", *VIEWS, *OTHERS])
def test_options(name):
    """--help, the page and the completion know the same options."""
    told = options_of_help(name)
    expect("--help" in told and len(told) >= 2, f"{told}")
    if name not in ("list", "doctor", *OTHERS):
        expect(any(told.values()), f"{told}")
    page = options_of_page(name)
    expect(page == set(told), f"only in the page: {page - set(told)}, only in --help: {set(told) - page}")
    table = output("bash", "-c", f'. "{COMPLETION}"; echo ${{_selfsample_options[{name}]}}').split()
    offered = {option.rstrip("="): option.endswith("=") for option in table}
    expect(offered == told, f"completion: {set(offered.items()) ^ set(told.items())}")


@test
def test_every_sub_command():
    """In --help, in a page, in the completion: and nothing else is."""
    usage = output(COMMAND, "--help").split("\n\n")[0]
    told = set(re.findall(r"[a-z]+", " ".join(re.findall(r"selfsample ([a-z|]+)(?: |$)", usage, re.M)))) - {"options"}
    wanted = {*VIEWS, *OTHERS}
    expect(told == wanted, f"--help: {told ^ wanted}")
    pages = {path.stem.removeprefix("selfsample-") for path in SCRIPTS.glob("selfsample-*.1")}
    expect(pages == wanted, f"pages: {pages ^ wanted}")
    offered = set(output("bash", "-c", f'. "{COMPLETION}"; echo ${{!_selfsample_options[@]}}').split())
    expect(offered == wanted | {"run"}, f"completion: {offered ^ wanted}")


@test
def test_pages():
    """They are well-formed, and those that they speak of are there."""
    need("groff")
    pages = []
    for path in sorted(SCRIPTS.glob("*.1")):
        text = path.read_text()
        names = re.findall(r"\b(selfsample[a-z-]*) \(1\)", text.replace("\\-", "-"))
        names += re.findall(r"^\.so man1/(\S+)\.1$", text, re.M)
        for name in names:
            expect((SCRIPTS / f"{name}.1").exists(), f"{path.name} speaks of {name}")
        if not text.startswith(".so "):
            pages.append(path)
            for part in ("NAME", "SYNOPSIS", "DESCRIPTION", "SEE ALSO"):
                expect(f"\n.SH {part}\n" in text, f"{path.name} has no {part}")
    done = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", *pages], capture_output=True, text=True, timeout=60)
    expect(done.returncode == 0 and done.stderr == "", done.stderr)


@test
def test_completion():
    directory = private_directory()
    for name in ("a.folded", "b.folded", "c.txt", "d.png"):
        (directory / name).touch()
    cases = (
        (("selfsample", "flameg"), ["flamegraph"]),
        (("selfsample", "--kern"), ["--kernel"]),
        (("selfsample", "top", "--by"), ["--by-thread"]),
        (("selfsample", "top", "-u", ""), ["samples", "us"]),
        (("selfsample", "tree", "--unit", "=", "u"), ["us"]),
        (("selfsample", "--threads", "=", ""), ["name", "none", "tid"]),
        (("selfsample", "-k", "y"), ["yes"]),
        (("selfsample", "--children", "=", "n"), ["no"]),
        (("selfsample", "convert", "--to", "sp"), ["speedscope"]),
        (("selfsample", "diff", "-n", "a"), ["a.folded"]),
        (("selfsample", "merge", ""), ["a.folded", "b.folded", "c.txt"]),
        (("selfsample", "--flamegraph", "=", "d"), ["d.png"]),
        (("selfsample", "-i", "ls", "--all", "d"), ["d.png"]),
        (("selfsample", "--rate", "99", "--", "ls", "d"), ["d.png"]),
        (("selfsample", "list", ""), []),
    )
    for words, wanted in cases:
        offered = sorted(set(completion(*words, directory=directory)))
        expect(offered == wanted, f"{words}: {offered}")
    programs = completion("selfsample", "--top", "sort")
    expect("sort" in programs, f"{programs}")
    for words, more in ((("selfsample", ""), {"sort", "top", "d.png"}), (("selfsample", "doctor", ""), {"sort"})):
        offered = set(completion(*words, directory=directory))
        expect(more <= offered and not offered & {"if", "then", "_selfsample", "compgen"}, f"{words}: {offered}")
    expect(completion("selfsample", "_selfs") == [], "a function of the shell is no program")


@test
def test_completion_of_processes():
    """The pids and names of what is being profiled."""
    def look(pid):
        wait_until(lambda: str(pid) in output(COMMAND, "list"), 30, "it is not listed")
        for word in ("snapshot", "pause", "resume", "live"):
            offered = completion(COMMAND, word, "")
            expect({str(pid), "split"} <= set(offered), f"{word}: {offered}")
        os.kill(pid, signal.SIGKILL)

    run(program("split"), 600_000, while_running=look)


@test
def test_installed():
    """All that `make install` puts into share/, and `make uninstall` takes away again; nothing is built for it."""
    directory = private_directory()
    need("man")
    place = ["make", "-o", "all", "-C", ROOT, f"B={COMMAND.parent}", f"DESTDIR={directory}"]
    output(*place, "install")
    share = directory / "usr" / "local" / "share"
    pages = {path.name for path in SCRIPTS.glob("*.1")}
    expect({path.name for path in (share / "man" / "man1").iterdir()} == pages, "pages")
    installed = share / "bash-completion" / "completions" / "selfsample"
    expect(installed.read_text() == COMPLETION.read_text(), "completion")
    shown = output("man", "-M", str(share / "man"), "selfsample-pause", env={**os.environ, "MANWIDTH": "80"})
    expect("selfsample snapshot" in shown, shown)
    output(*place, "uninstall")
    left = [path for path in directory.rglob("*") if not path.is_dir()]
    expect(not left, f"left behind: {left}")


@test
def test_another_prefix():
    """Only what holds it is compiled again: the command then names the new place."""
    build = private_directory() / "build"
    others = [path.name for path in COMMAND.parent.iterdir() if path.is_dir() and path.name not in ("lib", "command")]
    shutil.copytree(COMMAND.parent, build, ignore=shutil.ignore_patterns(*others))  # with the files' times
    made = output("make", "-C", ROOT, "-o", f"{build}/flags", f"B={build}", "PREFIX=/another/place", f"{build}/selfsample")
    compiled = re.findall(r"CC +\S+/(\S+\.o)", made)
    expect("command_library.o" in compiled and len(compiled) <= 4, made)
    expect(b"/another/place/lib\0" in (build / "selfsample").read_bytes(), "the command does not know it")


main()
