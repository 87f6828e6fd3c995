"""What the reader of a red test sees: what, where, by how much, and what to look at next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_specgate.records import Check, Look, Measurement, Verdict
from pytest_specgate.report.divergence import partings
from pytest_specgate.report.escape import visible
from pytest_specgate.report.terminal import shown
from pytest_specgate.units import many

_INDENT = "  "


def failure_text(verdict: Verdict, measurement: Measurement | None = None, history: Sequence[str] = ()) -> str:
    """Several lines, the first of which stands alone; ``history`` says what changed since the baseline."""
    first, *others = (_INDENT * depth + visible(line) for depth, line in _lines(verdict, measurement))
    return "\n".join([first, *(f"{_INDENT}{visible(line)}" for line in history), *others])


def _lines(verdict: Verdict, measurement: Measurement | None) -> Iterator[tuple[int, str]]:
    yield 0, f"{verdict.location}: {verdict.gate} on {verdict.case}: {verdict.reason}"
    measured, baseline = (shown(verdict.metric, found) for found in (verdict.measured, verdict.baseline))
    yield 1, f"measured: {measured}    baseline: {baseline}"
    for check in verdict.checks:
        yield 1, _checked(verdict.metric, check)
        if len(check.looks) > 1:
            yield 2, f"looks: {', '.join(map(_look, check.looks))}"
    for warning in verdict.warnings:
        yield 1, f"note: {warning}"
    if measurement is not None and verdict.metric in ("exact_match", "greedy_exactness", "chrf", "bleu", "rouge_l"):
        yield from _divergence(measurement)
    if verdict.advice:
        yield 1, f"next: {verdict.advice}"


def _checked(metric: str, check: Check) -> str:
    """One check with its numbers: a limit's are the metric's own, a drift check's are the change."""
    line = f"{check.kind} {check.required}: {check.outcome.value}: {check.reason}"
    if check.interval is None:
        return line
    if check.kind == "limit":
        return f"{line} ({shown(metric, check.interval)})"
    found = check.interval
    return f"{line} (change {found.value:.4g} [{found.low:.4g}, {found.high:.4g}])"


def _look(look: Look) -> str:
    return f"{look.outcome.value} after {many(look.rounds, 'round')}"


def _divergence(measurement: Measurement) -> Iterator[tuple[int, str]]:
    """Where the first differing prompt's texts part, with what stands around; a real divergence before any tie."""
    parting = min(partings(measurement), key=lambda parting: parting.kind == "numerical_tie", default=None)
    if parting is None:
        return
    kind = f": {parting.kind}" if parting.kind else ""
    yield 1, f"first divergence: {parting.prompt}, {parting.unit} {parting.number}{kind}"
    for side in parting.sides:
        found = side.found
        found += "" if side.logit is None else f", logit {side.logit:.6g}"
        yield 2, f"{side.arm} ({found}): {parting.common}{side.text}"
