"""(samples, gate, stored baseline) → verdict. Pure: no clock, no file, no model.

A verdict has four values. FAIL needs evidence that the limit is broken, PASS that it is kept; an interval that
straddles it is INCONCLUSIVE and says what would decide; what could not be measured is ERROR. The samples come as
looks at growing data, the last of which is all that was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pytest_specgate.gates import (
    acceptance,
    decay,
    distribution,
    exactness,
    latency,
    memory,
    output,
    repeated,
    requests,
    speedup,
    task,
)
from pytest_specgate.gates.anchor import added_up
from pytest_specgate.gates.context import JudgeContext, Judged, NoVerdict
from pytest_specgate.gates.sequential import Seen, first_decisions, open_checks
from pytest_specgate.gates.verdicts import error_verdict, verdict
from pytest_specgate.metrics import Family
from pytest_specgate.records import Samples, Stored, Verdict
from pytest_specgate.suite.cases import Gate
from pytest_specgate.suite.checks import by_rounds

__all__ = ["JudgeContext", "Seen", "error_verdict", "judge", "judge_once", "open_checks"]

_FAMILIES: Mapping[Family, Callable[[Gate, Samples, Stored | None, JudgeContext], Judged]] = {
    Family.SPEEDUP: speedup.judge,
    Family.LATENCY: latency.judge,
    Family.ACCEPTANCE: acceptance.judge,
    Family.DECAY: decay.judge,
    Family.MEMORY: memory.judge,
    Family.GROWTH: repeated.judge,
    Family.DEVICE: repeated.judge,
    Family.SERVING: memory.judge,
    Family.OUTPUT: output.judge,
    Family.EXACTNESS: exactness.judge,
    Family.DISTRIBUTION: distribution.judge,
    Family.REQUESTS: requests.judge,
    Family.TASK: task.judge,
}


def judge(gate: Gate, looks: Sequence[Seen], stored: Stored | None, context: JudgeContext) -> Verdict:
    """The gate's verdict on one case. Never raises on data: what cannot be judged is an ERROR verdict."""
    if gate.spec.compares and stored is None and not context.updating:
        reason = f"no baseline for {context.case}"
        return error_verdict(gate, context.case, reason, f"record one: pytest --specgate-update {context.suite}")
    family = _FAMILIES[gate.spec.info.family]
    if looks and not by_rounds(gate, greedy=looks[-1].samples.greedy):
        looks = looks[-1:]
    try:
        found = first_decisions(looks, lambda samples: family(gate, samples, stored, context))
    except NoVerdict as problem:
        return error_verdict(gate, context.case, problem.reason, problem.advice)
    notes = added_up(gate, looks[-1].samples, stored)
    return verdict(gate, replace(found, warnings=(*found.warnings, *notes)), context)


def judge_once(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> Verdict:
    """The verdict from one look at all that was measured."""
    rounds = max((len(series) for prompt in samples.prompts for series in prompt.series.values()), default=1)
    return judge(gate, [Seen(rounds, samples)], stored, context)
