"""The seam between the loop and whatever drafts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from pytest_specgate.decoding.job import Row
from pytest_specgate.decoding.network import Network
from pytest_specgate.decoding.sending import sent


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposals for the next tokens of each row.

    ``tokens`` is ``[rows, width]``, of which row ``i`` proposes the first ``counts[i]``. ``odds``
    ``[rows, width, vocabulary]`` are the probabilities that each token was really drawn from; None says that nothing
    was drawn: a token was certain to be proposed. ``peaks [rows, width]`` are finite where the scores were that a token
    was chosen by; None where it was chosen by none.
    """

    tokens: Tensor
    counts: tuple[int, ...]
    odds: Tensor | None = None
    peaks: Tensor | None = None

    @property
    def width(self) -> int:
        """The longest proposal."""
        return int(self.tokens.shape[1])

    def offered(self) -> list[list[float]] | None:
        """The chances that the proposals are said to be drawn with, ``[rows][width]``; None where nothing was drawn.

        To be asked once the device has been waited for.
        """
        if self.odds is None or not self.width:
            return None
        found: list[list[float]] = self.odds.gather(-1, self.tokens[..., None])[..., 0].tolist()
        return found


def nothing(rows: int, device: Any) -> Draft:
    """A draft that proposes no token."""
    return Draft(torch.empty((rows, 0), dtype=torch.long, device=device), (0,) * rows)


def padded(rows: Sequence[Sequence[int]], device: Any) -> Tensor:
    """Rows of different lengths as one tensor, zeros at their ends."""
    width = max(map(len, rows))
    return sent([[*row, *([0] * (width - len(row)))] for row in rows], device)


class Drafter(Protocol):
    """Proposes tokens. ``rows[i]`` is slot ``i`` in every call; a slot is entered before it is proposed for."""

    def reserve(self, slots: int, capacity: int) -> None:
        """Make room for so many rows of so many tokens each."""

    def enter(self, row: Row, slot: int) -> None:
        """Read a row that begins: its prompt, and the first token of its output."""

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        """Return a draft of at most ``limits[i]`` tokens for row ``i``."""

    def settle(self, accepted: Sequence[int]) -> None:
        """Learn how many tokens of the last draft the target kept in each row."""

    def move(self, source: int, target: int) -> None:
        """The row of slot ``source`` goes on in slot ``target``."""

    def networks(self) -> tuple[Network, ...]:
        """Models of the drafter's own, whose caches are counted and given back with the target's."""

    def step_after(self, texts: Sequence[Sequence[int]]) -> Callable[[], object] | None:
        """Read the texts, one a slot, and return a forward of one token after them that can be run again and again.

        None where drafting takes no forward. Room for the texts and a token more must be reserved; rows that were
        entered before are lost.
        """


class NoDraft:
    """Proposes nothing: the loop is then plain autoregressive decoding."""

    def __init__(self, device: Any = "cpu") -> None:
        self._device = device

    def reserve(self, slots: int, capacity: int) -> None:
        """Needs no room."""

    def enter(self, row: Row, slot: int) -> None:
        """Reads nothing."""

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        """Return an empty draft."""
        del limits  # nothing is below every limit
        return nothing(len(rows), self._device)

    def settle(self, accepted: Sequence[int]) -> None:
        """Learns nothing."""

    def move(self, source: int, target: int) -> None:
        """Holds nothing that could move."""

    def networks(self) -> tuple[Network, ...]:
        """None of its own."""
        return ()

    def step_after(self, texts: Sequence[Sequence[int]]) -> None:
        """No forward."""
