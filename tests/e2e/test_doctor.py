#!/usr/bin/env python3
"""What `selfsample doctor` says of this machine and of programs, against other tools' word."""

import contextlib
import ctypes
import errno
import os
import platform
import re
import resource
import shutil
import struct
import subprocess

from harness import (COMMAND, bare, expect, library, main, need, need_root, paranoid, private_directory, program,
                     staged, test, the_command)


def doctor(*words, quiet=True, **more):
    """{subject: (ok|limited|no, text)} of a run; its exit status must be what the lines say."""
    library()
    result = bare(staged(COMMAND), "doctor", *words, **more)
    found = {}
    for line in result.stdout.decode().splitlines():
        if line.startswith(" "):
            expect(line.strip().startswith("-> "), line)
            found[subject] = (health, f"{text} {line.strip()}")
            continue
        health, subject, text = re.match(r"(ok|limited|no) +(\S+(?: \S+)*)  +(\S.*)$", line).groups()
        expect(found.get(subject, (health,))[0] == health, f"{line}, and {found.get(subject)}")
        found[subject] = (health, text)
    worst = any(health == "no" for health, _ in found.values())
    expect(result.status == worst and (result.stderr == b"" or not quiet) and not result.files(), f"{result} {found}")
    return found


def perf_refuse():
    """A seccomp filter as a container's: perf_event_open is not permitted."""
    number = {"x86_64": 298, "aarch64": 241}[platform.machine()]
    code = struct.pack("<HBBI HBBI HBBI HBBI", 0x20, 0, 0, 0, 0x15, 0, 1, number, 6, 0, 0, 0x50000 | errno.EPERM,
                       6, 0, 0, 0x7fff0000)
    buffer = ctypes.create_string_buffer(code)
    filter_program = struct.pack("@HP", 4, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in ((38, 1, 0, 0, 0), (22, 2, ctypes.c_char_p(filter_program), 0, 0)):  # no new rights, then seccomp
        if libc.prctl(*call) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


def is_found(found, subject, health, *texts):
    expect(subject in found and found[subject][0] == health and all(text in found[subject][1] for text in texts),
           f"{subject}: wanted {health}, {texts}: {found.get(subject)}")


@test
def test_machine():
    found = doctor(env={"SELFSAMPLE_ONLY": "nobody", "SELFSAMPLE_ENABLED": "no"})
    is_found(found, "perf events", "ok")
    is_found(found, "output directory", "ok")
    stacks = int(re.match(r"(\d+) stacks of sh; engine: perf", found["trial"][1]).group(1))
    expect(stacks > 5, f"{found}")


@test
def test_container():
    """What makes one here is that programs have process ids of their own: whatever files an image has left behind."""
    need_root()
    alone = os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"
    expect(("container" in doctor()) != alone, f"{doctor()}")
    inside = subprocess.run([need("unshare"), "-fp", "--mount-proc", the_command(), "doctor"], capture_output=True,
                            text=True, timeout=60)
    expect("limited  container " in inside.stdout, f"{inside}")


@test
def test_refusals():
    """As an ordinary user, of whom sampling, memory and the directory are kept."""
    found = doctor(setup=perf_refuse, quiet=False)  # the trial's library tells it too
    is_found(found, "perf events", "limited", "Operation not permitted", "by a seccomp filter", "-> in Docker")
    is_found(found, "seccomp", "ok")
    expect(found["trial"][0] == "limited" or "the kernel refuses sampling" in found["trial"][1], f"{found}")
    expect(found["trial"][0] != "ok" and "kernel frames" not in found, f"{found}")
    need_root()
    with paranoid(2):
        found = doctor(user=True, env={"SELFSAMPLE_OUT": "/proc/"}, limits={resource.RLIMIT_MEMLOCK: 65536})
    is_found(found, "locked memory", "limited", "-> ulimit -l")
    is_found(found, "kernel frames", "limited", "-> sudo sysctl kernel.perf_event_paranoid=1")
    is_found(found, "output directory", "no", "/proc/")


@test
def test_programs_that_load_nothing():
    is_found(doctor(program("work", "-static", name="work-static")), "program", "no", "linked statically")
    is_found(doctor("no-such-program"), "program", "no", "no such program in PATH")
    pipe = private_directory() / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, pipe.parent):
        is_found(doctor(path), "program", "no", f"{path}: there is no such file")
    script = private_directory() / "script"
    script.write_text("#!/usr/bin/env x\n")
    is_found(doctor(script), "program", "ok", "script of /usr/bin/env")
    source = private_directory() / "work.c"
    source.write_text("int main(void) { return 0; }\n")
    is_found(doctor(source), "program", "no", "neither a program")


