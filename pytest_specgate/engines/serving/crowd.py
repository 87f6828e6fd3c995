"""Whether a server runs so many requests side by side: all of them at one moment, none waiting and none put back.

What does not fit waits in the server's queue, is put back and computed again, or is turned away (429, 503) by it or by
a proxy. So how many run is read off its gauges while they work, how many were put back off its counters, and who was
turned away comes again as often as any other request: all of them may still run at one moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_specgate.engines.serving import counters, failures, wear
from pytest_specgate.engines.serving.dialects.rooms import Pressure
from pytest_specgate.engines.serving.failures import Busy, Failure
from pytest_specgate.engines.serving.loop import together
from pytest_specgate.engines.serving.stream import Answer
from pytest_specgate.engines.serving.watching import Watch, Watched

if TYPE_CHECKING:
    from pytest_specgate.engines.serving.client import Client, Exchange, Post


async def crowd(client: Client, watched: Watched, posts: Sequence[Post]) -> float | None:
    """Tokens per second of all posts together; None where they did not run side by side.

    Raises Busy where some were turned away and never ran beside the others, and Failure where a request fails, or where
    it cannot be told.
    """
    before = await counters.look(client, watched.url, watched.dialect)
    sight = Watch(watched)
    try:
        exchanges, refusals = await sight.during(client, _admitted(client, posts))
    finally:
        sight.close()
    answers = wear.answers(exchanges)
    tokens = sum(map(wear.tokens, answers))
    asked = counters.Asked(watched.url, watched.dialect, len(answers), tokens)
    seen = await counters.look_after(client, asked, before)
    if seen.foreign:
        what = f"served {seen.foreign} requests of others while it was filled"
        raise Failure(what, "give the servers to this run alone")
    if refusals:
        raise failures.turned_away(len(refusals), len(posts)) if answers else refusals[0]
    waited = sum(exchange.waits > 0 for exchange in exchanges)
    if seen.preempted or not _side_by_side(len(posts), waited, sight.pressures, watched.dialect.fullness):
        return None
    return tokens / _seconds(answers)


async def _admitted(client: Client, posts: Sequence[Post]) -> tuple[list[Exchange], list[Busy]]:
    """What was answered, and the refusals of what was not. Raises any other Failure, and gives the others up.

    All have ended then: none is left to fill the server.
    """

    async def sent(post: Post) -> Exchange | Busy:
        try:
            return (await client.ask([post]))[0]
        except Busy as refusal:
            return refusal

    found = await together([sent(post) for post in posts])
    return [one for one in found if not isinstance(one, Busy)], [one for one in found if isinstance(one, Busy)]


def _side_by_side(requests: int, waited: int, looks: Sequence[Pressure], hint: str) -> bool:
    """Whether all of them were seen to run at one moment, of which some were turned away and ``waited`` outside.

    Raises Failure where nothing tells.
    """
    running = [one.running for one in looks if one.running is not None]
    if not running and len(looks) > 1:
        raise Failure("does not tell how many requests it runs at once", hint or "gate throughput, for no gauge tells")
    if max(running, default=0) >= requests:
        return True
    if any(one.waiting for one in looks):
        return False
    if waited and requests > 1:
        raise failures.turned_away(waited, requests)
    what = f"was never seen to run {requests} requests at once, nor to let one wait: they were over too soon"
    raise Failure(what, "raise the scenario's max_tokens")


def _seconds(answers: Sequence[Answer]) -> float:
    """From the first submission to the last token."""
    ends = [answer.deltas[-1].t_ns for answer in answers if answer.deltas]
    took = max(ends, default=0) - min(answer.submit_ns for answer in answers)
    return max(took, 1) / 1e9
