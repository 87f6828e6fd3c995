"""Where the two arms' texts part: the first differing token, with what stands around it.

Where the target scored the texts, each token's logit is told too, and whether rounding explains the difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_specgate.errors import InvalidTrace
from pytest_specgate.gates.noise import is_tie, tied_within
from pytest_specgate.logits import Divergence
from pytest_specgate.records import Measurement, Pair, Trace
from pytest_specgate.samples.choices import choices
from pytest_specgate.samples.output import same_output

AROUND = 60
REAL = "real_divergence"
_Tokens = tuple[str, int | None, int | None]


@dataclass(frozen=True, slots=True)
class Side:
    """One arm where the texts part: its token there (None where its output ends), and its text from there on.

    ``ids`` is whether the engine tells tokens at all. ``logit`` is the target's for that token, None where it was not
    scored.
    """

    arm: str
    token: int | None
    text: str
    ids: bool = True
    logit: float | None = None

    @property
    def found(self) -> str:
        """What this arm has there, in words: its token, or that it ends or goes on with text alone."""
        if self.token is not None:
            return f"id {self.token}"
        return "text" if self.text and not self.ids else "ends"


@dataclass(frozen=True, slots=True)
class Parting:
    """``number`` is the first differing output token from 1; ``common`` is the text just before it.

    ``kind`` is ``numerical_tie`` or ``real_divergence``, empty where the texts were not scored. Where a server tells no
    token ids, ``unit`` says that characters were counted.
    """

    prompt: str
    number: int
    common: str
    sides: tuple[Side, Side]
    kind: str = ""
    unit: str = "output token"


def partings(measurement: Measurement) -> Iterator[Parting]:
    """The first parting of every prompt whose arms differ, in the order of the prompts."""
    seen: set[str] = set()
    kinds = _kinds(measurement)
    for pair in measurement.pairs:
        if pair.prompt not in seen and not same_output(pair.reference, pair.candidate):
            seen.add(pair.prompt)
            found = _parting(pair)
            scored, kind = kinds.get((pair.prompt, found.sides[0].token, found.sides[1].token), (None, ""))
            yield _with_logits(found, scored, kind) if scored else found


def _kinds(measurement: Measurement) -> Mapping[_Tokens, tuple[Divergence, str]]:
    """By prompt and the two tokens, what the target says of each divergence."""
    try:
        found = choices(measurement)
    except InvalidTrace:  # told as the case's own error
        return {}
    if found is None:
        return {}
    noise = tied_within(found.control, measurement.place.dtype)
    return {
        (one.prompt, one.reference_id, one.candidate_id): (one, "numerical_tie" if is_tie(one, noise) else REAL)
        for one in reversed(found.divergences)
    }


def _with_logits(parting: Parting, scored: Divergence, kind: str) -> Parting:
    one, other = parting.sides
    sides = replace(one, logit=scored.reference_logit), replace(other, logit=scored.candidate_logit)
    return replace(parting, sides=sides, kind=kind)


def _parting(pair: Pair) -> Parting:
    one, other = pair.reference, pair.candidate
    token, character = _common(one.token_ids, other.token_ids), _common(one.text, other.text)
    common = one.text[max(0, character - AROUND) : character]
    sides = (_side(one, token, character), _side(other, token, character))
    if not (one.token_ids and other.token_ids):
        return Parting(pair.prompt, character + 1, common, sides, unit="character")
    return Parting(pair.prompt, token + 1, common, sides)


def _side(trace: Trace, token: int, character: int) -> Side:
    found = trace.token_ids[token] if token < len(trace.token_ids) else None
    return Side(trace.arm.value, found, trace.text[character : character + AROUND], bool(trace.token_ids))


def _common(one: Sequence[object], other: Sequence[object]) -> int:
    """Length of the common beginning."""
    return next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
