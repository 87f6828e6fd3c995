"""Where a text ends: an end-of-text token, a stop string, or the budget; looked for at every token of a block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: Tokens that one character may take: UTF-8 needs up to four bytes, and a token may be one of them.
_TOKENS_PER_CHARACTER = 4


@dataclass(frozen=True, slots=True)
class StopRule:
    """Ends a text after the first token of ``eos``, or after the token that completes one of ``strings``.

    The ending token stays in the output. ``decode`` turns ids into text, and is needed for ``strings`` alone.
    """

    eos: frozenset[int] = frozenset()
    strings: tuple[str, ...] = ()
    decode: Callable[[Sequence[int]], str] | None = None

    def __post_init__(self) -> None:
        if self.strings and self.decode is None:
            raise ValueError("stop strings need a way to decode")

    def cut(self, output: Sequence[int], block: Sequence[int], budget: int) -> tuple[int, str]:
        """Return how many tokens of the block stay after ``output``, and why the text ends there, "" if it goes on."""
        for place, token in enumerate(block[:budget], start=1):
            if token in self.eos:
                return place, "eos"
            if self.strings and self._completed([*output, *block[:place]]):
                return place, "stop"
        return (budget, "length") if len(block) >= budget else (len(block), "")

    def _completed(self, tokens: list[int]) -> bool:
        assert self.decode is not None  # noqa: S101 - held by the constructor
        longest = max(map(len, self.strings))
        tail = self.decode(tokens[-_TOKENS_PER_CHARACTER * (longest + 1) :])
        return any(string in tail for string in self.strings)
