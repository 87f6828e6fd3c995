"""A smaller model that drafts token by token.

Its cache trails the text: after a round in which every draft was kept it lacks the last of them as well as the target's
own token, and a row that asks for nothing is not read at all. Rows lag by different numbers, so what each lacks is read
in one block, padded at its end. Where a text outgrows the model's context nothing is drafted any more, and decoding
goes on plainly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pytest_specgate.decoding.cache import Span
from pytest_specgate.decoding.choice import Chooser
from pytest_specgate.decoding.drafters.base import Draft, nothing, padded
from pytest_specgate.decoding.drafters.stepwise import Begun, continued
from pytest_specgate.decoding.job import Row
from pytest_specgate.decoding.network import Network
from pytest_specgate.decoding.sending import sent


class DraftModel:
    """Drafts with a network of its own, choosing as the row's job says: the best token, or one drawn.

    A draft goes on while the network is as sure as ``least`` that all of it is kept; 0 is always.
    """

    def __init__(self, network: Network, least: float = 0.0) -> None:
        self._network = network
        self._least = least
        self._held: list[int] = []  # per slot: tokens of the row that the cache holds
        self._lengths: tuple[int, ...] = ()  # per slot: tokens of the row when it was last proposed for
        self._limits: tuple[int, ...] = ()  # per slot: drafts of the last proposal

    def reserve(self, slots: int, capacity: int) -> None:
        """Make room in the network's cache."""
        self._network.reserve(slots, capacity)
        self._held = [0] * slots

    def enter(self, row: Row, slot: int) -> None:
        """Read the prompt, if drafting can begin at all."""
        if self._allowed(row, 1):
            self._network.prefill(row.job.prompt, slot)
        self._held[slot] = len(row.job.prompt)

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        """Return the next tokens of every row, of which each proposes what its limit and the context allow."""
        self._limits = tuple(self._allowed(row, limit) for row, limit in zip(rows, limits))
        self._lengths = tuple(len(row.tokens) for row in rows)
        if not max(self._limits):
            return nothing(len(rows), self._network.device)
        begun = Begun(self._catch_up(rows), self._lengths, self._limits, self._least)
        made = continued(self._network, self._chooser(rows), begun)
        # A draft that ended early has been read as far as it goes.
        self._limits = tuple(min(limit, max(made.width, 1)) for limit in self._limits)
        return made

    def _chooser(self, rows: Sequence[Row]) -> Chooser:
        """What makes tokens of scores: a draft that chooses otherwise than its job says exchanges it."""
        return Chooser(rows, self._network.device)

    def _allowed(self, row: Row, limit: int) -> int:
        """How many of ``limit`` drafts the context has room for; the last one is not read."""
        context = self._network.anatomy.context
        return limit if context is None else max(0, min(limit, context + 1 - len(row.tokens)))

    def _catch_up(self, rows: Sequence[Row]) -> Tensor:
        """Read what is lacking of the rows that propose; return the scores after each one's last token.

        They are ``[rows, vocabulary]``; those of the other rows mean nothing.
        """
        lacking = [row.tokens[held:] if limit else [] for row, held, limit in zip(rows, self._held, self._limits)]
        block = padded(lacking, self._network.device)
        scores = self._network.forward(block, Span(tuple(self._held[: len(rows)]), block.shape[1]))
        if block.shape[1] == 1:
            return scores[:, 0]
        last = sent([max(len(tokens) - 1, 0) for tokens in lacking], scores.device)
        return scores[torch.arange(len(rows), device=scores.device), last]

    def settle(self, accepted: Sequence[int]) -> None:
        """Forget the drafts that were not kept; the last one drafted was never read."""
        steps = max(self._limits, default=0)
        for slot, (length, limit, kept) in enumerate(zip(self._lengths, self._limits, accepted)):
            if limit:
                self._held[slot] = length + min(kept, steps - 1)

    def move(self, source: int, target: int) -> None:
        """Copy the cache's slot."""
        self._network.move(source, target)
        self._held[target] = self._held[source]

    def networks(self) -> tuple[Network, ...]:
        """The one that drafts."""
        return (self._network,)

    def step_after(self, texts: Sequence[Sequence[int]]) -> Callable[[], object] | None:
        """The network's forward of one token."""
        context = self._network.anatomy.context
        if context is not None and max(map(len, texts)) >= context:
            return None  # drafting has ended there
        return self._network.block_after(texts, 1)
