#!/usr/bin/env python3
"""Other libraries that are preloaded, and programs built to watch themselves: before us and after."""

import errno
import glob
import subprocess
from collections import Counter

from harness import (COMMAND, EVERYONE, Skip, bare, both, check_sum, expect, library, main, measured, near,
                     near_ms, need, program,
                     run, same, shared, test)

WHERE = ["before", "after"]
LIBRARIES = ["libjemalloc.so", "libtcmalloc_minimal.so", "libmimalloc.so"]


def installed(name):
    found = sorted(glob.glob(f"/usr/lib/*/{name}*"), key=len)
    if not found:
        raise Skip(f"needs {name}")
    return found[0]


def check_allocating(result, whole=0.95, busy=0.95):
    """What tests/programs/allocs.cc leaves; busy: so much of its time is that of its threads."""
    expect(result.status == 4 and result.stdout == b"intact: 4\n", str(result))
    measured(result.profile.share("allocate(long)") > busy,
             f"allocate has {result.profile.share('allocate(long)'):.3f}")
    measured(result.profile.whole_share() > whole, f"not whole: {result.profile.broken()}")
    expect(not result.profile.ours(), f"frames of ours: {result.profile.ours()}")


@test(each=[(f"{name.split('.')[0]}-{where}", name, where)
            for name in LIBRARIES for where in WHERE])
def test_allocator(case):
    _, name, where = case
    rival = {where: [installed(name)]}
    result = run(program("allocs.cc"), 200, clock=True, options={"UNIT": "us"}, **rival)
    same(bare(program("allocs.cc"), 200, **rival), result)
    check_allocating(result)
    check_sum(result, result.profile, slack_ms=12)


@test(each=WHERE)
def test_faketime(where):
    """Its clocks run twenty times too fast, for the program only."""
    rival = {where: [installed("faketime/libfaketimeMT.so")], "env": {"FAKETIME": "+2d x20"}}
    result = run(program("allocs.cc"), 4000, options={"UNIT": "us"}, **rival)
    same(bare(program("allocs.cc"), 4000, **rival), result)
    check_allocating(result)
    near_ms(result.profile.total() / 1000, 4 * 4000 / 20, 60, "sum")


@test(each=WHERE)
def test_gperftools(where):
    """A profiler that uses SIGPROF: both leave a profile."""
    rival = {where: [installed("libprofiler.so")], "env": {"CPUPROFILE": "theirs"}}
    result = run(program("allocs.cc"), 250, options={"UNIT": "us"}, **rival)
    lines = result.stderr.splitlines()
    expect(len(lines) == 1 and lines[0].startswith(b"PROFILE: interrupts"), f"{result.stderr!r}")
    expect((result.directory / "theirs").stat().st_size > 1000, "its profile is empty")
    check_allocating(result)
    near_ms(result.profile.total() / 1000, 1000, 60, "sum")


@test(each=[(where, where, "gnu") for where in WHERE] + [("after, found by the older hash table", "after", "sysv")])
def test_wrapper_of_pthread_create(case):
    """Before us its time is the thread's like any other; after us it has passed when we come."""
    _, where, table = case
    rival = {where: [shared("wrapcreate", f"-Wl,--hash-style={table}", f"libwrapcreate-{table}.so")]}
    result = run(program("burners"), 4, 150, options={"UNIT": "us", "THREADS": "tid"}, clock=True, **rival)
    same(bare(program("burners"), 4, 150, **rival), result)
    profile = result.profile
    check_sum(result, profile)
    if where == "before":
        near(profile.share("in_wrapper"), 0.25, 0.03, "in_wrapper")
        near(profile.share("sixty"), 0.45, 0.03, "sixty")
    else:
        # It is not passed over, and what it took is where the thread is next seen.
        measured(profile.total() > 4 * 190000, f"{profile.total()} us of 4 * 200000")
        measured(profile.share("[thread start]") < 0.02, f"{profile.heaviest()}")
    by_thread = Counter()  # by number: a first sample, with what had passed, may come before the name
    for stack, count in profile.stacks.items():
        by_thread[stack[0].rsplit("/", 1)[1]] += count
    for number, count in by_thread.most_common(4):
        near(count / profile.total(), 0.25, 0.03, f"thread {number} of {by_thread}")


