#!/usr/bin/env python3
"""Compilers and git, with all the processes that they start."""

import subprocess
from pathlib import Path

from harness import EVERYONE, bare, expect, main, need, private_directory, test
from real import check_tree, run_real, work_file

ROOT_USER = EVERYONE[0]

CPP = b"""
#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <vector>

int main()
{
    std::map<std::string, std::vector<int>> table;
    std::sort(table["a"].begin(), table["a"].end());
    std::cout << table.size();
}
"""

REPOSITORY = """
git init -q .
for i in 1 2 3 4 5 6; do
    seq $((i * 3)) 1 $((40000 * i)) | sort -r >f$i
    git add .
    git -c user.name=a -c user.email=b@c -c gc.auto=0 commit -q -m $i
done
"""

GC = """
cp -r "$1" copy && cd copy
git gc -q --aggressive
git fsck --no-progress && git log --format=%s && git count-objects
git -c user.name=a -c user.email=b@c rebase -q --force-rebase HEAD~3 && git diff --stat HEAD~2
"""


@test
def test_gpp():
    compiler = subprocess.run([need("g++"), "-print-prog-name=cc1plus"], capture_output=True,
                              text=True, check=True).stdout.strip()
    result = run_real(ROOT_USER, need("g++"), "-c", work_file("a.cc", lambda: CPP), "-o", "a.o",
                      timeout=90)
    check_tree(result, "cc1plus", path=compiler.rsplit("/", 1)[0])


@test
def test_clang():
    result = run_real(ROOT_USER, need("clang"), "-c", work_file("a.cc", lambda: CPP), "-o", "a.o",
                      timeout=90)
    expect(any("clang" in p.path.name for p in result.profiles), f"{result.files()}")
    check_tree(result, path=str(Path(need("clang")).resolve().parent))


@test
def test_git():
    repository = private_directory()
    made = bare("/bin/sh", "-ec", REPOSITORY, directory=repository)
    expect(made.status == 0, str(made))
    need("git")
    result = run_real(ROOT_USER, "/bin/sh", "-ec", GC, "sh", repository)
    expect(result.status == 0, str(result))
    check_tree(result, "git", whole=0.95)


main()
