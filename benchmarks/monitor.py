"""What the monitor costs: time of a look and of reading it out, and CPU time of a fixed piece of work beside it.

python benchmarks/monitor.py [--products 20000] [--pairs 8]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import nullcontext
from statistics import median

import torch

from pytest_specgate.measure.monitor import Monitor

SUBJECT = {"device": "cpu", "threads": str(torch.get_num_threads())}


def work(products: int) -> float:
    """Small matrix products, each about as long as a layer of a small model: CPU seconds of the whole process."""
    matrix, begin = torch.ones(256, 256), time.process_time()
    for _ in range(products):
        matrix @ matrix
    return time.process_time() - begin


def per_call(call: Callable[[], object], times: int = 200) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--products", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=8)
    args = parser.parse_args()
    with Monitor(SUBJECT) as monitor:
        print(f"a look: {per_call(monitor._look) * 1e6:.0f} µs; reading out: {per_call(monitor.readings) * 1e3:.2f} ms")
    work(args.products // 10)
    ratios, shares = [], []
    for number in range(args.pairs):
        spent = {}
        for watched in (True, False) if number % 2 else (False, True):
            begin = time.perf_counter()
            with Monitor(SUBJECT) if watched else nullcontext() as monitor:
                spent[watched] = work(args.products)
            if monitor is not None:
                shares.append(monitor.spent / (time.perf_counter() - begin))
        ratios.append(spent[True] / spent[False] - 1)
    print(f"looking took {median(shares):.3%} of the wall time (bound 0.2 %)")
    print(f"CPU time of the work beside it: {median(ratios):+.2%} (from {min(ratios):+.2%} to {max(ratios):+.2%})")


if __name__ == "__main__":
    main()
