"""Whether a server runs so many requests side by side: all of them at one moment, none waiting and none put back.

A server refuses no request for want of room: what does not fit waits in its queue, or is put back and computed again.
So how many run is read off its gauges while they work, and how many were put back off its counters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pytest_specgate.engines.serving import counters
from pytest_specgate.engines.serving.accounting import Uncounted, count
from pytest_specgate.engines.serving.dialects.rooms import Pressure
from pytest_specgate.engines.serving.failures import Failure
from pytest_specgate.engines.serving.stream import Answer, BadStream
from pytest_specgate.engines.serving.watching import Watch, Watched

if TYPE_CHECKING:
    from pytest_specgate.engines.serving.client import Client, Post


async def crowd(client: Client, watched: Watched, posts: Sequence[Post]) -> float | None:
    """Tokens per second of all posts together; None where they did not run side by side.

    Raises Failure where a request fails, or where it cannot be told.
    """
    before = await counters.look(client, watched.url, watched.dialect)
    sight = Watch(watched)
    try:
        answers = await sight.during(client, client.ask(posts))
    finally:
        sight.close()
    tokens = sum(map(_tokens, answers))
    asked = counters.Asked(watched.url, watched.dialect, len(posts), tokens)
    seen = await counters.look_after(client, asked, before)
    if seen.foreign:
        what = f"served {seen.foreign} requests of others while it was filled"
        raise Failure(what, "give the servers to this run alone")
    if seen.preempted or not _side_by_side(len(posts), sight.pressures, watched.dialect.fullness):
        return None
    return tokens / _seconds(answers)


def _side_by_side(requests: int, looks: Sequence[Pressure], hint: str) -> bool:
    """Whether all of them were seen to run at one moment. Raises Failure where nothing tells."""
    running = [one.running for one in looks if one.running is not None]
    if not running and len(looks) > 1:
        raise Failure("does not tell how many requests it runs at once", hint or "gate throughput, for no gauge tells")
    if max(running, default=0) >= requests:
        return True
    if any(one.waiting for one in looks):
        return False
    what = f"was never seen to run {requests} requests at once, nor to let one wait: they were over too soon"
    raise Failure(what, "raise the scenario's max_tokens")


def _tokens(answer: Answer) -> int:
    """What was counted of it; each chunk one where nothing tells."""
    try:
        return count(answer).tokens
    except (BadStream, Uncounted):
        return sum(delta.real for delta in answer.deltas)


def _seconds(answers: Sequence[Answer]) -> float:
    """From the first submission to the last token."""
    ends = [answer.deltas[-1].t_ns for answer in answers if answer.deltas]
    took = max(ends, default=0) - min(answer.submit_ns for answer in answers)
    return max(took, 1) / 1e9
