"""Requests beside others and after others: each is answered as it is alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_specgate.measure.probes.ground import COMPANY, HOT, PLAIN, Ground, Said, told
from pytest_specgate.records import Capability, Probe, Sampling


def mixed(ground: Ground, found: Sequence[Probe]) -> Iterator[Probe]:
    """Requests of other lengths, budgets and parameters, seeded and not, in one call: each as it is alone."""
    if Capability.BATCH not in ground.capabilities:
        return
    alone = {probe.name: probe for probe in found}
    names = ("budget/2", "least/1", "repetition_penalty/1.5", "bias/barred")
    asked = [alone[name] for name in names if name in alone]
    if ground.bounds is not None:
        asked += [Probe(f"length/{n}", "", "", ground.request(n, n)) for n in (1, ground.k + 3)]
    if Capability.SEEDS in ground.capabilities:
        asked += [Probe("seed/1", "", "", ground.request(1, sampling=Sampling(HOT, seed=1)))]
    for probe in asked[: COMPANY - 1]:
        wrong = "another text beside other requests than alone"
        yield Probe(f"mixed/{probe.name}", "mixed batch", wrong, probe.request, same_as=probe.name, company="mixed")
    extra = ground.request(2, sampling=Sampling(HOT, seed=None))
    yield Probe("mixed/unseeded", "mixed batch", "a crash", extra, company="mixed")


def again(ground: Ground, said: Said) -> Iterator[Probe]:
    """What was asked before, now that caches are warm and odd requests have passed."""
    if PLAIN[0] not in said.reference:
        return
    ids = said.reference[PLAIN[0]].token_ids
    wrong = "another text when a request is repeated"
    repeated = ground.request(0)
    yield Probe("again/same", "warm cache", wrong, repeated, expected=told(ground, ids), same_as=PLAIN[0])
    if repeated.token_ids is not None and ids:
        begun = (*repeated.token_ids, *ids[: ground.k + 1])
        rest = ids[ground.k + 1 :]
        asked = replace(repeated, prompt="sweep-continued", token_ids=begun, max_tokens=len(rest))
        wrong = "another text when an answer is continued from its middle"
        yield Probe("again/continued", "warm cache", wrong, asked, expected=rest)
