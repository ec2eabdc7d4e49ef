#!/usr/bin/env python3
"""The hooks with arguments that are odd, at moments that are: the program sees what it sees without us."""

import difflib

from harness import bare, expect, interrupts_ms, main, near_ms, program, run, test


@test(each=["perf", "timer"])
def test_results_and_errors(engine):
    count = 0
    for name in ("corners", "corners_signals"):
        without = bare(program(name))
        with_us = run(program(name), options={"ENGINE": engine})
        lines = [run.stdout.decode().splitlines() for run in (without, with_us)]
        expect(without.status == 0, f"{without}")
        other = [line for line in difflib.unified_diff(*lines, lineterm="", n=1)
                 if line[:3] not in ("---", "+++")]
        expect(not other and with_us.status == 0, f"{other[:20]} {with_us}")
        count += len(lines[0])
    expect(count > 300, f"{count} lines")


@test(each=["perf", "timer"])
def test_signals_of_a_child_in_our_memory(engine):
    """A child of vfork that ignores all signals does not make us think that its parent does."""
    result = run(program("corners"), "vfork", options={"ENGINE": engine, "UNIT": "us"})
    found = sum(profile.sum_where(lambda stack: "after_vfork" in stack) for profile in result.profiles)
    near_ms(found / 1000, 300, 20 + interrupts_ms(300), f"after the child, {result}")


main()
