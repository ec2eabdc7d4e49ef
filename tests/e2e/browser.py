"""A headless Chromium that opens pages from files, driven over its debugging pipe.

    with Browser() as browser:
        page = browser.page("/path/page.html", width=1200, height=800)
        page.value("document.title")

There is no network for it: names resolve to nothing. What a page logs as an error or leaves uncaught is in
page.errors, what it asked for from elsewhere in page.requests.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from harness import Failure, need

ANSWER_S = 60


class Browser:
    """The process and its pipe. One page at a time may wait for an answer."""

    def __init__(self):
        self.program = need("chromium")
        self.directory = tempfile.mkdtemp(prefix="selfsample-browser-")
        self.buffer = b""
        self.number = 0
        self.pages = {}

    def __enter__(self):
        command_read, self.write_fd = os.pipe()
        self.read_fd, answer_write = os.pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--no-first-run", "--disable-extensions", "--hide-scrollbars", "--mute-audio",
                   "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND",
                   "--force-color-profile=srgb", "--remote-debugging-pipe",
                   f"--user-data-dir={self.directory}", "about:blank"]
        environment = dict(os.environ, HOME=self.directory)
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{command_read} 4>&{answer_write}', "sh", self.program, *options],
            pass_fds=(command_read, answer_write), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        os.close(command_read)
        os.close(answer_write)
        return self

    def __exit__(self, *_):
        try:
            self.ask("Browser.close")
            self.process.wait(20)
        except (Failure, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.read_fd)
        os.close(self.write_fd)
        shutil.rmtree(self.directory, ignore_errors=True)

    def message(self, until):
        """The next message, or a failure at that time."""
        while b"\0" not in self.buffer:
            if not select.select([self.read_fd], [], [], max(0, until - time.monotonic()))[0]:
                raise Failure("chromium does not answer")
            piece = os.read(self.read_fd, 1 << 16)
            if not piece:
                raise Failure("chromium has ended")
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def ask(self, method, session=None, **parameters):
        """Calls a method of the debugging protocol, in a page's session if one is given."""
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if session:
            request["sessionId"] = session
        os.write(self.write_fd, json.dumps(request).encode() + b"\0")
        until = time.monotonic() + ANSWER_S
        while True:
            message = self.message(until)
            if message.get("id") == self.number:
                if "error" in message:
                    raise Failure(f"{method}: {message['error']}")
                return message["result"]
            page = self.pages.get(message.get("sessionId"))
            if page:
                page.note(message)

    def page(self, path, width=1200, height=800, dark=False, ready="document.readyState == 'complete'"):
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, target, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.ask(f"{domain}.enable")
        page.look(width, height, dark)
        page.ask("Page.navigate", url=Path(path).resolve().as_uri())
        page.wait(f"location.protocol == 'file:' && {ready}")
        return page


class Page:
    def __init__(self, browser, target, session):
        self.browser, self.target, self.session = browser, target, session
        self.errors, self.requests = [], []

    def ask(self, method, **parameters):
        return self.browser.ask(method, self.session, **parameters)

    def note(self, message):
        kind, what = message["method"], message["params"]
        if kind == "Runtime.exceptionThrown":
            self.errors.append(what["exceptionDetails"].get("exception", {}).get("description", "?"))
        elif kind == "Log.entryAdded" and what["entry"]["level"] == "error":
            self.errors.append(what["entry"]["text"])
        elif kind == "Network.requestWillBeSent":
            self.requests.append(what["request"]["url"][:200])

    def look(self, width, height, dark=False, moving=False):
        """The size of the window, and what the system would say of dark mode and of what moves."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                 mobile=False)
        self.ask("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "no-preference" if moving else "reduce"}])

    def value(self, expression):
        """What an expression of JavaScript comes to; a promise is waited for."""
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise Failure(f"{expression}: {details.get('exception', {}).get('description', details)}")
        return result["result"].get("value")

    def wait(self, expression, seconds=30):
        """Until it is true."""
        until = time.monotonic() + seconds
        while not self.value(expression):
            if time.monotonic() > until:
                raise Failure(f"in the page, not in {seconds} s: {expression}")
            time.sleep(0.02)

    def point(self, x, y, click=True):
        """Moves the pointer there, and clicks."""
        kinds = ["mouseMoved"] + (["mousePressed", "mouseReleased"] if click else [])
        for kind in kinds:
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, clickCount=1,
                     button="none" if kind == "mouseMoved" else "left")

    def key(self, key):
        """Presses a key: a letter, or one by its name (Enter, ArrowUp)."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.ask("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key)

    def type(self, text):
        self.ask("Input.insertText", text=text)

    def picture(self, path):
        """A PNG of the window."""
        data = base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"])
        Path(path).write_bytes(data)
        return data

    def close(self):
        self.browser.ask("Target.closeTarget", targetId=self.target)
        del self.browser.pages[self.session]
