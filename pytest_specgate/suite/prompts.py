"""Prompt files (being written)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Conversation:
    """One prompt: the user's turns in order; the model's own answers go between them.

    ``id`` is unique in its file; ``reference`` is a known good answer to the last turn where there is one.
    """

    id: str
    turns: tuple[str, ...]
    system: str = ""
    reference: str = ""
