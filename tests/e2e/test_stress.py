#!/usr/bin/env python3
"""A short piece of `make stress`, with a seed of its own each time."""

import sys
import time

from harness import ROOT, Failure, main, test

sys.path.insert(0, str(ROOT / "tests" / "stress"))

from storm import storm  # noqa: E402

SECONDS = 10


@test
def test_everything_at_once():
    seed = int(time.time())
    try:
        storm(SECONDS, seed, say=lambda text: print(f"# {text}", flush=True))
    except Failure as reason:
        raise Failure(f"{reason}; again by: make stress SEED={seed}") from None


main()
