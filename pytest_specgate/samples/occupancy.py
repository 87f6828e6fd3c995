"""How full the rounds were: requests that took part in a target forward ÷ those that there was room for.

Read off what engines tell of their loop (:class:`~pytest_specgate.records.Spent`): requests of one round have its time
in common, so the deliveries after the prompts' own are the rounds, each as often as it had requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_specgate.records import Pair, Trace
from pytest_specgate.samples.blocks import blocks, trace_of
from pytest_specgate.samples.latency import PREFIXES

OCCUPANCY = "occupancy"


def scalars(pairs: Sequence[Pair]) -> Mapping[str, float]:
    """``occupancy`` of the candidate arm and the reference arm's, over all timed rounds.

    Nothing of an arm where any of its answers does not tell, or where no round ran.
    """
    found: dict[str, float] = {}
    for arm, prefix in PREFIXES.items():
        counted = [_counted([trace_of(pair, arm) for pair in block]) for block in blocks(pairs, arm)]
        known = [one for one in counted if one is not None]
        rows, slots = (sum(part) for part in zip(*known)) if known else (0, 0)
        if slots and len(known) == len(counted):
            found[prefix + OCCUPANCY] = rows / slots
    return found


def _counted(traces: Sequence[Trace]) -> tuple[int, int] | None:
    """(requests in each round, slots in each round) of what ran together, summed; None where it is not told."""
    spent = [trace.spent for trace in traces]
    if None in spent:
        return None
    rounds = [chunk.t_ns for trace in traces for chunk in trace.chunks[trace.prefill_tokens :]]
    room = max((one.slots // one.rounds for one in spent if one is not None and one.rounds), default=0)
    return len(rounds), room * len(set(rounds))
