"""Part B, what drafts: the text stays right, and fewer drafts are kept than should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from pytest_specgate.decoding.cache import SlotLayer, Span
from pytest_specgate.decoding.drafters.base import Draft, nothing, padded
from pytest_specgate.decoding.drafters.draft_model import DraftModel
from pytest_specgate.decoding.drafters.stepwise import Begun, continued
from pytest_specgate.decoding.job import Row
from pytest_specgate.decoding.network import Network
from tests.faults import models
from tests.faults.caches import Cached
from tests.faults.entry import Entry
from tests.faults.parts import Parts
from tests.faults.settings import PLAIN

ACCEPTANCE = ("conditional_acceptance", "acceptance_length", "acceptance_rate")


class _Late(Span):
    """A block that is said to stand one position later than it does."""

    def positions(self, device: Any) -> Tensor:
        return Span.positions(self, device) + 1


class ShiftedPositions(Network):
    """Reads all but prompts one position too late."""

    def forward(self, tokens: Tensor, span: Span, keep: int = 0) -> Tensor:
        late = _Late(span.starts, span.width, span.first) if max(span.starts) else span
        return super().forward(tokens, late, keep)


class Noisy(Network):
    """Another draft than before: noise on its scores, the same for the same token at the same place."""

    def forward(self, tokens: Tensor, span: Span, keep: int = 0) -> Tensor:
        scores = super().forward(tokens, span, keep)
        source = torch.Generator().manual_seed(int(tokens.sum()) + 1000 * span.length)
        noise = torch.randn(scores.shape, generator=source, dtype=scores.dtype)
        return scores + NOISE * scores.std() * noise


#: Of the scores' own spread.
NOISE = 0.5


class Overflowing(Network):
    """Keeps its scores in sixteen bits, large as they are: the highest become infinite."""

    def forward(self, tokens: Tensor, span: Span, keep: int = 0) -> Tensor:
        scores = super().forward(tokens, span, keep)
        return (scores * LARGE).half().to(scores.dtype) / LARGE


#: Scores above 3 overflow; most positions have one.
LARGE = 65504 / 3


class RotatedKeysLayer(SlotLayer):
    """Turns keys into a basis that quantises well, and leaves queries in the old one."""

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        source = torch.Generator().manual_seed(0)
        turn, _r = torch.linalg.qr(torch.randn((key_states.shape[-1],) * 2, generator=source, dtype=torch.float64))
        return super().update(key_states @ turn.to(key_states.dtype), value_states)


class RotatedKeys(Cached):
    layer = RotatedKeysLayer


class Windowless(Network):
    """Lets layers with a window see all of the text."""

    def _mask(self, span: Span, positions: Tensor) -> Any:
        return self._band(span, positions, None)


class BonusUnwritten(DraftModel):
    """Keeps a place in the cache for the target's own token, and writes nothing there."""

    def _catch_up(self, rows: Sequence[Row]) -> Tensor:
        scores = super()._catch_up(rows)
        cache = self._network.cache
        assert cache is not None
        for layer in cache.layers:
            for slot, row in enumerate(rows):
                layer.keys[slot, :, len(row.tokens) - 1] = 0
                layer.values[slot, :, len(row.tokens) - 1] = 0
        return scores


class TrimmedTooFar(DraftModel):
    """Takes two entries too many from its cache at each rejection, and never reads them again."""

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._behind: list[int] = []

    def reserve(self, slots: int, capacity: int) -> None:
        super().reserve(slots, capacity)
        self._behind = [0] * slots

    def enter(self, row: Row, slot: int) -> None:
        super().enter(row, slot)
        self._behind[slot] = 0

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        self._limits = tuple(self._allowed(row, limit) for row, limit in zip(rows, limits))
        self._lengths = tuple(len(row.tokens) for row in rows)
        if not max(self._limits):
            return nothing(len(rows), self._network.device)
        begins = tuple(length - behind for length, behind in zip(self._lengths, self._behind))
        return continued(self._network, self._chooser(rows), Begun(self._catch_up(rows), begins, self._limits))

    def _catch_up(self, rows: Sequence[Row]) -> Tensor:
        lacking = [row.tokens[held:] for row, held in zip(rows, self._held)]
        block = padded(lacking, self._network.device)
        starts = tuple(held - behind for held, behind in zip(self._held, self._behind[: len(rows)]))
        scores = self._network.forward(block, Span(starts, block.shape[1]))
        last = torch.tensor([len(tokens) - 1 for tokens in lacking])
        return scores[torch.arange(len(rows)), last]

    def settle(self, accepted: Sequence[int]) -> None:
        super().settle(accepted)
        for slot, (kept, limit) in enumerate(zip(accepted, self._limits)):
            if kept < limit:
                self._behind[slot] = min(self._behind[slot] + 2, self._held[slot] - 1)

    def move(self, source: int, target: int) -> None:
        super().move(source, target)
        self._behind[target] = self._behind[source]


