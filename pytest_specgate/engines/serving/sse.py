"""Stamped bytes → server-sent events: complete lines only, whatever the network cut in two.

Bytes are split before they are decoded, so a character that two reads share comes out whole. An event is as old as the
read that completed it. Comments (keep-alive) and fields other than ``data`` are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

#: What ends a stream in the OpenAI protocol.
DONE = "[DONE]"


class Event(NamedTuple):
    """The data of one event, and when its last byte was read (monotonic nanoseconds); a tuple, for there are many."""

    t_ns: int
    data: str


def events(reads: Iterable[tuple[int, bytes]]) -> Iterator[Event]:
    """Every event with data, in order; one that the stream left unfinished at its end is dropped."""
    rest, data = b"", list[str]()
    for t_ns, read in reads:
        *lines, rest = (rest + read).split(b"\n")
        for raw in lines:
            line = raw.removesuffix(b"\r")
            if not line:
                if data:
                    yield Event(t_ns, "\n".join(data))
                data = []
            elif line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" ").decode("utf-8", errors="replace"))
    if data and not rest:
        # Some servers leave out the blank line after the last event.
        yield Event(t_ns, "\n".join(data))
