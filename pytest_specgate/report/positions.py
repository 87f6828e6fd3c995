"""Acceptance by position in the draft and by position in the context, each conversation counted as one.

Tokens of one text are accepted or refused together, so limits come from the scatter between conversations. A greedy
engine repeats itself, and its rounds of measuring after the first add nothing: the first alone is counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pytest_specgate.records import Measurement, Pair
from pytest_specgate.report.numbers import TAIL, Estimate, estimate, pooled
from pytest_specgate.samples.acceptance import whole_rounds
from pytest_specgate.stats.rates import pooled_slope, slope_part

_Event = tuple[int, int, int]  # bin, hits, trials


@dataclass(frozen=True, slots=True)
class Share:
    """A share of ``trials`` at one position: a draft position from 1, or a context from this many tokens on."""

    position: int
    trials: int
    share: Estimate


def by_draft_position(measurement: Measurement) -> list[Share]:
    """Accepted at draft position i ÷ rounds that drafted position i; nothing where the engine tells no rounds."""
    return _shares(measurement, _drafted)


def by_context(measurement: Measurement) -> list[Share]:
    """Accepted ÷ tested by doublings of the context (prompt and output so far), from 1, 2, 4, 8, ... tokens on."""
    found = _shares(measurement, _in_context)
    return [Share(2**one.position, one.trials, one.share) for one in found]


def decay(measurement: Measurement) -> Estimate | None:
    """Change of the conditional acceptance per doubling of the context, within texts, limits over conversations."""
    parts, hits, trials = dict[str, list[float]](), 0.0, 0.0
    for pair in _counted(measurement):
        found = list(whole_rounds(pair.candidate))
        hits += sum(one.accepted for _, one in found)
        trials += sum(one.tested for _, one in found)
        depths = [math.log2(context) for context, _ in found]
        part = slope_part(depths, [one.accepted for _, one in found], [one.tested for _, one in found])
        if part is not None:
            summed = parts.setdefault(pair.cluster, [0.0, 0.0])
            summed[0] += part[0]
            summed[1] += part[1]
    if not parts:
        return None
    return estimate(pooled_slope([(num, den) for num, den in parts.values()], (hits, trials), TAIL, TAIL))


def _shares(measurement: Measurement, events: Callable[[Pair], Iterable[_Event]]) -> list[Share]:
    bins: dict[int, dict[str, list[int]]] = {}
    for pair in _counted(measurement):
        for place, hits, trials in events(pair):
            counted = bins.setdefault(place, {}).setdefault(pair.cluster, [0, 0])
            counted[0] += hits
            counted[1] += trials
    found = ((place, list(clusters.values())) for place, clusters in sorted(bins.items()))
    return [
        Share(place, sum(trials for _, trials in counted), share)
        for place, counted in found
        if (share := pooled(counted)) is not None
    ]


def _counted(measurement: Measurement) -> Iterator[Pair]:
    first = min((pair.round for pair in measurement.pairs), default=0)
    for pair in measurement.pairs:
        if pair.candidate.rounds is not None and (pair.round == first or not measurement.greedy):
            yield pair


def _drafted(pair: Pair) -> Iterator[_Event]:
    for _, one in whole_rounds(pair.candidate):
        yield from ((place + 1, int(one.accepted > place), 1) for place in range(one.drafted))


def _in_context(pair: Pair) -> Iterator[_Event]:
    for context, one in whole_rounds(pair.candidate):
        yield int(math.log2(context)), one.accepted, one.tested
