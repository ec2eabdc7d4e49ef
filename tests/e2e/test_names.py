#!/usr/bin/env python3
"""Names of functions: none too many, demangled, from debug files, fit for a folded file."""

import os
import re
import shutil
import subprocess
import time

from folded import has_path
from harness import (FLAMEGRAPH, SOURCES, Skip, both, expect, main, measured, near, near_ms, need,
                     need_root, private_directory, program, run, shared, test)



def tool(*command):
    subprocess.run([str(word) for word in command], check=True, capture_output=True, timeout=60)


def addresses(binary):
    text = subprocess.run(["nm", binary], capture_output=True, text=True, check=True).stdout
    return {line.split()[2]: int(line.split()[0], 16) for line in text.splitlines()
            if len(line.split()) == 3}


@test
def test_stripped_library_with_one_export():
    """The hidden functions are not blamed on the export."""
    directory = private_directory()
    full = shared("oneexport.c")
    library = directory / "liboneexport.so"
    shutil.copy(full, library)
    tool("strip", library)
    user = program("useexport", f"-L{directory} -loneexport", name="useexport")
    profile = both(user, 1100, env={"LD_LIBRARY_PATH": str(directory)}).profile
    starts = addresses(full)
    expect(starts["hidden_fifty"] < starts["exported"] < starts["hidden_thirty"], f"{starts}")
    hidden = {function: f"liboneexport.so+0x{starts[function]:x}" for function in ("hidden_fifty", "hidden_thirty")}
    for function, share in (("hidden_fifty", 0.5), ("hidden_thirty", 0.3)):
        near(profile.share(hidden[function]), share, 0.03, f"{function}, {hidden[function]}")
    # What it calls itself is the clock, which takes its time where system calls are dear.
    own = profile.share_where(lambda s: "exported" in s and not set(hidden.values()) & set(s))
    near(own, 0.2, 0.03, "exported without the hidden ones")
    near(profile.share("exported"), 1.0, 0.02, "exported with what it calls")


def check_named(profile):
    for function, share in (("sixty", 0.6), ("thirty", 0.3), ("ten", 0.1)):
        near(profile.share(function), share, 0.03, f"{function}; heaviest: {profile.heaviest()}")
        right = profile.share_where(lambda s: has_path(s, "main", "middle", function))
        near(right, share, 0.03, f"main;middle;{function}")


def split_in(directory, name):
    binary = directory / name
    shutil.copy(program("split"), binary)
    return binary


@test(each=["beside", ".debug"])
def test_debug_link(place):
    directory = private_directory()
    binary = split_in(directory, "linked")
    tool("objcopy", "--remove-section=.note.gnu.build-id", binary)
    debug = directory / ("" if place == "beside" else place) / "linked.debug"
    debug.parent.mkdir(exist_ok=True)
    tool("objcopy", "--only-keep-debug", binary, debug)
    tool("strip", binary)
    tool("objcopy", f"--add-gnu-debuglink={debug}", binary)
    check_named(run(binary, 1100).profile)


@test
def test_debug_link_to_the_wrong_file():
    """A debug file of another checksum is not this program's: no names rather than wrong ones."""
    directory = private_directory()
    binary = split_in(directory, "linked")
    tool("objcopy", "--remove-section=.note.gnu.build-id", binary)
    debug = directory / "linked.debug"
    tool("objcopy", "--only-keep-debug", binary, debug)
    tool("strip", binary)
    tool("objcopy", f"--add-gnu-debuglink={debug}", binary)
    tool("objcopy", "--only-keep-debug", program("burners"), debug)
    profile = both(binary, 600).profile
    wrong = {f for f in profile.functions() if f in ("sixty", "thirty", "ten", "body", "main")}
    expect(not wrong, f"names of another file: {wrong}")


@test
def test_build_id():
    need_root()
    directory = private_directory()
    binary = directory / "identified"
    unique = program("split", "-Wl,--build-id=0x5e1f5a3b1e0123456789abcdef5e1f5a3b1e0123",
                     name="split-identified")
    shutil.copy(unique, binary)
    debug = "/usr/lib/debug/.build-id/5e/1f5a3b1e0123456789abcdef5e1f5a3b1e0123.debug"
    existed = os.path.isdir(os.path.dirname(debug))
    os.makedirs(os.path.dirname(debug), exist_ok=True)
    try:
        tool("objcopy", "--only-keep-debug", binary, debug)
        tool("strip", binary)
        check_named(run(binary, 1100).profile)
    finally:
        os.unlink(debug)
        if not existed:
            os.rmdir(os.path.dirname(debug))


