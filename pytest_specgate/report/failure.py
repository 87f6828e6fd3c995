"""What the reader of a red test sees: what, where, by how much, and what to look at next."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_specgate.records import Measurement, Pair, Verdict
from pytest_specgate.report.escape import harmless, one_line
from pytest_specgate.report.terminal import shown

_AROUND = 60


def failure_text(verdict: Verdict, measurement: Measurement | None = None) -> str:
    """Several lines, the first of which stands alone."""
    return "\n".join(harmless(line) for line in _lines(verdict, measurement))


def _lines(verdict: Verdict, measurement: Measurement | None) -> Iterator[str]:
    yield f"{verdict.location}: {verdict.gate} on {verdict.case}: {verdict.reason}"
    yield f"  measured: {shown(verdict.metric, verdict.measured)}    baseline: {shown(verdict.metric, verdict.baseline)}"
    for check in verdict.checks:
        yield f"  {check.kind} {check.required}: {check.outcome.value}: {check.reason}"
    for warning in verdict.warnings:
        yield f"  note: {warning}"
    if measurement is not None and verdict.metric in ("exact_match", "chrf", "bleu", "rouge_l"):
        yield from _divergence(measurement)
    if verdict.advice:
        yield f"  next: {verdict.advice}"


def _divergence(measurement: Measurement) -> Iterator[str]:
    for pair in measurement.pairs:
        if pair.reference.token_ids != pair.candidate.token_ids:
            yield from _parting(pair)
            return


def _parting(pair: Pair) -> Iterator[str]:
    """Where the first differing prompt's texts part, with what stands around."""
    one, other = pair.reference, pair.candidate
    position = next(
        (i for i, (a, b) in enumerate(zip(one.token_ids, other.token_ids)) if a != b),
        min(one.output_tokens, other.output_tokens),
    )
    common = next((i for i, (a, b) in enumerate(zip(one.text, other.text)) if a != b), min(len(one.text), len(other.text)))
    start = max(0, common - _AROUND)
    yield f"  first divergence: {pair.prompt}, output token {position + 1}"
    yield f"    reference: {one_line(one.text[start : common + _AROUND], 2 * _AROUND)}"
    yield f"    candidate: {one_line(other.text[start : common + _AROUND], 2 * _AROUND)}"
