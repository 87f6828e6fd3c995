"""Looks at a case, while it is measured and afterwards: the same numbers, and so the same verdicts, both times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_specgate import gates, samples
from pytest_specgate.metrics import Family
from pytest_specgate.records import Measurement, Stored
from pytest_specgate.stats.looks import LEAST_FRESH_STARTS, Looks
from pytest_specgate.suite.cases import Case, Gate


def looks_at(measurement: Measurement, case: Case, looks: Looks) -> tuple[gates.Seen, ...]:
    """The case's numbers after each look that was due, the last being all of them. Raises InvalidTrace.

    Arms that were apart are not looked at before enough fresh starts.
    """
    taken = looks.taken(rounds_of(measurement))
    if measurement.apart:
        taken = tuple(rounds for rounds in taken if rounds >= LEAST_FRESH_STARTS) or taken[-1:]
    return tuple(all_of(_first_rounds(measurement, rounds), case) for rounds in taken)


def rounds_of(measurement: Measurement) -> int:
    """How many rounds were measured."""
    return max((pair.round for pair in measurement.pairs), default=-1) + 1


def all_of(measurement: Measurement, case: Case) -> gates.Seen:
    """The case's numbers of all that was measured. Raises InvalidTrace."""
    return gates.Seen(rounds_of(measurement), samples.reduce(measurement, {gate.spec.metric for gate in case.gates}))


def _first_rounds(measurement: Measurement, rounds: int) -> Measurement:
    return replace(measurement, pairs=tuple(pair for pair in measurement.pairs if pair.round < rounds))


def open_gates(
    case: Case, seen: Sequence[gates.Seen], stored: Stored | None, context: gates.JudgeContext
) -> tuple[str, ...]:
    """What more rounds would decide, a phrase for each gate: ``speedup: about 6 rounds would decide (...)``."""
    return tuple(_open(case.gates, seen, stored, context))


def _open(
    asked: Sequence[Gate], seen: Sequence[gates.Seen], stored: Stored | None, context: gates.JudgeContext
) -> Iterator[str]:
    for gate in asked:
        # Peaks, scores, sweeps and grades come from passes of their own, and a greedy text decays alike in every round.
        family, greedy = gate.spec.info.family, seen[-1].samples.greedy
        apart = (Family.MEMORY, Family.GROWTH, Family.SERVING, Family.EXACTNESS, Family.REQUESTS, Family.TASK)
        if family in apart or (greedy and family is Family.DECAY):
            continue
        for check in gates.open_checks(gates.judge(gate, seen, stored, context).checks):
            yield f"{gate.spec.label}: {check.needed}"
