#!/usr/bin/env python3
"""Shells, make, xargs and perl under the library: the same, with a profile of each that works."""

from harness import (EVERYONE, bare, both, expect, main, near_ms, need, private_directory, program,
                     run, same, test)

PIPELINES = r"""
set -e
x=$(for i in $(seq 1 200); do echo $i; done | sort -n | tail -1)
echo "last $x"
(cd / && pwd)
cat <(echo one) <(echo two) | tr a-z A-Z
printf '%s\n' c a b | sort | while read -r word; do echo "word $word"; done
false | true && echo pipe
! grep -q nothing <<<"something" && echo absent
(trap 'echo left' EXIT; exit 4) || echo "trapped $?"
(exit 7) || echo "status $?"
set +e; (set -o pipefail; false | cat); echo "pipefail $?"
sh -c 'kill -TERM $$'; echo "killed $?"
{ sleep 5 & kill $!; wait $!; } 2>/dev/null; echo "waited $?"
coproc cat; echo hello >&${COPROC[1]}; read -r line <&${COPROC[0]}; echo "$line"
exec 9>&1; echo nine >&9
ls /proc/self/fd | wc -l
head -c 1000000 /dev/zero | md5sum
yes | head -3
exit 3
"""

MAKEFILE = """
all: a b c d
a b c d:
\t@echo making $@ >$@; {work} 40000 && cat $@ >/dev/null
.PHONY: all
"""

PERL = r"""
my @pids;
for my $i (1 .. 5) {
    my $pid = fork // die;
    if (!$pid) { my $x = 0; $x += $_ ** 0.5 for 1 .. 300_000; exit $i; }
    push @pids, $pid;
}
for (@pids) { waitpid $_, 0; print $? >> 8, "\n"; }
print `echo inner`;
open(my $pipe, "-|", "seq 3") or die; print <$pipe>; close $pipe;
print wait(), "\n";
"""


@test(each=EVERYONE)
def test_bash(who):
    result = both(need("bash"), "-c", PIPELINES, user=who.user)
    expect(result.status == 3, f"status {result.status}")


@test
def test_a_pipe_ends_with_its_writer():
    """The helper holds no end of a pipe: the reader sees the end at once."""
    script = f"{program('work')} 100000 | cat; echo {{end}}"
    result = both("/bin/sh", "-c", script, timeout=20)
    expect(result.stdout == b"{end}\n", f"stdout {result.stdout!r}")


@test
def test_make():
    need("make")
    directory = private_directory()

    def prepare():
        (directory / "Makefile").write_text(MAKEFILE.format(work=program("work")))
        for name in "abcd":
            (directory / name).unlink(missing_ok=True)

    prepare()
    without = bare("make", "-j2", directory=directory)
    prepare()
    result = run("make", "-j2", directory=directory)
    same(without, result)
    expect(result.status == 0, str(result))
    works = [p for p in result.profiles if ".work." in p.path.name]
    expect(len(works) == 4, f"{len(works)} profiles of 4 jobs")
    near_ms(sum(p.total() for p in works), 160, 15, "samples of the jobs")


@test(each=EVERYONE)
def test_xargs(who):
    script = (f"find /usr/share/doc -maxdepth 1 -name 'lib*' | sort | head -40 |"
              f" xargs -P2 -n10 sh -c '{program('work')} 30000; echo $#' all")
    result = both("/bin/sh", "-c", script, user=who.user)
    expect(result.stdout.split() == [b"10"] * 4, f"stdout {result.stdout!r}")
    works = [p for p in result.profiles if ".work." in p.path.name]
    expect(len(works) == 4, f"{len(works)} profiles of work, wanted 4: {result.files()}")


@test
def test_perl():
    result = both(need("perl"), "-e", PERL)
    expect(result.stdout.endswith(b"1\n2\n3\n-1\n"), f"stdout {result.stdout!r}")
    profiles = [p for p in result.profiles if ".perl." in p.path.name]
    expect(len(profiles) >= 5, f"{len(profiles)} profiles of perl")
    expect(not any(p.ours() for p in profiles), "frames of ours")


main()
