"""(samples, gate, stored baseline) → verdict. Pure: no clock, no file, no model.

A verdict has four values. FAIL needs evidence that the limit is broken, PASS that it is kept; an interval that
straddles it is INCONCLUSIVE and says what would decide; what could not be measured is ERROR.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pytest_specgate.gates import acceptance, latency, memory, output, speedup
from pytest_specgate.gates.context import JudgeContext, Judged, NoVerdict
from pytest_specgate.gates.verdicts import error_verdict, verdict
from pytest_specgate.metrics import Family
from pytest_specgate.records import Samples, Stored, Verdict
from pytest_specgate.suite.cases import Gate

__all__ = ["JudgeContext", "error_verdict", "judge"]

_FAMILIES: Mapping[Family, Callable[[Gate, Samples, Stored | None, JudgeContext], Judged]] = {
    Family.SPEEDUP: speedup.judge,
    Family.LATENCY: latency.judge,
    Family.ACCEPTANCE: acceptance.judge,
    Family.MEMORY: memory.judge,
    Family.OUTPUT: output.judge,
}


def judge(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> Verdict:
    """The gate's verdict on one case. Never raises on data: what cannot be judged is an ERROR verdict."""
    if gate.spec.compares and stored is None and not context.updating:
        reason = f"no baseline for {context.case}"
        return error_verdict(gate, context.case, reason, f"record one: pytest --specgate-update {context.suite}")
    try:
        return verdict(gate, _FAMILIES[gate.spec.info.family](gate, samples, stored, context), context)
    except NoVerdict as problem:
        return error_verdict(gate, context.case, problem.reason, problem.advice)
