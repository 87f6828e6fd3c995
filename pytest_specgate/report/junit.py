"""A verdict's numbers as flat JUnit properties."""

from __future__ import annotations

from pytest_specgate.records import Verdict


def properties(verdict: Verdict) -> list[tuple[str, str]]:
    """Names with dots, values in SI base units; what was not measured is absent."""
    found = [("specgate.metric", verdict.metric), ("specgate.outcome", verdict.outcome.value)]
    if verdict.measured is not None:
        names = ("value", "low", "high")
        found.extend((f"specgate.{name}", f"{getattr(verdict.measured, name):.6g}") for name in names)
    if verdict.baseline is not None:
        found.append(("specgate.baseline", f"{verdict.baseline.value:.6g}"))
    found.extend((f"specgate.{check.kind}", check.required) for check in verdict.checks if check.required)
    if verdict.softened:
        found.append(("specgate.softened", verdict.softened))
    return found
