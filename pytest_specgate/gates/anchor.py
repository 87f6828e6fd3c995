"""Small losses that were accepted one by one: a gate that compares also says how far the first baseline is away."""

from __future__ import annotations

from pytest_specgate.gates.wording import demands
from pytest_specgate.records import Samples, Stored
from pytest_specgate.samples.values import values
from pytest_specgate.suite.cases import Gate
from pytest_specgate.units import format_value


def added_up(gate: Gate, samples: Samples, stored: Stored | None) -> tuple[str, ...]:
    """A note where the change since the first baseline is more than the gate allows; none without an anchor."""
    if stored is None or stored.anchor is None or not gate.spec.compares:
        return ()
    metric = gate.spec.metric
    first, now = stored.anchor.values.get(metric), values(samples).get(metric)
    if first is None or now is None:
        return ()
    change = now - first
    sides = {"max_drop": -change, "max_rise": change}
    if all(sides[kind] <= allowance.of(first) for kind, allowance in demands(gate)):
        return ()
    unit = gate.spec.info.unit
    size = f" ({change / abs(first):+.1%})" if first else ""
    since = f"since the first baseline, of {stored.anchor.recorded}"
    return (f"{since}, it went from {format_value(first, unit)} to {format_value(now, unit)}{size}",)