@test
def test_mini_debug_info():
    """.gnu_debugdata: an xz-compressed symbol table inside the program."""
    need("xz")
    directory = private_directory()
    binary = split_in(directory, "mini")
    mini = directory / "mini.debug"
    tool("objcopy", "--only-keep-debug", binary, mini)
    tool("objcopy", "-S", "--remove-section=.gdb_index", "--remove-section=.comment",
         *(f"--keep-symbol={name}" for name in ("sixty", "thirty", "ten", "middle", "main",
                                                "_start")), mini)
    tool("xz", "-f", mini)
    tool("strip", binary)
    tool("objcopy", "--add-section", f".gnu_debugdata={mini}.xz", binary)
    check_named(run(binary, 1100).profile)


@test(each=["-no-pie", "-pie"])
def test_code_in_two_segments(kind):
    """A function in a segment of its own, far from the rest of the code."""
    directory = private_directory()
    made, moved, binary = (directory / name for name in ("split.o", "moved.o", "split"))
    tool("gcc", "-O2", "-ffunction-sections", "-fPIE", "-c", SOURCES / "split.c", "-o", made)
    tool("objcopy", "--rename-section", ".text.thirty=.far", made, moved)
    tool("gcc", kind, moved, "-Wl,--section-start=.far=0x7000000", "-o", binary)
    headers = subprocess.run(["readelf", "-lW", binary], capture_output=True, text=True).stdout
    expect(len(re.findall(r"LOAD .* R E ", headers)) == 2, headers)
    check_named(run(binary, 1100).profile)


@test(each=["deleted", "replaced"])
def test_file_changes_while_it_runs(how):
    """Right names, never those of the new file."""
    directory = private_directory()
    binary = split_in(directory, "changing")

    def change(_):
        time.sleep(0.3)
        if how == "deleted":
            binary.unlink()
        else:
            shutil.copy(program("leave"), directory / "new")
            os.rename(directory / "new", binary)

    profile = run(binary, 1100, while_running=change).profile
    foreign = profile.functions() & {"work", "work_after_main", "end_by_call", "end_by_thread"}
    expect(not foreign, f"names of the new file: {foreign}")
    check_named(profile)


@test
def test_cpp():
    """Demangled as c++filt does it; the quarters are right."""
    binary = program("deepnames.cc")
    profile = run(binary, 2000).profile
    mangled = [name for name in addresses(binary) if name.startswith("_Z")]
    for pattern, what in ((r"deep_template", "template"), (r"hidden_name", "anonymous"),
                          (r"Number.*ls|NumberlsE", "operator"), (r"_M_invoke", "lambda")):
        name = next(n for n in mangled if re.search(pattern, n))
        plain = subprocess.run(["c++filt", name], capture_output=True, text=True).stdout.strip()
        wanted = 0.5 if what == "operator" else 0.25
        near(profile.share(plain), wanted, 0.03, f"{what}: {plain[:80]}")
    halves = [f for f in profile.functions() if re.search(r"_ZN?[0-9]", f)]
    expect(not halves, f"not demangled: {halves}")


@test
def test_rust():
    """Both manglings of Rust."""
    rustc = shutil.which("rustc")
    if not rustc:
        raise Skip("needs rustc")
    directory = private_directory()
    source = directory / "rusty.rs"
    source.write_text("""
pub struct Pair<T>(T);
impl<T: Copy + Into<u64>> Pair<T> {
    #[inline(never)]
    pub fn spin(&self, times: u64) -> u64 {
        let mut x: u64 = self.0.into();
        for i in 0..times { x = std::hint::black_box(x.rotate_left(5) ^ i); }
        x
    }
}
fn main() { println!("{}", Pair(7u32).spin(700_000_000) & 1); }
""")
    for version in ("legacy", "v0"):
        binary = directory / f"rusty-{version}"
        flags = ["-C", f"symbol-mangling-version={version}", "-O", "-o", str(binary)]
        if version == "legacy":
            flags = ["-Z", "unstable-options", *flags]
        built = subprocess.run([rustc, str(source), *flags], capture_output=True, text=True,
                               timeout=120, env={**os.environ, "RUSTC_BOOTSTRAP": "1"})
        if built.returncode != 0:
            raise Skip(f"rustc: {built.stderr.strip()[:100]}")
        profile = run(binary).profile
        named = [f for f in profile.functions() if "rusty::Pair" in f and "spin" in f]
        measured(len(named) == 1 and profile.share(named[0]) > 0.9,
                 f"{version}: {[f for f in profile.functions() if 'spin' in f]}")
        expect(not re.search(r"17h[0-9a-f]{16}|^_R", named[0]), f"half demangled: {named}")


