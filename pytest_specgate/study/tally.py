"""Count a study: how often each gate failed, was undecided or could not be judged, with exact limits.

A rate is over the builds in which the gate could be judged: one that never could has no rate, least of all 0. All
builds count as independent draws *given the one baseline* that they were judged against.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import pytest_specgate
from pytest_specgate import jsontext
from pytest_specgate.codec import encode
from pytest_specgate.files import write_atomically
from pytest_specgate.masking import masker
from pytest_specgate.records import Outcome
from pytest_specgate.stats.proportions import exact_limits, upper_limit
from pytest_specgate.study.ledger import Build
from pytest_specgate.study.plan import Plan, question

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Rate:
    """``hits`` of ``trials`` with 95 % limits, two-sided ``low`` and ``high`` and one-sided ``upper``; None of none."""

    hits: int
    trials: int
    value: float | None
    low: float | None
    high: float | None
    upper: float | None


@dataclass(frozen=True, slots=True)
class GateTally:
    """One gate on one case over the builds of one kind; ``examples`` has the first reason of each outcome."""

    case: str
    gate: str
    metric: str
    builds: int
    errors: int
    fail: Rate
    inconclusive: Rate
    examples: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CaseTally:
    """One case: how many rounds its measurements took, and what the naive rule says of them."""

    case: str
    median_rounds: float
    naive: Rate


@dataclass(frozen=True, slots=True)
class KindTally:
    """The builds of one kind: unchanged (``planted`` is empty) or with one plant.

    ``whole`` takes a build as one: ERROR where any gate could not be judged, else FAIL where any failed, else
    INCONCLUSIVE where any was. ``naive`` fails where the naive rule fails any case. Times are seconds to all verdicts.
    """

    planted: str
    builds: int
    median_seconds: float | None
    p90_seconds: float | None
    whole: GateTally
    naive: Rate
    gates: tuple[GateTally, ...]
    cases: tuple[CaseTally, ...]


@dataclass(frozen=True, slots=True)
class StudyReport:
    """A whole study as ``--json`` writes it."""

    schema: int
    version: str
    created: str
    suite: str
    question: Mapping[str, str]
    confidence: float
    kinds: tuple[KindTally, ...]

    @property
    def errors(self) -> int:
        """Builds in which something could not be judged."""
        return sum(kind.whole.errors for kind in self.kinds)


def tally(plan: Plan, builds: Sequence[Build]) -> StudyReport:
    """The report of the builds made so far."""
    created = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    kinds = ("", *(plant.text for plant in plan.plants))
    return StudyReport(
        schema=SCHEMA,
        version=pytest_specgate.__version__,
        created=created,
        suite=plan.suite.name,
        question=question(plan),
        confidence=0.95,
        kinds=tuple(_kind(planted, [build for build in builds if build.planted == planted]) for planted in kinds),
    )


def write(path: Path, report: StudyReport) -> None:
    """Write the report as JSON, whole, secrets of the environment masked. Raises StoreError."""
    write_atomically(path, jsontext.dump(encode(report, masker(os.environ)), indent=1) + "\n")


def rate(hits: int, trials: int) -> Rate:
    """The share with its exact limits; without a trial nothing is known."""
    if not trials:
        return Rate(0, 0, None, None, None, None)
    return Rate(hits, trials, hits / trials, *exact_limits(hits, trials), upper_limit(hits, trials))


def _kind(planted: str, builds: Sequence[Build]) -> KindTally:
    seconds = [build.seconds for build in builds]
    outcomes: dict[tuple[str, str, str], list[tuple[int, Outcome, str]]] = {}
    for build in builds:
        for one in build.gates:
            said = (build.number, one.outcome, one.reason)
            outcomes.setdefault((one.case, one.gate, one.metric), []).append(said)
    return KindTally(
        planted=planted,
        builds=len(builds),
        median_seconds=float(np.median(seconds)) if seconds else None,
        p90_seconds=float(np.quantile(seconds, 0.9)) if seconds else None,
        whole=_gate(("", "any gate", ""), [(build.number, _worst(build), "") for build in builds]),
        naive=_naive(builds, lambda build: [run.naive for run in build.cases]),
        gates=tuple(_gate(key, said) for key, said in outcomes.items()),
        cases=tuple(_case(name, builds) for name in dict.fromkeys(run.case for b in builds for run in b.cases)),
    )


def _worst(build: Build) -> Outcome:
    found = {one.outcome for one in build.gates}
    order = (Outcome.ERROR, Outcome.FAIL, Outcome.INCONCLUSIVE)
    return next((outcome for outcome in order if outcome in found), Outcome.PASS)


def _gate(key: tuple[str, str, str], said: Sequence[tuple[int, Outcome, str]]) -> GateTally:
    counted = {outcome: sum(one == outcome for _, one, _ in said) for outcome in Outcome}
    judged = len(said) - counted[Outcome.ERROR]
    examples: dict[str, str] = {}
    for number, outcome, reason in said:
        if reason:
            examples.setdefault(outcome.value, f"build {number}: {reason}")
    return GateTally(
        *key,
        builds=len(said),
        errors=counted[Outcome.ERROR],
        fail=rate(counted[Outcome.FAIL], judged),
        inconclusive=rate(counted[Outcome.INCONCLUSIVE], judged),
        examples=examples,
    )


def _case(name: str, builds: Sequence[Build]) -> CaseTally:
    runs = [run for build in builds for run in build.cases if run.case == name]
    outcomes = _naive(builds, lambda build: [run.naive for run in build.cases if run.case == name])
    return CaseTally(name, float(np.median([run.rounds for run in runs])), outcomes)


def _naive(builds: Iterable[Build], outcomes: Callable[[Build], Sequence[Outcome]]) -> Rate:
    """The naive rule's failures among builds in which something was measured."""
    judged = [found for found in map(outcomes, builds) if found]
    return rate(sum(Outcome.FAIL in found for found in judged), len(judged))
