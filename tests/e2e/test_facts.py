#!/usr/bin/env python3
"""What a folded file does not say in its text, the views know of files that the library wrote."""

import os
import shutil
import subprocess

from folded import Profile
from harness import BUILD, Skip, expect, main, private_directory, program, run, staged, test, the_command
from stacks import parsed, view, write

NAME = "user.selfsample"


def recorded(name="split", **options):
    """A profile of a program with three functions, where the file system keeps attributes."""
    probe = write(private_directory() / "probe", {("main", "f"): 1})
    try:
        os.setxattr(probe, NAME, b"x")
    except OSError as error:
        raise Skip(f"no extended attributes here: {error}") from error
    return run(program(name), 300, options={"OUT": "p.folded", **options}).directory / "p.folded"


def said(path):
    return os.getxattr(path, NAME).decode() if NAME in os.listxattr(path) else ""


@test
def unit_and_rate_of_a_recording():
    path = recorded(UNIT="us", RATE="250")
    expect(said(path) == f"bytes {path.stat().st_size}\nunit us\nrate 250\nroots 1\n", said(path))
    told = view("top", path)
    expect(f"{Profile(path).total()} us, 1 thread name" in told and "+- if 250 samples a second" in told, told)
    expect("if 100 samples a second" in view("top", "--rate", 100, path), "--rate")
    expect(" samples, 1 thread name" in view("top", "--unit", "samples", path), "--unit")
    expect(view("tree", path) == view("tree", "-u", "us", "-r", 250, path), "tree")
    with open(path, "rb") as file:
        told = subprocess.run([the_command(), "top", "-"], stdin=file, capture_output=True, text=True, timeout=60)
    expect("250 samples a second" in told.stdout, str(told))


@test
def profiles_without_threads():
    path = recorded(THREADS="none")
    expect(view("top", path) == view("top", "--roots", 0, path) != view("top", "--roots", 1, path), "roots")


@test
def what_was_changed_says_nothing():
    path = recorded(UNIT="us")
    before = view("top", "--unit", "samples", path)
    copy = path.with_name("copy.folded")
    shutil.copyfile(path, copy)
    expect(said(copy) == "" and view("top", copy) == before, "a copy")
    path.write_text("main;f 7\n")
    expect(said(path) != "" and "7 samples" in view("top", path), view("top", path))
    for text in (b"", b"bytes 9", b"bytes 9\nunit us\nrate 0\nroots 1\n", b"\xff" * 200,
                 b"bytes 9\nunit us\nrate 99999999999999999999\nroots 1\n"):
        os.setxattr(path, NAME, text)
        expect("7 samples" in view("top", path), f"{text}: {view('top', path)}")


@test
def what_is_made_of_them():
    """merge and convert say of their results what is true of these, or nothing."""
    path = recorded(UNIT="us", RATE="250")
    merged = path.with_name("m.folded")
    view("merge", "-o", merged, path, path)
    expect(said(merged) == f"bytes {merged.stat().st_size}\nunit us\nrate 250\nroots 2\n", said(merged))
    expect(view("top", merged) == view("top", "--roots", 2, "-u", "us", "-r", 250, merged), "top")
    view("merge", "--root", "", "-o", merged, path)
    expect(said(merged).endswith("roots 1\n"), said(merged))
    plain = write(path.with_name("plain.folded"), {("main", "f"): 5})
    for files in ((path, plain), (plain, path)):
        merged.unlink()
        view("merge", "-o", merged, *files)
        expect(said(merged) == "", f"made of a file that says nothing: {said(merged)}")
    packed, back = path.with_name("p.pb.gz"), path.with_name("back.folded")
    view("convert", "--to", "pprof", "-o", packed, path)
    view("convert", "--to", "folded", "--unit", "us", "-o", back, packed)
    expect(parsed(back.read_text()) == parsed(view("merge", "--root", "", path)), "there and back")
    expect("rate 250" in said(back) and "unit us" in said(back), said(back))


