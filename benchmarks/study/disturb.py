"""Keep one core and its share of the caches busy about half of the time, in spells of random length.

python benchmarks/study/disturb.py [--core 1] [--share 0.5] [--seconds 3600] [--seed 0]
"""

from __future__ import annotations

import argparse
import os
import random
import time

import numpy as np

#: A spell lasts up to this long: shorter than a round of the suites beside it, longer than a call.
LONGEST_SPELL = 20.0
#: More than the last-level cache's share of a core, so that memory is disturbed as well.
BYTES = 32 * 2**20


def disturb(share: float, seconds: float, random_source: random.Random) -> None:
    """Alternate between copying memory and sleeping until the time is over."""
    end = time.monotonic() + seconds
    block = np.zeros(BYTES // 8)
    while time.monotonic() < end:
        spell = random_source.uniform(0, LONGEST_SPELL)
        busy_until = min(end, time.monotonic() + spell * share)
        while time.monotonic() < busy_until:
            block += 1.0
        time.sleep(max(min(spell * (1 - share), end - time.monotonic()), 0))


def main() -> None:
    """Pin to the core where the system lets us, then disturb."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--core", type=int, default=1)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {chosen.core})
    disturb(chosen.share, chosen.seconds, random.Random(chosen.seed))


if __name__ == "__main__":
    main()
