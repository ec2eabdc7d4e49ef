#!/usr/bin/env python3
"""Many threads, at once and one after the other."""

from harness import EVERYONE, both, check_sum, expect, main, near, near_ms, program, test


@test(each=EVERYONE)
def test_two_hundred_threads(who):
    result = both(program("burners"), 200, 60, user=who.user, options={"UNIT": "us"}, clock=True)
    profile = result.profile
    threads = [t for t in profile.threads() if t.startswith("burner-")]
    # On a busy machine a thread may end before its name is known.
    expect(len(threads) >= 190, f"{len(threads)} of 200 threads")
    check_sum(result, profile, slack_ms=50)
    near(profile.share("sixty"), 0.6, 0.03, "sixty")
    near(profile.share("thirty"), 0.3, 0.03, "thirty")


@test
def test_ten_thousand_short_threads():
    result = both(program("births"), 10000, 100, "burnt", options={"UNIT": "us"}, timeout=100)
    profile = result.profile
    expect(b"pile up" not in result.stdout, f"{result.stdout!r}")
    early, late = (profile.share(f) * profile.total() for f in ("early", "late"))
    near(early / (early + late), 0.75, 0.05, "share of early")
    burnt_us = int((result.directory / "burnt").read_text())
    near_ms((early + late) / 1000, burnt_us / 1000, burnt_us / 1000 * 0.12, "early and late")


main()
