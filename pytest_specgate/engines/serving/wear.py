"""What a block of requests drafted and what was kept of it: by its answers, else by the server's counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_specgate.engines.serving import counters
from pytest_specgate.engines.serving.accounting import Uncounted, count
from pytest_specgate.engines.serving.failures import broken_off, cut_short
from pytest_specgate.engines.serving.sse import events
from pytest_specgate.engines.serving.stream import Answer, BadStream, read

if TYPE_CHECKING:
    from pytest_specgate.engines.serving.client import Client, Exchange, Post
    from pytest_specgate.engines.serving.dialects import Dialect

#: (drafted, accepted)
Drafts = tuple[int, int]


async def ask(client: Client, url: str, dialect: Dialect, posts: Sequence[Post]) -> Drafts | None:
    """Send the posts; what was drafted and kept, None where nothing tells of them alone. Raises Failure."""
    before = await counters.look(client, url, dialect)
    answered = answers(await client.ask(posts))
    own = [_of(answer, dialect) for answer in answered]
    known = [one for one in own if one is not None]
    if len(known) == len(own):
        return sum(drafted for drafted, _ in known), sum(accepted for _, accepted in known)
    asked = counters.Asked(url, dialect, len(posts), sum(map(tokens, answered)))
    found = (await counters.look_after(client, asked, before)).counts
    if found is None or found.drafted is None or found.accepted is None:
        return None
    return found.drafted, found.accepted


def answers(exchanges: Sequence[Exchange]) -> list[Answer]:
    """What was answered. Raises Failure for an answer that is an error, or breaks off."""
    found = list[Answer]()
    for exchange in exchanges:
        try:
            answer = read(exchange.submit_ns, events(exchange.reads))
        except BadStream as error:
            raise broken_off(error.what, error.code) from None
        if not answer.whole:
            raise cut_short(any(delta.real for delta in answer.deltas))
        found.append(answer)
    return found


def tokens(answer: Answer) -> int:
    """What was counted of it; each chunk one where nothing tells."""
    try:
        return count(answer).tokens
    except (BadStream, Uncounted):
        return sum(delta.real for delta in answer.deltas)


def _of(answer: Answer, dialect: Dialect) -> Drafts | None:
    try:
        told = dialect.acceptance(answer, count(answer))
    except (BadStream, Uncounted):
        return None
    if told is None:
        return None
    if told.rounds is not None:
        return sum(r.drafted for r in told.rounds), sum(r.accepted for r in told.rounds)
    if told.counts is None or told.counts.drafted is None:
        return None
    return told.counts.drafted, told.counts.accepted
