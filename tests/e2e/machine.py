"""What this machine's processor and hypervisor allow to be seen."""

import functools
import subprocess

from harness import program


@functools.lru_cache
def late_us():
    """The median lateness of samples, us: 2 to 10, or 50 in some virtual machines."""
    done = subprocess.run([str(program("lateness"))], capture_output=True, text=True, timeout=60)
    return int(done.stdout) if done.returncode == 0 else 0


def shortest_life_us():
    """A thread's life, us, within which places can be told apart: those of its first interrupts can't."""
    return max(100, 8 * late_us())


@functools.lru_cache
def counts_writes():
    """Do debug registers count? Without them the outer part of a stack deeper than its copy is not known."""
    done = subprocess.run([str(program("watchpoint"))], capture_output=True, text=True, timeout=60)
    return done.stdout == "counts\n"
