"""What must last: a server goes on answering after a request at the edge, and answers as before after a long one.

A decoder in this process that breaks is seen to break. A server answers an odd request politely and dies of the next
one, or goes on with a cache that the long one spoilt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pytest_specgate.measure.probes.ground import TEXT, Ground
from pytest_specgate.records import Message, Probe, Request

#: Tokens of the small ordinary request.
SMALL = 4
#: Seconds within which it is answered.
WITHIN = 30.0
#: The texts after which a server may be broken.
EDGES = frozenset({"length", "window", "draft window"})
ALIVE = "liveness"


def with_liveness(ground: Ground, probes: Iterable[Probe]) -> Iterator[Probe]:
    """The probes, each one at the edge followed by a small ordinary request; as they are where nothing is served."""
    for probe in probes:
        yield probe
        if ground.served and probe.area in EDGES:
            yield _alive(ground, probe.name)


def canary(ground: Ground) -> Iterator[Probe]:
    """The same short request twice before a long one and once after it."""
    if not ground.served:
        return
    asked = ground.request(1)
    yield Probe("canary/before", "canary", "a crash", asked)
    # Where it repeats itself, warm cache or cold, it has no excuse afterwards.
    yield Probe("canary/again", "canary", "another text when a request is repeated", asked, same_as="canary/before")
    yield Probe("canary/long", "canary", "a crash after a long prompt", _long(ground), may_refuse=True)
    yield _alive(ground, "canary/long")
    wrong = "another text after a long request than before it"
    yield Probe("canary/after", "canary", wrong, asked, same_as="canary/before", settled="canary/again")


def _alive(ground: Ground, after: str) -> Probe:
    wrong = f"no answer to an ordinary request after {after}"
    small = ground.request(0, max_tokens=SMALL)
    return Probe(f"alive/after {after}", ALIVE, wrong, small, after=after, within=WITHIN)


def _long(ground: Ground) -> Request:
    """As long as a sweep reads and the window holds."""
    window = ground.bounds.window if ground.bounds else None
    length = min(ground.longest, ground.longest if window is None else window - ground.budget)
    if ground.words:
        return ground.request(2, max(length, 1))
    # Three tokens hold two words or more of plain English.
    words = (TEXT.split() * (ground.longest // len(TEXT.split()) + 1))[: ground.longest // 2]
    return replace(ground.request(2), messages=(Message("user", " ".join(words)),), prompt="sweep-long")
