"""A drop that sits in a few calls: the robust shift of all pairs does not see it, and must not wave it through."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from pytest_specgate.gates.context import JudgeContext
from pytest_specgate.gates.shift import Shift, from_log
from pytest_specgate.records import Check, Outcome
from pytest_specgate.stats.stalls import SLOW, more_stalls, slow_pairs
from pytest_specgate.suite.cases import Gate

#: A stored median of fewer rounds hides the stalls that the baseline itself had.
LEAST_STORED_ROUNDS = 4


def not_by_stalls(gate: Gate, check: Check, shift: Shift, context: JudgeContext) -> Check:
    """The check as it is, unless it passed on the typical pair while the mean of all pairs has dropped too far.

    Then it fails if the candidate arm stalls more often than in the baseline, beyond chance; else it stays open. A
    candidate that always stalled has lost nothing.
    """
    if check.outcome is not Outcome.PASS or check.kind != "max_drop" or gate.spec.max_drop is None:
        return check
    level = from_log(shift.level)
    drop = 1 - from_log(fmean(shift.values) - fmean(shift.before))
    if drop * level <= gate.spec.max_drop.of(level):
        return check
    slow, stored = slow_pairs(shift.values), slow_pairs(shift.before)
    counts = f"{slow} of {len(shift.values)} pairs are more than {SLOW - 1:.0%} below the typical one"
    said = f"{check.reason}; but the mean of all pairs is {drop:.1%} below: {counts} (stored: {stored} of "
    said += f"{len(shift.before)})"
    if shift.stored_rounds >= LEAST_STORED_ROUNDS and more_stalls(shift.values, shift.before) < context.wrong_fail:
        return replace(check, outcome=Outcome.FAIL, reason=f"{said}, so the candidate arm stalls")
    return replace(check, outcome=Outcome.INCONCLUSIVE, reason=said, needed="more rounds tell stalls from chance")
