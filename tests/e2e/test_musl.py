#!/usr/bin/env python3
"""Programs of musl: the library, which is linked with glibc, is loaded into them by musl's loader."""

from harness import both, expect, main, measured, near, need, program, test


def musl_program(source):
    need("musl-gcc")
    return program(source, name=f"musl-{source}", cc="musl-gcc")


@test
def test_threads():
    result = both(musl_program("burners"), 8, 400)
    result.quiet()
    for i in range(8):
        near(100 * result.profile.thread_share(f"burner-{i}"), 12.5, 2, f"thread {i}")
    # musl has no unwind information, so callers of its functions are not always found.
    measured(result.profile.share("sixty") > 0.4, f"sixty: {result.profile.share('sixty')}")


@test
def test_timers():
    result = both(musl_program("burners"), 8, 200, options={"ENGINE": "timer"})
    result.quiet()
    measured(result.profile.share("sixty") > 0.4, f"sixty: {result.profile.share('sixty')}")


@test
def test_forked_children_have_their_own():
    result = both(musl_program("forks"), 20, 20000)
    expect(len(result.profiles) >= 20, f"{len(result.profiles)} profiles")
    own = [p for p in result.profiles if "in_child" in p.functions()]
    measured(len(own) == 20, f"{len(own)} of 20 children burnt their own time")


@test
def test_threads_that_end_in_unusual_ways():
    both(musl_program("ends")).quiet()


@test
def test_exec_and_posix_spawn():
    for name, arguments in (("execself", (3,)), ("spawns", ())):
        both(musl_program(name), *arguments)


if __name__ == "__main__":
    main()
