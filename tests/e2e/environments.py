#!/usr/bin/env python3
"""Places where programs run with less than all that a profiler wants, each made and tried.

As a program it prints the table of README, or those of its rows whose names hold an argument;
test_environments.py holds what is found against what should be.
"""

import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

from harness import (Failure, Skip, bare, expect, library, need, need_root, paranoid,
                     private_directory, program, run)

THREADS = 2
TABLE_BURN_MS = 3000  # of each thread
# In which each of the three functions has its turn: such as fits no round period.
TURN_US = 1370
# Where CPU clocks go by 10 ms or signals come at the end of a slice of milliseconds. The shortest
# of the three is two ticks, and none ends within one; each may be a tick too long, and so the sum.
LONG_TURN_US = 200000


def mounted(script):
    """A launcher: in mounts of its own, changed by the script."""
    return [need("unshare"), "-m", "/bin/sh", "-c", script + ' && exec "$@"', "sh"]


def needed_files(binary):
    """What the linker loads with it."""
    listed = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=True).stdout
    return {Path(path) for path in re.findall(r"(/\S+) \(0x", listed)}


def minimal_root(directory):
    """A root with the program, our library and libc: no shell, no /dev, but a /proc."""
    root = directory / "root"
    files = {Path(program("burners")), Path(library())}
    for file in [*files]:
        files |= needed_files(file)
    for file in files:
        to = root / file.relative_to("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, to)
    (root / "proc").mkdir()
    return mounted(f"mount --rbind /proc {root}/proc") + [need("chroot"), root]


def read_only_root(directory):
    """All of it, but for the working directory."""
    return mounted(f"mount --make-rprivate / && mount --bind {directory} {directory}"
                   " && mount -o remount,ro,bind / && mount -t tmpfs -o ro none /dev/shm"
                   f" && cd {directory}")


def refused(error, calls):
    return lambda _: [program("refuse"), error, calls]


def gvisor(_):
    """A kernel in user space, whose calls another process answers; its files are those of here, and
    what is written stays in memory. Of its platforms ptrace needs nothing of the machine."""
    return [need("runsc"), "--platform=ptrace", "--network=none", "--ignore-cgroups", "do",
            "--force-overlay=false"]


class Environment:
    """How to make it, and what is to be had there; shares may be OFF by so much, the SUM by SUM_OFF.
    For the table it burns so many times LONGER: where samples are few."""

    def __init__(self, name, engine="perf", kernel=True, user=False, level=None, launcher=None,
                 limits=None, thread=False, says="", off=0.06, turn_us=TURN_US, sum=1, sum_off=0.05,
                 longer=1):
        self.name, self.engine, self.kernel, self.user = name, engine, kernel, user
        self.level, self.launcher, self.limits = level, launcher, limits
        self.thread, self.says, self.off = thread, says, off
        self.turn_us, self.sum, self.sum_off, self.longer = turn_us, sum, sum_off, longer


USER_2 = {"user": True, "level": 2, "kernel": False}
TIMER = {"engine": "timer", "kernel": False, "off": 0.1}  # few samples
COARSE_TIMER = {**TIMER, "off": 0.17, "turn_us": LONG_TURN_US, "longer": 5}

ALL = (
    Environment("root"),
    Environment("user, perf_event_paranoid 1", user=True, level=1),
    Environment("user, perf_event_paranoid 2", **USER_2),
    Environment("user, perf_event_paranoid 3", engine=None, user=True, level=3, kernel=False,
                off=TIMER["off"]),
    *(Environment(f"perf_event_open refused: {error}", **TIMER, says=f"perf refused: {text}",
                  launcher=refused(error, "perf_event_open"))
      for error, text in (("EPERM", "Operation not permitted"), ("EACCES", "Permission denied"),
                          ("ENOSYS", "Function not implemented"), ("EINVAL", "Invalid argument"))),
    Environment("perf_event_open and process_vm_readv refused", **TIMER, says="perf refused",
                launcher=refused("EPERM", "perf_event_open,process_vm_readv")),
    Environment("the helper's clone refused", thread=True, launcher=refused("EPERM", "apart")),
    Environment("both refused", **TIMER, thread=True,
                launcher=refused("EPERM", "apart,perf_event_open")),
    Environment("user, RLIMIT_MEMLOCK 0", **USER_2, limits={resource.RLIMIT_MEMLOCK: 0}),
    Environment("user, RLIMIT_NOFILE 8", **USER_2, limits={resource.RLIMIT_NOFILE: 8}),
    Environment("no /proc", launcher=lambda _: mounted("mount -t tmpfs none /proc")),
    Environment("root file system read-only", launcher=read_only_root),
    Environment("pid namespace, as process 1",
                launcher=lambda _: [need("unshare"), "-fp", "--mount-proc"]),
    Environment("user namespace, as its root", **USER_2,
                launcher=lambda _: [need("unshare"), "-Ur"]),
    Environment("bwrap, all namespaces", **USER_2,
                launcher=lambda directory: [need("bwrap"), "--unshare-all", "--dev-bind", "/", "/",
                                            "--proc", "/proc", "--chdir", directory]),
    Environment("valgrind", **COARSE_TIMER, thread=True,
                launcher=lambda _: [need("valgrind"), "-q"]),
    # Nine parts that may each be a tick of 10 ms too long, and are on a busy machine.
    Environment("gVisor (runsc, ptrace)", **COARSE_TIMER, says="perf refused", sum=1.07, sum_off=0.16,
                launcher=gvisor),
    Environment("a root of the program and libc alone", launcher=minimal_root),
)


class Row:
    """What was found in an environment."""

    def __init__(self, environment, burn_ms, result, without):
        lines = result.stderr.decode().splitlines()
        ours = [line for line in lines if line.startswith("selfsample: ")]
        others = "".join(line + "\n" for line in lines if line not in ours)
        means = re.search(r"engine: (.*) at [0-9]+ Hz; kernel frames: (yes|no)(.*); own cost",
                          "\n".join(ours))
        expect(means, f"{environment.name}: no line about the engine: {result}")
        self.name, self.kernel, self.reason = environment.name, means[2], means[3]
        self.described = means[1]
        within = re.sub(r" \([^()]*\)", "", means[1])
        self.engine = re.sub(r" \([^()]*\)", "", within)
        self.same = ((result.status, result.stdout, others) ==
                     (without.status, without.stdout, without.stderr.decode()))
        self.lines = lines
        self.profile = result.profile
        self.shares = [self.profile.share(name) for name in ("sixty", "thirty", "ten")]
        burnt_us = self.profile.sum_where(lambda stack: stack[0].startswith("burner-"))
        self.sum = burnt_us / 1000 / (THREADS * burn_ms)

    def __str__(self):
        shares = " / ".join(f"{100 * share:.0f}" for share in self.shares)
        return (f"| {self.name} | {self.engine} | {self.kernel} | {shares} | {100 * self.sum:.1f} %"
                f" | {'same' if self.same else 'NOT THE SAME'} |")


HEAD = """\
| where | engine | kernel frames | 60 / 30 / 10 | sum | output and status |
|---|---|---|---|---|---|"""


def _run(environment, how, milliseconds, **arguments):
    directory = private_directory(environment.user)
    launcher = environment.launcher(directory) if environment.launcher else ()
    return how(program("burners"), THREADS, milliseconds, environment.turn_us,
               user=environment.user, limits=environment.limits, launcher=launcher,
               directory=directory, **arguments)


def _measure(environment, burn_ms):
    """The output is the same however long it burns; bare is short."""
    without = _run(environment, bare, 10)
    if without.status != 0:
        raise Skip(f"it can't be made here: {without.stderr.decode().strip()[-200:]}")
    silent = _run(environment, run, 10, options={"ONLY": "burners"})
    result = _run(environment, run, burn_ms,
                  options={"ONLY": "burners", "SUMMARY": "yes", "UNIT": "us"})
    row = Row(environment, burn_ms, result, without)
    row.same &= (silent.status, silent.stdout, silent.stderr) == (
        without.status, without.stdout, without.stderr)
    return row


def measure(environment, burn_ms):
    need_root()
    if environment.level is None:
        return _measure(environment, burn_ms)
    with paranoid(environment.level):
        return _measure(environment, burn_ms)


def main():
    print(HEAD)
    failed = False
    for environment in ALL:
        if not any(part in environment.name for part in sys.argv[1:] or [""]):
            continue
        try:
            print(measure(environment, TABLE_BURN_MS * environment.longer), flush=True)
        except Skip as reason:
            print(f"| {environment.name} | not tried here: {reason} | | | | |")
        except Failure as reason:
            print(f"| {environment.name} | {reason} | | | | |")
            failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
