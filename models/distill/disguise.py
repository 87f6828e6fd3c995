"""Passages under other names: a token that names or counts is exchanged for another of its kind, throughout.

A target that works on its own old answers meets the same few names again and again, which a draft can learn by heart.
What people ask about has names of its own; only looking back tells them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

KINDS = (re.compile(r" [A-Z][a-z]{2,}"), re.compile(r"[0-9]"), re.compile(r" [a-z]{7,}"))
#: A byte-pair vocabulary is in the order of frequency: words before this are too common to be exchanged.
RARE = 6000


class Disguise:
    """Exchanges tokens of one vocabulary."""

    def __init__(self, decode: Callable[[list[int]], str], size: int) -> None:
        """``decode`` turns ids into text; there are ``size`` ids."""
        self._groups: dict[int, list[int]] = {}
        for number, kind in enumerate(KINDS):
            first = RARE if number == 2 else 0
            group = [token for token in range(first, size) if kind.fullmatch(decode([token]))]
            self._groups |= dict.fromkeys(group, group)

    def __call__(self, ids: Sequence[int], rng: random.Random) -> tuple[int, ...]:
        """The passage with every name, digit and rare word changed, equal ones alike."""
        other = {token: rng.choice(self._groups[token]) for token in dict.fromkeys(ids) if token in self._groups}
        return tuple(other.get(token, token) for token in ids)
