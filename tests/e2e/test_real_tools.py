#!/usr/bin/env python3
"""Real tools in one process: compressors, sort, openssl, gpg, ImageMagick, ffmpeg."""

import random

from harness import EVERYONE, main, need, test
from real import check_real, check_tree, optional, run_real, work_file

ROOT_USER = EVERYONE[0]


def lines():
    """10 MB of lines of text, the same every time."""
    source = random.Random(7)
    words = [bytes(source.choices(b"etaoinshrdlu", k=source.randint(2, 9))) for _ in range(4000)]
    return b"\n".join(source.choices(words, k=1500000))


@test
def test_zstd():
    result = run_real(ROOT_USER, need("zstd"), "-T2", "-9", "-q", "-c", work_file("lines", lines))
    check_real(ROOT_USER, result, "zstd", need("zstd"), least_us=100000)


@test
def test_pigz():
    result = run_real(ROOT_USER, need("pigz"), "-9", "-p2", "-c", work_file("lines", lines))
    check_real(ROOT_USER, result, "pigz", need("pigz"), least_us=100000)


@test
def test_sort():
    result = run_real(ROOT_USER, need("sort"), "--parallel=2", "-S", "16M", "-o", "sorted",
                      work_file("lines", lines))
    check_real(ROOT_USER, result, "sort", need("sort"), least_us=100000)


@test
def test_openssl():
    """Hand-written assembly for every kind of processor: whole, or marked as cut."""
    data = work_file("lines", lines)
    result = run_real(ROOT_USER, need("openssl"), "dgst", "-sha3-512", *[data] * 6)
    check_tree(result, "openssl", marked=True)
    result = run_real(ROOT_USER, need("openssl"), "enc", "-camellia-256-cbc", "-pbkdf2", "-nosalt",
                      "-k", "x", "-in", data, "-out", "encrypted")
    check_tree(result, "openssl", least_us=20000, marked=True)


@test
def test_gpg():
    """It starts an agent, which goes into the background and is told to end."""
    script = ("mkdir -m 700 h; g='gpg --homedir h --batch -q --pinentry-mode loopback"
              " --passphrase x'; $g -c --cipher-algo AES256 -o o \"$1\"; $g -d o 2>/dev/null |"
              " md5sum; gpgconf --homedir h --kill all")
    need("gpg", "gpgconf", "gpg-agent")
    result = run_real(ROOT_USER, "/bin/sh", "-c", script, "sh", work_file("lines", lines))
    check_tree(result, "gpg", "gpg-agent", whole=0.95)


@test
def test_imagemagick():
    result = run_real(ROOT_USER, need("convert"), "-seed", "4", "-size", "900x900",
                      "plasma:fractal", "-blur", "0x9", "-resize", "60%", "rgb:-")
    check_tree(result, "convert")


@test
def test_ffmpeg():
    result = run_real(ROOT_USER, optional("ffmpeg"), "-v", "error", "-f", "lavfi", "-i",
                      "testsrc2=size=640x360:rate=25", "-t", "20", "-c:v", "mpeg4", "-threads", "2",
                      "-f", "null", "-")
    check_tree(result, "ffmpeg", marked=True)


main()
