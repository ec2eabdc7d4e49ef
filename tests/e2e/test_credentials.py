#!/usr/bin/env python3
"""A program that gives up root: the helper gives it up as well, and the profile lands all the same."""

import os
import re
import resource
import signal
import time
from pathlib import Path

from harness import (USER_ID, bare, both, expect, main, measured, near_ms, need, need_root, private_directory,
                     program, run, test, wait_helper, wait_until)
from machine import late_us

BURN_US = 200000
WAYS = {
    "setuid": ["setuid"],
    "setresuid": ["setresuid"],
    "daemon": ["setgroups", "setgid", "setuid"],
    "initgroups": ["initgroups", "setregid", "setreuid"],
    "back": ["setegid", "seteuid", "root again", "setresgid"],
    "capset": ["capset"],
    "keepcaps": ["setuid", "capset"],
    "thread": ["setuid"],
    "leaderless": ["setuid"],
}


def check_profile(result, ms=2 * BURN_US // 1000):
    """One whole file, with what was done before and what was done as an ordinary user."""
    profile = result.profile
    measured(ms * 0.9 < profile.total() < ms * 1.6, f"{profile.total()} samples of {ms} ms; {result}")
    for name in ("before", "after"):
        measured(profile.share(name) > 0.4, f"share of {name}: {profile.share(name)}; {result}")


@test(each=sorted(WAYS))
def test_followed_before_the_call_returns(way):
    need_root()
    result = run(program("credentials"), way, BURN_US)
    expect(result.status == 0, str(result))
    wanted = "".join(f"{step} at once\n" for step in WAYS[way])
    expect(result.stdout.decode() == wanted, f"said {result.stdout!r}, wanted {wanted!r}")
    result.quiet()
    check_profile(result)


@test
def test_raw_calls_are_noticed():
    """And what the program has then said of its memory stands."""
    need_root()
    result = run(program("credentials"), "raw", BURN_US)
    expect(result.status == 0, str(result))
    expect(result.stdout.decode().splitlines() in (["raw later", "dumpable 1"],
                                                   ["raw at once", "dumpable 1"]), str(result))
    result.quiet()
    check_profile(result)


@test(each=["root's", "everybody's"])
def test_the_profile_lands(whose):
    """In a directory where the new user can write the file is his; in another one it was made before."""
    need_root()
    directory = private_directory()
    directory.chmod(0o1777 if whose == "everybody's" else 0o755)
    # Without checkpoints: one that came before, on a busy machine, would be root's.
    result = run(program("credentials"), "daemon", BURN_US, directory=directory, options={"OUT": "here.folded"})
    expect(result.files() == ["here.folded"], str(result))
    owner = (directory / "here.folded").stat().st_uid
    expect(owner == (USER_ID if whose == "everybody's" else 0), f"owner {owner}")
    result.quiet()
    check_profile(result)


@test
def test_a_taken_name_is_left_alone():
    need_root()
    directory = private_directory()
    (directory / "here.folded").write_text("mine\n")
    result = run(program("credentials"), "setuid", BURN_US, directory=directory,
                 options={"OUT": "here.folded"})
    expect(result.files() == ["here.1.folded", "here.folded"], str(result))
    expect((directory / "here.folded").read_text() == "mine\n", "overwritten")


@test
def test_a_series_ends_in_one_file():
    """No other can be made any more; nothing is told twice, and nothing is lost."""
    need_root()
    result = run(program("credentials"), "setuid", 1500000,
                 options={"OUT": "%n.folded", "CHECKPOINT": 1, "UNIT": "us", "SUMMARY": "yes"})
    totals = [profile.total() for profile in result.profiles]
    seen = float(re.search(rb"([0-9.]+) s of CPU time \(", result.stderr)[1])
    expect(len(totals) >= 2 and abs(sum(totals) / 1e6 - seen) <= 0.0011, f"{totals}; {seen} s")


@test
def test_a_checkpoint_of_roots_is_written_on():
    """Its directory is closed to the new user, or open but for the files of others."""
    need_root()
    for mode in (0o755, 0o1777):
        directory = private_directory()
        directory.chmod(mode)
        result = run(program("credentials"), "setuid", 1500000, directory=directory,
                     options={"OUT": "here.folded", "CHECKPOINT": 1})
        totals = [profile.total() for profile in result.profiles]
        measured(max(totals) > 2700 and len(totals) == (1 if mode == 0o755 else 2),
                 f"mode {mode:o}: {totals}; {result}")
        result.quiet()


@test
def test_a_file_that_only_kept_the_name_goes():
    """As far as that may be done: the directory is the new user's, but not to write into."""
    need_root()
    directory = private_directory()
    result = run(program("credentials"), "back", 0, directory=directory)
    expect(result.status == 0 and all(os.path.getsize(directory / name) for name in result.files()),
           str(result))


@test
def test_a_stopped_helper_holds_nobody_up_for_long():
    """The wait of a call is bounded; the helper follows once it runs again."""
    need_root()

    def stop(pid):
        helper = wait_helper(pid)
        os.kill(helper, signal.SIGSTOP)
        wait_until(lambda: f"Uid:\t{USER_ID}" in Path(f"/proc/{pid}/status").read_text(), 20,
                   "the program never got to setuid")
        time.sleep(2.5)
        os.kill(helper, signal.SIGCONT)

    result = run(program("credentials"), "setuid", 1000000, while_running=stop)
    expect(result.status == 0 and result.stdout in (b"setuid later\n", b"setuid never\n"),
           str(result))
    result.quiet()
    measured(result.profile.total() > 1500, f"{result.profile.total()} samples of 2000 ms")


LAUNCHERS = {
    "setpriv": ["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs",
                "--inh-caps=-all", "--bounding-set=-all"],
    "runuser": ["-u", "nobody", "--"],
    "chroot": ["--userspec=65534:65534", "/"],
    "capsh": ["--drop=all", "--", "-c", 'exec "$0" "$@"'],
    "unshare": ["--user", "--map-root-user"],
}


@test(each=sorted(LAUNCHERS))
def test_real_launchers(tool):
    """What they run, as whomever, is the same, and leaves a profile where that user may write."""
    need_root()
    tool_path = need(tool)
    directory = private_directory()
    directory.chmod(0o1777)
    command = [tool_path, *LAUNCHERS[tool], program("work"), 200000, 3]
    result = both(*command, directory=directory, options={"OUT": f"{directory}/"})
    expect(result.status == 3, str(result))
    totals = {profile.path.name.split(".")[1]: profile.total() for profile in result.profiles}
    near_ms(totals.get("work", 0), 200, 20, f"samples of work among {totals}")


@test
def test_as_an_ordinary_user_nothing_changes():
    """What fails bare fails alike."""
    for way in ("setuid", "capset"):
        without = bare(program("credentials"), way, 1000, user=True)
        result = run(program("credentials"), way, 1000, user=True)
        expect(result.status == without.status and result.stderr == without.stderr,
               f"{without} {result}")


@test
def test_threads_of_the_new_user():
    """They open their events as that user, who sees less of the kernel and may lock less memory."""
    need_root()
    result = run(program("credentials"), "threads", BURN_US,
                 limits={resource.RLIMIT_MEMLOCK: 1 << 20}, options={"SUMMARY": "yes"})
    expect(result.stdout == b"setuid at once\n", str(result))
    expect(b"; 0 threads not covered" in result.stderr, str(result))
    profile = result.profile
    near_ms(profile.total(), 5 * BURN_US / 1000, 60, "samples")
    measured(profile.share("after") > 0.75, f"share of after: {profile.share('after')}")


@test(each=(999, 4999))
def test_short_threads_of_the_new_user(rate):
    """The kernel lets nobody settle the events of a process that has changed its user."""
    need_root()
    result = run(program("births"), 2000, 400, "-", 1000, options={"SUMMARY": "yes", "RATE": rate})
    expect(result.status == 0, str(result))
    seen = re.search(rb"\(([0-9.]+) % of its clock\)", result.stderr)
    expect(seen, str(result))
    # Points in the last of a life, for as long as interrupts are late, make no samples.
    measured(94 - 100 * late_us() / 400 < float(seen[1]) < 106, f"{result.stderr}")
    early, late = (result.profile.share(name) for name in ("early", "late"))
    measured(abs(early / (early + late) - 0.75) < 0.06, f"early {early}, late {late}")


if __name__ == "__main__":
    main()
