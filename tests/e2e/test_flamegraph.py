#!/usr/bin/env python3
"""`selfsample flamegraph`: the page in a headless Chromium, opened from a file.

What is looked at is what a reader sees: names, numbers, widths, colours. Numbers are held against the folded
file, counted here.
"""

import atexit
import math
import os
import pty
import random
import re
import subprocess
import time

from browser import Browser
from harness import (COMMAND, Skip, bare, expect, main, private_directory, program, test,
                     the_command)
from stacks import view, write

FUNCTIONS = ["parse", "std::map<int, char*>::find(int const&)", "copy_user_[k]", "inlined_[i]", "größe",
             "libfoo.so+0x1a40", "a", "[unknown]"]
HOSTILE = ["</script><img src=x onerror=\"document.title='harmed'\">", "<!--<script>", "&lt &#60 \"'`${0}",
           "\\u003c\\", "@PROFILE@", "<b>bold</b>", "__proto__", "constructor"]
READY = "document.querySelector('g.frame') !== null"
_browser = None


def browser():
    """One for all tests of the file."""
    global _browser
    if _browser is None:
        _browser = Browser().__enter__()
        atexit.register(_browser.__exit__)
    return _browser


def made_up(seed, lines=120, threads=("main", "worker-1", "worker-2")):
    """Stacks with recursion, of weights that a window shows."""
    chance = random.Random(seed)
    stacks = {}
    for _ in range(lines):
        path = [chance.choice(FUNCTIONS) for _ in range(chance.randrange(1, 7))]
        stacks[(chance.choice(threads), *path)] = chance.randrange(20, 200)
    return stacks


def made(*arguments, status=0):
    """Runs `selfsample flamegraph`; what it says on stderr."""
    result = subprocess.run([str(COMMAND), "flamegraph", *map(str, arguments)], capture_output=True,
                            timeout=60)
    error = result.stderr.decode()
    if "was built without the page" in error:
        raise Skip("built without the packages of npm")
    expect(result.returncode == status, f"{arguments}: {result.returncode}, {error}")
    return error


def need_page():
    """Skips the test where the command was built without the page."""
    made("/dev/null", status=1)


def opened(stacks, *options, width=1200, height=800, dark=False):
    """The page of these stacks."""
    directory = private_directory()
    folded, html = write(directory / "app.folded", stacks), directory / "app.html"
    made(*options, folded, "-o", html)
    return browser().page(html, width, height, dark, ready=READY)


def quiet(page):
    """Nothing went wrong in the page, and it asked for nothing."""
    expect(page.errors == [], f"errors: {page.errors}")
    foreign = [url for url in page.requests if not url.startswith(("file:", "data:"))]
    expect(foreign == [], f"asked for {foreign}")
    page.close()


def total_of(stacks, name, within=()):
    """The count of all stacks in which NAME stands behind WITHIN."""
    return sum(count for stack, count in stacks.items()
               if stack[:len(within)] == within and name in stack[len(within):])


def under(stacks, path):
    return sum(count for stack, count in stacks.items() if stack[:len(path)] == path)


def shares(text):
    """(value, error) pairs out of `12.34 ± 0.56`."""
    return [(float(value.replace(",", "")), float(error.replace(",", "")))
            for value, error in re.findall(r"([0-9.,]+) ± ([0-9.,]+)", text)]


FRAMES = """[...document.querySelectorAll('g.frame')].map(g => {
    const box = g.querySelector('rect').getBoundingClientRect();
    return [g.getAttribute('name'), Math.round(box.left * 10) / 10, Math.round(box.top), box.width,
            getComputedStyle(g.querySelector('rect')).fill, g.getAttribute('class')];
})"""


def frames(page):
    """(name, left, top, width, colour, classes) of all that are drawn."""
    page.value("new Promise(done => setTimeout(done, 20))")
    return page.value(FRAMES)


def frame(page, name):
    """The widest one of a name."""
    found = [drawn for drawn in frames(page) if drawn[0] == name]
    expect(found, f"no frame {name!r}")
    return max(found, key=lambda drawn: drawn[3])


def click(page, name):
    _, left, top, width, _, _ = frame(page, name)
    page.point(left + width / 2, top + 8)


def text(page, identity):
    return page.value(f"document.getElementById('{identity}').innerText")


