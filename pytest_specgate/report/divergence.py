"""Where the two arms' texts part: the first differing token, with what stands around it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_specgate.records import Measurement, Pair, Trace

AROUND = 60


@dataclass(frozen=True, slots=True)
class Side:
    """One arm where the texts part: its token there (None where its output ends), and its text from there on."""

    arm: str
    token: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Parting:
    """``number`` is the first differing output token from 1; ``common`` is the text just before it."""

    prompt: str
    number: int
    common: str
    sides: tuple[Side, Side]


def partings(measurement: Measurement) -> Iterator[Parting]:
    """The first parting of every prompt whose arms differ, in the order of the prompts."""
    seen: set[str] = set()
    for pair in measurement.pairs:
        if pair.prompt not in seen and pair.reference.token_ids != pair.candidate.token_ids:
            seen.add(pair.prompt)
            yield _parting(pair)


def _parting(pair: Pair) -> Parting:
    one, other = pair.reference, pair.candidate
    token, character = _common(one.token_ids, other.token_ids), _common(one.text, other.text)
    common = one.text[max(0, character - AROUND) : character]
    return Parting(pair.prompt, token + 1, common, (_side(one, token, character), _side(other, token, character)))


def _side(trace: Trace, token: int, character: int) -> Side:
    found = trace.token_ids[token] if token < trace.output_tokens else None
    return Side(trace.arm.value, found, trace.text[character : character + AROUND])


def _common(one: Sequence[object], other: Sequence[object]) -> int:
    """Length of the common beginning."""
    return next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
