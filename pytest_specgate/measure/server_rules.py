"""Rules about servers: whether others used them, and whether both arms' caches were alike, while they were measured."""

from __future__ import annotations

from statistics import median

from pytest_specgate.measure.readings import Observed, Ruling
from pytest_specgate.records import Arm, Trace
from pytest_specgate.samples.serving import hit_rate
from pytest_specgate.units import many

#: Shares of the prompts' tokens: from the first on a difference between the arms is worth telling, and from the second
#: on an arm that never hits beside one that does is another server than the one that is compared.
NOTABLE_HITS, LARGEST_HITS = 0.05, 0.20
#: A prompt of which no more tokens were computed came from a cache: the last block of it is always computed, and what
#: makes a cold request's beginning its own is longer.
LAST_BLOCK = 16
#: Seconds after it came that a request may leave us; one in so many may leave later than that.
LARGEST_LATENESS, ONE_IN = 0.010, 100
_BEGIN = {"as_is": "as they are", "cold": "each in its own way (cold)", "shared": "all alike (shared)"}
NO_SERVER = Ruling(True, "no server was asked")


def other_traffic(observed: Observed) -> Ruling:
    """Requests of others that the servers' own counters show, in all pairs so far."""
    told = [trace.told for pair in observed.pairs for trace in (pair.reference, pair.candidate) if trace.told]
    if not told:
        return NO_SERVER
    known = [one.foreign for one in told if one.foreign is not None]
    if not known:
        return Ruling(True, "cannot be told: the servers have no counters of requests")
    others = sum(known)
    beside = f"{len(told)} of ours"
    if not others:
        return Ruling(True, f"no request of others beside {beside}")
    return Ruling(False, f"{many(others, 'request')} of others beside {beside} (none is allowed)")


def prefix_cache(observed: Observed) -> Ruling:
    """How much of the prompts each arm's server had cached already: what it need not compute is no speed of its own."""
    traces = _traces(observed)
    if not any(trace.told for trace in traces[Arm.REFERENCE]):
        return NO_SERVER
    rates = [hit_rate(traces[arm]) for arm in Arm]
    known = [rate for rate in rates if rate is not None]
    if len(known) < len(rates):
        return Ruling(True, "cannot be told: a server does not tell which tokens of a prompt were cached")
    low, high = sorted(known)
    shares = ", ".join(f"{arm.value} {rate:.1%}" for arm, rate in zip(Arm, known))
    detail = f"requests begin {_BEGIN[observed.prefix]}; of the prompts' tokens were cached: {shares}"
    if low == 0 and high > LARGEST_HITS:
        return Ruling(False, f"{detail} (one arm never hits, the other above {LARGEST_HITS:.0%})")
    return Ruling(True, detail, noted=high - low > NOTABLE_HITS)


def cold_prompts(observed: Observed) -> Ruling:
    """Whether requests that should meet an empty cache were answered from one all the same."""
    traces = [trace for traces in _traces(observed).values() for trace in traces]
    if not any(trace.told for trace in traces):
        return NO_SERVER
    if observed.prefix != "cold":
        return Ruling(True, "no cold requests were asked for")
    if any(trace.told is None or trace.told.cached is None for trace in traces):
        return Ruling(True, "cannot be told: a server does not tell which tokens of a prompt were cached")
    computed = [trace.prompt_tokens - (trace.told.cached or 0) for trace in traces if trace.told]
    hits = sum(0 <= left <= LAST_BLOCK for left in computed)
    if sum(computed) <= LAST_BLOCK * len(computed):  # counters tell of all that ran together at once
        hits = len(computed)
    detail = f"{hits} of {len(computed)} cold requests came from a prefix cache"
    return Ruling(not hits, detail if not hits else f"{detail} (none may): start the servers anew, or change 'seed'")


def preemptions(observed: Observed) -> Ruling:
    """Requests that a server put back for want of cache: their times are those of a server beyond its capacity."""
    traces = _traces(observed)
    back = {arm: [one.told.preempted for one in traces[arm] if one.told is not None] for arm in Arm}
    if not back[Arm.CANDIDATE]:
        return NO_SERVER
    known = {arm: [one for one in counts if one is not None] for arm, counts in back.items()}
    if not known[Arm.CANDIDATE]:
        return Ruling(True, "cannot be told: the servers have no counter of it")
    detail = ", ".join(f"{arm.value} {sum(known[arm])}" for arm in Arm if known[arm])
    return Ruling(True, f"requests put back for want of cache: {detail}", noted=any(map(any, known.values())))


def arrivals(observed: Observed) -> Ruling:
    """How late we sent requests that came by the clock: beyond a limit it was another load than the one asked for."""
    traces = [trace for traces in _traces(observed).values() for trace in traces]
    if not any(trace.told for trace in traces):
        return NO_SERVER
    late = [trace.told.late for trace in traces if trace.told is not None and trace.told.late is not None]
    if not late:
        return Ruling(True, "no requests came by the clock")
    beyond = sum(one > LARGEST_LATENESS for one in late)
    detail = (
        f"{len(late)} requests left {median(late) * 1e3:.2f} ms (median) to {max(late) * 1e3:.2f} ms after they came"
    )
    if beyond <= max(1, len(late) // ONE_IN):
        return Ruling(True, detail)
    limit = f"{beyond} of them over {LARGEST_LATENESS * 1e3:g} ms late (at most one in {ONE_IN})"
    return Ruling(False, f"the client could not keep up: {detail}, {limit}: free this machine, or lower the rate")


def _traces(observed: Observed) -> dict[Arm, list[Trace]]:
    pairs = observed.pairs
    return {Arm.REFERENCE: [p.reference for p in pairs], Arm.CANDIDATE: [p.candidate for p in pairs]}