def search(page, term):
    """What the page says is the matched share, and its error."""
    page.value("document.getElementById('search').value = ''")
    page.value("document.getElementById('search').focus()")
    page.type(term)
    page.value("new Promise(done => setTimeout(done, 150))")
    return next(iter(shares(text(page, "matched"))), None)


def near_share(found, count, whole, what):
    """A share in percent and its standard error, with two decimals."""
    share = count / whole
    wanted = 100 * share, 100 * math.sqrt(share * (1 - share) / whole)
    expect(all(abs(a - b) < 0.006 for a, b in zip(found, wanted)), f"{what}: {found}, wanted {wanted}")


@test
def renders_and_agrees_with_the_folded_file():
    """Each frame is as wide as its share, and the numbers are those of the file."""
    stacks = made_up(1)
    whole = sum(stacks.values())
    page = opened(stacks)
    expect(f"{whole:,} samples" in text(page, "facts"), text(page, "facts"))
    expect(page.value("document.title").startswith("app"), page.value("document.title"))
    drawn = frames(page)
    width = frame(page, "all")[3]
    for thread in ("main", "worker-1", "worker-2"):
        share = under(stacks, (thread,)) / whole
        expect(abs(frame(page, thread)[3] / width - share) < 0.002, f"{thread}: not {share} wide")
    for name in ("parse", "größe"):
        widths = sum(1 for d in drawn if d[0] == name)
        paths = {stack[:i + 1] for stack in stacks for i, f in enumerate(stack) if f == name}
        expect(widths == len(paths), f"{name}: {widths} frames, wanted {len(paths)}")
    click(page, "main")
    expect(text(page, "details").startswith("main"), text(page, "details"))
    count = under(stacks, ("main",))
    told = shares(text(page, "details"))
    expect(told[0] == (count, round(math.sqrt(count))), f"samples of main: {told[0]}")
    near_share(told[1], count, whole, "share of main")
    expect(told[2] == (0, 0), f"self of main: {told[2]}")
    quiet(page)


@test
def search_tells_the_share():
    """A function counts once in a stack; the error is that of top."""
    stacks = made_up(2)
    whole = sum(stacks.values())
    page = opened(stacks)
    for name in FUNCTIONS:
        near_share(search(page, f"/^{re.escape(name)}$/"), total_of(stacks, name), whole, name)
        hits = {drawn[0] for drawn in frames(page) if "hit" in drawn[5]}
        expect(hits == {name}, f"{name}: marked {hits}")
    near_share(search(page, "MAP<int"), total_of(stacks, FUNCTIONS[1]), whole, "a part, in any case")
    search(page, "no such function")
    expect(text(page, "matched") == "none", "found what is not there")
    search(page, "parse")
    page.key("Escape")
    expect(text(page, "matched") == "", "the search does not end")
    quiet(page)


@test
def zoom_by_click_and_key():
    stacks = {("main", "a", "b"): 300, ("main", "a", "c", "d"): 100, ("main", "e"): 600}
    page = opened(stacks)
    full = frame(page, "all")[3]
    expect(abs(frame(page, "c")[3] - full / 10) < 1, "c is not a tenth wide")
    click(page, "c")
    for name in ("c", "d", "a", "main", "all"):
        expect(abs(frame(page, name)[3] - full) < 1, f"{name} does not fill the window")
    expect({"b", "e"}.isdisjoint(drawn[0] for drawn in frames(page)), "siblings are still drawn")
    page.value("document.getElementById('graph').focus()")
    page.key("Backspace")
    expect(abs(frame(page, "b")[3] - full * 3 / 4) < 1, "not at its caller")
    page.key("Escape")
    expect(abs(frame(page, "e")[3] - full * 6 / 10) < 1, "the zoom does not end")
    for key, name in (("ArrowUp", "main"), ("ArrowUp", "e"), ("ArrowRight", "a"), ("ArrowUp", "b"),
                      ("ArrowDown", "a"), ("ArrowLeft", "e")):
        page.key(key)
        expect(text(page, "details").splitlines()[0] == name, f"{key}: {text(page, 'details')!r}")
    page.key("Enter")
    expect(abs(frame(page, "e")[3] - full) < 1, "Enter does not zoom")
    page.value("document.getElementById('reset').click()")
    expect(abs(frame(page, "e")[3] - full * 6 / 10) < 1, "the button does not end the zoom")
    quiet(page)


