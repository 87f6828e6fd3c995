"""Two drafters, the cheap one first: where it has nothing to propose, the other one does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from pytest_specgate.decoding.drafters.base import Draft, Drafter
from pytest_specgate.decoding.job import Row
from pytest_specgate.decoding.network import Network
from pytest_specgate.decoding.sending import sent


class Composed:
    """Asks ``first`` for every row, and ``second`` for the rows that were left without a proposal."""

    def __init__(self, first: Drafter, second: Drafter) -> None:
        self._first, self._second = first, second
        self._by_first: tuple[bool, ...] = ()

    def reserve(self, slots: int, capacity: int) -> None:
        """Make room in both."""
        self._first.reserve(slots, capacity)
        self._second.reserve(slots, capacity)

    def enter(self, row: Row, slot: int) -> None:
        """Let both read the row."""
        self._first.enter(row, slot)
        self._second.enter(row, slot)

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        """Return each row's draft from the one that had any."""
        first = self._first.propose(rows, limits)
        self._by_first = tuple(count > 0 for count in first.counts)
        left = [0 if served else limit for served, limit in zip(self._by_first, limits)]
        second = self._second.propose(rows, left)
        return _merged(first, second, self._by_first)

    def settle(self, accepted: Sequence[int]) -> None:
        """Tell each what was kept of its own proposals."""
        self._first.settle([kept if served else 0 for kept, served in zip(accepted, self._by_first)])
        self._second.settle([0 if served else kept for kept, served in zip(accepted, self._by_first)])

    def move(self, source: int, target: int) -> None:
        """Move in both."""
        self._first.move(source, target)
        self._second.move(source, target)

    def networks(self) -> tuple[Network, ...]:
        """Those of both."""
        return (*self._first.networks(), *self._second.networks())

    def step_after(self, texts: Sequence[Sequence[int]]) -> Callable[[], object] | None:
        """The second one's forward, the dearer of the two."""
        return self._second.step_after(texts)


def _merged(first: Draft, second: Draft, by_first: Sequence[bool]) -> Draft:
    if not first.width or not second.width:
        return first if first.width else second
    width = max(first.width, second.width)
    mine = sent(by_first, first.tokens.device, torch.bool)
    one, other = _wide(first.tokens, width), _wide(second.tokens, width)
    counts = tuple(a if served else b for a, b, served in zip(first.counts, second.counts, by_first))
    odds = None
    if second.odds is not None:
        # The first one's copies are certain, unless it draws too.
        size = second.odds.shape[-1]
        certain = torch.nn.functional.one_hot(first.tokens, size).to(second.odds.dtype)
        drawn = certain if first.odds is None else first.odds
        odds = torch.where(mine[:, None, None], _wide(drawn, width), _wide(second.odds, width))
    peaks = None
    if second.peaks is not None:
        first_peaks = torch.zeros_like(first.tokens) if first.peaks is None else first.peaks
        peaks = torch.where(mine[:, None], _wide(first_peaks, width), _wide(second.peaks, width))
    return Draft(torch.where(mine[:, None], one, other), counts, odds, peaks)


def _wide(block: Tensor, width: int) -> Tensor:
    """Pad ``[rows, narrower, ...]`` with zeros to ``[rows, width, ...]``."""
    return pad(block, (0, 0) * (block.dim() - 2) + (0, width - block.shape[1]))
