"""What is drawn: by its seed alone, and only from what a filter leaves."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_specgate.measure.probes.ground import HOT, PLAIN, Ground, Said, told
from pytest_specgate.records import Capability, Probe, Request, Sampling


def seeds(ground: Ground) -> Iterator[Probe]:
    """One seed twice, others once, and requests without one."""

    def hot(seed: int | None) -> Request:
        return ground.request(1, sampling=Sampling(HOT, seed=seed))

    if Capability.SEEDS in ground.capabilities:
        yield Probe("seed/1", "seed", "a crash", hot(1))
        same = "another text though prompt and seed are the same"
        yield Probe("seed/1-again", "seed", same, hot(1), same_as="seed/1")
        yield Probe("seed/2", "seed", "a crash", hot(2))
        other = "the same text whatever the seed"
        yield Probe("seed/3", "seed", other, hot(3), unlike=("seed/1", "seed/2"))
    together = "unseeded" if Capability.BATCH in ground.capabilities else ""
    names = tuple(f"unseeded/{n}" for n in (1, 2, 3))
    for name in names:
        others = names[:2] if name == names[2] else ()
        wrong = "the same text for requests that give no seed"
        yield Probe(name, "seed", wrong, hot(None), unlike=others, company=together)


def filters(ground: Ground, said: Said) -> Iterator[Probe]:
    """Draws that can only come out one way: a filter that a path forgets shows in a single token."""
    if PLAIN[0] not in said.reference:
        return
    expected = told(ground, said.reference[PLAIN[0]].token_ids)
    for name, sampling in (
        ("top_k", Sampling(1.0, top_k=1, seed=5)),
        ("top_p", Sampling(1.0, top_p=1e-6, seed=5)),
        ("min_p", Sampling(1.0, min_p=1.0, seed=5)),
        ("temperature", Sampling(1e-6, seed=5)),
    ):
        wrong = f"another text than the most likely one, though {name} leaves nothing else"
        asked = ground.request(0, sampling=sampling)
        yield Probe(f"filter/{name}", name, wrong, asked, expected=expected, same_as=PLAIN[0])
    both = Sampling(1.0, top_k=1, seed=5, repetition_penalty=1.5)
    wrong = "another text drawn with a repetition penalty than chosen with it"
    asked = ground.request(0, sampling=both)
    yield Probe("filter/penalised", "repetition_penalty", wrong, asked, same_as="repetition_penalty/1.5")
