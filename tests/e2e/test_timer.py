#!/usr/bin/env python3
"""The timer engine: where perf events are refused, and where it is asked for."""

import re

from harness import (both, expect, main, measured, near, need, program, run, test,
                     top_directory)

TIMER = {"ENGINE": "timer"}


def engine(result):
    """What the summary says made the samples."""
    match = re.search(rb"engine: (.*?) at ([0-9]+) Hz", result.stderr)
    expect(match, f"no engine: {result}")
    return match[1].decode()


def check_split(profile, **shares):
    for function, share in (shares or {"sixty": 60, "thirty": 30, "ten": 10}).items():
        near(100 * profile.share(function), share, 6, f"{function} of {profile.path.name}")


def seen_percent(result):
    match = re.search(rb"\(([0-9.]+) % of its clock\)", result.stderr)
    expect(match, f"no share of the clock: {result}")
    return float(match[1])


@test(each=[("root", False), ("user", True)])
def test_shares_and_sum(who):
    result = both(program("split"), 3000, user=who[1], options=TIMER)
    result.quiet()
    check_split(result.profile)
    expect(result.profile.whole_share() > 0.99, result.profile.broken())
    told = run(program("burners"), 8, 400, user=who[1], options={**TIMER, "SUMMARY": "yes"})
    near(seen_percent(told), 100, 2, "of the CPU clock")
    check_split(told.profile)
    for i in range(8):
        near(100 * told.profile.thread_share(f"burner-{i}"), 12.5, 2, f"thread {i}")
    expect(engine(told) == "timer", engine(told))


@test(each=["EPERM", "EACCES", "ENOSYS", "EINVAL"])
def test_perf_refused(error):
    result = run(program("refuse"), error, "perf_event_open", program("split"), 1500,
                 options={"SUMMARY": "yes", "ONLY": "split"})
    expect(result.status == 0 and b"done" in result.stdout, str(result))
    expect(engine(result).startswith("timer (perf refused: ") and error in engine(result),
           engine(result))
    near(seen_percent(result), 100, 2, "of the CPU clock")
    measured(result.profile.share("sixty") > result.profile.share("thirty") >
             result.profile.share("ten"), str(result))


@test
def test_perf_alone_is_wanted():
    result = run(program("refuse"), "EPERM", "perf_event_open", program("work"), 100000, 3,
                 options={"ENGINE": "perf", "ONLY": "work"})
    expect(result.status == 3 and not result.files(), str(result))
    expect(b"the kernel refuses sampling events" in result.stderr, str(result))


@test
def test_workers_that_block_all_signals():
    need("xz")
    data = top_directory() / "data"
    data.write_bytes(bytes(i * i * 7919 >> 5 & 255 for i in range(1 << 20)) * 24)
    data.chmod(0o644)
    result = both("xz", "-T2", "-1", "--block-size=4MiB", "-k", "-c", data,
                  options={**TIMER, "THREADS": "tid"})
    result.quiet()
    profile = result.profile
    workers = [t for t in profile.threads() if profile.thread_share(t) > 0.05]
    measured(len(workers) >= 2, f"{ {t: profile.thread_share(t) for t in profile.threads()} }")


@test(each=[("root", False), ("user", True)])
def test_signals_as_bare(who):
    result = both(program("sigview"), 4000, user=who[1], options={**TIMER, "CHILDREN": "no"})
    result.quiet()
    expect(result.profile.share("between") > 0.5, str(result))


if __name__ == "__main__":
    main()
