"""A rule about servers: whether others used them while they were measured."""

from __future__ import annotations

from pytest_specgate.measure.readings import Observed, Ruling


def other_traffic(observed: Observed) -> Ruling:
    """Requests of others that the servers' own counters show, in all pairs so far."""
    told = [trace.told for pair in observed.pairs for trace in (pair.reference, pair.candidate) if trace.told]
    if not told:
        return Ruling(True, "no server: nobody else can use the engine")
    known = [one.foreign for one in told if one.foreign is not None]
    if not known:
        return Ruling(True, "cannot be told: the servers have no counters of requests")
    others = sum(known)
    beside = f"{len(told)} of ours"
    if not others:
        return Ruling(True, f"no request of others beside {beside}")
    return Ruling(False, f"{others} request{'s' if others != 1 else ''} of others beside {beside} (none is allowed)")
