"""A server's counters before and after our requests: what speculation did, and whether others used it meanwhile.

Counters are the server's and not ours. What they counted is about our requests only if they counted as many requests
and tokens as we were answered: more means other traffic, fewer means that they are of another replica or were reset. In
both cases nothing is taken from them.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from pytest_specgate.engines.serving.client import Client
from pytest_specgate.engines.serving.dialects import Dialect
from pytest_specgate.engines.serving.tally import Tally, counts, since
from pytest_specgate.records import Counts

#: Servers update their counters a moment after the last token: seconds to wait for it, and between two looks.
PATIENCE = 1.0
PAUSE = 0.02

RESET = "unmeasured: the server's counters were reset or vanished while it was measured"
FEWER = "unmeasured: the server's counters show fewer tokens than it sent, so they are not of all its replicas"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the counters say of our requests; ``foreign`` is None where they cannot tell others from ours.

    ``preempted`` and ``cached`` are as in a :class:`Tally`, of our requests alone.
    """

    counts: Counts | None = None
    foreign: int | None = None
    note: str = ""
    preempted: int | None = None
    cached: int | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a server was asked for between two looks: requests that were answered, and tokens that they brought."""

    url: str
    dialect: Dialect
    requests: int
    tokens: int


async def look(client: Client, url: str, dialect: Dialect) -> Tally | None:
    """The counters now; None where the server shows none."""
    if dialect.tally is None:
        return None
    page = await client.text(url + dialect.metrics)
    return None if page is None else dialect.tally(page)


async def look_after(client: Client, asked: Asked, before: Tally | None) -> Seen:
    """Look again until our requests are counted, or the patience is used up."""
    if before is None:
        return Seen()
    end = time.monotonic() + PATIENCE
    while True:
        after = await look(client, asked.url, asked.dialect)
        found = since(before, after) if after is not None else None
        if found is None or _counted(found, asked.requests, asked.tokens) or time.monotonic() > end:
            return judge(found, asked.requests, asked.tokens)
        await asyncio.sleep(PAUSE)


def judge(found: Tally | None, requests: int, tokens: int) -> Seen:
    """What a difference of counters is worth beside so many answered requests and tokens of ours."""
    if found is None:
        return Seen(note=RESET)
    if found.tokens is None and found.requests is None:
        return Seen(counts(found, requests, tokens), preempted=found.preempted)
    if not _counted(found, requests, tokens):
        return Seen(note=FEWER)
    if foreign := _foreign(found, requests, tokens):
        return Seen(None, foreign)
    return Seen(counts(found, requests, tokens), 0, preempted=found.preempted, cached=found.cached)


def _counted(found: Tally, requests: int, tokens: int) -> bool:
    """Whether all of ours are in; some servers leave out each text's end token."""
    enough_requests = found.requests is None or found.requests >= requests
    return enough_requests and (found.tokens is None or found.tokens >= tokens - requests)


def _foreign(found: Tally, requests: int, tokens: int) -> int:
    """Requests of others: those that ended, or at least one where there are tokens that nobody of us got."""
    ended = 0 if found.requests is None else found.requests - requests
    unfinished = found.tokens is not None and found.tokens > tokens + requests
    return max(ended, int(unfinished))
