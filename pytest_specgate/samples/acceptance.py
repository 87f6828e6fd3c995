"""Acceptance counters per prompt and round, and how acceptance changes along a text; the cut last round left out.

A text's slope is kept as ``acceptance_slope`` with its weight ``acceptance_slope_weight``: Σ tested × (depth − mean)²,
depth being log2 of the tokens before a round. Σ slope × weight ÷ Σ weight is the slope of several texts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pytest_specgate.records import Counts, Pair, Round, Trace

SLOPE = "acceptance_slope"
WEIGHT = "acceptance_slope_weight"


def counts(pairs: Sequence[Pair]) -> tuple[Counts, ...]:
    """One entry per round of measuring; empty where the engine tells neither rounds nor totals."""
    found = [counts_of(pair.candidate) for pair in pairs]
    if any(count is None for count in found):
        return ()
    return tuple(count for count in found if count is not None)


def counts_of(trace: Trace) -> Counts | None:
    """The counts of one answer; None where the engine tells neither rounds nor totals."""
    if trace.rounds is not None:
        return _count(trace.rounds)
    return trace.told.counts if trace.told is not None else None


def slopes(pairs: Sequence[Pair]) -> dict[str, tuple[float, ...]]:
    """The slope of each round of measuring and its weight; nothing unless all of them span different contexts."""
    parts = [_part(pair.candidate) for pair in pairs]
    found = [part for part in parts if part is not None]
    if len(found) < len(parts):
        return {}
    return {SLOPE: tuple(num / den for num, den in found), WEIGHT: tuple(den for _, den in found)}


def _part(trace: Trace) -> tuple[float, float] | None:
    from pytest_specgate.stats.rates import slope_part

    tested = list(whole_rounds(trace))
    depths = [math.log2(context) for context, _ in tested]
    return slope_part(depths, [r.accepted for _, r in tested], [r.tested for _, r in tested])


def whole_rounds(trace: Trace) -> Iterator[tuple[int, Round]]:
    """(tokens before it, round) of every round that drafted something and was not cut short."""
    context = trace.prompt_tokens + trace.prefill_tokens
    for one in trace.rounds or ():
        if one.drafted and one.accepted + 1 == one.emitted and context > 0:
            yield context, one
        context += one.emitted


def _count(rounds: Sequence[Round]) -> Counts:
    # A block that end of text, a stop string or the budget cut short tells less than it drafted.
    whole = [r for r in rounds if r.accepted + 1 == r.emitted]
    return Counts(
        rounds=len(whole),
        drafts=sum(1 for r in whole if r.drafted),
        drafted=sum(r.drafted for r in whole),
        tested=sum(r.tested for r in whole),
        accepted=sum(r.accepted for r in whole),
    )
