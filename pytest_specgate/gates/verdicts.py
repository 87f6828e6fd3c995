"""From checks to a verdict: the worst check speaks, waivers and warnings soften, never silently."""

from __future__ import annotations

from pytest_specgate.gates.advice import ADVICE
from pytest_specgate.gates.context import JudgeContext, Judged
from pytest_specgate.records import Check, Outcome, Verdict
from pytest_specgate.suite.cases import Gate

_WORST_FIRST = (Outcome.ERROR, Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS)


def verdict(gate: Gate, judged: Judged, context: JudgeContext) -> Verdict:
    """Combine the checks of a gate: any FAIL fails, else any INCONCLUSIVE is inconclusive, else PASS."""
    if judged.checks:
        deciding = min(judged.checks, key=lambda check: _WORST_FIRST.index(check.outcome))
    else:
        deciding = Check("none", "", Outcome.PASS, "recorded: there is nothing to compare with yet")
    softened, note = _softened(gate, deciding.outcome, context)
    return Verdict(
        gate=gate.spec.label,
        metric=gate.spec.metric,
        case=context.case,
        outcome=deciding.outcome,
        reason=_one_line(deciding.reason + note),
        # An undecided check says itself what would decide; where to look is for what is known to be worse.
        advice=ADVICE[gate.spec.metric] if deciding.outcome is Outcome.FAIL else "",
        measured=judged.measured,
        baseline=judged.baseline,
        checks=judged.checks,
        warnings=judged.warnings,
        location=str(gate.location),
        softened=softened,
    )


def error_verdict(gate: Gate, case: str, reason: str, advice: str = "") -> Verdict:
    """The verdict on a gate whose case could not be measured or judged."""
    return Verdict(
        gate=gate.spec.label,
        metric=gate.spec.metric,
        case=case,
        outcome=Outcome.ERROR,
        reason=_one_line(reason),
        advice=_one_line(advice),
        location=str(gate.location),
    )


def _softened(gate: Gate, outcome: Outcome, context: JudgeContext) -> tuple[str, str]:
    """(how a failure is softened, what to add to the reason)."""
    if outcome is not Outcome.FAIL:
        return "", ""
    softened = "warn" if gate.spec.on_fail == "warn" else ""
    if gate.spec.waive is None:
        return softened, ""
    until = gate.spec.waive.until
    if context.today <= until:
        return _one_line(f"waived until {until}: {gate.spec.waive.reason}"), ""
    return softened, f" (the waiver expired on {until})"


def _one_line(text: str) -> str:
    return " ".join(text.split())
