"""How the requests of a scenario begin: as they are written, each in a way of its own, or all alike.

Servers keep what they computed of a prompt's beginning and need not compute it again (prefix caching). *Cold* requests
begin with words that no other request of the run begins with, in both arms the same; *shared* ones begin with one long
text. Both are text that a model can make sense of, for random tokens would distort acceptance.
"""

from __future__ import annotations

import hashlib
from itertools import count
from typing import Literal

from pydantic import Field, model_validator

from pytest_specgate.suite.quantities import Strict, Verbatim, Whole

_PLACES = ("north archive", "old mill", "harbour office", "city library", "weather station", "railway museum", "farm")
_THINGS = ("letters about trade", "maps of the coast", "drawings of bridges", "records of rain", "lists of ships")
Kind = Literal["as_is", "cold", "shared"]


class PrefixSpec(Strict):
    """What stands before the first message of every request."""

    kind: Kind = Field("as_is", description="as_is; cold: each begins in its own way; shared: all begin alike")
    tokens: Whole = Field(
        512, ge=1, le=1_000_000, description="shared: length of the text that is made up, a word counting as a token"
    )
    text: Verbatim | None = Field(None, description="shared: the text itself, in place of one that is made up")
    seed: Whole = Field(0, ge=0, description="cold: another seed gives other beginnings, for servers that stay up")

    @model_validator(mode="after")
    def _fits(self) -> PrefixSpec:
        for name, kind in (("tokens", "shared"), ("text", "shared"), ("seed", "cold")):
            if self._says(name) and self.kind != kind:
                raise ValueError(f"{name!r} is for prompts with 'kind: {kind}' — remove it, or write that kind")
        if self._says("text") and self._says("tokens"):
            raise ValueError("both 'text' and 'tokens' — keep one: a text has its own length")
        return self

    def _says(self, name: str) -> bool:
        return bool(getattr(self, name) != type(self).model_fields[name].default)

    def __str__(self) -> str:
        """``cold seed=0``, ``shared tokens=512``, ``shared text=1f2e3d4c5b6a7988``: what keys a baseline."""
        if self.kind != "shared":
            return f"{self.kind} seed={self.seed}" if self.kind == "cold" else self.kind
        return f"shared tokens={self.tokens}" if self.text is None else f"shared text={_digest(self.text)[:16]}"

    def before(self, name: str) -> str:
        """What stands before a request of this name; only cold ones differ by it."""
        if self.kind == "cold":
            marks = _digest(f"{self.seed}/{name}")[:32]
            return f"Request {' '.join(marks[i : i + 4] for i in range(0, 32, 4))}.\n"
        if self.kind == "shared":
            return f"{made_up(self.tokens) if self.text is None else self.text}\n\n"
        return ""


def made_up(words: int) -> str:
    """So many words of plain sentences, the same every time."""
    found: list[str] = []
    for number in count(1):
        place, thing = _PLACES[number % len(_PLACES)], _THINGS[number % len(_THINGS)]
        found += f"Note {number}: the {place} keeps {7 * number % 89 + 3} {thing}.".split()
        if len(found) >= words:
            return " ".join(found[:words])
    raise AssertionError


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
