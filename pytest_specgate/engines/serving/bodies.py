"""The bodies of answers: a stream read as it comes, or a page or an error read as a whole.

Of a stream nothing is kept but its reads, each as old as the newest of its bytes (:mod:`arrival`). One that stays
silent, or never ends, is refused; so is a page larger than any should be.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from pytest_specgate.engines.serving import arrival, failures, sse, stream

#: Bytes and events of a stream, at most: generous for each token, so that only one without an end meets them.
BYTES_PER_TOKEN, EVENTS_PER_TOKEN, ALLOWANCE = 16_384, 4, 1_024
#: Seconds in all to wait for the end of a body whose stream has ended: a connection read to its end can be kept,
#: and any other is closed.
LINGER = 0.5
#: What begins an event, and what ends a stream: a line of its own, for a model may well say "[DONE]".
_EVENT, _END, _ENDS = b"data:", b"[DONE]", (b"\ndata: [DONE]", b"\ndata:[DONE]")
_TAIL = 16


class Body:
    """One answer's bytes as they come, each read with its time; made when the request is sent."""

    def __init__(self, max_tokens: int, silence: float, leave_after: int | None = None) -> None:
        self._silence, self._max_tokens, self._leave_after = silence, max_tokens, leave_after
        self._room = (max_tokens + ALLOWANCE) * BYTES_PER_TOKEN
        self._events_left = (max_tokens + ALLOWANCE) * EVENTS_PER_TOKEN
        self.reads: list[tuple[int, bytes]] = []
        self.submit_ns = time.perf_counter_ns()

    async def read(self, content: Any, clock: arrival.Clock) -> None:
        """Read to the stream's end. Raises Failure."""
        silence_ns, tail = int(self._silence * 1e9), b"\n"
        last, last_event = self.submit_ns, time.perf_counter_ns()
        while data := await content.readany():
            last = max(clock(), last)
            self.reads.append((last, data))
            joined = tail + data
            if found := joined.count(_EVENT):
                last_event = last
            elif last - last_event > silence_ns:
                raise failures.silent(self._silence)
            self._count(len(data), found)
            if _END in joined and any(end in joined for end in _ENDS):
                await _linger(content)
                return
            if self._leave_after is not None and _enough(self.reads, self._leave_after):
                return
            tail = joined[-_TAIL:]

    def _count(self, size: int, events: int) -> None:
        self._room -= size
        self._events_left -= events
        if self._room < 0 or self._events_left < 0:
            raise failures.endless(self._max_tokens)


def _enough(reads: Sequence[tuple[int, bytes]], chunks: int) -> bool:
    """Whether so many chunks with something in them are there; what is no answer is told when it is read as a whole."""
    try:
        return sum(delta.real for delta in stream.read(0, sse.events(reads)).deltas) >= chunks
    except stream.BadStream:
        return False


async def _linger(content: Any) -> None:
    until = time.monotonic() + LINGER
    try:
        while await asyncio.wait_for(content.readany(), until - time.monotonic()):
            pass
    except asyncio.TimeoutError:
        pass


def coding(response: Any) -> str:
    """What the body is compressed with; empty where it is as it was written."""
    told = str(response.headers.get("Content-Encoding", "")).strip().lower()
    return "" if told == "identity" else told


async def whole(response: Any, most: int) -> bytes:
    """A body of so many bytes at most. Raises Failure."""
    found = bytearray()
    while data := await response.content.readany():
        found += data
        if len(found) > most:
            raise failures.too_large(most)
    return bytes(found)


async def said(response: Any) -> str:
    """The beginning of an answer's body, and of an OpenAI error its message."""
    if squeezed := coding(response):
        return f"(compressed with {squeezed})"
    raw = (await response.content.read(4096)).decode("utf-8", errors="replace")
    return stream.message_of(raw)
