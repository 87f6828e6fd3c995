"""Parts B and F, what an engine says of its counts, and what a client asks for: no decoder is wrong here."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from pytest_specgate.records import Trace
from tests.faults.drafting import SURE
from tests.faults.entry import Entry
from tests.faults.parts import Parts
from tests.faults.settings import PLAIN

COUNTS = ("conditional_acceptance", "acceptance_length", "acceptance_rate")


def bonus_counted(trace: Trace, k: int) -> Trace:
    """The target's own token is counted as an accepted one."""
    rounds = tuple(
        replace(r, accepted=r.accepted + 1, tested=max(r.tested, r.accepted + 1)) for r in trace.rounds or ()
    )
    return replace(trace, rounds=rounds)


def configured(trace: Trace, k: int) -> Trace:
    """Every round is said to have drafted what was configured, whatever was really proposed."""
    return replace(trace, rounds=tuple(replace(r, drafted=k) for r in trace.rounds or ()))


def one_rank(trace: Trace, k: int) -> Trace:
    """Of two ranks that share the requests, only one is asked for its counters."""
    return trace if int(trace.prompt.removeprefix("p").partition("/")[0]) % 2 else replace(trace, rounds=None)


_DEFAULT = replace(PLAIN, name="default", scenario=MappingProxyType({"sampling": [{"temperature": 0, "name": "d"}]}))
_HOT = replace(_DEFAULT, scenario=MappingProxyType({"sampling": [{"temperature": 1, "name": "d"}]}))

ENTRIES = (
    Entry(
        "V29",
        "acceptance moves because the client's default temperature changed",
        "the same scenario is asked at temperature 1 instead of 0",
        COUNTS,
        Parts(),
        setting=_DEFAULT,
        wrong_setting=_HOT,
        note="nothing is broken in the decoder: a baseline of other sampling is refused.",
    ),
    Entry(
        "V30",
        "does the acceptance length include the bonus token?",
        "the target's own token is counted as accepted",
        COUNTS,
        Parts(told=bonus_counted),
    ),
    Entry(
        "V31",
        "the denominator is the configured and not the real number of drafts",
        "every round is said to have drafted k tokens, though fewer were proposed",
        ("acceptance_rate",),
        replace(SURE, told=configured),
        right=SURE,
        right_name="sure",
    ),
    Entry(
        "V32",
        "counters of one rank only",
        "half of the requests come without rounds: nobody asked their rank",
        COUNTS,
        Parts(told=one_rank),
    ),
)
