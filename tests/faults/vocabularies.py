"""Part B, a draft whose vocabulary is not the target's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_specgate.decoding.drafters.base import Draft
from pytest_specgate.decoding.drafters.draft_model import DraftModel
from pytest_specgate.decoding.job import Row
from pytest_specgate.decoding.network import Network
from tests.faults import models
from tests.faults.drafting import ACCEPTANCE
from tests.faults.entry import Entry
from tests.faults.parts import Parts


class Permuted(DraftModel):
    """Its vocabulary is in another order than the target's, and nobody translates."""

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        made = super().propose(rows, limits)
        return replace(made, tokens=(made.tokens + 7) % models.ROWS)


class Translating:
    """A draft with a vocabulary of its own: text goes over token by token, with a few that are spelt alike."""

    begin: tuple[int, ...] = ()

    def __init__(self, network: Network) -> None:
        self._inner = DraftModel(network)
        self._shadows: dict[int, tuple[Row, int]] = {}

    def reserve(self, slots: int, capacity: int) -> None:
        self._inner.reserve(slots, capacity + capacity)

    def enter(self, row: Row, slot: int) -> None:
        prompt = tuple(map(_spelt, row.job.prompt))
        shadow = Row(row.number, replace(row.job, prompt=prompt), list(prompt))
        self._shadows[slot] = (shadow, len(prompt))
        self._inner.enter(shadow, slot)

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        for slot, row in enumerate(rows):
            shadow, seen = self._shadows[slot]
            shadow.tokens += [*self.begin, *map(_spelt, row.tokens[seen:])]
            self._shadows[slot] = (shadow, len(row.tokens))
        return self._inner.propose([self._shadows[slot][0] for slot in range(len(rows))], limits)

    def settle(self, accepted: Sequence[int]) -> None:
        self._inner.settle(accepted)

    def move(self, source: int, target: int) -> None:
        self._inner.move(source, target)
        self._shadows[target] = self._shadows[source]

    def networks(self) -> tuple[Network, ...]:
        return self._inner.networks()


class BeginsAnew(Translating):
    """Every piece of text that goes over is opened with the token that begins a text."""

    begin = (1,)


def _spelt(token: int) -> int:
    """The last four tokens are spelt as the four before them."""
    return token - 4 if token >= models.ROWS - 4 else token


ENTRIES = (
    Entry(
        "V21",
        "drafting across tokenizers adds a begin token at each re-encoding",
        "every piece of text that goes over to the draft is opened with a begin token, over stale positions",
        ACCEPTANCE,
        Parts(drafter=lambda rig: BeginsAnew(rig.own)),
        right=Parts(drafter=lambda rig: Translating(rig.own)),
        right_name="translating",
    ),
    Entry(
        "V34",
        "the draft's vocabulary differs",
        "the draft's ids are read as the target's",
        ACCEPTANCE,
        Parts(drafter=lambda rig: Permuted(rig.own)),
    ),
)
