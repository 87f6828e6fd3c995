"""Gates on what was said: exact on greedy runs, where equal software gives equal text; sampled runs have scatter."""

from __future__ import annotations

import numpy as np

from pytest_specgate.gates.context import Judged, JudgeContext
from pytest_specgate.gates.parts import demands, series_of, shared
from pytest_specgate.gates.wording import Evidence, drift_check, exact, limit_check, undecided
from pytest_specgate.records import Check, Interval, Samples, Stored
from pytest_specgate.stats import paired
from pytest_specgate.stats.budget import WRONG_PASS
from pytest_specgate.stats.limits import CannotTell, Limits
from pytest_specgate.suite.cases import Gate

#: Bookkeeping is right or wrong whatever the sampling: never a matter of scatter.
_ALWAYS_EXACT = frozenset({"token_accounting"})


def judge(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> Judged:
    """Checks of one output gate. Raises NoVerdict where the metric was not measured."""
    spec = gate.spec
    groups = list(series_of(samples, spec.metric, context.engine).values())
    is_exact = samples.greedy or spec.metric in _ALWAYS_EXACT
    value = float(np.mean([np.mean(group) for group in groups]))
    evidence = exact(value) if is_exact else _scattered(groups, context.alpha)
    checks: list[Check] = []
    if spec.limit is not None:
        if isinstance(evidence, CannotTell):
            checks.append(undecided("limit", spec.limit.text, f"{spec.label}: {evidence.reason}; needed: {evidence.needed}"))
        else:
            checks.append(limit_check(spec.info, spec.label, evidence, spec.limit, "more prompts would decide"))
    before = None
    if stored is not None and spec.compares:
        before, more = _drift(gate, samples, stored, context, is_exact=is_exact)
        checks += more
    measured = evidence.failing if isinstance(evidence, Evidence) else Interval(value, value, value)
    return Judged(tuple(checks), measured, before)


def _scattered(groups: list[tuple[float, ...]], alpha: float) -> Evidence | CannotTell:
    failing, passing = paired.over_prompts(groups, alpha, alpha), paired.over_prompts(groups, WRONG_PASS, WRONG_PASS)
    if isinstance(failing, Limits) and isinstance(passing, Limits):
        return Evidence(*(Interval(x.estimate, x.low, x.high) for x in (failing, passing)))
    return failing if isinstance(failing, CannotTell) else CannotTell("", "")


def _drift(
    gate: Gate, samples: Samples, stored: Stored, context: JudgeContext, *, is_exact: bool
) -> tuple[Interval | None, list[Check]]:
    metric = gate.spec.metric
    both = [(now.series[metric], old.series[metric]) for now, old in shared(samples, stored)
            if now.series.get(metric) and old.series.get(metric)]  # fmt: skip
    if not both:
        reason = f"{gate.spec.label}: the baseline holds no value for these prompts; needed: a refreshed baseline"
        return None, [undecided(kind, allowance.text, reason) for kind, allowance in demands(gate)]
    before = float(np.mean([np.mean(old) for _, old in both]))
    differences = [(float(np.mean(now)) - float(np.mean(old)),) for now, old in both]
    change = exact(float(np.mean(differences))) if is_exact else _scattered(differences, context.alpha)
    if isinstance(change, CannotTell):
        reason = f"{gate.spec.label}: {change.reason}; needed: {change.needed}"
        return None, [undecided(kind, allowance.text, reason) for kind, allowance in demands(gate)]
    checks = [drift_check(gate.spec.info, gate.spec.label, kind, change, before, a, "more prompts would decide")
              for kind, a in demands(gate)]  # fmt: skip
    return Interval(before, before, before), checks