def redefined(new_names, source="oddnames", flags="-pthread"):
    """Builds a program whose symbols get other names after compiling."""
    directory = private_directory()
    objects = [directory / "in.o", directory / "out.o"]
    binary = directory / "redefined"
    tool("gcc", "-O2", "-g", "-c", SOURCES / f"{source}.c", "-o", objects[0])
    arguments = []
    for i, (old, new) in enumerate(new_names.items()):
        if len(new) > 100000:
            listed = directory / f"names{i}"
            listed.write_text(f"{old} {new}\n")
            arguments.append(f"--redefine-syms={listed}")
        else:
            arguments += ["--redefine-sym", f"{old}={new}"]
    tool("objcopy", *arguments, *objects)
    tool("gcc", *flags.split(), objects[1], "-o", binary)
    return binary


@test
def test_awkward_names():
    """`;`, spaces, newlines and UTF-8 in names of functions, threads and the program."""
    odd = redefined({"odd_semicolon": "odd;semi", "odd_space": "odd space 3",
                     "odd_newline": "odd\nline", "odd_utf8": "füße"})
    binary = odd.parent / "pro;gram 12"
    os.rename(odd, binary)
    result = both(binary, directory=odd.parent)
    profile = result.profile
    near_ms(profile.total(), 750, 40, "samples")
    for name in ("odd.semi", "odd.space.3", "odd.line", "füße", "odd_plain"):
        found = [f for f in profile.functions() if re.fullmatch(name, f)]
        measured(len(found) == 1, f"no function like {name}: {profile.functions()}")
        near(profile.share(found[0]), 0.2, 0.03, name)
    for name in ("semi.colon", "two.words.7", "new.line", "grüße"):
        found = [t for t in profile.threads() if re.fullmatch(name, t)]
        measured(len(found) == 1, f"no thread like {name}: {profile.threads()}")
    expect("\n" not in profile.path.name and "/" not in profile.path.name, profile.path.name)


@test
def test_flamegraph_reads_it():
    if not os.path.exists(FLAMEGRAPH):
        raise Skip(f"needs {FLAMEGRAPH}")
    odd = redefined({"odd_semicolon": "odd;semi", "odd_space": "odd space 3",
                     "odd_newline": "odd\nline", "odd_utf8": "füße"})
    profile = run(odd, directory=odd.parent).profile
    drawn = subprocess.run([FLAMEGRAPH, profile.path], capture_output=True, text=True)
    expect(drawn.returncode == 0 and not drawn.stderr.strip(), f"stderr: {drawn.stderr[:300]}")
    total = re.search(r"<title>all \(([0-9,]+) samples, 100%\)", drawn.stdout)
    expect(total and int(total.group(1).replace(",", "")) == profile.total(),
           f"the picture has {total and total.group(1)} samples of {profile.total()}")


@test
def test_huge_name():
    """A mangled name of 1 MB, and one that expands without end: bounded time and length."""
    huge = "_ZN" + "4aaaaIiE" * 130000 + "1fEv"
    bomb = "_Z1fI" + "S_" * 3 + "NSt4pairI" * 400 + "ii" + "EE" * 400 + "Evv"
    binary = redefined({"odd_semicolon": huge, "odd_space": bomb})
    result = both(binary, directory=binary.parent, timeout=30)
    profile = result.profile
    near_ms(profile.total(), 750, 40, "samples")
    measured(result.file_delay < 3, f"the file took {result.file_delay:.1f} s")
    longest = max(len(f) for f in profile.functions())
    expect(longest < 70000, f"a frame of {longest} characters")
    near(profile.share("odd_plain"), 0.2, 0.03, "odd_plain")


main()
