"""What the tests of real programs share: one bare run of each, and the checks of their profiles."""

import re

from folded import entry_root
from harness import Off, bare, check_sum, expect, run, same, top_directory

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


def check_real(who, result, name, executable, whole=0.995):
    """Whole stacks, nothing of ours in them, nothing lost, and the sum is the CPU clock's."""
    profile = profile_of(result, name)
    roots = entry_root(executable)
    expect(profile.total() > 800000, f"only {profile.total()} us: too little to judge")
    expect(not profile.ours(), f"frames of ours: {profile.ours()}")
    expect(profile.whole_share(roots) >= whole,
           f"whole {profile.whole_share(roots):.4f}: {profile.broken(roots)}")
    lost = [int(n) for n in re.findall(r"([0-9]+) samples? lost", result.summary)]
    if not lost or sum(lost) != 0:
        raise Off(f"lost {lost}: {result.summary}")
    check_sum(result, profile, of=name)
    kernel = profile.sum_where(lambda stack: stack[-1].endswith("_[k]"))
    expect(who.sees_kernel or kernel == 0, f"kernel frames: {kernel} us")
    expect(not who.sees_kernel or profile.unseen() == 0, f"unseen: {profile.unseen()} us")
