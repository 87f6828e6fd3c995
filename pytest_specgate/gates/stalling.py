"""A drop that sits in a few calls: the robust shift of all pairs does not see it, and must not wave it through."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from pytest_specgate.gates.context import JudgeContext
from pytest_specgate.gates.shift import Shift, from_log
from pytest_specgate.records import Check, Outcome
from pytest_specgate.stats.stalls import SLOW, lopsided
from pytest_specgate.suite.cases import Gate


def not_by_stalls(gate: Gate, check: Check, shift: Shift, context: JudgeContext) -> Check:
    """The check as it is, unless it passed on the typical pair while the mean of all pairs has dropped too far.

    Then it fails if outliers are on the candidate arm's side alone, beyond chance; else it stays open.
    """
    level = from_log(shift.level)
    drop = 1 - from_log(fmean(shift.values))
    if check.outcome is not Outcome.PASS or check.kind != "max_drop" or gate.spec.max_drop is None:
        return check
    if drop * level <= gate.spec.max_drop.of(level):
        return check
    chance, low, high = lopsided(shift.values)
    slow = f"{low} of {len(shift.values)} pairs are more than {SLOW - 1:.0%} below the typical one ({high} above)"
    said = f"{check.reason}; but the mean of all pairs is {drop:.1%} below: {slow}"
    if chance < context.wrong_fail:
        return replace(check, outcome=Outcome.FAIL, reason=f"{said}, so the candidate arm stalls")
    return replace(check, outcome=Outcome.INCONCLUSIVE, reason=said, needed="more rounds tell stalls from chance")
