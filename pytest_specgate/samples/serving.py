"""What servers told of the timed requests: prompts that their cache knew already, and requests that they put back."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_specgate.records import Pair, Told, Trace
from pytest_specgate.samples.blocks import trace_of
from pytest_specgate.samples.latency import PREFIXES

HIT_RATE, PREEMPTIONS = "prefix_cache_hit_rate", "preemptions"


def scalars(pairs: Sequence[Pair]) -> dict[str, float]:
    """``prefix_cache_hit_rate`` and ``preemptions`` of the candidate arm, and the reference arm's with its prefix.

    Nothing of an arm where any of its answers does not tell: what is not told is not none.
    """
    found: dict[str, float] = {}
    for arm, prefix in PREFIXES.items():
        traces = [trace_of(pair, arm) for pair in pairs]
        if (rate := hit_rate(traces)) is not None:
            found[prefix + HIT_RATE] = rate
        back = [told.preempted for told in _told(traces)]
        if back and None not in back:
            found[prefix + PREEMPTIONS] = float(sum(one for one in back if one is not None))
    return found


def hit_rate(traces: Sequence[Trace]) -> float | None:
    """Share of the prompts' tokens that a prefix cache held; None where that is not told of all of them."""
    cached = [told.cached for told in _told(traces)]
    asked = sum(trace.prompt_tokens for trace in traces)
    if not cached or not asked or None in cached:
        return None
    return min(sum(one for one in cached if one is not None) / asked, 1.0)


def _told(traces: Sequence[Trace]) -> list[Told]:
    return [trace.told or Told() for trace in traces]