@test
def what_moves_arrives():
    """Where the system has nothing against it frames move to their places, also when they are sent on."""
    page = opened({("main", "a", "b"): 300, ("main", "a", "c"): 100, ("main", "e"): 600})
    page.look(1200, 800, moving=True)
    full = frame(page, "all")[3]
    at_once = page.value("""(() => {
        const rect = (name) => document.querySelector(`g.frame[name="${name}"] rect`);
        for (const name of ["a", "c", "main", "e"]) {
            rect(name).dispatchEvent(new MouseEvent("click", {bubbles: true}));
        }
        return rect("e").width.baseVal.value;
    })()""")
    page.wait(f"{FRAMES}.filter(d => ['e', 'main', 'all'].includes(d[0]) && Math.abs(d[3] - {full}) < 1).length == 3")
    expect(at_once < full - 5, "nothing has moved")
    expect({d[0] for d in frames(page)} == {"e", "main", "all"}, f"{frames(page)}")
    quiet(page)


@test
def icicle():
    """Roots below, or on top."""
    page = opened(made_up(3))
    expect(frame(page, "all")[2] > frame(page, "main")[2], "the root is not below")
    page.value("document.getElementById('orientation').click()")
    expect(frame(page, "all")[2] < frame(page, "main")[2], "the root is not on top")
    expect(abs(frame(page, "all")[2] - page.value(
        "document.getElementById('stage').getBoundingClientRect().top")) < 3, "the root is out of sight")
    page.key("i")
    expect(frame(page, "all")[2] > frame(page, "main")[2], "the key does not turn it back")
    quiet(page)


@test
def threads():
    """One thread, and all as if they were one."""
    stacks = made_up(4)
    page = opened(stacks)
    options = page.value("[...document.getElementById('thread').options].map(o => [o.value, o.text.trim()])")
    by_name = {label.split(" ")[0]: value for value, label in options}
    expect({"main", "worker-1", "worker-2"} <= set(by_name), f"to be chosen from: {options}")

    def choose(value):
        page.value(f"(s => {{ s.value = '{value}'; s.dispatchEvent(new Event('change')); }})"
                   "(document.getElementById('thread'))")

    choose(by_name["worker-2"])
    drawn = {d[0] for d in frames(page)}
    expect("worker-2" in drawn and not {"all", "main"} & drawn, f"drawn: {drawn}")
    whole = under(stacks, ("worker-2",))
    near_share(search(page, "/^parse$/"), total_of(stacks, "parse", ("worker-2",)), whole, "of the thread")
    page.key("Escape")
    choose("as one")
    behind = {}
    for stack, count in stacks.items():
        behind[stack[1:]] = behind.get(stack[1:], 0) + count
    drawn, (_, _, root_top, full, _, _) = frames(page), frame(page, "all")
    roots = {stack[0] for stack in behind}
    depth_1 = [d for d in drawn if d[2] == root_top - 20]
    expect(sorted(d[0] for d in depth_1) == sorted(roots), f"roots: {depth_1}, wanted {roots}")
    for name, _, _, width, _, _ in depth_1:
        share = under(behind, (name,)) / sum(behind.values())
        expect(abs(width / full - share) < 0.002, f"{name}: {width / full}, wanted {share}")
    quiet(page)


@test
def dark_mode():
    """As the system says, and by the switch."""
    def lightness(page):
        channels = page.value("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", channels)[:3])) / 3

    for dark in (False, True):
        page = opened({("main", "a"): 1}, dark=dark)
        before = lightness(page), frame(page, "a")[4]
        expect((before[0] < 80) == dark, f"dark {dark}: {before}")
        page.value("document.getElementById('theme').click()")
        after = lightness(page), frame(page, "a")[4]
        expect((after[0] < 80) != dark and after[1] != before[1], f"switched: {before}, {after}")
        page.value("localStorage.clear()")
        quiet(page)


