#!/usr/bin/env python3
"""speedscope opens what the command converts to, and pprof files that the library has written.

It runs in Chromium, from npm's package of it in scripts/web, without a network. In its table of functions times
have two digits behind the point: with counts of 1 ms each and less than a second in all, they are exact.
"""

import base64
import json
import re
from collections import Counter

from browser import Browser
from harness import ROOT, Skip, expect, main, private_directory, program, run, test
from pprof import Pprof
from stacks import made_up, sums, view, write

PAGE = ROOT / "scripts" / "web" / "node_modules" / "speedscope" / "dist" / "release" / "index.html"
UNITS = {"ns": 1e-6, "µs": 1e-3, "ms": 1, "s": 1e3}
TABLE = "document.body?.innerText.includes('Symbol Name')"
ROW = re.compile(r"([0-9.]+)(ns|µs|ms|s) \([^)]*\)\s+([0-9.]+)(ns|µs|ms|s) \([^)]*\)\s+(\S[^\n]*)")


def table_of(path):
    """{function: (self ms, total ms)} as speedscope shows the first profile in a file."""
    if not PAGE.exists():
        raise Skip("needs npm's package speedscope: make deps")
    directory = private_directory()
    script, blank = directory / "load.js", directory / "blank.html"
    blank.touch()
    packed = base64.b64encode(path.read_bytes()).decode()
    script.write_text(f"speedscope.loadFileFromBase64({json.dumps(path.name)}, '{packed}')")
    with Browser() as browser:
        page = browser.page(blank, width=1200, height=4000)
        page.ask("Page.navigate", url=f"{PAGE.as_uri()}#localProfilePath={script}&view=sandwich")
        page.wait(TABLE)
        text = page.value("document.body.innerText")
        expect(not page.errors, page.errors)
    rows = {}
    for total, total_unit, own, own_unit, name in ROW.findall(text):
        rows[name] = (float(own) * UNITS[own_unit], float(total) * UNITS[total_unit])
    expect(rows, f"no rows: {text[:300]}")
    return rows


def outermost(stack):
    """What speedscope shows of a pprof file's stack: of functions that are inlined, the one they are in."""
    return tuple(name for i, name in enumerate(stack) if i < 2 or not name.endswith("_[i]"))


def small(form):
    """Some stacks of one thread, less than a thousand samples in all, and what is to be seen of them."""
    stacks = {stack: min(count, 9) for stack, count in made_up(1, threads=("main",)).items()}
    kept = dict(list(stacks.items())[:120])
    expect(sum(kept.values()) < 1000, "too many")
    shown = Counter()
    for stack, count in kept.items():
        shown[outermost(stack) if form == "pprof" else stack] += count
    own, total = sums(shown)
    return kept, {name: (own[name], total[name]) for name in total}


@test(each=("pprof", "speedscope"))
def converted(form):
    directory = private_directory()
    stacks, wanted = small(form)
    folded = write(directory / "folded", {s: c * (1000 if form == "speedscope" else 1)
                                          for s, c in stacks.items()})
    options = ["--rate", 1000] if form == "pprof" else ["--unit", "us"]
    out = directory / ("p.pb.gz" if form == "pprof" else "p.speedscope.json")
    view("convert", "--to", form, "-o", out, *options, folded)
    found = table_of(out)
    expect(found == wanted, f"{found} is not {wanted}")


@test
def recorded():
    """Of our own file: every function, its weight as exact as it is shown."""
    result = run(program("places"), options={"FORMAT": "pprof", "OUT": "p.pb.gz"})
    path = result.directory / "p.pb.gz"
    own, total = sums(Pprof(path).folded(1))
    found = table_of(path)
    expect(set(found) == set(total), f"{set(found) ^ set(total)}")
    for name, (own_ms, total_ms) in found.items():
        expect(abs(own_ms - own[name] / 1e6) <= 0.0051 and abs(total_ms - total[name] / 1e6) <= 0.0051,
               f"{name}: {own_ms}, {total_ms} ms; {own[name]}, {total[name]} ns")


main()
