"""Gates on memory peaks: exact numbers, no error budget; the allowance is what absorbs their small wobble."""

from __future__ import annotations

from pytest_specgate.gates.context import Judged, JudgeContext
from pytest_specgate.gates.parts import demands, from_elsewhere
from pytest_specgate.gates.verdicts import NoVerdict
from pytest_specgate.gates.wording import drift_check, exact, limit_check
from pytest_specgate.records import Check, Interval, Samples, Stored
from pytest_specgate.suite.cases import Gate


def judge(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> Judged:
    """Checks of one memory gate. Raises NoVerdict where the peak was not measured."""
    spec = gate.spec
    value = samples.scalars.get(spec.metric)
    if value is None:
        hint = "use host_memory on a machine without a GPU" if spec.metric.startswith("vram") else "set measure: {memory: true}"
        raise NoVerdict(f"{spec.metric} was not measured by this engine ({context.engine})", hint)
    before = stored.samples.scalars.get(spec.metric) if stored else None
    checks: list[Check] = []
    if spec.limit is not None:
        checks.append(limit_check(spec.info, spec.label, exact(value), spec.limit, ""))
    if stored is not None and stored.place != context.place:
        checks += from_elsewhere(gate, stored)
    elif before is not None:
        change = exact(value - before)
        checks += [drift_check(spec.info, spec.label, kind, change, before, a, "") for kind, a in demands(gate)]
    elif stored is not None and spec.compares:
        raise NoVerdict(f"the baseline holds no {spec.metric}", "refresh it: pytest --specgate-update")
    return Judged(tuple(checks), Interval(value, value, value), None if before is None else Interval(before, before, before))
