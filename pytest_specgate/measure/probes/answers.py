"""Several answers to one request, and what is told of an answer's tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_specgate.measure.probes.ground import HOT, PLAIN, Ground, Said, told
from pytest_specgate.records import Capability, Probe, Sampling

#: Answers to one request that are drawn.
CHOICES = 3


def several(ground: Ground, said: Said) -> Iterator[Probe]:
    """Answers that must differ, the same beside another request, and answers that cannot."""
    if Capability.CHOICES not in ground.capabilities:
        return
    drawn = ground.request(1, sampling=Sampling(HOT, seed=9), n=CHOICES)
    names = [f"choices/drawn/{number}" for number in range(1, CHOICES + 1)]
    wrong = "the same text in several answers to one request"
    for number, name in enumerate(names):
        before = names[number - 1 : number] if number else []
        yield Probe(name, "n", wrong, drawn, unlike=tuple(before), company="choices")
    if {Capability.BATCH, Capability.SEEDS} <= ground.capabilities:
        wrong = "another text beside another request than alone"
        yield Probe("choices/beside", "n", wrong, ground.request(0), same_as=PLAIN[0], company="choices beside")
        for name in names:
            yield Probe(f"{name}-beside", "n", wrong, drawn, same_as=name, company="choices beside")
    if PLAIN[0] in said.reference:
        # Not greedy: some servers refuse to answer a greedy request twice.
        sure = ground.request(0, sampling=Sampling(1.0, top_p=1e-6, seed=5), n=2)
        wrong = "another text than the most likely one, though top_p leaves nothing else"
        expected = told(ground, said.reference[PLAIN[0]].token_ids)
        for number in (1, 2):
            name = f"choices/decided/{number}"
            yield Probe(name, "n", wrong, sure, expected=expected, same_as=PLAIN[0], company="choices decided")


def quoted(ground: Ground, said: Said) -> Iterator[Probe]:
    """Log-probabilities where all servers mean the same: nothing but a temperature of 1 shapes the scores."""
    if Capability.LOGPROBS not in ground.capabilities:
        return
    wrong = "log-probabilities that are not the target's"
    plain = replace(ground.request(0), logprobs=True)
    expected = told(ground, said.reference[PLAIN[0]].token_ids) if PLAIN[0] in said.reference else None
    yield Probe("logprobs/greedy", "logprobs", wrong, plain, expected=expected, same_as=PLAIN[0])
    drawn = Sampling(1.0, seed=6)
    for number in (1, 2):
        asked = ground.request(number, sampling=drawn, logprobs=True)
        yield Probe(f"logprobs/drawn/{number}", "logprobs", wrong, asked)