@test
def difference():
    """Shares are compared, so a profile twice as long with the same shares has not changed."""
    before = {("main", "same"): 4000, ("main", "grown"): 1000, ("main", "shrunk"): 3000, ("main", "gone"): 2000}
    after = {("main", "same"): 8000, ("main", "grown"): 6000, ("main", "shrunk"): 3000, ("main", "new"): 3000}
    directory = private_directory()
    files = write(directory / "old.folded", before), write(directory / "new.folded", after)
    made("--diff", *files, "-o", directory / "page.html")
    page = browser().page(directory / "page.html", ready=READY)
    drawn = {d[0]: d for d in frames(page)}
    full = drawn["all"][3]
    expect("gone" not in drawn and abs(drawn["grown"][3] / full - 0.3) < 0.002, f"widths: {drawn}")

    def hue(name):
        # oklch(L C H): the browser may give it back as such.
        found = re.findall(r"[0-9.]+", drawn[name][4])
        return float(found[2]) if drawn[name][4].startswith("oklch") else None

    expect(hue("grown") == hue("new") and hue("grown") < 60, f"grown: {drawn['grown'][4]}")
    expect(200 < hue("shrunk") < 300, f"shrunk: {drawn['shrunk'][4]}")
    expect(hue("same") is None and hue("main") is None, f"same: {drawn['same'][4]}")
    click(page, "shrunk")
    told = shares(text(page, "details"))
    near_share(told[0], 3000, 10000, "before")
    near_share(told[1], 3000, 20000, "after")
    error = 100 * math.hypot(math.sqrt(.3 * .7 / 10000), math.sqrt(.15 * .85 / 20000))
    expect(told[2][0] == 15 and abs(told[2][1] - error) < 0.006 and "−15.00" in text(page, "details"),
           f"the change: {told[2]}, error {error}")
    page.value("document.getElementById('reset').click()")
    page.value("document.getElementById('side').click()")
    drawn = {d[0]: d for d in frames(page)}
    expect("new" not in drawn and abs(drawn["gone"][3] / full - 0.2) < 0.002, f"widths before: {drawn}")
    quiet(page)


@test
def names_are_text():
    """Whatever is in names, files and titles stays text."""
    stacks = {("main", *HOSTILE[:i + 1]): 10 for i in range(len(HOSTILE))}
    page = opened(stacks, "--title", HOSTILE[0])
    expect(text(page, "title") == HOSTILE[0], f"title: {text(page, 'title')}")
    drawn = {d[0] for d in frames(page)}
    expect(set(HOSTILE) <= drawn, f"missing: {set(HOSTILE) - drawn}")
    for name in HOSTILE:
        click(page, name)
        expect(text(page, "details").startswith(name[:20]), f"{name}: {text(page, 'details')}")
        page.point(600, 500, click=False)
    expect(page.value("document.images.length") == 0 and "harmed" not in page.value("document.title")[:6],
           "a name became markup")
    expect(page.value("document.querySelectorAll('#graph b, #tip b, #details b').length") == 0, "markup")
    quiet(page)


@test
def bytes_that_are_no_text():
    """Names that are no UTF-8 are shown as far as they are."""
    directory = private_directory()
    (directory / "app.folded").write_bytes(b"main;\xff\xfeodd;\x01\x7f 7\n")
    made(directory / "app.folded", "-o", directory / "app.html")
    page = browser().page(directory / "app.html", ready=READY)
    expect(frame(page, "\ufffd\ufffdodd")[3] > 100, "not drawn")
    quiet(page)


def many(lines):
    """So many distinct stacks, up to 60 frames deep."""
    chance = random.Random(5)
    pool = [(f"worker-{n}", "start") for n in range(8)]
    seen = {}
    while len(seen) < lines:
        stack = chance.choice(pool) + tuple(f"ns::f{chance.randrange(5000)}(int)"
                                            for _ in range(chance.randrange(1, 5)))
        if len(stack) < 60 and stack not in seen:
            seen[stack] = chance.choice((1, 1, 2, 9))
            pool.append(stack)
    return seen


@test
def hundred_thousand_stacks():
    """Stay usable: few frames are drawn at a time, zooming shows the rest, numbers are of all."""
    stacks = many(100_000)
    whole = sum(stacks.values())
    began = time.monotonic()
    page = opened(stacks)
    loaded = time.monotonic() - began
    drawn = frames(page)
    expect(100 < len(drawn) <= 3000, f"{len(drawn)} frames are drawn at once")
    name = max((d for d in drawn if d[0].startswith("ns::")), key=lambda d: d[3])[0]
    count = total_of(stacks, name)
    near_share(search(page, f"/^{re.escape(name)}$/"), count, whole, name)
    page.key("Escape")
    deep = min((d for d in drawn if d[3] > 8), key=lambda d: d[2] if d[2] > 120 else 1e9)
    began = time.monotonic()
    page.point(deep[1] + deep[3] / 2, deep[2] + 8)
    page.wait("!document.getElementById('reset').disabled")
    zoomed = time.monotonic() - began
    expect(any("fade" in d[5] for d in frames(page)), "nothing is zoomed")
    print(f"# written and loaded in {loaded:.1f} s, zoomed in {zoomed:.2f} s")
    quiet(page)


