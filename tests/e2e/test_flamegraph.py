#!/usr/bin/env python3
"""`selfsample flamegraph`: the page in a headless Chromium, opened from a file.

What is looked at is what a reader sees: names, numbers, widths, colours. Numbers are held against the folded
file, counted here.
"""

import math
import os
import random
import re
import time

from harness import Skip, bare, expect, main, private_directory, test, the_command
from pages import (FRAMES, READY, browser, click, frame, frames, made, near_share, need_page, opened,
                   quiet, search, shares, text, total_of, under)
from stacks import write

FUNCTIONS = ["parse", "std::map<int, char*>::find(int const&)", "copy_user_[k]", "inlined_[i]", "größe",
             "libfoo.so+0x1a40", "a", "[unknown]"]
HOSTILE = ["</script><img src=x onerror=\"document.title='harmed'\">", "<!--<script>", "&lt &#60 \"'`${0}",
           "\\u003c\\", "@PROFILE@", "<b>bold</b>", "__proto__", "constructor"]


def made_up(seed, lines=120, threads=("main", "worker-1", "worker-2")):
    """Stacks with recursion, of weights that a window shows."""
    chance = random.Random(seed)
    stacks = {}
    for _ in range(lines):
        path = [chance.choice(FUNCTIONS) for _ in range(chance.randrange(1, 7))]
        stacks[(chance.choice(threads), *path)] = chance.randrange(20, 200)
    return stacks


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


@test(each=["of one rate", "of two rates"])
def difference(rates):
    """Shares are compared, so a profile twice as long with the same shares has not changed; errors are of samples."""
    before = {("main", "same"): 4000, ("main", "grown"): 1000, ("main", "shrunk"): 3000, ("main", "gone"): 2000}
    after = {("main", "same"): 8000, ("main", "grown"): 6000, ("main", "shrunk"): 3000, ("main", "new"): 3000}
    directory = private_directory()
    files = write(directory / "old.folded", before), write(directory / "new.folded", after)
    for path, rate in zip(files, (1000, 250)) if rates == "of two rates" else ():
        facts = f"bytes {path.stat().st_size}\nunit samples\nrate {rate}\nroots 1\n"
        try:
            os.setxattr(path, "user.selfsample", facts.encode())
        except OSError as error:
            raise Skip(f"no extended attributes here: {error}") from error
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
