#!/usr/bin/env python3
"""Processes that are being profiled, listed, and their running top: in pipes and on terminals."""

import contextlib
import fcntl
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

from harness import (COMMAND, USER_ID, comm, expect, main, measured, need_root, private_directory, program, run, test,
                     top_directory, wait_helper, wait_until)

ENTER, LEAVE, HOME = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[H"
NAME = f"split-{os.getpid()}"
FOR_EVER = 600_000  # ms of CPU time; killed before


def named():
    """A program with three functions, of a name that no other process has."""
    path = top_directory() / NAME
    if not path.exists():
        shutil.copy(program("split"), path)
        path.chmod(0o755)
    return path


def command(*words, **more):
    return subprocess.run([str(COMMAND), *map(str, words)], capture_output=True, text=True, timeout=60, **more)


def profiled(look, *words, **more):
    """Calls LOOK(pid) while a program with three functions runs under the library, then ends it."""
    def while_running(pid):
        wait_listed(pid)
        wait_until(lambda: int(fields(pid)[3]) > 50, 30, "no samples come")
        try:
            look(pid)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    result = run(*(words or (named(), FOR_EVER)), while_running=while_running, **more)
    expect(result.stderr == b"", str(result))
    return result


def fields(pid):
    """Its line of `selfsample list`, as words."""
    for line in command("list").stdout.splitlines()[1:]:
        if line.split()[0] == str(pid):
            return line.split()
    return None


def wait_listed(pid):
    """Until its helper, which may have its name already, can be spoken with."""
    wait_until(lambda: fields(pid), 30, f"{pid} is not listed")


# list ----------------------------------------------------------------------------------------


@test
def test_list():
    """What it says of a process, while it is sampled, while it is paused, and when it is gone."""
    def look(pid):
        pid_told, since, cpu, samples, state, name, engine, file = fields(pid)
        began = time.mktime(time.strptime(time.strftime("%Y-%m-%d ") + since, "%Y-%m-%d %H:%M:%S"))
        expect((int(pid_told), state, name) == (pid, "running", NAME), f"{fields(pid)}")
        expect(0 <= (time.time() - began) % 86400 < 100, f"since {since}")
        moments = {fields(pid)[1] for _ in range(12) if time.sleep(0.09) is None}
        measured(moments == {since}, f"since {since}, then {moments}")
        expect(Path(file) == Path(f"/proc/{pid}/cwd").resolve() / f"selfsample.{NAME}.{pid}.folded", file)
        expect(engine.isalpha(), engine)
        measured(0.5 < float(cpu) * 999 / int(samples) < 2, f"{cpu} s, {samples} samples")
        wait_until(lambda: int(fields(pid)[3]) > int(samples) + 50, 30, "the samples do not grow")
        expect(command("pause", pid).returncode == 0 and fields(pid)[4] == "paused", f"{fields(pid)}")
        seen.append(pid)

    seen = []
    profiled(look)
    expect(fields(seen[0]) is None, "it is listed after its end")


@test
def test_list_of_two_that_want_one_name():
    """Whoever has it has it; of the other what it would get, which is what it gets."""
    def look(pid):
        wait_until(lambda: command("snapshot", pid).returncode == 0, 10, "no snapshot")

        def look_again(other):
            names = [Path(fields(each)[7]).name for each in (pid, other)]
            expect(names == ["x.folded", "x.1.folded"], f"{names}")
            written = command("snapshot", other).stdout.strip()
            expect(written == fields(other)[7] and fields(pid)[7].endswith("/x.folded"), f"{written}: {fields(other)}")

        profiled(look_again, options={"OUT": "x.folded"}, directory=directory)

    directory = private_directory()
    profiled(look, options={"OUT": "x.folded"}, directory=directory)


@test
def test_list_of_others():
    """A user sees their own; of others' only how many there are."""
    need_root()

    def look(pid):
        def not_shown():
            asked = command("list", user=USER_ID, group=USER_ID, extra_groups=[])
            expect(asked.returncode == 0 and str(pid) not in asked.stdout, str(asked))
            return int(re.search(r"(\d+) of other users (?:is|are) not shown", asked.stderr)[1])

        before = not_shown()
        expect(before > 0, "none")
        # A command is none, whatever it is called.
        with subprocess.Popen([COMMAND, "--only", "nobody", "sleep", "60"], stderr=subprocess.DEVNULL) as other:
            wait_until(lambda: comm(other.pid) == "selfsample", 10, "the command does not start")
            now = not_shown()
            other.terminate()
        measured(now == before, f"{now} of others, and {before} without a command")  # of other tests, too

    profiled(look)


@test
def test_list_errors():
    for words in (["list", "x"], ["live"], ["live", "1", "2"], ["live", "-i", "0", "1"]):
        told = command(*words)
        expect(told.returncode == 1 and told.stderr.count("\n") == 1 and told.stdout == "", f"{words}: {told}")
    expect("not being profiled" in command("live", os.getpid()).stderr, "live of another process")


# live, in a pipe -----------------------------------------------------------------------------


def table(text):
    """The functions of a table, with their self counts."""
    return {line.split("  ")[-1]: int(line.split()[4]) for line in text.splitlines()
            if re.match(r" *\d+\.\d\d ", line)}


@test(each=["samples", "us"])
def test_intervals(unit):
    """What came since the table before, and all at the end; the process gets no signal."""
    def while_running(pid):
        directory = Path(f"/proc/{pid}/cwd").resolve()

        def phase(number):
            (directory / f"go.{number}").touch()
            wait_until((directory / f"done.{number}").exists, 30, f"phase {number} does not end")

        wait_listed(pid)
        phase(1)
        live = subprocess.Popen([str(COMMAND), "live", str(pid), "--interval", "0.2"], text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_until(lambda: select.select([live.stdout], [], [], 0)[0], 30, "no table comes")
        phase(2)
        phase(3)
        seen["out"], seen["err"] = live.communicate(timeout=60)
        seen["status"] = live.returncode

    seen = {}
    result = run(program("phases"), options={"UNIT": unit, "OUT": "at-%n.folded"}, while_running=while_running)
    expect(result.stdout == b"signals: 0\n", f"the program got signals: {result.stdout!r}")
    expect(result.files() == ["at-0.folded", *(f"{w}.{n}" for w in ("done", "go") for n in "123")],
           f"{result.files()}")
    expect(seen["status"] == 0 and seen["err"].count("\n") == 1 and "has ended" in seen["err"]
           and str(result.profile.path) in seen["err"], f"{seen}")
    *intervals, last = seen["out"].split("\n\n")
    expect("all so far" in last and all("last 0." in text or "last 1." in text for text in intervals), seen["out"])
    functions = [table(text) for text in intervals]
    # Counts are rounded, and less than a period may be booked later where the last sample was.
    most = 2 if unit == "samples" else 2000
    expect(all(found.get("first", 0) <= most for found in functions),
           f"what was before is in an interval: {functions}")
    measured(any("second" in found for found in functions) and any("third" in found for found in functions),
             f"{functions}")
    whole = {}
    for stack, count in result.profile.stacks.items():
        whole[stack[-1]] = whole.get(stack[-1], 0) + count
    for name, count in table(last).items():
        if "..." in name:  # too long for the table
            continue
        in_file = whole.get(name, 0)  # of callers alone it has none
        expect(count == in_file, f"{name}: {count} in the last table, {in_file} in the file")
    for name in ("second", "third"):
        expect(sum(found.get(name, 0) for found in functions) <= whole[name] * 1.02 + 5, f"{name}: {functions}")


def looks(helper):
    return [link for link in map(os.readlink, Path(f"/proc/{helper}/fd").iterdir()) if "selfsample-look" in link]


@test
def test_tables():
    """As many as asked for, also on a terminal that can't be painted on; the helper keeps none."""
    def look(pid):
        one = command("live", pid, "--count", 2, "--interval", "0.3", "--all", "--rows", 3)
        first, second = one.stdout.split("\n\n")
        expect(one.returncode == 0 and one.stderr == "", str(one))
        expect("all so far" in first and "all so far" in second, one.stdout)
        growing = [sum(table(text).values()) for text in (first, second)]
        measured(growing[0] < growing[1], one.stdout)
        expect(growing[0] <= growing[1] and len(table(second)) == 3, one.stdout)

        ours, theirs = os.openpty()
        done = subprocess.run([str(COMMAND), "live", NAME, "--count", "1", "-i", "1.5"], stdin=theirs, stdout=theirs,
                              stderr=theirs, env={**os.environ, "TERM": "dumb"}, timeout=60)
        text = os.read(ours, 65536).decode().replace("\r", "")
        os.close(ours)
        os.close(theirs)
        expect(done.returncode == 0 and "\x1b" not in text, f"{text!r}")
        shares = table(text)
        total = sum(shares[name] for name in ("sixty", "thirty", "ten"))
        measured(0.53 < shares["sixty"] / total < 0.67, f"{shares}")

        helper = wait_helper(pid)
        expect(comm(helper) == "selfsample", "it is gone")
        wait_until(lambda: not looks(helper), 30, "the look stays")

    profiled(look, options={"FORMAT": "pprof"})  # looks are folded all the same


@test
def test_shares_of_short_intervals():
    """Each count is rounded by itself; all the same no share is of more than there is, and none is without an error."""
    def look(pid):
        tables = command("live", pid, "--interval", "0.1", "--count", 50).stdout
        rows = re.findall(r"^ *(\S+) +(\S+) +(\S+) +(\S+) +\d+ +\d+  ", tables, re.M)
        expect(len(rows) > 50, tables)
        for row in rows:
            self, self_error, total, total_error = map(float, row)
            expect(self <= total <= 100 and self_error >= 0 and total_error >= 0, f"{row}")

    profiled(look, program("work"), FOR_EVER * 1000)


@test
def test_by_name():
    """A program's name will do where one process alone runs it."""
    def look(pid):
        expect("`selfsample list`" in command("live", "nosuch").stderr, "a name that nobody has")
        wait_until(lambda: command("snapshot", NAME).returncode == 0, 10, "no snapshot")
        expect(command("pause", NAME).returncode == 0 and fields(pid)[4] == "paused", f"{fields(pid)}")
        expect(command("resume", NAME).returncode == 0 and fields(pid)[4] == "running", f"{fields(pid)}")

        def look_again(_):
            told = command("live", NAME, "--count", 1)
            expect(told.returncode == 1 and "2 profiled processes" in told.stderr, str(told))

        profiled(look_again)

    profiled(look)


@test
def test_nothing_to_see():
    """A process without a sample, and one that is paused."""
    def look(pid):
        expect(command("pause", pid).returncode == 0, "pause")
        text = command("live", pid, "--count", 2, "--interval", "0.2").stdout
        expect("paused" in text and "no samples" in text, text)

    profiled(look)

    def asleep(pid):
        wait_listed(pid)
        wait_until(lambda: "nanosleep" in Path(f"/proc/{pid}/wchan").read_text(), 30, "it does not sleep")
        text = command("live", pid, "--count", 1, "--interval", "0.2").stdout
        expect("no samples: it waits" in text, text)
        os.kill(pid, signal.SIGKILL)

    run("sleep", 60, while_running=asleep)


# live, on a terminal -------------------------------------------------------------------------


class Terminal:
    """`selfsample live` on a terminal of its own."""

    def __init__(self, *words, rows=24, columns=80):
        self.ours, theirs = os.openpty()
        self.size(rows, columns)
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        self.text = b""
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
        environment["TERM"] = "xterm"
        self.process = subprocess.Popen([str(COMMAND), "live", *map(str, words)], stdin=theirs, stdout=theirs,
                                        stderr=theirs, env=environment, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def size(self, rows, columns):
        self.rows = rows
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys):
        os.write(self.ours, keys)

    def read(self):
        while select.select([self.ours], [], [], 0.02)[0]:
            self.text += os.read(self.ours, 65536)
        return self.text

    def read_all(self):
        """Once nobody else writes: what is written may be on its way, and a word behind it comes last."""
        word = b"\0the end\0"
        os.write(self.theirs, word)
        wait_until(lambda: word in self.read(), 30, "nothing comes through the terminal")
        self.text = self.text.replace(word, b"")
        return self.text

    def screen(self):
        """The lines of the last painting that has come whole."""
        paintings = self.read().split(HOME)[1:]
        whole = [p for p in paintings if b"\x1b[J" in p or p.count(b"\x1b[K") == self.rows]
        last = whole[-1].split(b"\x1b[J")[0] if whole else b""
        return re.sub(rb"\x1b\[[?0-9]*[A-Za-z]", b"", last).decode().rstrip("\r\n").split("\r\n")

    def until(self, condition, what):
        return wait_until(lambda: condition(self.screen()), 30, f"{what}: {self.screen()}")

    def end(self):
        """Its status, once it has ended, and what it wrote after it gave the screen back."""
        wait_until(lambda: self.read() is not None and self.process.poll() is not None, 30, "it does not end")
        self.read_all()
        expect(termios.tcgetattr(self.theirs) == self.before, "the terminal is not as it was")
        expect(self.text.count(ENTER) == self.text.count(LEAVE) > 0, f"{self.text[-300:]}")
        os.close(self.ours)
        os.close(self.theirs)
        return self.process.returncode, self.text.rsplit(LEAVE, 1)[1].decode()


def has(text):
    return lambda lines: any(text in line for line in lines)


@test
def test_keys():
    """What they switch; by thread also in a pipe."""
    def look(pid):
        text = command("live", pid, "--count", 1, "--by-thread", "--thread", "burner-[01]").stdout
        names = set(table(text))
        measured({"burner-0: sixty", "burner-1: sixty"} <= names, text)
        expect(all(name.startswith(("burner-0: ", "burner-1: ")) for name in names), text)

        terminal = Terminal(pid, "--interval", "0.3")
        terminal.until(has("last 0."), "the last interval")
        raw = termios.tcgetattr(terminal.theirs)[3]
        expect(not raw & (termios.ICANON | termios.ECHO), "keys are not taken at once")
        for key, text in ((b" ", "all so far"), (b" ", "last 0."), (b"t", "burner-1: sixty")):
            terminal.press(key)
            terminal.until(has(text), f"{key}")
        terminal.press(b"t")
        terminal.until(lambda lines: not has(": sixty")(lines), "t once more")
        terminal.press(b"s")  # by total: those at the root come first
        terminal.until(lambda lines: has("body")(lines[3:6]), "s")
        terminal.press(b"x\x1b[A")
        terminal.press(b"q")
        status, rest = terminal.end()
        expect(status == 0 and rest.strip() == "", f"{status}, {rest!r}")

    profiled(look, program("burners"), 3, FOR_EVER)


@test
def test_resized():
    def look(pid):
        terminal = Terminal(pid, "--interval", "0.3")
        terminal.until(has("self%"), "a table")
        for rows, columns in ((9, 60), (30, 120), (4, 40), (24, 80)):
            terminal.size(rows, columns)
            terminal.text = terminal.text[:len(ENTER)]
            # One that was under way may come yet.
            terminal.until(lambda found: 2 < len(found) <= rows and max(map(len, found[2:])) <= columns
                           and (rows < 20 or has("sixty")(found)), f"painted anew on {rows} lines of {columns}")
        terminal.press(b"q")
        terminal.text = ENTER + terminal.text.replace(ENTER, b"")
        expect(terminal.end()[0] == 0, "status")

    profiled(look)


@test(each=["ctrl-C", "SIGHUP", "end", "helper killed"])
def test_gives_the_terminal_back(how):
    """Whatever ends it; and after the process's end its profile is shown."""
    def look(pid):
        terminal = Terminal(pid, "--interval", "0.2")
        terminal.until(has("self%"), "a table")
        if how == "ctrl-C":
            terminal.press(b"\x03")
        elif how == "end":
            os.kill(pid, signal.SIGKILL)
        elif how == "helper killed":
            os.kill(wait_helper(pid), signal.SIGKILL)
        else:
            terminal.process.send_signal(getattr(signal, how))
        status, rest = terminal.end()
        expect(status == 0, f"{status}, {rest}")
        if how in ("end", "helper killed"):
            expect("has ended" in rest and "all so far" in rest and "sixty" in rest, rest)
            expect(("left no profile" in rest) == (how != "end"), rest)
        else:
            expect(rest.strip() == "", rest)

    run(program("split"), 2500 if how == "helper killed" else FOR_EVER, timeout=60,
        while_running=lambda pid: (wait_listed(pid), look(pid), kill(pid)))


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@test
def test_stopped():
    """Ctrl-Z gives the terminal back, and fg takes it again."""
    def look(pid):
        terminal = Terminal(pid, "--interval", "0.3")
        terminal.until(has("self%"), "a table")
        terminal.press(b"\x1a")
        stat = Path(f"/proc/{terminal.process.pid}/stat")
        wait_until(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T", 10, "it does not stop")
        expect(terminal.read_all().count(LEAVE) == 1, "the screen is not given back")
        expect(termios.tcgetattr(terminal.theirs) == terminal.before, "nor is the terminal")
        terminal.process.send_signal(signal.SIGCONT)
        wait_until(lambda: terminal.read().count(ENTER) == 2, 10, "it does not come back")
        terminal.text = terminal.text[:terminal.text.rindex(ENTER) + len(ENTER)]
        terminal.until(has("self%"), "no table afterwards")
        terminal.press(b"q")
        terminal.text = terminal.text.replace(LEAVE, b"", 1) if terminal.text.count(LEAVE) else terminal.text
        terminal.text = ENTER + terminal.text.replace(ENTER, b"")
        expect(terminal.end()[0] == 0, "status")

    profiled(look)


main()
