"""How long collecting takes, and whether it grows linearly: suites of 100 gates each, in a fresh folder.

python benchmarks/collection.py [--files 25 50 100]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SUITE = """specgate: 1
engines:
  fake: {{kind: scripted}}
scenarios:
{scenarios}
gates:
{gates}
"""
METRICS = (
    "speedup",
    "tpot",
    "ttft",
    "e2el",
    "exact_match",
    "length_ratio",
    "token_accounting",
    "chrf",
    "bleu",
    "rouge_l",
)
LIMITS = {"tpot": "<=1 s", "ttft": "<=1 s", "e2el": "<=9 s"}


def write_suites(folder: Path, files: int) -> None:
    """``files`` suites of ten scenarios × ten gates."""
    prompts = [json.dumps({"id": f"p{i}", "turns": [f"Question number {i}?"]}) for i in range(8)]
    (folder / "prompts.jsonl").write_text("\n".join(prompts) + "\n")
    scenarios = "\n".join(f"  s{i}: {{category: qa, prompts: prompts.jsonl}}" for i in range(10))
    gates = "\n".join(f'  - {{metric: {m}, limit: "{LIMITS.get(m, ">=0.5")}"}}' for m in METRICS)
    for number in range(files):
        (folder / f"s{number}.specgate.yaml").write_text(SUITE.format(scenarios=scenarios, gates=gates))


def collect_seconds(files: int) -> tuple[float, int]:
    with tempfile.TemporaryDirectory() as folder:
        write_suites(Path(folder), files)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "--specgate",
            "--collect-only",
            "-q",
            "-p",
            "no:cacheprovider",
            folder,
        ]
        start = time.perf_counter()
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)
        return time.perf_counter() - start, sum("::" in line for line in done.stdout.splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[1, 25, 50, 100])
    for files in parser.parse_args().files:
        seconds, gates = collect_seconds(files)
        print(f"{files:4} files, {gates:6} gates: {seconds:.2f} s")


if __name__ == "__main__":
    main()
