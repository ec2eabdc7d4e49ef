#!/usr/bin/env python3
"""Libraries that come and go, and C++ exceptions through them."""

from harness import both, expect, main, program, shared, test


def plugin():
    return shared("plugin.cc", "-DNAME=one", "libplugin-one.so")


@test(each=["inside", "across"])
def test_throws(where):
    """A million throws; the profile is whole and has the thrower in it."""
    result = both(program("throws"), where, plugin(), 1000000, timeout=120)
    expect(result.stdout == b"caught 1000000\n", f"{result.stdout!r}")
    profile = result.profile
    expect(profile.whole_share() > 0.98, f"not whole: {profile.broken()}")
    name = "throw_it" if where == "across" else "throw_inside"
    expect(profile.share(name) > 0.9, f"{name} has {profile.share(name):.3f}")


@test
def test_throws_while_libraries_come_and_go():
    """At 10 kHz, where a profiler that takes a lock of the loader's stops all progress."""
    result = both(program("throws"), "churn", plugin(), 300000, timeout=120,
                  options={"RATE": 9999})
    expect(result.stdout.count(b"caught 300000") == 3, f"{result.stdout!r}")
    result.quiet()
    expect(result.profile.total() > 1000, f"{result.profile.total()} samples")
    expect(result.profile.whole_share() > 0.97, f"not whole: {result.profile.broken()}")


main()
