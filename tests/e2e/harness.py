"""Runs programs bare and under libselfsample.so, and reads what they leave.

A test file declares tests with @test, and ends in main(). Every test prints one line:
`ok NAME`, `not ok NAME reason` or `skip NAME reason`; the last line is `N passed, N failed`,
and the file's exit status is 1 if any test failed. Arguments select tests by a part of their name.

    B=dir    where the library and the test programs are built (default: build)
    KEEP=1   keep the directories of the runs, and say where they are
    E2E_CFLAGS=flags   for the compiler of the test programs, after their own

Every run gets a private directory that ordinary users can reach, an environment without
SELFSAMPLE_* of the caller, and a mark in the environment (E2E_RUN) by which run() finds whatever
the program left behind: it returns once the helpers are gone, and fails when one stays.
"""

import atexit
import contextlib
import fcntl
import itertools
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from folded import Malformed, Profile
from processes import comm, helpers, marked, stacks_of, state  # noqa: F401, for tests too

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("B", ROOT / "build")).resolve()
SOURCES = ROOT / "tests" / "programs"
COMMAND = BUILD / "selfsample"
INCLUDE = f"-I{ROOT}/include"
FLAMEGRAPH = "/usr/share/perl5/Devel/NYTProf/flamegraph.pl"
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
USER_ID = 65534
USER_MEMLOCK_BYTES = 8 << 20

# Ignored under nohup, and then in all that is run from here.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Failure(Exception):
    """What the test checks does not hold."""


class Off(Failure):
    """A share is off: it says little if the host has taken the CPU away meanwhile."""


class Skip(Exception):
    """The test cannot be run here, for the reason given."""


def expect(condition, text):
    """Fails the test with the text unless the condition holds."""
    if not condition:
        raise Failure(text)


def measured(condition, text):
    """The same for what is measured, and may be off for once."""
    if not condition:
        raise Off(text)


def near(actual, wanted, tolerance, what):
    """Fails the test unless actual is within tolerance (absolute) of wanted."""
    if abs(actual - wanted) > tolerance:
        raise Off(f"{what}: {actual:.4g}, wanted {wanted:.4g} +- {tolerance:.4g}")


def stolen_ms():
    """What the host has taken from this machine's CPUs so far.

    The samplers' clock runs on then, the clocks of threads and processes stand still.
    """
    with open("/proc/stat") as stat:
        return int(stat.readline().split()[8]) * 1000 // os.sysconf("SC_CLK_TCK")


_stolen_before_ms = 0


def near_ms(actual, wanted, tolerance, what):
    """near(), in ms of CPU time (or samples at about 1 kHz); more only by what was stolen."""
    tolerance_up = tolerance + stolen_ms() - _stolen_before_ms
    if not wanted - tolerance <= actual <= wanted + tolerance_up:
        raise Off(f"{what}: {actual:.5g} ms, wanted {wanted:.5g} -{tolerance:.4g} "
                  f"+{tolerance_up:.4g}")