class NeverReset(DraftModel):
    """Counts what it reads over all requests of a slot against its window: it falls silent, for good."""

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._spent: dict[int, int] = {}

    def enter(self, row: Row, slot: int) -> None:
        self._spent[slot] = self._spent.get(slot, 0) + len(row.job.prompt) + row.job.max_tokens
        super().enter(row, slot)

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        full = [self._spent[slot] > models.CONTEXT for slot in range(len(rows))]
        return super().propose(rows, [0 if over else limit for over, limit in zip(full, limits)])


class PastItsWindow(DraftModel):
    """Drafts beyond the end of its own table of positions."""

    def _allowed(self, row: Row, limit: int) -> int:
        return limit


def short(network: Network) -> Network:
    """A draft whose window is a quarter of the target's."""
    network.anatomy = replace(network.anatomy, context=models.CONTEXT // 4)
    return network


class Sure(DraftModel):
    """Proposes up to the first token of which it is less sure than ``least``."""

    def __init__(self, network: Network, least: float) -> None:
        super().__init__(network)
        self._least = least

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        made = super().propose(rows, limits)
        if not made.width:
            return made
        last = torch.tensor([[row.tokens[-1]] for row in rows])
        read = torch.cat((last, made.tokens[:, :-1]), dim=1)
        scores = self._network.forward(read, Span(tuple(len(row.tokens) - 1 for row in rows), made.width))
        sure = scores.softmax(dim=-1).amax(dim=-1) >= self._least
        lengths = sure.long().cumprod(dim=1).sum(dim=1).tolist()
        return replace(made, counts=tuple(min(count, length) for count, length in zip(made.counts, lengths)))


def _drafter(kind: Any, *more: Any) -> Parts:
    return Parts(drafter=lambda rig: kind(rig.own, *more))


#: The decoder of the entries about what a draft is sure of.
SURE = _drafter(Sure, 0.3)
_WINDOWED = replace(PLAIN, name="windowed", kind="mistral")

ENTRIES = (
    Entry(
        "V20",
        "wrong positions in the draft's pass",
        "the draft reads all but prompts one position too late",
        ACCEPTANCE,
        Parts(draft=ShiftedPositions),
    ),
    Entry(
        "V23",
        "acceptance falls after an upgrade",
        "noise of half their spread on the draft's scores",
        ACCEPTANCE,
        Parts(draft=Noisy),
    ),
    Entry(
        "V24",
        "the draft's cache lacks the bonus token",
        "the place of the target's own token stays empty in the draft's cache",
        ACCEPTANCE,
        _drafter(BonusUnwritten),
    ),
    Entry(
        "V25",
        "the draft's cache is trimmed too far at each rejection",
        "two entries too many are dropped from the draft's cache and never read again",
        ACCEPTANCE,
        _drafter(TrimmedTooFar),
    ),
    Entry(
        "V26",
        "keys of a quantised draft cache are rotated, queries are not",
        "the draft's keys are turned into another basis than its queries",
        ACCEPTANCE,
        Parts(draft=RotatedKeys),
    ),
    Entry(
        "V27",
        "acceptance decays with the context",
        "the draft's windowed layers see all of the text",
        ACCEPTANCE,
        Parts(draft=Windowless),
        setting=_WINDOWED,
    ),
    Entry(
        "V33",
        "the confidence cut-off of the draft is too strict",
        "nothing is proposed of which the draft is less than 99 % sure (right: 30 %)",
        ACCEPTANCE,
        _drafter(Sure, 0.99),
        right=SURE,
        right_name="sure",
    ),
    Entry(
        "V45",
        "the draft's context is not cleared between requests",
        "the draft counts all requests of a slot against its window, and falls silent",
        ACCEPTANCE,
        _drafter(NeverReset),
        setting=replace(PLAIN, name="one-by-one", concurrency=1),
    ),
    Entry(
        "V48",
        "the draft's window is shorter than the target's",
        "drafting goes on past the end of the draft's table of positions",
        ACCEPTANCE,
        Parts(draft=lambda model: short(Network(model)), drafter=lambda rig: PastItsWindow(rig.own)),
        setting=replace(PLAIN, name="short-draft", kind="endless", max_tokens=70),
        right=Parts(draft=lambda model: short(Network(model))),
        right_name="short-draft",
    ),
    Entry(
        "X6",
        "a draft's logits overflow: nothing is said, and fewer drafts are kept",
        "the draft's scores are kept in float16, where the highest become infinite",
        ACCEPTANCE,
        Parts(draft=Overflowing),
        note="without a baseline the error alone tells: acceptance is low, and nobody knows what it should be.",
    ),
)
