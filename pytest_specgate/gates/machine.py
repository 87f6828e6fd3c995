"""Whose change is it? A time that moved with the reference arm's was moved by the machine, not by the decoder."""

from __future__ import annotations

import math

import numpy as np

from pytest_specgate.gates.context import JudgeContext
from pytest_specgate.gates.decision import Evidence, decide, gather
from pytest_specgate.gates.parts import shared_series
from pytest_specgate.gates.shift import difference, shift_from_stored
from pytest_specgate.gates.wording import demands, undecided
from pytest_specgate.metrics import Unit
from pytest_specgate.records import Check, Outcome, Samples, Stored
from pytest_specgate.suite.cases import Gate

#: The reference arm's move is worth asking about from this part of the candidate arm's.
_NOTABLE = 0.25


def excused(gate: Gate, check: Check, samples: Samples, stored: Stored, context: JudgeContext) -> Check:
    """The check as it is, unless it failed and the candidate arm did not change against the reference arm."""
    if check.outcome is not Outcome.FAIL:
        return check
    metric = gate.spec.metric
    own, machine = (_shift(samples, stored, name) for name in (metric, f"reference_{metric}"))
    if own is None or machine is None or own * machine <= 0 or abs(machine) < _NOTABLE * abs(own):
        return check
    if _still_fails(gate, check.kind, samples, stored, context):
        return check
    slower = (machine > 0) == (gate.spec.info.unit is Unit.SECONDS)
    size = f"{abs(math.expm1(machine)):.1%} {'slower' if slower else 'faster'}"
    moved = f"the reference arm moved too: the whole machine is {size} than when the baseline was recorded"
    reason = f"{check.reason}, but {moved}"
    return undecided(check.kind, check.required, reason)


def _shift(samples: Samples, stored: Stored, name: str) -> float | None:
    """Median log shift of a series from its stored medians."""
    moves = [
        math.log(float(np.median(new)) / float(np.median(old)))
        for new, old in shared_series(samples, stored, name).values()
        if min(*new, *old) > 0
    ]
    return float(np.median(moves)) if moves else None


def _still_fails(gate: Gate, kind: str, samples: Samples, stored: Stored, context: JudgeContext) -> bool:
    """Whether the candidate arm's time in units of the reference arm's breaks the allowance by itself."""
    metric = gate.spec.metric
    candidate = shared_series(samples, stored, metric)
    reference = shared_series(samples, stored, f"reference_{metric}")
    ratios = {}
    for prompt in candidate.keys() & reference.keys():
        new, old = (_log_ratio(candidate[prompt][run], reference[prompt][run]) for run in (0, 1))
        if new and old:
            ratios[prompt] = (new, old)
    if not ratios:
        return True
    stored_values = [v for _, old in candidate.values() for v in old]
    level = float(np.median(stored_values))
    shift = shift_from_stored(ratios, samples, stored.samples)
    change = gather(shift.limits, context, lambda limits: difference(level, limits))
    allowed = dict(demands(gate))[kind].of(level)
    bounds = (-allowed, None) if kind == "max_drop" else (None, allowed)
    return isinstance(change, Evidence) and decide(change, *bounds) is Outcome.FAIL


def _log_ratio(candidate: tuple[float, ...], reference: tuple[float, ...]) -> list[float]:
    pairs = [(c, r) for c, r in zip(candidate, reference) if c > 0 and r > 0]
    return [math.log(c / r) for c, r in pairs]
