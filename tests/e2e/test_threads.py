#!/usr/bin/env python3
"""Threads: all covered, by whatever call they were made, with true shares and names."""

from harness import (EVERYONE, Skip, bare, both, check_sum, expect, main, measured, near, near_ms, need_root,
                     program, run, same, shared, test)


@test(each=EVERYONE)
def test_eight_equal_burners(who):
    result = both(program("burners"), 8, 500, user=who.user, options={"UNIT": "us"})
    profile = result.profile
    for i in range(8):
        near(profile.thread_share(f"burner-{i}") * 8, 1.0, 0.05, f"share of burner-{i}")
    near(profile.share("sixty"), 0.6, 0.03, "sixty")
    near(profile.share("thirty"), 0.3, 0.03, "thirty")
    measured(profile.whole_share() > 0.995, f"not whole: {profile.broken()}")


@test
def test_sum_over_threads():
    result = run(program("burners"), 8, 300, options={"UNIT": "us"}, clock=True)
    check_sum(result, result.profile)


@test(each=EVERYONE)
def test_threads_that_take_turns(who):
    """Events stand still while a thread is switched to; its clock does not."""
    result = run(program("turnabout"), 60000, user=who.user, options={"UNIT": "us"}, clock=True)
    check_sum(result, result.profile)
    switches = result.profile.sum_where(lambda s: s[1:] == ("[thread switch]",))
    measured(switches > 0.02 * result.profile.total(),
             f"{switches} us of {result.profile.total()} for 240,000 switches")


@test(each=["pthread", "c11", "glib", "timer"])
def test_kind(kind):
    command = (program("kinds"), kind)
    without = bare(*command)
    if without.status == 77:
        raise Skip("no libglib-2.0.so.0")
    result = run(*command)
    same(without, result)
    profile = result.profile
    near_ms(profile.share("in_thread") * profile.total(), 400, 12, "samples in the thread")
    measured(profile.whole_share() > 0.99, f"not whole: {profile.broken()}")
    expect(not profile.ours(), f"frames of ours: {profile.ours()}")


@test(each=["pthread", "c11"])
def test_short_threads_of_a_kind(kind):
    """They come by themselves: each is gone before a scan could find it."""
    profile = both(program("kinds"), kind, 200, options={"UNIT": "us"}).profile
    near_ms(profile.share("in_thread") * profile.total() / 1000, 400, 100, "in the threads")


@test
def test_std_thread():
    profile = both(program("stdthread.cc")).profile
    near_ms(profile.share("in_thread") * profile.total(), 900, 27, "samples in the threads")
    measured(profile.whole_share() > 0.99, f"not whole: {profile.broken()}")


@test
def test_openmp():
    profile = both(program("openmp"), env={"OMP_WAIT_POLICY": "passive"}).profile
    near_ms(profile.share("in_loop") * profile.total(), 800, 24, "samples in the loop")
    measured(profile.whole_share() > 0.98, f"not whole: {profile.broken()}")


@test(each=["before", "after"])
def test_thread_of_a_constructor(where):
    """A library preloaded before or after ours starts a thread in its constructor."""
    early = {where: [shared("early")]}
    result = run(program("work"), 50000, 3, **early)
    same(bare(program("work"), 50000, 3, **early), result)
    profile = result.profile
    near_ms(profile.share("in_early_thread") * profile.total(), 400, 40, "samples in its thread")


@test(each=EVERYONE)
def test_unusual_ends(who):
    result = both(program("ends"), user=who.user)
    profile = result.profile
    # Without kernel frames one point in fourteen makes no sample, a binomial number of each hundred.
    tolerance = 6 if who.sees_kernel else 12
    for function in ("small_stack", "own_stack", "cancelled", "exited", "in_tsd_destructor",
                     "in_cleanup", "detached"):
        near_ms(profile.share(function) * profile.total(), 100, tolerance, f"samples in {function}")
    measured(profile.whole_share() > 0.99, f"not whole: {profile.broken()}")


@test
def test_names_of_their_time():
    profile = both(program("rename")).profile
    for thread, function in (("rename", "before"), ("renamed", "after"), ("twin", "in_twin")):
        right = profile.share_where(lambda s: s[0] == thread and function in s)
        near(right / profile.share(function), 1.0, 0.02, f"{function} under {thread}")


@test
def test_an_id_that_comes_again():
    """The second thread with the same tid has nothing of the first one's."""
    need_root()
    without = bare(program("recycle"))
    if without.status == 77:
        raise Skip("the same tid can't be had again here")
    result = run(program("recycle"), options={"THREADS": "tid"})
    expect(result.status in (0, 77) and not result.stderr, str(result))
    if result.status == 77:
        raise Skip("the same tid could not be had again")
    profile = result.profile
    names = {}
    for name in ("first", "second"):
        found = {s[0] for s in profile.stacks if "in_" + name in s}
        mine = [t for t in found if t.startswith(name + "/")]
        measured(len(mine) == 1, f"in_{name} is under {found}")
        right = profile.share_where(lambda s, t=mine[0], f="in_" + name: s[0] == t and f in s)
        near(right / profile.share("in_" + name), 1.0, 0.03, f"in_{name} under {mine[0]}")
        near_ms(profile.share("in_" + name) * profile.total(), 200, 10, f"samples of {name}")
        names[name] = mine[0].split("/")[1]
    expect(names["first"] == names["second"], f"{names}")


@test
def test_frames_of_a_thread():
    """Below a thread's function there is libc alone: no trampoline of ours."""
    profile = run(program("kinds"), "pthread").profile
    for path in profile.paths_to("in_thread"):
        expect(path[-2:] == ("body", "in_thread"), f"path {path}")
        expect(len(path) <= 4, f"frames below the thread's function: {path}")
    expect(not profile.ours(), f"frames of ours: {profile.ours()}")


main()
