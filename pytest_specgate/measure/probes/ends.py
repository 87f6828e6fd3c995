"""Where a text ends: budgets, ends of text and stop strings inside a block that was accepted whole, and the minimum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_specgate.measure.probes.ground import FAR, PLAIN, Ground, Said, told
from pytest_specgate.records import Bias, Probe, Sampling, Trace


@dataclass(frozen=True, slots=True)
class Place:
    """Output token ``at`` of the answer to plain request ``number``: the first of its kind in the text."""

    number: int
    at: int
    ids: tuple[int, ...]

    @property
    def token(self) -> int:
        """The token there."""
        return self.ids[self.at]


def places(said: Said, number: int, name: str) -> Iterator[Place]:
    """Tokens that first occur inside a block of the candidate's, if its rounds tell; else all that first occur."""
    if name not in said.reference:
        return
    ids = said.reference[name].token_ids
    candidate = said.candidate.get(name)
    inside = _inside(candidate) if candidate is not None and candidate.token_ids == ids else frozenset()
    fresh = [at for at in range(1, len(ids) - 1) if ids[at] not in ids[:at]]
    for at in [at for at in fresh if at in inside] or fresh:
        yield Place(number, at, ids)


def _inside(trace: Trace) -> frozenset[int]:
    """Places in the output that another token of the same round follows."""
    found, at = set[int](), trace.prefill_tokens
    for each in trace.rounds or ():
        found.update(range(at, at + each.emitted - 1))
        at += each.emitted
    return frozenset(found)


def budgets(ground: Ground, said: Said) -> Iterator[Probe]:
    """Every number of tokens up to a block and two more."""
    if PLAIN[0] not in said.reference:
        return
    ids = said.reference[PLAIN[0]].token_ids
    for budget in range(1, ground.k + 4):
        wrong = f"more or fewer than {budget} tokens"
        asked = ground.request(0, max_tokens=budget)
        yield Probe(f"budget/{budget}", "budget", wrong, asked, expected=told(ground, ids[:budget]))


def ends(ground: Ground, places: Sequence[Place]) -> Iterator[Probe]:
    """Texts that end at one of these places by an end-of-text token."""
    for number, place in enumerate(places, start=1):
        asked = ground.request(place.number, stop_ids=(place.token,))
        wrong = f"text that goes on after an end at output token {place.at + 1}"
        expected = told(ground, place.ids[: place.at + 1])
        yield Probe(f"end/{number}", "end of text", wrong, asked, expected=expected)


def stops(ground: Ground, places: Sequence[Place], said: Said) -> Iterator[Probe]:
    """Texts that end at one of these places by a stop string that its token completes."""
    if said.decode is None:
        return
    for number, place in enumerate(places, start=1):
        before, whole = said.decode(place.ids[: place.at]), said.decode(place.ids[: place.at + 1])
        string = whole[max(0, len(before) - 2) :].strip()
        if not string or string in before or string not in whole or "\ufffd" in string:
            continue
        asked = ground.request(place.number, stop=("\x00 never said", string))
        wrong = f"text that goes on after the stop string {string!r} at output token {place.at + 1}"
        expected = told(ground, place.ids[: place.at + 1])
        yield Probe(f"stop/{number}", "stop string", wrong, asked, expected=expected)


def least(ground: Ground, places: Sequence[Place]) -> Iterator[Probe]:
    """Texts that may not end so early, though their tokens would have them do it."""
    for number, place in enumerate(places[:3], start=1):
        least = min(place.at + 2 + number, ground.budget)
        asked = ground.request(place.number, stop_ids=(place.token,), sampling=Sampling(min_tokens=least))
        wrong = f"an end before {least} tokens"
        yield Probe(f"least/{number}", "min_tokens", wrong, asked, never=(place.token,), until=least)
    if ground.bounds is None or not ground.bounds.eos:
        return
    least, eos = ground.k + 2, ground.bounds.eos
    pushed = Sampling(min_tokens=least, logit_bias=(Bias(eos[0], FAR),))
    asked = ground.request(0, ignore_eos=False, sampling=pushed)
    wrong = f"an end before {least} tokens, though the end of text is made likely"
    yield Probe("least/pushed", "min_tokens", wrong, asked, never=eos, until=least)
