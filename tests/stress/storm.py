#!/usr/bin/env python3
"""Everything at once, under the library: threads, forks, execs, libraries that come and go, signals,
exceptions, and kills of whatever child is there.

    storm.py [--seconds N] [--seed S] [--bare]

Runs storm.cc over and over, in rounds of some seconds; kills, stops and continues its children by
pid meanwhile, and now and then the program itself. After each round it fails if a process is left
behind, a file is there that is no profile, a profile cannot be read or does not add up, or the
program says that something was left in it. Prints the seed; a seed gives the same draws, not the
same schedule. --bare runs the same without the library, to see that the storm itself is sound.
"""

import argparse
import os
import random
import re
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

from folded import Malformed, Profile  # noqa: E402
from harness import Failure, expect, marked, program, run, shared, stolen_ms  # noqa: E402

ROUND_S = 5
RATES_HZ = [99, 999, 999, 4999]
OTHERS_SECONDS = 30


def is_of_the_storm(pid):
    """Neither a helper nor an id used again by somebody else. A helper is a clone child for its
    parent, and so it is before it has a name of its own, too."""
    try:
        name, rest = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)
    except OSError:
        return False
    exit_signal = int(rest.split()[35])
    return name.split("(", 1)[1] in ("storm", "true") and exit_signal == signal.SIGCHLD


class Killer:
    """Meanwhile: signals to the program's children, by pid, and to nothing else."""

    def __init__(self, draw, mark_of, with_root):
        self.draw, self.mark_of, self.with_root = draw, mark_of, with_root
        self.kills = 0

    def __call__(self, pid):
        mark = self.mark_of(pid)
        root_dies_at = time.monotonic() + self.draw.uniform(1, ROUND_S) if self.with_root else None
        while self._runs(pid):
            time.sleep(self.draw.uniform(0.005, 0.08))
            victims = [p for p in marked(mark) if p != pid and is_of_the_storm(p)]
            if victims:
                self._hit(self.draw.choice(victims))
            if root_dies_at and time.monotonic() > root_dies_at:
                self._signal(pid, signal.SIGKILL)

    @staticmethod
    def _runs(pid):
        try:
            os.readlink(f"/proc/{pid}/exe")
            return True
        except OSError:
            return False

    def _hit(self, victim):
        how = self.draw.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
        self._signal(victim, how)
        if how == signal.SIGSTOP:
            time.sleep(self.draw.uniform(0, 0.05))
            self._signal(victim, signal.SIGCONT)

    def _signal(self, pid, number):
        if not is_of_the_storm(pid):
            return
        try:
            os.kill(pid, number)
            self.kills += 1
        except ProcessLookupError:
            pass


def mark_of(pid):
    """The mark by which the harness finds all processes of a run."""
    environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next(v.split(b"=")[1].decode() for v in environment if v.startswith(b"E2E_RUN="))


def shared_names():
    """Our names where a file could be forgotten, but for the cache that is documented."""
    names = {f"{place}/{name}" for place in ("/tmp", "/dev/shm", "/var/tmp")
             for name in os.listdir(place) if "selfsample" in name}
    return {n for n in names if not re.search(r"/selfsample-(kernel-[0-9]+|e2e[-.].*)$", n)}


def left_behind(before):
    """Those that have come since and stay; what somebody else is at meanwhile goes again."""
    end = time.monotonic() + OTHERS_SECONDS
    new = shared_names() - before
    while new and time.monotonic() < end:
        time.sleep(0.2)
        new &= shared_names()
    return new


def pid_of(profile):
    return int(re.search(r"\.([0-9]+)(\.[0-9]+)?\.folded$", profile.path.name).group(1))


def check_sums(profiles, clocks, stolen_us):
    """Of processes that ended politely, and so noted their CPU clock, against that clock; more by what the host took."""
    checked = 0
    for pid in {record[1] for record in clocks}:
        mine = [p for p in profiles if pid_of(p) == pid]
        records = [r for r in clocks if r[1] == pid]
        # An image that was executed away, or had no sample, has only one of the two.
        if len(mine) != 1 or len(records) != 1:
            continue
        _, _, start_ns, end_ns, _, _ = records[0]
        clock_us, total_us = (end_ns - start_ns) / 1000, mine[0].total()
        # Births and ends of very short threads are the kernel's and ours, and are not sampled.
        expect(0.5 * clock_us - 20000 < total_us < 1.1 * clock_us + 60000 + stolen_us,
               f"pid {pid}: {total_us} us in the profile, {clock_us:.0f} us by its clock")
        checked += 1
    return checked


def one_round(draw, seconds, preload):
    """One storm. Returns how many processes, profiles, kills and sums it had."""
    seed = draw.randrange(1 << 30)
    killer = Killer(draw, mark_of, with_root=draw.random() < 0.25)
    rate_hz = draw.choice(RATES_HZ)
    before, stolen_before_ms = shared_names(), stolen_ms()
    result = run(program("../stress/storm.cc"), seed, shared("plugin.cc", "-DNAME=one",
                                                             "libplugin-one.so"),
                 int(seconds * 1000), preload=preload, timeout=seconds + 60, clock=True,
                 options={"UNIT": "us", "RATE": rate_hz}, while_running=killer)
    told = result.stdout.decode().strip()
    if killer.with_root:
        expect(result.status in (0, -signal.SIGKILL), str(result))
    else:
        expect(result.status == 0, str(result))
        expect("left over" not in told, told)
    noise = [line for line in result.stderr.splitlines() if line.startswith(b"selfsample")]
    expect(not noise, f"{len(noise)} messages: {noise[:3]}")
    odd = [f for f in result.files() if not re.search(r"\.folded$", f)]
    expect(not odd, f"files that are no profiles: {odd[:5]}")
    new = left_behind(before)
    expect(not new, f"new files in shared directories: {sorted(new)[:5]}")
    profiles = [Profile(path) for path in result.directory.iterdir()]
    for profile in profiles:
        expect(profile.total() > 0, f"{profile.path.name} is empty")
        expect(not profile.ours(), f"{profile.path.name}: frames of ours: {profile.ours()}")
    checked = check_sums(profiles, result.process_clocks, (stolen_ms() - stolen_before_ms) * 1000)
    return f"{told or 'killed'}; {killer.kills} signals of the driver, {len(profiles)} profiles," \
           f" {checked} sums checked, {rate_hz} Hz"


def storm(seconds, seed, preload=True, say=print):
    """Rounds until the time is up; raises Failure or Malformed at the first fault."""
    draw = random.Random(seed)
    end = time.monotonic() + seconds
    rounds = 0
    while rounds == 0 or time.monotonic() < end - 1:
        rounds += 1
        length = max(1, min(ROUND_S, end - time.monotonic()))
        say(f"round {rounds}: {one_round(draw, length, preload)}")
    return rounds


def main():
    parser = argparse.ArgumentParser(description="everything at once, under the library")
    parser.add_argument("--seconds", type=float, default=60, metavar="N")
    parser.add_argument("--seed", type=int, default=int(time.time()), metavar="S")
    parser.add_argument("--bare", action="store_true")
    options = parser.parse_args()
    print(f"stress: {options.seconds:g} s, seed {options.seed}", flush=True)
    try:
        rounds = storm(options.seconds, options.seed, not options.bare,
                       lambda text: print(text, flush=True))
    except (Failure, Malformed) as reason:
        print(f"stress: failed, seed {options.seed}: {reason}")
        sys.exit(1)
    print(f"stress: {rounds} rounds passed")


if __name__ == "__main__":
    main()