@test
def what_is_made_of_pprof():
    """Such a file says all by itself: what is made of it knows its counts and threads."""
    path = recorded(RATE="250")
    packed, back, merged = (path.with_name(name) for name in ("p.pb.gz", "b.folded", "m.folded"))
    view("convert", "--to", "pprof", "-o", packed, path)
    view("convert", "--to", "folded", "-o", back, packed)
    view("merge", "-o", merged, packed, path)
    for made, roots in (back, 1), (merged, 2):
        wanted = f"bytes {made.stat().st_size}\nunit samples\nrate 250\nroots {roots}\n"
        expect(said(made) == wanted, said(made))
    merged.unlink()
    view("merge", "-o", merged, packed, write(path.with_name("plain.folded"), {("main", "f"): 5}))
    expect(said(merged) == "", said(merged))


def saying(path, stacks, unit, rate):
    """A file that says what its counts are."""
    write(path, stacks)
    os.setxattr(path, NAME, f"bytes {path.stat().st_size}\nunit {unit}\nrate {rate}\nroots 1\n".encode())
    return path


def table(*words, wanted_line=""):
    """The rows of a table by their functions, and one line on stderr, or none."""
    done = subprocess.run([the_command(), *map(str, words)], capture_output=True, text=True, timeout=60)
    expect(done.returncode == 0 and done.stderr.count("\n") == bool(wanted_line) and wanted_line in done.stderr,
           f"{words}: {done}")
    return {line.split()[-1]: line.split()[:-1] for line in done.stdout.splitlines()}


@test
def counts_of_other_rates_and_units():
    """They are told as the first file's, by the CPU time that they are; errors go by what was sampled."""
    directory = recorded().parent
    fast = saying(directory / "fast.folded", {("m", "f"): 1000}, "samples", 1000)
    slow = saying(directory / "slow.folded", {("m", "f"): 250, ("m", "g"): 250}, "samples", 250)
    us = saying(directory / "us.folded", {("m", "f"): 500000, ("m", "g"): 10**6}, "us", 100)
    told = table("diff", fast, slow, wanted_line="samples at 250 Hz, are told as samples at 1000 Hz like the first's")
    # 250 samples of 4 ms each: 1000 of 1 ms, and an error of sqrt(250) times 4.
    expect("f" not in told and told["g"] == ["0", "1000", "+1000", "63"], f"{told}")
    told = table("diff", "-n", slow, fast, wanted_line="fast.folded: its counts, samples at 1000 Hz")
    expect(told["f"] == ["50.00", "100.00", "+50.00", "2.24"], f"{told}")  # sqrt(0.5 * 0.5 / 500)
    told = table("diff", fast, us, wanted_line="us.folded: its counts, us, are told as samples at 1000 Hz")
    expect(told["f"][:3] == ["1000", "500", "-500"] and told["g"] == ["0", "1000", "+1000", "100"], f"{told}")
    told = table("diff", "--rate", 100, fast, slow)
    expect(told["f"][:3] == ["1000", "250", "-750"], f"--rate takes all for one: {told}")
    told = table("diff", "--unit", "samples", "--rate", 100, fast, us)
    expect(told["f"][:3] == ["1000", "500000", "+499000"], f"--unit takes all for one: {told}")
    merged = directory / "merged.folded"
    subprocess.run([the_command(), "merge", "--root", "", "-o", merged, us, fast, slow], check=True, capture_output=True)
    expect(parsed(merged.read_text()) == {("m", "f"): 2500000, ("m", "g"): 2000000}, merged.read_text())
    thin = saying(directory / "thin.folded", {("m", f"f{i}"): 1 for i in range(400)}, "samples", 1000)
    slowly = subprocess.run([the_command(), "top", slow, thin], capture_output=True, text=True, timeout=60).stdout
    expect(slowly.startswith("600 samples,"), slowly)


@test
def inlined_functions_keep_it():
    if not (BUILD / "selfsample-inline").exists():
        raise Skip("selfsample-inline is not built: needs libdw-dev")
    staged(BUILD / "selfsample-inline")
    path = recorded("inlines", UNIT="us", INLINE="yes")
    before = path.stat().st_size
    subprocess.run([the_command(), "inline", path], check=True, capture_output=True, timeout=60)
    expect(path.stat().st_size != before and "_[i]" in path.read_text(), "not done")
    expect(said(path) == f"bytes {path.stat().st_size}\nunit us\nrate 999\nroots 1\n", f"{said(path)}; {before} before")


main()