@test
def deep_stacks():
    """As many levels as can be drawn; a zoom to the deepest one shows what calls it, and more."""
    page = opened({("main", *(f"level {n}" for n in range(9000))): 30, ("main", "flat"): 70})
    expect(100 < len(frames(page)) <= 3000, f"{len(frames(page))} frames")
    for _ in range(3):
        deepest = page.value("""(() => {
            const depth = (frame) => frame.__data__.depth;
            const top = [...document.querySelectorAll('g.frame')].sort((a, b) => depth(b) - depth(a))[0];
            top.querySelector('rect').dispatchEvent(new MouseEvent('click', {bubbles: true}));
            return top.getAttribute('name');
        })()""")
        expect(text(page, "details").startswith(deepest), f"zoomed to {deepest}: {text(page, 'details')}")
        box = frame(page, deepest)
        expect(100 < box[2] < 700, f"{deepest} is out of sight: {box}")
    expect(deepest > "level 8", f"came to {deepest}")
    quiet(page)


@test
def small_windows():
    """All controls are in a narrow window, and nothing makes it wider."""
    stacks = made_up(6)
    stacks[("main", "a_very_long_name_" * 20)] = 5000
    page = opened(stacks, width=360, height=640)
    for width, height in ((360, 640), (800, 400), (320, 480)):
        page.look(width, height)
        page.wait(f"innerWidth == {width}")
        click(page, "main")
        wide = page.value("document.documentElement.scrollWidth")
        expect(wide <= width, f"{width} wide: the page is {wide}")
        outside = page.value("[...document.querySelectorAll('#controls > :not([hidden])')].map(e => "
                             "e.getBoundingClientRect()).filter(b => b.right > innerWidth || b.width < 20).length")
        expect(outside == 0, f"{width} wide: {outside} controls are not to be seen")
        room = page.value("document.getElementById('stage').clientHeight")
        expect(room >= 120, f"{width} x {height}: {room} px are left for the picture")
    quiet(page)


@test
def after_a_run():
    """One page of all processes, with the program's status; a page that is there is left alone."""
    need_page()
    work = program("split")
    result = bare(the_command(), "--flamegraph", "--unit", "us", "/bin/sh", "-c",
                  f"i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done; {work} 300; {work} 300; exit 3")
    expect(result.status == 3 and result.stdout == b"done\ndone\n", str(result))
    told = re.search(r"flame graph: (\S+\.html) ", result.stderr.decode())
    expect(told, f"no page is told: {result.stderr.decode()}")
    expect(".split." in told.group(1), f"named by the process with fewer samples: {told.group(1)}")
    whole = sum(profile.total() for profile in result.profiles)
    page = browser().page(result.directory / told.group(1), ready=READY)
    expect(text(page, "title") == "sh", text(page, "title"))
    expect(f", {whole / 1000:.0f} ms of CPU time" in text(page, "facts"), f"{text(page, 'facts')}, wanted {whole}")
    drawn = {d[0] for d in frames(page)}
    expect({"all", "split"} <= drawn, f"no frame of the program: {drawn}")
    share = sum(p.total() for p in result.profiles if "split" in p.path.name) / whole
    expect(abs(frame(page, "split")[3] / frame(page, "all")[3] - share) < 0.002, f"split: not {share}")
    quiet(page)


@test
def time_of_a_run_by_timers():
    """A count is a period that the timers had, not the one that was asked for."""
    need_page()
    result = bare(the_command(), "-e", "timer", "--flamegraph=page.html", program("split"), "500")
    told = result.stderr.decode()
    rate = re.search(r"engine: timer at (\d+) Hz; ", told)
    seen = re.search(r"; ([0-9.]+) s of CPU time seen", told)
    expect(rate and seen, told)
    facts = text(browser().page(result.directory / "page.html", ready=READY), "facts")
    ms = re.search(r" at (\d+) Hz, (\d+) ms of CPU time", facts)
    expect(ms and ms[1] == rate[1], f"{facts}; {told}")
    expect(abs(int(ms[2]) - 1000 * float(seen[1])) <= 20, f"{facts}; {told}")


