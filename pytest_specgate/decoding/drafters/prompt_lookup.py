"""Drafting by copying: what followed the last few tokens when they stood in the text before.

Each request has an index of its n-grams that grows with its text, so a look-up costs the same however long the text is
(Saxena, "Prompt Lookup Decoding", 2023; there the text is searched anew every round).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_specgate.decoding.drafters.base import Draft, nothing, padded
from pytest_specgate.decoding.job import Row
from pytest_specgate.decoding.network import Network


class NgramIndex:
    """Where each n-gram of a growing text, up to ``longest`` tokens, was last followed by something.

    Only what at least ``least`` tokens agree on is copied; that may be more than are looked up.
    """

    def __init__(self, longest: int, least: int = 1) -> None:
        self._followed: list[dict[tuple[int, ...], int]] = [{} for _ in range(longest)]
        self._least = least
        self._indexed = 0

    def continuation(self, text: Sequence[int], limit: int, per_match: int | None = None) -> list[int]:
        """Return at most ``limit`` tokens that followed the longest known ending of ``text``; none if none is known.

        ``per_match`` bounds them further, by so many for each token of the text's end that stands there too. A copy
        that reaches the end of the text goes on with what it has copied, as a repetition would.
        """
        self._extend(text)
        for length in range(min(len(self._followed), len(text)), 0, -1):
            start = self._followed[length - 1].get(tuple(text[-length:]))
            if start is not None:
                enough = self._least if per_match is None else max(self._least, -(-limit // per_match))
                agreeing = _matched(text, start, enough)
                if agreeing < self._least:
                    return []
                if per_match is not None:
                    limit = min(limit, per_match * agreeing)
                period = len(text) - start
                return [text[start + place % period] for place in range(limit)]
        return []

    def _extend(self, text: Sequence[int]) -> None:
        """Index what ends before the last token: the last has no follower yet."""
        for end in range(self._indexed + 1, len(text)):
            for length in range(1, min(len(self._followed), end) + 1):
                self._followed[length - 1][tuple(text[end - length : end])] = end
        self._indexed = max(self._indexed, len(text) - 1)


def _matched(text: Sequence[int], start: int, enough: int) -> int:
    """How many tokens before ``start`` are those at the text's end, counted up to ``enough``."""
    count = 0
    while count < min(enough, start) and text[start - 1 - count] == text[-1 - count]:
        count += 1
    return count


class PromptLookup:
    """Proposes what followed the last ``max_ngram`` tokens or fewer, in prompt and output alike.

    With ``per_match``, at most so many tokens for each one that agrees, and nothing where fewer than ``least`` do: a
    long agreement is a copy under way, and one token of it says little.
    """

    def __init__(self, max_ngram: int, device: Any = "cpu", per_match: int | None = None, least: int = 1) -> None:
        self._max_ngram, self._per_match, self._least = max_ngram, per_match, least
        self._device = device
        self._indices: list[NgramIndex] = []

    def reserve(self, slots: int, capacity: int) -> None:
        """Have an index per slot."""
        del capacity  # an index grows as its text does
        self._indices = [self._index() for _ in range(slots)]

    def enter(self, row: Row, slot: int) -> None:
        """Begin an index; the prompt is read with the first proposal."""
        del row
        self._indices[slot] = self._index()

    def _index(self) -> NgramIndex:
        return NgramIndex(self._max_ngram, self._least)

    def propose(self, rows: Sequence[Row], limits: Sequence[int]) -> Draft:
        """Return the copies, of different lengths, empty for rows whose ending is new."""
        asked = zip(self._indices, rows, limits)
        found = [index.continuation(row.tokens, limit, self._per_match) for index, row, limit in asked]
        if not any(found):
            return nothing(len(rows), self._device)
        return Draft(padded(found, self._device), tuple(map(len, found)))

    def settle(self, accepted: Sequence[int]) -> None:
        """Nothing to learn: the text tells."""

    def move(self, source: int, target: int) -> None:
        """Hand the index over."""
        self._indices[target] = self._indices[source]

    def networks(self) -> tuple[Network, ...]:
        """None of its own."""
        return ()

    def step_after(self, texts: Sequence[Sequence[int]]) -> None:
        """No forward: copies are looked up."""
