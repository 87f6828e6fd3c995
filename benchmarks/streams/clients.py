"""The clients that are compared in one process: specgate's, and bare loops that read and parse the same stream."""

from __future__ import annotations

import asyncio
import gc
import json
import time
import urllib.request
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pytest_specgate.engines.serving.client import Client, Post
from pytest_specgate.engines.serving.sse import events
from pytest_specgate.engines.serving.stream import read
from streams.server import CHAT, MODEL, Script, script_of

#: Chunks of a paced stream that come while connections are still being opened.
RAMP = 10
#: As specgate asks vLLM.
BODY = json.dumps(
    {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Say it."}],
        "max_tokens": 1024,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_token_ids": True,
    }
).encode()
#: (stamp of the client, time of the write), in nanoseconds of the same clock.
Stamps = list[tuple[int, int]]


@dataclass(frozen=True)
class Load:
    """So many streams at once; only paced ones are asked for their stamps."""

    url: str
    streams: int
    script: Script

    def prepare(self) -> None:
        """Tell the server what it is about to send."""
        post(self.url + "/script", script_of(self.script))

    @property
    def chunks(self) -> int:
        """Chunks of all streams."""
        return self.streams * self.script.chunks


class Watch:
    """Seconds of wall time, and of this process's own CPU time, since its client was ready to ask."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def seconds(self) -> tuple[float, float]:
        """Both so far."""
        return time.perf_counter() - self._wall, time.process_time() - self._cpu


#: Asks, reads and parses all, and returns what that took, and its stamps.
Ask = Callable[[Load], Awaitable[tuple[tuple[float, float], Stamps]]]


def post(url: str, body: bytes) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=30) as answer:  # noqa: S310
        answer.read()


async def ours(load: Load) -> tuple[tuple[float, float], Stamps]:
    """The client of specgate: read and stamp, then find and parse every event."""
    client = Client({"Content-Type": "application/json"}, secure=False)
    await client.open()
    watch = Watch()
    exchanges = await client.ask([Post(load.url + CHAT, BODY, load.script.tokens, 60.0) for _ in range(load.streams)])
    answers = [read(exchange.submit_ns, events(exchange.reads)) for exchange in exchanges]
    took = watch.seconds()
    await client.close()
    assert all(len(answer.deltas) == load.script.chunks + 1 for answer in answers)
    if not load.script.gap:
        return took, []
    stamped = (event for exchange in exchanges for event in list(events(exchange.reads))[RAMP:-2])
    return took, [(event.t_ns, int(json.loads(event.data)["t"])) for event in stamped]


async def aiohttp_loop(load: Load) -> tuple[tuple[float, float], Stamps]:
    """A loop over lines that parses each as it comes."""
    import aiohttp

    stamps: Stamps = []

    async def one(session: aiohttp.ClientSession) -> None:
        async with session.post(load.url + CHAT, data=BODY) as response:
            number = 0
            async for line in response.content:
                if line.startswith(b"data: {"):
                    now = time.perf_counter_ns()
                    data = json.loads(line[6:])
                    number += 1
                    if number > RAMP and load.script.gap and data["choices"]:
                        stamps.append((now, int(data["t"])))
        assert number == load.script.chunks + 2

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        watch = Watch()
        await asyncio.gather(*(one(session) for _ in range(load.streams)))
        return watch.seconds(), stamps


async def httpx_loop(load: Load) -> tuple[tuple[float, float], Stamps]:
    """The same on httpx."""
    import httpx2

    stamps: Stamps = []

    async def one(client: Any) -> None:
        async with client.stream("POST", load.url + CHAT, content=BODY) as response:
            number = 0
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    now = time.perf_counter_ns()
                    data = json.loads(line[6:])
                    number += 1
                    if number > RAMP and load.script.gap and data["choices"]:
                        stamps.append((now, int(data["t"])))

    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(limits=limits, timeout=60, trust_env=False) as client:
        watch = Watch()
        await asyncio.gather(*(one(client) for _ in range(load.streams)))
        return watch.seconds(), stamps


def run(ask: Ask, load: Load) -> tuple[float, float, Stamps]:
    """Chunks per second, the same per second of this process's own CPU time (which hardly minds others), stamps."""
    load.prepare()
    gc.collect()
    (wall, cpu), stamps = asyncio.run(ask(load))
    return load.chunks / wall, load.chunks / cpu, stamps