@test
def time_is_by_the_rate_of_the_file():
    """100 samples of a pprof file of 4 ms each."""
    need_page()
    directory = private_directory()
    folded, packed = write(directory / "a.folded", {("main", "f"): 100}), directory / "a.pb.gz"
    view("convert", "--to", "pprof", "--rate", 250, "-o", packed, folded)
    made(packed, "-o", directory / "a.html")
    page = browser().page(directory / "a.html", ready=READY)
    expect("100 samples at 250 Hz, 400 ms of CPU time" in text(page, "facts"), text(page, "facts"))
    quiet(page)


@test
def series_after_a_run():
    """A series of files is one profile: in the table, on the page, and by the command of the hint."""
    need_page()
    result = bare(the_command(), "--top", "--flamegraph=page.html", "-c", "1", "-u", "us", "-o",
                  "a b.%n.folded", program("split"), "2500")
    told = result.stderr.decode()
    count, us = len(result.profiles), sum(profile.total() for profile in result.profiles)
    expect(count >= 2 and f"wrote 'a b.'*.folded ({count} files; split, " in told, told)
    expect(f"{us} us, 1 thread, {count} files" in told, told)
    page = browser().page(result.directory / "page.html", ready=READY)
    expect(f", {us / 1e6:.2f} s of CPU time" in text(page, "facts"), f"{text(page, 'facts')}, {us} us")
    expect({"split", "sixty"} <= {d[0] for d in frames(page)}, f"{frames(page)}")
    expect(not {"a b.0", "a b.1"} & {d[0] for d in frames(page)}, f"a frame of a file: {frames(page)}")


@test
def hint_of_a_series():
    """The command that it names shows what all the files have."""
    need_page()
    result = bare(the_command(), "-c", "1", "-o", "a b.%n.folded", program("split"), "1500")
    hint = re.search(r"for a picture: (.*)", result.stderr.decode())
    expect(hint and " --sum 'a b.'*.folded > selfsample.html" in hint[1], result.stderr)
    subprocess.run(hint[1], shell=True, check=True, cwd=result.directory, timeout=60)
    page = browser().page(result.directory / "selfsample.html", ready=READY)
    whole = sum(profile.total() for profile in result.profiles)
    expect(f"{whole} samples" in text(page, "facts").replace(",", ""), text(page, "facts"))


@test
def page_that_cannot_be_written_is_told_before_the_run():
    need_page()
    directory = private_directory()
    for page, why in (("missing/x.html", "No such file"), (directory, "Is a directory")):
        result = bare(the_command(), f"--flamegraph={page}", program("split"), "100")
        expect(result.status == 125 and not result.stdout and not result.files(), str(result))
        expect(why in result.stderr.decode() and result.stderr.endswith(b"the program was not run\n"), str(result))


@test
def page_after_a_run_is_a_new_one():
    """Beside the profile, under a name that is free; or where the option says."""
    need_page()
    directory = private_directory()
    (directory / "a.html").write_text("mine")
    for option, wanted in (("--flamegraph", "a.1.html"), (f"--flamegraph={directory}/b.html", "b.html")):
        (directory / "a.folded").unlink(missing_ok=True)
        result = bare(the_command(), option, "-o", directory / "a.folded", program("split"), "100")
        expect(result.status == 0, str(result))
        expect((directory / wanted).read_text().startswith("<!doctype html>"), f"{wanted} is no page")
    expect((directory / "a.html").read_text() == "mine", "a page was overwritten")
    expect(len(list(directory.glob("*.html"))) == 3, str(list(directory.iterdir())))


def fed_slowly(terminal):
    """What stands on stderr, a terminal or a pipe, where the profile takes its time to come."""
    ours, theirs = pty.openpty() if terminal else os.pipe()
    process = subprocess.Popen([str(COMMAND), "flamegraph", "-"], stdin=subprocess.PIPE, stderr=theirs,
                               stdout=subprocess.DEVNULL)
    os.close(theirs)
    for _ in range(4):
        process.stdin.write(b"main;a 1\n" * 40000)
        process.stdin.flush()
        time.sleep(0.3)
    process.stdin.close()
    said = b""
    try:
        while piece := os.read(ours, 1 << 16):
            said += piece
    except OSError:
        pass  # a terminal whose other side is closed
    os.close(ours)
    expect(process.wait(30) == 0, f"{process.returncode}: {said!r}")
    return said