@test
def test_a_dlsym_of_the_program():
    """It would find us as what comes next to us."""
    result = both(program("owndlsym"))
    result = both(program("owndlsym"))
    result.quiet()
    # The shell that it runs may have one, too, and so may its copy that executes that.
    own = [p for p in result.profiles if ".owndlsym." in p.path.name and "in_thread" in p.functions()]
    measured(len(own) == 1, f"{result.files()}")
    near_ms(own[0].share("in_thread") * own[0].total(), 400, 20, "samples in two threads")


@test
def test_a_dlsym_that_finds_nothing():
    """Loaded behind libc, with nobody to say what it stands in front of, the library refuses what it can't do."""
    result = run(program("owndlsym"), library(), preload=False, env={"SELFSAMPLE_ENABLED": "no"})
    lines = [line.split() for line in result.stdout.decode().splitlines()]
    expect(result.status == 0 and len(lines) == 20, str(result))
    numbers = {"pthread_sigmask": errno.ENOSYS, "sigwait": errno.ENOSYS, "pthread_create": errno.EAGAIN}
    for name, returned, error in lines:
        if name in numbers:
            expect(int(returned) == numbers[name], f"{name}: {returned}")
        else:
            expect(returned == "-1" and error == "ENOSYS", f"{name}: {returned}, {error}")


@test(each=EVERYONE[:2])
def test_fakeroot(who):
    need("fakeroot")
    script = f"touch f; chown 0:0 f; stat -c %u f; id -u; {program('work')} 100000"
    result = both("fakeroot", "sh", "-c", script, user=who.user)
    expect(result.stdout == b"0\n0\n", str(result))
    works = [p for p in result.profiles if ".work." in p.path.name]
    measured(len(works) == 1 and works[0].share("work") > 0.9, f"{result.files()}")


@test
def test_faketime_command():
    need("faketime")
    script = f"date +%Y; {program('work')} 100000"
    result = both("faketime", "2001-02-03 04:05:06", "sh", "-c", script)
    expect(result.stdout == b"2001\n", str(result))
    works = [p for p in result.profiles if ".work." in p.path.name]
    expect(len(works) == 1, f"{result.files()}")
    near_ms(works[0].total(), 100, 6, "samples")


SANITIZED = [("asan-gcc-static", "-fsanitize=address -static-libasan", "g++"),
             ("asan-clang", "-fsanitize=address", "clang++"),
             ("tsan-gcc", "-fsanitize=thread", "g++"),
             ("tsan-clang", "-fsanitize=thread", "clang++")]


@test(each=SANITIZED)
def test_sanitized(case):
    name, flags, compiler = case
    need(compiler)
    result = both(program("allocs.cc", flags, "allocs-" + name, cc=compiler), 200)
    # TSan takes 50 ms and more to begin where page faults are dear.
    check_allocating(result, busy=0.8)


def sanitizer(name):
    return subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True,
                          check=True).stdout.strip()


@test(each=["first", "told", "command"])
def test_asan_that_wants_to_be_first(how):
    """gcc's ASan is a library and ends the program if another one comes first: README says how."""
    binary = program("allocs.cc", "-fsanitize=address", "allocs-asan")
    if how == "first":
        result = run(binary, 200, before=[sanitizer("libasan.so")])
    elif how == "told":
        result = run(binary, 200, env={"ASAN_OPTIONS": "verify_asan_link_order=0"})
    else:
        result = run(COMMAND, binary, 200, preload=False, before=[sanitizer("libasan.so")])
    expect(how == "command" or not result.stderr, str(result))
    check_allocating(result)


main()
