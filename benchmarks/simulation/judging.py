"""From simulated arrays to verdicts of the shipped gates, and from verdicts to counts."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pytest_specgate.errors import Location
from pytest_specgate.gates import JudgeContext, Seen, judge
from pytest_specgate.records import Outcome, Place, PromptSamples, Samples, Stored, Verdict
from pytest_specgate.stats.budget import share
from pytest_specgate.stats.looks import Looks, doubling
from pytest_specgate.suite.cases import Gate
from pytest_specgate.suite.model import GateSpec
from simulation.machine import PROMPTS, Array, Levels, Machine, Runs, run

PLACE = Place("simulated", 1, "none")
STORED_ROUNDS, MOST_ROUNDS, CHECKS = 16, 8, 40
SEQUENTIAL, FIXED = doubling(MOST_ROUNDS), Looks((MOST_ROUNDS,))
#: So many builds are generated at once.
BATCH = 250


def gate(metric: str, **spec: Any) -> Gate:
    return Gate(GateSpec.model_validate({"metric": metric, **spec}), Location(Path("simulated.specgate.yaml"), 1, 1))


def context(alpha: float, looks: Looks) -> JudgeContext:
    today = dt.date(2030, 1, 1)
    return JudgeContext("simulated", "e::c", "scripted", alpha, PLACE, today, looks=looks.count)


def samples(series: Mapping[str, Array], *, greedy: bool = True) -> Samples:
    """``series[metric]`` has a row of rounds for each prompt."""
    rows = {name: values.tolist() for name, values in series.items()}
    prompts = [
        PromptSamples(f"p{i}", f"p{i}", {name: tuple(table[i]) for name, table in rows.items()})
        for i in range(len(next(iter(rows.values()))))
    ]
    return Samples("e::c", greedy, tuple(prompts))


def judged(
    asked: Gate, now: Mapping[str, Array], before: Mapping[str, Array] | None, alpha: float, looks: Looks = SEQUENTIAL
) -> Verdict:
    """The gate's verdict on one build."""
    seen = [Seen(n, samples({name: values[:, :n] for name, values in now.items()})) for n in looks.rounds]
    stored = None if before is None else Stored(PLACE, {}, {}, "2030-01-01", samples(before))
    return judge(asked, seen, stored, context(alpha, looks))


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of what builds or checks came to, and the sums of the rounds that they took and of their squares."""

    fails: int = 0
    passes: int = 0
    runs: int = 0
    rounds: int = 0
    squares: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.fails + other.fails,
            self.passes + other.passes,
            self.runs + other.runs,
            self.rounds + other.rounds,
            self.squares + other.squares,
        )

    @property
    def pairs(self) -> float:
        """Mean number of pairs until the decision."""
        return PROMPTS * self.rounds / self.runs

    @property
    def pairs_error(self) -> float:
        """Standard error of :attr:`pairs`."""
        mean = self.rounds / self.runs
        return PROMPTS * math.sqrt(max(self.squares / self.runs - mean**2, 0.0) / self.runs)

    @property
    def shares(self) -> str:
        """``.998 / .000``: shares of FAIL and PASS."""
        return f"{self.fails / self.runs:.3f} / {self.passes / self.runs:.3f}"


def tally(verdicts: Iterable[Verdict]) -> Tally:
    """Count them. A gate's rounds are those of its check that took longest."""
    found = Tally()
    for verdict in verdicts:
        rounds = max(check.looks[-1].rounds for check in verdict.checks)
        fails, passes = verdict.outcome is Outcome.FAIL, verdict.outcome is Outcome.PASS
        found += Tally(int(fails), int(passes), 1, rounds, rounds**2)
    return found


@dataclass(frozen=True, slots=True)
class Builds:
    """A batch of builds, each with the baseline that it is compared with."""

    stored: Runs
    now: Runs

    def __len__(self) -> int:
        return len(self.now.reference)


def batches(
    seed: Sequence[int], count: int, machine: Machine, loss: float = 0.0, *, exact: bool = True
) -> Iterable[Builds]:
    """``count`` builds that lost ``loss`` of their speed-up since a baseline of their own."""
    random = np.random.default_rng(list(seed))
    for start in range(0, count, BATCH):
        levels = Levels.draw(random, min(BATCH, count - start), exact=exact)
        stored = run(random, machine, levels, STORED_ROUNDS)
        yield Builds(stored, run(random, machine, levels, MOST_ROUNDS, loss))


def speedups(asked: Gate, builds: Builds, looks: Looks = SEQUENTIAL, alpha: float = share(CHECKS)) -> list[Verdict]:
    """Verdicts of a speed-up gate on every build of the batch."""
    stored, now = builds.stored.ratios, builds.now.ratios
    return [judged(asked, {"speedup": n}, {"speedup": s}, alpha, looks) for n, s in zip(now, stored)]
