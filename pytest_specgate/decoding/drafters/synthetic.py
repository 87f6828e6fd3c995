"""A forced rate of acceptance, for measuring speed apart from the quality of a draft.

What is "accepted" is what was drafted, right or wrong, so the output is **not** the target's: speed and memory can be
judged on it, output never.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pytest_specgate.decoding.choice import best
from pytest_specgate.decoding.drafters.base import Draft
from pytest_specgate.decoding.job import Row
from pytest_specgate.decoding.network import Network
from pytest_specgate.decoding.randomness import Purpose, uniforms
from pytest_specgate.decoding.sending import sent
from pytest_specgate.decoding.verifier import Judgement


class Filler:
    """Proposes as many tokens as it may, all of them ``token``, at no cost; a real drafter costs what it costs."""

    def __init__(self, token: int = 0, device: object = "cpu") -> None:
        self._token, self._device = token, device

    def reserve(self, slots: int, capacity: int) -> None:
        """Needs no room."""

    def enter(self, row: Row, slot: int) -> None:
        """Reads nothing."""

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        """Return a full draft."""
        tokens = torch.full((len(rows), max(limits)), self._token, device=self._device)
        return Draft(tokens, tuple(limits))

    def settle(self, accepted: Sequence[int]) -> None:
        """Learns nothing."""

    def move(self, source: int, target: int) -> None:
        """Holds nothing that could move."""

    def networks(self) -> tuple[Network, ...]:
        """None of its own."""
        return ()

    def step_after(self, texts: Sequence[Sequence[int]]) -> None:
        """No forward."""


class ForcedVerifier:
    """Accepts each draft that is reached with chance ``rate``, by the job's seed and the position alone."""

    def __init__(self, rate: float) -> None:
        if not 0 <= rate <= 1:
            raise ValueError(f"an acceptance rate lies between 0 and 1, not at {rate}")
        self._rate = rate

    def judge(self, scores: torch.Tensor, draft: Draft, rows: Sequence[Row]) -> Judgement:
        """Keep drafts by lot; what follows them is the target's best token there."""
        device = scores.device
        own = best(scores)
        seeds = sent([[row.job.seed] for row in rows], device)
        ahead = torch.arange(draft.width, device=device)
        places = sent([[len(row.tokens)] for row in rows], device) + ahead
        proposed = ahead < sent(draft.counts, device)[:, None]
        lucky = (uniforms(seeds, places, Purpose.ACCEPT) < self._rate) & proposed
        kept = lucky.long().cumprod(dim=1).sum(dim=1)
        row = torch.arange(len(rows), device=device)
        tokens = torch.cat((draft.tokens, own[:, -1:]), dim=1)
        tokens[row, kept] = own[row, kept]
        return Judgement(tokens, kept)
