"""From checks to a verdict: the worst check speaks, waivers and warnings soften, never silently."""

from __future__ import annotations

from pytest_specgate.gates.advice import ADVICE
from pytest_specgate.gates.context import Judged, JudgeContext
from pytest_specgate.records import Check, Outcome, Verdict
from pytest_specgate.suite.cases import Gate

_WORST_FIRST = (Outcome.ERROR, Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS)


class NoVerdict(Exception):
    """Raised by a family when the numbers that it needs are not there."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(f"{reason} — {advice}")
        self.reason = reason
        self.advice = advice


def verdict(gate: Gate, judged: Judged, context: JudgeContext) -> Verdict:
    """Combine the checks of a gate; any FAIL fails, else any INCONCLUSIVE is inconclusive."""
    if not judged.checks:
        deciding = Check("none", "", Outcome.PASS, "recorded: there is nothing to compare with yet")
    else:
        deciding = min(judged.checks, key=lambda check: _WORST_FIRST.index(check.outcome))
    softened, note = _softened(gate, deciding.outcome, context)
    advice = "" if deciding.outcome is Outcome.PASS else ADVICE.get(gate.spec.metric, "")
    return Verdict(
        gate=gate.spec.label,
        metric=gate.spec.metric,
        case=context.case,
        outcome=deciding.outcome,
        reason=deciding.reason + note,
        advice=advice,
        measured=judged.measured,
        baseline=judged.baseline,
        checks=judged.checks,
        warnings=judged.warnings,
        location=str(gate.location),
        softened=softened,
    )


def error_verdict(gate: Gate, case: str, reason: str, advice: str = "") -> Verdict:
    """The verdict on a gate whose case could not be measured or judged."""
    return Verdict(gate.spec.label, gate.spec.metric, case, Outcome.ERROR, reason, advice, location=str(gate.location))


def _softened(gate: Gate, outcome: Outcome, context: JudgeContext) -> tuple[str, str]:
    """(how a failure is softened, what to add to the reason)."""
    if outcome is not Outcome.FAIL:
        return "", ""
    if gate.spec.waive is not None:
        until = gate.spec.waive.until
        if context.today <= until:
            return f"waived until {until}: {gate.spec.waive.reason}", ""
        return "", f" (the waiver expired on {until})"
    return ("warn", "") if gate.spec.on_fail == "warn" else ("", "")
