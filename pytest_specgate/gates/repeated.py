"""Gates on a number that a run yields several times over: growth from block to block of a soak, a GPU's work by round.

The mean has t limits from the scatter of the repetitions. Steps of a soak are differences, so noise that stays within
bounds makes them swing back and widens the limits: what fails has grown beyond its noise. A baseline keeps the mean
alone, so a change is judged with this run's scatter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_specgate.gates.context import JudgeContext, Judged, NoVerdict
from pytest_specgate.gates.decision import Evidence, gather, plain
from pytest_specgate.gates.parts import broken_environment, from_elsewhere, not_stored, unmeasured
from pytest_specgate.gates.wording import Amount, drift_checks, finite, limit_checks
from pytest_specgate.metrics import Family
from pytest_specgate.records import Check, Interval, Samples, Stored
from pytest_specgate.stats import paired
from pytest_specgate.stats.limits import CannotTell, Limits
from pytest_specgate.suite.cases import Gate

#: What one value is of, by family.
_EACH = {Family.GROWTH: "blocks of the soak", Family.DEVICE: "rounds"}
_HINTS = {
    "host_memory_slope": "set measure: {memory: true}",
    "vram_slope": "use host_memory_slope on a machine without a GPU",
    "acceptance_wear": "use an engine or a server that tells drafted and accepted tokens, and measure: {memory: true}",
    "kv_cache_slope": "use an engine that tells, once drained, how much of its cache is held",
}
_NO_GPU = "it needs an NVIDIA GPU, nvidia-ml-py, and calls that take more than a second"


def judge(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> Judged:
    """Checks of one such gate. Raises NoVerdict where nothing was measured, or not stored."""
    values = _values(gate, samples, context)
    evidence = gather(lambda alpha: paired.one_sample(values, alpha, alpha), context, plain)
    before = stored.samples.scalars.get(gate.spec.metric) if stored else None
    if before is not None and not paired.sane([before]):
        before = None
    checks = broken_environment(gate, context) if gate.spec.info.family is Family.DEVICE else ()
    if not checks:
        amount = Amount(len(values), _EACH[gate.spec.info.family])
        checks = limit_checks(gate, evidence, amount) + _drift(gate, (evidence, before, amount), stored, context)
    return Judged(checks, _measured(evidence, values), None if before is None else Interval(before, before, before))


def _values(gate: Gate, samples: Samples, context: JudgeContext) -> Sequence[float]:
    metric, family = gate.spec.metric, gate.spec.info.family
    source: Mapping[str, tuple[float, ...]] = samples.growth if family is Family.GROWTH else samples.device
    values = source.get(metric, ())
    if not values:
        raise unmeasured(metric, context.engine, _HINTS.get(metric, _NO_GPU))
    if not paired.sane(values):
        raise NoVerdict(f"{metric} is not a finite number", "measure again")
    return values


def _measured(evidence: Evidence | CannotTell, values: Sequence[float]) -> Interval:
    mean = sum(values) / len(values)
    known = finite(evidence.failing) if isinstance(evidence, Evidence) else None
    return known or Interval(mean, mean, mean)


def _drift(
    gate: Gate, found: tuple[Evidence | CannotTell, float | None, Amount], stored: Stored | None, context: JudgeContext
) -> tuple[Check, ...]:
    if stored is None or not gate.spec.compares:
        return ()
    if stored.place != context.place:
        return from_elsewhere(gate, stored)
    evidence, before, amount = found
    if before is None:
        raise not_stored(gate, context)
    change = evidence if isinstance(evidence, CannotTell) else _less(evidence, before)
    return drift_checks(gate, change, before, amount)


def _less(evidence: Evidence, before: float) -> Evidence:
    failing, passing = (
        plain(Limits(i.value - before, i.low - before, i.high - before)) for i in (evidence.failing, evidence.passing)
    )
    return Evidence(failing, passing)
