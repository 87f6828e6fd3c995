"""What the installed but unused plugin adds to pytest's start: interleaved starts with and without it, as medians.

python benchmarks/startup.py [--pairs 30]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from statistics import median


def start_seconds(*options: str) -> float:
    start = time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, "--version"]
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=30)
    pairs = parser.parse_args().pairs
    start_seconds(), start_seconds("-p", "no:specgate")
    differences, plain = [], []
    for number in range(pairs):
        if number % 2:
            without, with_plugin = start_seconds("-p", "no:specgate"), start_seconds()
        else:
            with_plugin, without = start_seconds(), start_seconds("-p", "no:specgate")
        differences.append(with_plugin - without)
        plain.append(without)
    print(f"pytest --version: {median(plain) * 1e3:.1f} ms; ", end="")
    print(f"the plugin adds {median(differences) * 1e3:+.1f} ms (target <= 5)")


if __name__ == "__main__":
    main()
