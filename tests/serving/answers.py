"""Answers and their events, written down by hand: times in milliseconds, no server and no clock."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pytest_specgate.engines.serving.accounting import Counted, count
from pytest_specgate.engines.serving.sse import Event, events
from pytest_specgate.engines.serving.stream import Answer, read
from pytest_specgate.records import Arm, Chunk, Told, Trace

MS = 1_000_000


def chunk(at: float, text: str = "", *, total: int | None = None, finish: str | None = None, **more: Any) -> Event:
    """A chat chunk at so many milliseconds; ``total`` is its growing usage; ``more`` goes into the choice."""
    delta = more.pop("delta", {"content": text})
    choice = {"index": 0, "delta": delta, "finish_reason": finish, **more}
    usage = {} if total is None else {"usage": {"prompt_tokens": 3, "completion_tokens": total}}
    return Event(round(at * MS), json.dumps({"object": "chat.completion.chunk", "choices": [choice], **usage}))


def role(at: float = 0.0, total: int | None = None) -> Event:
    """The chunk that only says who speaks."""
    return chunk(at, total=total, delta={"role": "assistant", "content": ""})


def usage(at: float, total: int, **more: Any) -> Event:
    """The last event: usage, and what else a server says at the end."""
    told = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": total}, **more}
    return Event(round(at * MS), json.dumps(told))


DONE = Event(10**12, "[DONE]")


def answered(*told: Event) -> Answer:
    """The answer that was asked for at 0."""
    return read(0, (*told, DONE))


def counted(*told: Event) -> Counted:
    """That answer, counted without a tokenizer."""
    return count(answered(*told))


def chunks(*pairs: tuple[float, int]) -> tuple[Chunk, ...]:
    """(milliseconds, tokens) of each chunk."""
    return tuple(Chunk(round(at * MS), tokens) for at, tokens in pairs)


def trace(found: Counted, arm: Arm = Arm.CANDIDATE) -> Trace:
    """What an engine makes of it."""
    told = Told(None if found.ids else found.tokens)
    return Trace("q1", arm, found.ids, "text", 3, 0, found.chunks, "eos", told=told)


def from_bytes(data: bytes, reads: Sequence[int]) -> list[Event]:
    """Events of these bytes, read in pieces of these lengths, one a millisecond."""
    found, start = [], 0
    for number, length in enumerate((*reads, len(data))):
        found.append((number * MS, data[start : start + length]))
        start += length
    return list(events(found))