@test
def progress():
    """On a terminal, and it leaves nothing there; none in a pipe."""
    need_page()
    said = fed_slowly(terminal=True)
    expect(b"reading" in said and b"\n" not in said and said.endswith(b"\r\x1b[K"), f"{said!r}")
    said = fed_slowly(terminal=False)
    expect(said == b"", f"{said!r}")


@test
def mistakes():
    """Cost a line that says what to do, and leave no page."""
    directory = private_directory()
    folded = write(directory / "a.folded", {("main", "a"): 1})
    for arguments, wanted in (((), "usage"), (("--diff", folded), "two files"),
                              ((folded, directory / "none"), "No such file"),
                              (("--rate", "0", folded), "--rate"), (("--thread", "x", folded), "'x'")):
        said = made(*arguments, "-o", directory / "page.html", status=1)
        expect(wanted in said and said.count("\n") == 1, f"{arguments}: {said}")
    expect(not (directory / "page.html").exists(), "a page was left")
    ours, theirs = pty.openpty()
    result = subprocess.run([str(COMMAND), "flamegraph", str(folded)], stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    os.close(ours)
    expect(result.returncode == 1 and b"-o page.html" in result.stderr, f"to a terminal: {result.stderr}")


@test
def picture():
    """Python at work, as README shows it: SCREENSHOT=file keeps it there."""
    need_page()
    directory = private_directory()
    work = ("import json, re, zlib; text = json.dumps([{'n': n, 'name': 'row %d' % n} for n in range(150000)]);"
            "json.loads(text); re.findall('[0-9]+1[0-9]*', text); zlib.compress(text.encode());"
            "sum(1 for n in range(2, 15000) if all(n % d for d in range(2, int(n ** .5) + 1)))")
    result = bare(the_command(), f"--flamegraph={directory}/page.html", "/usr/bin/python3",
                  "-c", work)
    expect(result.status == 0, str(result))
    page = browser().page(directory / "page.html", width=1100, height=620, ready=READY)
    full = frame(page, "all")[3]
    widest = max((d for d in frames(page) if d[3] < full / 2), key=lambda d: d[3])
    page.point(widest[1] + widest[3] / 3, widest[2] + 8, click=False)
    page.wait("!document.getElementById('tip').hidden")
    target = os.environ.get("SCREENSHOT", directory / "page.png")
    data = page.picture(target)
    expect(data.startswith(b"\x89PNG") and 20_000 < len(data) < 150_000, f"{len(data)} bytes of picture")
    quiet(page)


@test
def without_the_page():
    """A command that was built without npm's packages, as one is here made to be, says what to do."""
    need_page()
    command = private_directory() / "selfsample"
    place = b'id="profile">@PROFILE@'
    built = the_command().read_bytes()
    expect(built.count(place) == 1, "the page is not where it is looked for")
    command.write_bytes(built.replace(place, place.replace(b"@PROFILE@", b"@nothing@")))
    command.chmod(0o755)
    for arguments, status in ((("flamegraph", "a.folded"), 1), (("--flamegraph", "echo", "run"), 125)):
        result = subprocess.run([str(command), *arguments], capture_output=True, timeout=60)
        said = result.stderr.decode()
        expect(result.returncode == status and result.stdout == b"", f"{arguments}: {result}")
        expect("`make deps`" in said and said.count("\n") == 1, f"{arguments}: {said}")


@test
def licences_are_in_the_page():
    directory = private_directory()
    made(write(directory / "a.folded", {("main", "a"): 1}), "-o", directory / "a.html")
    source = (directory / "a.html").read_text()
    for wanted in ("Apache License", "d3-flame-graph 5", "d3-selection 3", "Mike Bostock",
                   "THE SOFTWARE IS PROVIDED"):
        expect(wanted in source, f"no {wanted!r}")
    foreign = re.findall(r"<(?:script|link|img)[^>]* (?:src|href)=.(?!data:)[^>]*>", source)
    expect(foreign == [], f"loads {foreign}")


main()
