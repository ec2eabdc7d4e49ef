#!/usr/bin/env python3
"""fork, vfork, exec, spawn, daemons: every process has its own whole profile."""

from harness import EVERYONE, both, expect, main, near_ms, program, test


def by_program(result, name):
    return [p for p in result.profiles if p.path.name.startswith(f"selfsample.{name}.")]


@test
def test_two_hundred_children():
    result = both(program("forks"), 200, 20000, timeout=120)
    profiles = result.profiles
    parents = [p for p in profiles if "in_parent" in p.functions()]
    children = [p for p in profiles if "in_child" in p.functions()]
    expect(len(parents) == 1 and len(children) == 200 and len(profiles) == 201,
           f"{len(parents)} parents, {len(children)} children, {len(profiles)} files")
    expect("in_child" not in parents[0].functions(), "children's samples are with the parent")
    near_ms(parents[0].share("in_parent") * parents[0].total(), 400, 12, "samples of the parent")
    counts = [p.share("in_child") * p.total() for p in children]
    near_ms(sum(counts), 200 * 20, 200, "samples of the children")
    few = [count for count in counts if count < 15]
    expect(len(few) <= 4, f"children with {few} of 20 samples")
    broken = [p.broken() for p in profiles if p.whole_share() < 0.95]
    expect(not broken, f"{len(broken)} profiles are not whole: {broken[:1]}")


@test(each=EVERYONE)
def test_children_of(who):
    result = both(program("forks"), 20, 50000, user=who.user)
    expect(len(result.profiles) == 21, f"{len(result.profiles)} files")
    near_ms(sum(p.total() for p in result.profiles), 1400, 70, "samples of all")


@test
def test_forks_under_load():
    """The parent's helper is at work when its memory is copied: no child's helper may hang."""
    result = both(program("forkburn"), 400, options={"RATE": 9999}, timeout=100)
    # A helper that got no processor in its child's few ms knows the child's first records only.
    expect(len(result.profiles) > 390, f"{len(result.profiles)} profiles of 400 children")
    children = [p for p in result.profiles if "in_child" in p.functions()]
    expect(len(children) > 320, f"{len(children)} of 400 children seen in their own function")


@test
def test_spawns():
    """vfork, a failing exec after vfork, posix_spawn, system: the parent's profile is intact."""
    result = both(program("spawns"), 100, timeout=120)
    mine = by_program(result, "spawns")
    expect(len(mine) == 1, f"{len(mine)} profiles of the parent: {result.files()[:5]}")
    counted = mine[0].share("in_parent") * mine[0].total()
    near_ms(counted, 500, 15, "samples in in_parent")
    expect(mine[0].whole_share() > 0.98, f"not whole: {mine[0].broken()}")


@test
def test_exec_itself():
    result = both(program("execself"), 20, timeout=120)
    expect(result.status == 6, f"status {result.status}")
    profiles = result.profiles
    expect(len(profiles) == 20, f"{len(profiles)} files of 20 images: {result.files()[:4]}")
    counts = [p.share("in_image") * p.total() for p in profiles]
    expect(min(counts) >= 44 and max(counts) <= 56, f"samples per image, wanted 50: {counts}")
    near_ms(sum(counts), 1000, 30, "samples of all images")


@test
def test_exec_fixed_name():
    result = both(program("execself"), 3, options={"OUT": "one.folded"})
    expect(result.files() == ["one.1.folded", "one.2.folded", "one.folded"], f"{result.files()}")


@test
def test_exec_out_of_a_thread_of_many():
    """exec while other threads burn: their samples are there as well."""
    result = both(program("execmany"))
    first = [p for p in result.profiles if "in_burner" in p.functions()]
    expect(len(first) == 1, f"{len(first)} files with the burners: {result.files()}")
    for function, wanted in (("in_burner", 400), ("in_main", 200)):
        near_ms(first[0].share(function) * first[0].total(), wanted, 30, function)


@test
def test_daemon():
    result = both(program("daemon"))
    daemons = [p for p in result.profiles if "in_daemon" in p.functions()]
    expect(len(daemons) == 1, f"{len(daemons)} profiles of the daemon: {result.files()}")
    near_ms(daemons[0].share("in_daemon") * daemons[0].total(), 300, 10, "samples of the daemon")
    result.quiet()


@test
def test_static_program_after_exec():
    """A static image can't be profiled: it runs as ever, and nothing is said about it."""
    static = program("work", "-static", name="work-static")
    result = both("/bin/sh", "-c", f"exec {static} 100000 5")
    expect(result.status == 5 and not by_program(result, "work-static"), str(result))


@test
def test_clean_environment_after_exec():
    result = both("/usr/bin/env", "-i", str(program("work")), 100000, 5)
    expect(result.status == 5 and not by_program(result, "work"), str(result))


main()