@test
def test_setuid_programs():
    """Nothing is loaded into them where they give other rights than those that their user has."""
    need_root()
    copy = private_directory() / "rights"
    shutil.copy(program("work"), copy)
    copy.chmod(0o4755)
    for user, health in ((False, "ok"), (True, "no")):
        is_found(doctor(copy, user=user), "program", health)
        result = bare(the_command(), copy, 50000, user=user)
        expect(len(result.files()) == (not user) and (b"setuid" in result.stderr) == user, f"{result}")


@test
def test_programs_of_the_path():
    """Those that execvp would run: an empty word is this directory, and a directory is no program."""
    directory = private_directory()
    for place in ("here", "first/x", "second"):
        (directory / place).mkdir(parents=True)
    for place in ("here", "second"):
        shutil.copy(program("work"), directory / place / "x")
    second = f"{directory}/second"
    for path, told in ((f":{second}:/bin", "x"), (f"/bin::{second}", "x"), ("/bin:", "x"), (f"{second}::/bin", f"{second}/x"),
                       (f"{directory}/first:{second}:/bin", f"{second}/x")):
        said = subprocess.run([the_command(), "doctor", "x"], env={"PATH": path}, cwd=directory / "here",
                              capture_output=True, text=True, timeout=60).stdout
        expect(re.search(rf"^ok +program +{told} is linked", said, re.M), f"PATH={path}: {said}")


@test
def test_arguments():
    """Those of the program are no options of ours, and change nothing but the noise of the trial."""
    # The level is among what is told, and other runs of these tests change it.
    with paranoid(2) if os.geteuid() == 0 else contextlib.nullcontext():
        alone, with_some = doctor("sh"), doctor("sh", "-c", "exit 3", "--help")
    for found in alone, with_some:
        del found["trial"]
    expect(alone == with_some, f"{alone} {with_some}")


@test
def test_scripts():
    """Whatever the first line says, by itself, through env or through another script: of the program in the end."""
    directory = private_directory()
    other = directory / "other"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    script = directory / "script"
    sh = doctor("/bin/sh")
    for line in ("/bin/sh -e", "/usr/bin/env sh", "/usr/bin/env -S A=b sh -e", other):
        script.write_text(f"#!{line}\n")
        found = doctor(script)
        is_found(found, "program", "ok", "script of /", "/sh")
        expect(found["build id"] == sh["build id"], f"{line}: {found}")


@test
def test_symbols():
    """Of one program: as it was built, stripped, and with its symbols in a file beside it."""
    need("readelf", "objcopy", "strip")
    directory = private_directory()
    own = directory / "own"
    shutil.copy(program("work", "-Wl,--build-id", name="work-id"), own)
    found = doctor(own)
    notes = subprocess.run(["readelf", "-n", own], capture_output=True, text=True, check=True).stdout
    functions = subprocess.run(["readelf", "-sW", own], capture_output=True, text=True, check=True).stdout
    symtab = functions.split("'.symtab'")[1]
    defined = len(re.findall(r" FUNC +\S+ +\S+ +\d+ ", symtab))
    is_found(found, "build id", "ok", re.search(r"Build ID: (\w+)", notes).group(1))
    is_found(found, "function names", "ok", f"{defined} functions, in the file itself (.symtab)")
    is_found(found, "debug information", "ok")
    is_found(found, "unwind tables", "ok")

    stripped = directory / "stripped"
    subprocess.run(["strip", "-o", stripped, own], check=True)
    found = doctor(stripped)
    is_found(found, "function names", "limited", "-> debug symbols")
    is_found(found, "debug information", "limited")

    os.mkdir(directory / ".debug")
    subprocess.run(["objcopy", "--only-keep-debug", own, directory / ".debug" / "stripped.debug"], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={directory}/.debug/stripped.debug", stripped], check=True)
    found = doctor(stripped)
    is_found(found, "function names", "ok", f"{defined} functions, in the separate debug file")
    is_found(found, "debug information", "ok")
    is_found(found, "build id", "ok", "debug link: yes")


main()
