"""Processes as /proc shows them: those of a run, their helpers, and what they are at."""

import contextlib
import glob
import os
from pathlib import Path

HELPER_COMM = "selfsample"


def stacks_of(pid):
    """Where the threads of a process that hangs wait, as far as /proc tells."""
    text = ""
    for task in glob.glob(f"/proc/{pid}/task/*"):
        with contextlib.suppress(OSError):
            name, place = (Path(task, file).read_text().strip() for file in ("comm", "wchan"))
            text += f" [{name}: {place}]"
    return text


def marked(mark):
    """The processes, helpers among them, that carry the mark of a run."""
    wanted = f"E2E_RUN={mark}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if wanted in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                    found.append(int(entry))
    return found


def comm(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def state(pid):
    """R, S, T, Z ... of a process; "" where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def helpers(mark_or_parent):
    """The helpers of a run (mark) or of a process (pid)."""
    if isinstance(mark_or_parent, str):
        return [pid for pid in marked(mark_or_parent) if comm(pid) == HELPER_COMM]
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, rest = Path(path).read_text().rsplit(")", 1)
            if int(rest.split()[1]) == mark_or_parent and name.endswith("(" + HELPER_COMM):
                found.append(int(name.split()[0]))
    return found
