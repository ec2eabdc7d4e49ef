#!/usr/bin/env python3
"""A true profile whatever the program's rhythm, and however short its threads live."""

import os
import re
import signal

from harness import (Skip, both, check_sum, expect, main, measured, near, near_ms, need, need_root, program, run,
                     signals_to_helper, test, told_lost)
from machine import late_us, shortest_life_us

# Cycles in us against the period of 1001 us at 999 Hz (or 1000 at 1000 Hz).
BEATS = [("1000us-1000Hz", 1000, 1000), ("2000us-1000Hz", 2000, 1000), ("1001us-999Hz", 1001, 999),
         ("3003us-999Hz", 3003, 999), ("990us-1000Hz", 990, 1000), ("500us-1000Hz", 500, 1000)]


@test(each=BEATS)
def test_in_step(beat):
    _, cycle_us, rate_hz = beat
    profile = run(program("beat"), cycle_us, 3000, options={"RATE": rate_hz}).profile
    measured(profile.total() > 2700, f"{profile.total()} samples of 3 s")
    near(profile.share("thirty") / (profile.share("thirty") + profile.share("seventy")), 0.3,
         0.035, "thirty")


# A thread of L us with period P is seen floor or ceil of L/P times: the sum's spread follows.
@test(each=[("1.5-periods", 1500, 1000, 0.05), ("one-period", 1001, 1200, 0.05),
            ("tenth-of-one", None, 10000, 0.12)])
def test_short_lives(case):
    _, life_us, threads, tolerance = case
    life_us = life_us or shortest_life_us()
    result = both(program("births"), threads, life_us, "burnt", options={"UNIT": "us"},
                  timeout=100)
    profile = result.profile
    burnt_us = int((result.directory / "burnt").read_text())
    early, late = (profile.share(f) * profile.total() for f in ("early", "late"))
    # Of the shortest one in 32 is sampled: some 250 samples, and a standard error of 2.7 points.
    near(early / (early + late), 0.75, 0.05 if life_us > 1000 else 0.08, "share of early")
    # What our hook's last call takes is counted, and stood for by the next thing that is sampled.
    tolerance += 2 * late_us() / life_us
    near_ms((early + late) / 1000, burnt_us / 1000, burnt_us / 1000 * tolerance,
            "early and late")


@test(each=[99, 999, 9999])
def test_sum_at(rate_hz):
    result = run(program("split"), 1500, options={"UNIT": "us", "RATE": rate_hz}, clock=True)
    check_sum(result, result.profile, slack_ms=6 + 1000 // rate_hz)
    near(result.profile.share("sixty"), 0.6, 0.03 if rate_hz > 500 else 0.1, "sixty")


@test
def test_a_helper_that_is_kept_from_running():
    """Stopped for longer than the rings last: what is lost is told, and its time is not missing."""
    result = run(program("split"), 2500, clock=True,
                 while_running=signals_to_helper((0.4, signal.SIGSTOP), (1.2, signal.SIGCONT)),
                 options={"UNIT": "us", "RATE": 9999, "SUMMARY": "yes"})
    expect(result.status == 0, str(result))
    lost = told_lost(result.stderr.decode())
    measured(lost is not None and lost > 1000, f"{lost} samples lost: {result.stderr!r}")
    check_sum(result, result.profile)


@test
def test_a_helper_that_is_starved():
    """One CPU, on which the program runs in real time: the helper gets a twentieth of it at most."""
    need_root()
    cpu = min(os.sched_getaffinity(0))
    result = run(program("split"), 2000, clock=True, timeout=120,
                 launcher=[need("taskset"), "-c", cpu, need("chrt"), "-f", "10"],
                 options={"UNIT": "us", "RATE": 9999, "SUMMARY": "yes", "ONLY": "split"})
    if b"Operation not permitted" in result.stderr:
        raise Skip("no real-time scheduling here")
    expect(result.status == 0, str(result))
    check_sum(result, result.profile, of="split", slack_ms=12)
    kept = re.search(r"([0-9]+) stacks?,", result.stderr.decode())
    lost = told_lost(result.stderr.decode()) or 0
    measured(int(kept.group(1)) + lost > 0.8 * 2 * 9999,
             f"neither kept nor told as lost: {result.stderr!r}")


@test
def test_rate_over_the_limit():
    """Clamped, and told in one line."""
    result = run(program("split"), 600, options={"UNIT": "us", "RATE": 10000000}, timeout=90)
    text = result.stderr.decode()
    expect(len(text.splitlines()) == 1 and "RATE" in text, f"stderr: {text!r}")
    measured(result.profile.total() > 400000, f"{result.profile.total()} us of 600 ms")


main()
