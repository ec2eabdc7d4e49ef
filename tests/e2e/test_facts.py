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


@test
def files_that_do_not_go_together():
    us, samples, slow = recorded(UNIT="us"), recorded(), recorded(RATE="250")
    told = view("top", us, samples, status=1)
    expect("counts samples, another file counts us" in told, told)
    expect(" us, 1 thread name, 2 files" in view("top", "-u", "us", us, samples), "--unit")
    told = subprocess.run([the_command(), "top", samples, slow], capture_output=True, text=True, timeout=60)
    expect(told.returncode == 0 and "was sampled at 250 Hz, and is taken for 999 Hz" in told.stderr, str(told))


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
