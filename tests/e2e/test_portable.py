#!/usr/bin/env python3
"""The library as PORTABLE=1 makes it, for glibcs from 2.28 on: what it asks of libc by its oldest
names does the same. scripts/check-glibc sees that it asks for no newer ones."""

from harness import BUILD, bare, expect, main, measured, near, program, run, same, test


@test
def test_threads_forks_and_timers():
    library = BUILD / "portable" / "libselfsample.so"
    for engine in ("auto", "timer"):
        command = (program("burners"), 4, 500)
        result = run(*command, preload=False, before=[library], options={"ENGINE": engine})
        same(bare(*command), result)
        for i in range(4):
            near(100 * result.profile.thread_share(f"burner-{i}"), 25, 3, f"thread {i}, {engine}")
        near(100 * result.profile.share("sixty"), 60, 6, f"sixty, {engine}")
        measured(result.profile.whole_share() > 0.98, f"not whole: {result.profile.broken()}")
    result = run(program("forks"), 3, 20000, preload=False, before=[library])
    expect(len(result.profiles) == 4, f"{len(result.profiles)} profiles of 4 processes: {result}")


main()