def need(*tools):
    """Skips the test unless every tool is there; returns the path of the first."""
    paths = [shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin") for tool in tools]
    for tool, path in zip(tools, paths):
        if path is None:
            raise Skip(f"needs {tool}")
    return paths[0]


def need_root():
    if os.geteuid() != 0:
        raise Skip("needs root")


# Directories ---------------------------------------------------------------------------------

_top = None


def top_directory():
    """One directory per test file, which everybody may enter; removed at the end."""
    global _top
    if _top is None:
        _top = Path(tempfile.mkdtemp(prefix="selfsample-e2e-"))
        _top.chmod(0o755)
        if os.environ.get("KEEP"):
            print(f"# runs are kept in {_top}")
        else:
            atexit.register(shutil.rmtree, _top, ignore_errors=True)
    return _top


def private_directory(user=False):
    """A new empty directory, owned by whoever will run in it."""
    path = Path(tempfile.mkdtemp(dir=top_directory()))
    path.chmod(0o755)
    if user and os.geteuid() == 0:
        os.chown(path, USER_ID, USER_ID)
    return path


def _reachable(path):
    """True if an ordinary user can read the file where it is."""
    if not path.stat().st_mode & 0o004:
        return False
    return all(parent.stat().st_mode & 0o001 for parent in path.parents)


def staged(path):
    """The file itself, or a copy where an ordinary user can read it."""
    if _reachable(path):
        return path
    copy = top_directory() / "staged" / path.name
    copy.parent.mkdir(exist_ok=True)
    if not copy.exists():
        shutil.copy2(path, copy)
        copy.chmod(0o755)
    return copy


def library():
    """The path of libselfsample.so, readable by everybody."""
    path = BUILD / "libselfsample.so"
    if not path.exists():
        raise Failure(f"{path} is not built")
    return staged(path)


def the_command():
    """The path of the selfsample command, with the library beside it, for everybody."""
    library()
    return staged(COMMAND)


# Test programs -------------------------------------------------------------------------------


def program(source, flags="", name=None, cc=None, strip=False):
    """Builds tests/programs/SOURCE into $B/tests and returns its path.

    A source without ending is C. The flags it always needs stand in its own first lines, after
    `Build:`. A variant built with other flags needs a name of its own.
    """
    path = SOURCES / (source if "." in source else source + ".c")
    directory = BUILD / "tests"
    directory.mkdir(parents=True, exist_ok=True)
    binary = directory / (name or path.name.split(".")[0])
    text = path.read_text()
    own = re.search(r"Build: (.*)", text)
    cpp = path.suffix == ".cc"
    command = [cc or ("g++" if cpp else "gcc"), "-std=gnu++17" if cpp else "-std=gnu11"]
    command += ["-O2", "-g", "-Wall", "-Wextra", str(path), "-o", str(binary)]
    command += flags.split() + (own.group(1).replace("*/", "").split() if own else [])
    command += os.environ.get("E2E_CFLAGS", "").split()
    stamp = binary.with_name(binary.name + ".cmd")
    inputs = [path, *SOURCES.glob("*.h")]
    line = " ".join(command) + (" strip" if strip else "")
    if not (binary.exists() and stamp.exists() and stamp.read_text() == line
            and all(i.stat().st_mtime <= binary.stat().st_mtime for i in inputs)):
        built = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if built.returncode != 0:
            raise Failure(f"{line}: {built.stderr.strip()}")
        if strip:
            subprocess.run(["strip", str(binary)], check=True)
        stamp.write_text(line)
    return staged(binary)


def shared(source, flags="", name=None):
    """Builds tests/programs/SOURCE as a shared object."""
    stem = source.split(".")[0]
    return program(source, "-shared -fPIC " + flags, name or f"lib{stem}.so")


# Running -------------------------------------------------------------------------------------


class Run:
    """What a program did: status (an exit code, or minus the signal), output, times, files."""

    def __init__(self, directory):
        self.directory = directory
        self.status = None
        self.stdout = b""
        self.stderr = b""
        self.elapsed = 0.0
        self.cpu_us = 0
        self.file_delay = 0.0
        self.process_clocks = []

    @property
    def profiles(self):
        return [Profile(path) for path in sorted(self.directory.rglob("*.folded*"))]

    @property
    def profile(self):
        profiles = self.profiles
        expect(len(profiles) == 1, f"{len(profiles)} folded files, wanted 1; {self}")
        return profiles[0]

    def files(self):
        return sorted(str(p.relative_to(self.directory)) for p in self.directory.rglob("*"))

    def quiet(self):
        """Fails unless stderr is empty."""
        expect(self.stderr == b"", f"unwanted message: {self.stderr[:300]!r}")

    def __str__(self):
        return (f"status {self.status}, stdout {self.stdout[-200:]!r}, "
                f"stderr {self.stderr[-300:]!r}, files {self.files()[:8]}")


_serial = itertools.count(1)


def _environment(directory, mark, libraries, options, env):
    """The caller's variables but for ours, with the run's mark, in a place that is the same everywhere."""
    variables = {k: v for k, v in os.environ.items()
                 if not k.startswith("SELFSAMPLE_") and k != "LD_PRELOAD"}
    variables.update(E2E_RUN=mark, HOME=str(directory), PATH="/usr/sbin:/usr/bin:/sbin:/bin",
                     LC_ALL="C.UTF-8", TMPDIR="/tmp")
    if libraries:
        variables["LD_PRELOAD"] = ":".join(map(str, libraries))
    for name, value in (options or {}).items():
        variables["SELFSAMPLE_" + name] = str(value)
    variables.update(env or {})
    return variables


def _preparation(user, limits, setup):
    """What is done in the child before the program is executed."""
    def prepare():
        hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
        if user and (hard == resource.RLIM_INFINITY or hard > USER_MEMLOCK_BYTES):
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (USER_MEMLOCK_BYTES, USER_MEMLOCK_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for name, value in (limits or {}).items():
            resource.setrlimit(name, (value, value))
        if setup:
            setup()
    return prepare


def _clock_file(mark):
    """Where the processes of the run may note their clocks."""
    path = top_directory() / f"clock-{mark}"
    path.touch()
    path.chmod(0o666)
    return path


def _clocks(path):
    for line in path.read_text().splitlines():
        fields = line.split(None, 5)
        name = fields[5] if len(fields) > 5 else ""  # a program may write over its own
        yield (name, *map(int, fields[:5]))


def _watch(process, mark, result, timeout, while_running):
    """Until the process has ended and nothing of the run is left; else all of it is killed."""
    started = time.monotonic()
    try:
        if while_running:
            while_running(process.pid)
        _wait(process, timeout, result)
        ended = time.monotonic()
        result.elapsed = ended - started
        wait_no_process(mark)
        result.file_delay = time.monotonic() - ended
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for pid in marked(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def run(*command, preload=True, options=None, env=None, user=False, timeout=60, stdin=b"",
        directory=None, before=(), after=(), clock=False, while_running=None, limits=None,
        setup=None, launcher=()):
    """Runs a command, by default under the library, and returns a Run.

    options        SELFSAMPLE_* variables without the prefix
    user           as an ordinary user rather than as root
    before, after  other libraries to preload before and after ours
    clock          preload one that notes the CPU clock of each process (process_clocks)
    while_running  called with the pid once the program runs
    limits         {resource.RLIMIT_X: value}
    setup          called in the child before the program is executed
    launcher       a command that runs the command; it gets the library too
    """
    directory = Path(directory) if directory else private_directory(user)
    mark = f"{os.getpid()}-{next(_serial)}"
    clocks = _clock_file(mark) if clock else None
    libraries = [*before, *([library()] if preload else []), *after, *([shared("cpuclock")] if clock else [])]
    noted = {"E2E_CLOCK": str(clocks)} if clock else {}
    identity = {}
    if user and os.geteuid() == 0:
        identity = dict(user=USER_ID, group=USER_ID, extra_groups=[])
    result = Run(directory)
    files = [tempfile.TemporaryFile() for _ in range(3)]
    files[0].write(stdin)
    files[0].seek(0)
    process = subprocess.Popen([*map(str, launcher), *map(str, command)], stdin=files[0],
                               stdout=files[1], stderr=files[2], cwd=directory,
                               env=_environment(directory, mark, libraries, options, {**noted, **(env or {})}),
                               preexec_fn=_preparation(user, limits, setup), start_new_session=True, **identity)
    _watch(process, mark, result, timeout, while_running)
    for file in files[1:]:
        file.seek(0)
    result.stdout, result.stderr = files[1].read(), files[2].read()
    if clock:
        result.process_clocks = list(_clocks(clocks))
    return result


def bare(*command, **arguments):
    """The same without the library."""
    return run(*command, preload=False, **arguments)


def _wait(process, timeout, result):
    """Waits for the process with a limit, and notes its status and its CPU time."""
    pidfd = os.pidfd_open(process.pid)
    try:
        if not select.select([pidfd], [], [], timeout)[0]:
            raise Failure(f"still running after {timeout} s: {' '.join(process.args)[:200]}"
                          f"{stacks_of(process.pid)}")
    finally:
        os.close(pidfd)
    _, status, usage = os.wait4(process.pid, 0)
    result.status = process.returncode = os.waitstatus_to_exitcode(status)
    result.cpu_us = int((usage.ru_utime + usage.ru_stime) * 1e6)


def wait_helper(parent, timeout=5):
    """The helper of a process that has just been started."""
    return wait_until(lambda: helpers(parent), timeout, f"no helper under pid {parent}")[0]


def signals_to_helper(*steps):
    """For while_running: waits so many seconds and sends the helper a signal, for each step."""
    def send(pid):
        helper = wait_helper(pid)
        for seconds, number in steps:
            time.sleep(seconds)
            os.kill(helper, number)
    return send


def wait_until(condition, timeout, text):
    """Polls until the condition holds; returns its value, or fails with the text."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(text)
        time.sleep(0.005)


def wait_no_process(mark, timeout=20):
    """Waits until nothing with the mark runs any more: no helper, no background process."""
    end = time.monotonic() + timeout
    while True:
        left = marked(mark)
        if not left:
            return
        if time.monotonic() > end:
            names = ", ".join(f"{pid} ({comm(pid)}){stacks_of(pid)}" for pid in left)
            raise Failure(f"left behind {timeout} s after the end: {names}")
        time.sleep(0.005)


def same(without, with_us):
    """Fails unless both runs look the same from outside."""
    for what in ("status", "stdout", "stderr"):
        a, b = getattr(without, what), getattr(with_us, what)
        if a == b:
            continue
        if isinstance(a, bytes):
            at = max(len(os.path.commonprefix([a, b])) - 100, 0)
            a, b = a[at:at + 600], b[at:at + 600]
        raise Failure(f"{what} differs: bare {a!r}, with us {b!r}")


def both(*command, **arguments):
    """Runs bare and preloaded, checks that they are the same; returns the preloaded run."""
    plain = {k: v for k, v in arguments.items()
             if k not in ("options", "while_running", "clock", "directory")}
    without = bare(*command, **plain)
    with_us = run(*command, **arguments)
    same(without, with_us)
    return with_us


# Identities ----------------------------------------------------------------------------------


@contextlib.contextmanager
def paranoid(level):
    """Sets perf_event_paranoid for the block; one test file at a time; root only. Others take it as it is."""
    if os.geteuid() != 0:
        if int(PARANOID.read_text()) != level:
            raise Skip(f"perf_event_paranoid is not {level} and can't be set: not root")
        yield
        return
    with open("/tmp/selfsample-e2e.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = PARANOID.read_text()
        try:
            PARANOID.write_text(str(level))
        except OSError as error:
            raise Skip(f"perf_event_paranoid {level} can't be set: {error}")
        try:
            yield
        finally:
            PARANOID.write_text(before)


def kernel_is_seen():
    """Are there kernel samples for whoever runs the tests?"""
    return os.geteuid() == 0 or int(PARANOID.read_text()) <= 1


def need_kernel_samples():
    """For a program that is in the kernel more often in some places than in others."""
    if not kernel_is_seen():
        raise Skip("needs kernel samples: perf_event_paranoid at 1 or less, or root")


def interrupts_ms(of_ms):
    """What of so much computing the samples of its functions may lack: interrupts are the kernel's, and cost up to a
    fifth where they are dear."""
    return 0 if kernel_is_seen() else 0.2 * of_ms


class Identity:
    """Who runs the program: root, or an ordinary user at a level of perf_event_paranoid."""

    def __init__(self, name, user, level):
        self.name, self.user, self.level = name, user, level

    @property
    def sees_kernel(self):
        return self.level <= 1 if self.user else kernel_is_seen()

    @contextlib.contextmanager
    def active(self):
        if not self.user:
            need_root()
            yield self
        else:
            with paranoid(self.level):
                yield self


EVERYONE = (Identity("root", False, None), Identity("user-paranoid-1", True, 1),
            Identity("user-paranoid-2", True, 2))

# Debian's kernels refuse perf events to an ordinary user then; others take it for 2.
LEVEL_3 = Identity("user-paranoid-3", True, 3)


# Sums ----------------------------------------------------------------------------------------


def check_sum(result, profile, tolerance=0.02, slack_ms=6, of=None):
    """The counts of a UNIT=us profile against the clock of the one process (named of) it is from.

    The slack is for what happens before the events are open and for the last, unfinished periods.
    """
    records = [r for r in result.process_clocks if of in (None, r[0])]
    expect(len(records) == 1, f"{len(records)} processes noted their clock, wanted 1: {records}")
    _, _, start_ns, end_ns, user_us, system_us = records[0]
    clock_ms = (end_ns - start_ns) / 1e6
    near_ms(profile.total() / 1000, clock_ms, clock_ms * tolerance + slack_ms,
            f"sum, {profile.unseen()} us of it the kernel's, against the CPU clock"
            f" (user {user_us} us, system {system_us} us)")


def told_lost(text):
    """How many stacks the summaries in the text say were lost; None where none says anything."""
    counts = re.findall(r"([0-9]+) lost;", text)
    return sum(map(int, counts)) if counts else None


# The list of tests ---------------------------------------------------------------------------

_tests = []


def _label(value):
    return value[0] if isinstance(value, tuple) else getattr(value, "name", value)


def at_scale(everyday, large):
    """The size of a case: the second one where E2E_LARGE=1 asks for it (make check-large)."""
    return large if os.environ.get("E2E_LARGE") == "1" else everyday


def test(function=None, *, each=None, who=None):
    """Registers a test; with each=[...], one per value, which it gets as its argument; with
    who=[...], one per identity, which it gets as the argument before that."""
    if function is None:
        return lambda f: test(f, each=each, who=who)
    name = function.__name__.removeprefix("test_")
    lists = [values for values in (who, each) if values is not None]
    for arguments in itertools.product(*lists):
        labels = ",".join(str(_label(value)) for value in arguments)
        _tests.append((f"{name}[{labels}]" if arguments else name, function, arguments))
    return function


def _attempt(function, arguments):
    if arguments and isinstance(arguments[0], Identity):
        with arguments[0].active():
            function(*arguments)
    else:
        function(*arguments)


def _attempt_undisturbed(name, function, arguments):
    """Runs a test, and again if a measure is off, twice at most: samples are random, in hundreds of
    measures some are 3 sigma off, and a busy machine or its host takes CPU time away. What does harm
    (output, status, hangs, what is left behind) has no second look."""
    global _stolen_before_ms
    for attempt in (1, 2, 3):
        _stolen_before_ms = stolen_ms()
        try:
            return _attempt(function, arguments)
        except Off as reason:
            lost_ms = stolen_ms() - _stolen_before_ms
            if attempt == 3:
                raise
            print(f"# {name} again, {lost_ms} ms were stolen: {reason}", flush=True)


def _run_one(name, function, arguments):
    """Runs a test; returns how many failed (0 or 1), or None if it was skipped."""
    try:
        _attempt_undisturbed(name, function, arguments)
    except Skip as reason:
        print(f"skip {name} {reason}", flush=True)
        return None
    except (Failure, Malformed) as reason:
        print(f"not ok {name} " + str(reason).replace("\n", " | "), flush=True)
        return 1
    except Exception:
        print(f"not ok {name} the test itself failed:\n{traceback.format_exc()}", flush=True)
        return 1
    print(f"ok {name}", flush=True)
    return 0


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # A shell ignores these two for what it starts in the background, and so would our programs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    wanted = sys.argv[1:]
    passed = failed = 0
    for name, function, arguments in _tests:
        if wanted and not any(part in name for part in wanted):
            continue
        outcome = _run_one(name, function, arguments)
        if outcome is not None:
            failed += outcome
            passed += 1 - outcome
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed else 0)
