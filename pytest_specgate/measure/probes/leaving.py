"""Callers that go away in mid-answer: their neighbours go on undisturbed, and those who come after find no trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_specgate.measure.probes.ground import HOT, PLAIN, Ground, Said, told
from pytest_specgate.records import Capability, Probe, Sampling

_LEFT = "another text than the answer that is not cancelled begins with"
_BESIDE = "another text beside requests that are cancelled than alone"
_AFTER = "another text after requests that were cancelled than before"


def cancelled(ground: Ground, said: Said) -> Iterator[Probe]:
    """Requests that are cancelled early and late, alone and with others before and behind them in the batch."""
    if Capability.CANCEL not in ground.capabilities or not set(PLAIN) <= said.reference.keys():
        return

    def probe(name: str, number: int, wrong: str, after: int | None = None) -> Probe:
        expected = told(ground, said.reference[PLAIN[number]].token_ids)
        asked = ground.request(number, cancel_after=after)
        return Probe(name, "cancel", wrong, asked, expected=expected, same_as=PLAIN[number])

    early, late = 2, ground.k + 3
    yield probe("cancel/alone", 0, _LEFT, early)
    if Capability.BATCH in ground.capabilities:
        # The last row takes the place of the first that leaves, and the one before it that of the second; their
        # prompts are others, or what they find there would serve them.
        batch = [
            probe("cancel/early", 0, _LEFT, early),
            probe("cancel/beside", 0, _BESIDE),
            probe("cancel/late", 2, _LEFT, late),
            *_drawn(ground),
            probe("cancel/last", 1, _BESIDE),
        ]
        yield from (replace(one, company="cancelled") for one in batch)
    yield probe("cancel/after", 2, _AFTER)


def _drawn(ground: Ground) -> Iterator[Probe]:
    if Capability.SEEDS in ground.capabilities:
        hot = ground.request(1, sampling=Sampling(HOT, seed=1))
        yield Probe("cancel/beside-drawn", "cancel", _BESIDE, hot, same_as="seed/1")
