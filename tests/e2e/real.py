"""What the tests of real programs share: one bare run of each, and the checks of their profiles."""

import functools
import re
import shutil

from folded import entry_root
from harness import Off, Skip, bare, check_sum, expect, measured, need, run, same, told_lost, top_directory

_bare_runs = {}


def work_file(name, make):
    """A file of input, made once, that everybody can read."""
    path = top_directory() / name
    if not path.exists():
        path.write_bytes(make())
    return path


def run_real(who, *command, **arguments):
    """Runs it as somebody; it must look as it does bare. Our own summary is taken off stderr."""
    key = str((command, arguments.get("stdin")))
    if key not in _bare_runs:
        _bare_runs[key] = bare(*command, **arguments)
    result = run(*command, user=who.user, clock=True, options={"UNIT": "us", "SUMMARY": "yes"},
                 **arguments)
    lines = result.stderr.splitlines(keepends=True)
    result.summary = b"".join(l for l in lines if l.startswith(b"selfsample: ")).decode()
    result.stderr = b"".join(l for l in lines if not l.startswith(b"selfsample: "))
    same(_bare_runs[key], result)
    return result


def profile_of(result, name):
    found = [p for p in result.profiles if p.path.name.startswith(f"selfsample.{name}.")]
    expect(len(found) == 1, f"{len(found)} profiles of {name}: {result.files()}")
    return found[0]


def optional(*tools):
    """Like need(), for a program that the tests do not install: it is large, or rarely there."""
    try:
        return need(*tools)
    except Skip as reason:
        raise Skip(f"{reason}, which is large and not installed by `make deps`") from None


def check_none_lost(result):
    lost = told_lost(result.summary)
    if lost != 0:
        raise Off(f"lost {lost}: {result.summary}")


def check_real(who, result, name, executable, whole=0.995, least_us=250000):
    """Whole stacks, nothing of ours in them, nothing lost, and the sum is the CPU clock's."""
    profile = profile_of(result, name)
    roots = entry_root(executable)
    measured(profile.total() > least_us, f"only {profile.total()} us: too little to judge")
    expect(not profile.ours(), f"frames of ours: {profile.ours()}")
    measured(profile.whole_share(roots) >= whole,
             f"whole {profile.whole_share(roots):.4f}: {profile.broken(roots)}")
    check_none_lost(result)
    check_sum(result, profile, of=name)
    kernel = profile.sum_where(lambda stack: stack[-1].endswith("_[k]"))
    expect(who.sees_kernel or kernel == 0, f"kernel frames: {kernel} us")
    hidden = profile.sum_where(lambda stack: stack[1:] == ("[kernel]",))
    expect(not who.sees_kernel or hidden == 0, f"hidden in the kernel: {hidden} us")


@functools.lru_cache(None)
def _roots_of(program, path):
    found = shutil.which(program, path=path + ":/usr/sbin:/usr/bin:/sbin:/bin")
    is_elf = found and open(found, "rb").read(4) == b"\x7fELF"
    return frozenset(entry_root(found)) if is_elf else frozenset()


def program_of(profile):
    """Of selfsample.PROGRAM.PID.folded, or of one of that name's followers: ...PID.1.folded."""
    return re.fullmatch(r"selfsample\.(.+?)\.[0-9]+(\.[0-9])?\.folded", profile.path.name).group(1)


def check_tree(result, *programs, least_us=60000, whole=0.97, path="", marked=False):
    """Every profile of a process tree: the named programs are among them, the stacks of all whole
    but for a few, nothing of ours in them, and no CPU time missing that a process noted for itself.

    path      where else to look for the programs, to know their entries
    marked    a stack that says that it is cut will do (code without any unwind table)
    """
    profiles = result.profiles
    names = {program_of(p) for p in profiles}
    expect(set(programs) <= names, f"profiles of {sorted(names)}, wanted {programs}")
    total = sum(p.total() for p in profiles)
    measured(total >= least_us, f"only {total} us: too little to judge")
    good = seen = 0
    broken = []
    for profile in profiles:
        expect(not profile.ours(), f"frames of ours: {profile.ours()}")
        roots = set(_roots_of(program_of(profile), path)) | ({"[truncated]"} if marked else set())
        part = profile.total() - profile.unseen()
        seen += part
        good += profile.whole_share(roots) * part
        broken += [profile.broken(roots)] if profile.whole_share(roots) < whole else []
    measured(good >= whole * seen, f"whole {good / max(1, seen):.4f}: {broken[:2]}")
    # Processes that leave by _exit, or are killed, do not note their clocks.
    noted_ms = sum(end - start for _, _, start, end, _, _ in result.process_clocks) / 1e6
    measured(total / 1000 > noted_ms * 0.97 - 1.5 * len(result.process_clocks) - 6,
             f"{total / 1000:.0f} ms seen, {noted_ms:.0f} ms noted by the processes themselves")
