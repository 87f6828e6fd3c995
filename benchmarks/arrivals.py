"""How late requests by the clock leave: waited for by the event loop's own timer, and as the client waits.

python benchmarks/arrivals.py [--requests 400] [--rounds 5]

A server in a process of its own answers streams of 20 chunks, 5 ms apart, so that the client reads while it waits. From
the time at which a request comes to the time at which its sending begins; both ways in turn, in alternating order.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from statistics import median, quantiles

from streams.clients import BODY, post
from streams.server import CHAT, Script, running, script_of
from tabulate import tabulate

from pytest_specgate.engines.serving import client as clients
from pytest_specgate.engines.serving.alarm import Alarm
from pytest_specgate.engines.serving.client import Client, Post
from pytest_specgate.measure.schedule import arrivals
from pytest_specgate.suite.arrivals import LoadSpec

STREAM = Script(chunks=20, gap=0.005)


class Sleep:
    """Waits as asyncio does."""

    async def at(self, due_ns: int) -> None:
        """Sleep the whole time."""
        await asyncio.sleep((due_ns - time.perf_counter_ns()) / 1e9)

    def close(self) -> None:
        """Nothing is held."""


WAYS: dict[str, Callable[[], object]] = {"asyncio.sleep": Sleep, "specgate": Alarm}


def late(url: str, rate: float, requests: int, way: str) -> list[float]:
    """Milliseconds, one for each request but the first."""
    times = arrivals(LoadSpec.model_validate({"rate": f"{rate}/s", "seed": 1}), requests, 0)
    posts = [Post(url + CHAT, BODY, STREAM.tokens, 60.0, after=after) for after in times]

    async def ask() -> list[float]:
        client = Client({"Content-Type": "application/json"}, secure=False)
        await client.open()
        clients.Alarm = WAYS[way]  # type: ignore[misc, assignment]
        try:
            found = await client.ask(posts)
        finally:
            clients.Alarm = Alarm  # type: ignore[misc]
            await client.close()
        return [one.late_ns / 1e6 for one in found if one.late_ns is not None]

    work: Awaitable[list[float]] = ask()
    return asyncio.run(work)  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows = []
    with running() as url:
        post(url + "/script", script_of(STREAM))
        for rate in (20.0, 200.0):
            found: dict[str, list[float]] = {way: [] for way in WAYS}
            for number in range(options.rounds):
                for way in list(WAYS)[:: 1 if number % 2 else -1]:
                    found[way] += late(url, rate, min(options.requests, round(8 * rate)), way)
            for way, all_of_them in found.items():
                shown = (median(all_of_them), quantiles(all_of_them, n=100)[98], max(all_of_them))
                rows.append((f"{rate:g}/s", way, len(all_of_them), *(f"{value:.3f} ms" for value in shown)))
    print(tabulate(rows, headers=("rate", "waits by", "requests", "median", "p99", "largest"), tablefmt="github"))


if __name__ == "__main__":
    main()
