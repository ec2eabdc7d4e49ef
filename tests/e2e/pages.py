"""Pages of `selfsample flamegraph` in a headless Chromium: made, opened, and what a reader sees of them."""

import atexit
import math
import re
import subprocess

from browser import Browser
from harness import COMMAND, Skip, expect, private_directory
from stacks import write

READY = "document.querySelector('g.frame') !== null"
_browser = None


def browser():
    """One for all tests of the file."""
    global _browser
    if _browser is None:
        _browser = Browser().__enter__()
        atexit.register(_browser.__exit__)
    return _browser


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
