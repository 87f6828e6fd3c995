"""What reshapes scores: penalties, biases and words that are forbidden, at every position of a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_specgate.measure.probes.ends import Place
from pytest_specgate.measure.probes.ground import FAR, PLAIN, Ground, Said
from pytest_specgate.records import Bias, Probe, Sampling


def shaped(ground: Ground, places: Sequence[Place], said: Said) -> Iterator[Probe]:
    """Each penalty, a token barred, a token forced, and words that the text holds forbidden."""
    for name, size in (
        ("repetition_penalty", 1.5),
        *(("frequency_penalty", size) for size in (1.5, -1.5)),
        *(("presence_penalty", size) for size in (1.5, -1.5)),
    ):
        asked = ground.request(0, sampling=Sampling(**{name: size}))  # type: ignore[arg-type]  # a field by its name
        wrong = f"text as if {name} {size:g} had not been asked for, or not at every position"
        yield Probe(f"{name}/{size:g}", name, wrong, asked)
    for place in places[:1]:
        barred = Sampling(logit_bias=(Bias(place.token, -FAR),))
        asked = ground.request(place.number, sampling=barred)
        wrong = f"token {place.token} in spite of a bias of -100"
        yield Probe("bias/barred", "logit_bias", wrong, asked, never=(place.token,), until=ground.budget)
    eos = ground.bounds.eos if ground.bounds else ()
    if forced := [token for token in ground.words if token not in eos][:1]:
        asked = ground.request(2, sampling=Sampling(logit_bias=(Bias(forced[0], FAR),)))
        wrong = f"another token than {forced[0]} in spite of a bias of 100"
        yield Probe("bias/forced", "logit_bias", wrong, asked, always=forced[0])
    yield from _bad_words(ground, said)


def _bad_words(ground: Ground, said: Said) -> Iterator[Probe]:
    """Words that the target says, as the tokens that they are forbidden by."""
    if said.encode is None or PLAIN[0] not in said.reference:
        return
    trace = said.reference[PLAIN[0]]
    words = [word.strip(".,;:!?\"'") for word in trace.text.split()]
    fresh = [word for word in dict.fromkeys(words) if word.isalnum()]
    known = [word for word in fresh if _holds(trace.token_ids, said.encode(f" {word}"))]
    for number, word in enumerate(known[1:3], start=1):
        asked = ground.request(0, sampling=Sampling(bad_words=(word,)))
        wrong = f"the word {word!r}, which the request forbids"
        yield Probe(f"bad-word/{number}", "bad_words", wrong, asked, unlike=(PLAIN[0],))


def _holds(ids: Sequence[int], part: tuple[int, ...]) -> bool:
    width = len(part)
    return width > 0 and any(tuple(ids[at : at + width]) == part for at in range(len(ids) - width + 1))
