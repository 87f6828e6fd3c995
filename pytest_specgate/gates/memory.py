"""Gates on memory, and on what servers count: exact numbers, no error budget; the allowance absorbs a small wobble."""

from __future__ import annotations

from pytest_specgate.gates.context import JudgeContext, Judged, NoVerdict
from pytest_specgate.gates.decision import exact
from pytest_specgate.gates.parts import from_elsewhere, not_stored, unmeasured
from pytest_specgate.gates.wording import Amount, drift_checks, limit_checks
from pytest_specgate.records import Check, Interval, Samples, Stored
from pytest_specgate.stats import paired
from pytest_specgate.suite.cases import Gate

_ONCE = Amount(1, "runs")


def judge(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> Judged:
    """Checks of one memory gate. Raises NoVerdict where the peak was not measured, or not stored."""
    metric = gate.spec.metric
    value = _peak(samples, metric)
    if value is None and metric in samples.unscored:
        what, _, hint = samples.unscored[metric].partition(" — ")
        raise NoVerdict(f"{metric} was not measured: {what}", hint)
    if value is None:
        raise unmeasured(metric, context.engine, _hint(metric, context.engine))
    checks = limit_checks(gate, exact(value), _ONCE)
    before = _peak(stored.samples, metric) if stored else None
    if stored is not None and gate.spec.compares:
        checks += _drift(gate, value, stored, context)
    baseline = None if before is None else Interval(before, before, before)
    return Judged(checks, Interval(value, value, value), baseline)


_SERVERS = {
    "prefix_cache_hit_rate": "have the server tell cached tokens (vLLM: --enable-prompt-tokens-details; "
    "SGLang: --enable-cache-report), or its counters at /metrics",
    "preemptions": "gate a server that counts them at /metrics: vLLM, or SGLang with --enable-metrics",
}


def _hint(metric: str, engine: str) -> str:
    if metric.startswith("max_batch") and engine == "openai":
        return "set measure: {memory: true}"
    if metric == "occupancy":
        return "gate an engine that tells what its loop did (Trace.spent), as kind: native"
    if metric in _SERVERS:
        return _SERVERS[metric]
    if metric.startswith("kv_cache_usage"):
        return "gate a server (kind openai), and set measure: {memory: true}"
    if metric.startswith("max_batch"):
        return "give measure: {capacity: {memory: ...}}; on a GPU its own memory is the limit"
    on_host = "use host_memory on a machine without a GPU"
    return on_host if metric.startswith("vram") else "set measure: {memory: true}"


def _peak(samples: Samples, metric: str) -> float | None:
    """The scalar, if it is a number at all."""
    value = samples.scalars.get(metric)
    return value if value is not None and paired.sane([value]) else None


def _drift(gate: Gate, value: float, stored: Stored, context: JudgeContext) -> tuple[Check, ...]:
    if stored.place != context.place:
        return from_elsewhere(gate, stored)
    before = _peak(stored.samples, gate.spec.metric)
    if before is None:
        raise not_stored(gate, context)
    return drift_checks(gate, exact(value - before), before, _ONCE)
