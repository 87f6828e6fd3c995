"""How fast the HTTP client is, beside bare loops that read and parse the same stream; and how late its stamps are.

python benchmarks/serving.py [--streams 256] [--chunks 200] [--pairs 5] [--rate 5000] [--minutes 0]

A server in a process of its own sends chunks as vLLM does. *Speed*: as fast as they are taken, each client in turn, in
alternating order; the ratio is that of chunks per second, reading and parsing all of them. *Lateness*: chunks are sent
at ``--rate`` in all, each with the time at which it was written (both processes read the same monotonic clock).
``--minutes`` asks for that load again and again and tells what the client's memory does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

import psutil

from pytest_specgate.engines.serving.client import Client, Post
from pytest_specgate.engines.serving.sse import events
from pytest_specgate.engines.serving.stream import read

#: Chunks of a paced stream that come while connections are still being opened.
RAMP = 10
PATH = "/v1/chat/completions"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
TEXT = '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"smol","choices":[{"index":0,"delta":'
TEXT += '{"content":" token"},"logprobs":null,"finish_reason":null,"token_ids":[%d]}],"usage":{"prompt_tokens":7,'
TEXT += '"total_tokens":%d,"completion_tokens":%d},"t":%d}'
END = b'data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}]}'


# --- the server -------------------------------------------------------------------------------------------------


class Stream(asyncio.Protocol):
    """Answers every request with ``chunks`` events, ``gap`` seconds apart; 0 is as fast as they are taken."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport: Any = transport
        self.taking = asyncio.Event()
        self.taking.set()
        self.data = b""

    def pause_writing(self) -> None:
        """Wait until the client has taken what was written."""
        self.taking.clear()

    def resume_writing(self) -> None:
        """Go on writing."""
        self.taking.set()

    def data_received(self, data: bytes) -> None:
        """Answer once a request is whole."""
        self.data += data
        head, found, rest = self.data.partition(b"\r\n\r\n")
        if not found:
            return
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        if len(rest) >= length:
            self.data = b""
            asked = json.loads(rest[:length])
            asyncio.get_running_loop().create_task(self.answer(asked["chunks"], asked["gap"], asked["offset"]))

    async def answer(self, chunks: int, gap: float, offset: float) -> None:
        """Write the stream."""
        self.transport.write(HEAD)
        begin = time.perf_counter() + offset
        for number in range(1, chunks + 1):
            await self.taking.wait()
            if gap and (pause := begin + gap * number - time.perf_counter()) > 0:
                await asyncio.sleep(pause)
            elif not gap and number % 8 == 0:
                await asyncio.sleep(0)
            event = b"data: " + (TEXT % (number, number + 7, number, time.perf_counter_ns())).encode() + b"\n\n"
            self.transport.write(b"%x\r\n" % len(event) + event + b"\r\n")
        for event in (END + b"\n\n", b"data: [DONE]\n\n"):
            self.transport.write(b"%x\r\n" % len(event) + event + b"\r\n")
        self.transport.write(b"0\r\n\r\n")


def serve(sock: socket.socket) -> None:
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Stream, sock=sock, backlog=1024)
        await server.serve_forever()

    asyncio.run(run())


# --- the clients ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Load:
    """So many streams at once, of so many chunks each, ``gap`` seconds apart."""

    url: str
    streams: int
    chunks: int
    gap: float = 0.0

    def bodies(self) -> list[bytes]:
        """One request a stream; paced streams begin spread over one gap."""
        offsets = [self.gap * number / self.streams for number in range(self.streams)]
        asked = ({"chunks": self.chunks, "gap": self.gap, "offset": offset} for offset in offsets)
        return [json.dumps(one).encode() for one in asked]


Stamps = list[tuple[int, int]]
Ask = Callable[[Load], Awaitable[Stamps]]


async def ours(load: Load) -> Stamps:
    """The client of specgate: read and stamp, then find and parse every event."""
    client = Client({"Content-Type": "application/json"}, secure=False)
    await client.open()
    exchanges = await client.ask([Post(load.url + PATH, body, load.chunks, 60.0) for body in load.bodies()])
    await client.close()
    stamps = []
    for exchange in exchanges:
        found = list(events(exchange.reads))
        assert len(read(exchange.submit_ns, found).deltas) == load.chunks + 1
        stamps += [(event.t_ns, json.loads(event.data)["t"]) for event in found[RAMP:-2] if load.gap]
    return stamps


async def bare_aiohttp(load: Load) -> Stamps:
    """A loop over lines that parses each as it comes."""
    import aiohttp

    stamps: Stamps = []

    async def one(session: aiohttp.ClientSession, body: bytes) -> None:
        async with session.post(load.url + PATH, data=body) as response:
            async for line in response.content:
                if line.startswith(b"data: {"):
                    data = json.loads(line[6:])
                    if load.gap and "t" in data and data["usage"]["completion_tokens"] > RAMP:
                        stamps.append((time.perf_counter_ns(), data["t"]))

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(one(session, body) for body in load.bodies()))
    return stamps


async def bare_httpx(load: Load) -> Stamps:
    """The same loop on httpx, where it is installed."""
    import httpx2

    stamps: Stamps = []

    async def one(client: Any, body: bytes) -> None:
        async with client.stream("POST", load.url + PATH, content=body) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    data = json.loads(line[6:])
                    if load.gap and "t" in data and data["usage"]["completion_tokens"] > RAMP:
                        stamps.append((time.perf_counter_ns(), data["t"]))

    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(limits=limits, timeout=60, trust_env=False) as client:
        await asyncio.gather(*(one(client, body) for body in load.bodies()))
    return stamps


# --- the tables -------------------------------------------------------------------------------------------------


def rate(ask: Ask, load: Load) -> tuple[float, float]:
    """Chunks per second, and per second of this process's own CPU time: the latter hardly minds a busy machine."""
    wall, cpu, chunks = time.perf_counter(), time.process_time(), load.streams * load.chunks
    asyncio.run(ask(load))
    return chunks / (time.perf_counter() - wall), chunks / (time.process_time() - cpu)


def speed(clients: Sequence[Ask], load: Load, pairs: int) -> None:
    rates: dict[str, list[tuple[float, float]]] = {ask.__name__: [] for ask in clients}
    for number in range(pairs):
        for ask in clients if number % 2 else tuple(reversed(clients)):
            rates[ask.__name__].append(rate(ask, load))
    print(f"{load.streams} streams of {load.chunks} chunks, {pairs} rounds in alternating order")
    for name, found in rates.items():
        for i, unit in enumerate(("chunks/s", "chunks/s of CPU")):
            ratios = [own[i] / other[i] for own, other in zip(rates["ours"], found)]
            said = f"{median(one[i] for one in found):8.0f} {unit:15}"
            print(f"  {name:13} {said}   ours is {median(ratios):.2f}x of it")


def lateness(clients: Sequence[Ask], load: Load) -> None:
    print(f"lateness of stamps at {load.streams / load.gap:.0f} chunks/s, in ms")
    for ask in clients:
        late = [(read_ns - sent_ns) / 1e6 for read_ns, sent_ns in asyncio.run(ask(load))]
        cuts = quantiles(late, n=100)
        print(f"  {ask.__name__:13} p50 {cuts[49]:.3f}   p90 {cuts[89]:.3f}   p99 {cuts[98]:.3f}   max {max(late):.3f}")


def memory(load: Load, minutes: float) -> None:
    process, sizes, end = psutil.Process(), [], time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        asyncio.run(ours(load))
        sizes.append(process.memory_info().rss / 2**20)
    third = max(len(sizes) // 3, 1)
    first, last = median(sizes[:third]), median(sizes[-third:])
    print(f"memory over {len(sizes)} blocks: {first:.1f} MiB in the first third, {last:.1f} MiB in the last")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--chunks", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--rate", type=float, default=5000)
    parser.add_argument("--minutes", type=float, default=0)
    args = parser.parse_args()
    sock = socket.create_server(("127.0.0.1", 0), backlog=1024)
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    server = multiprocessing.get_context("fork").Process(target=serve, args=(sock,), daemon=True)
    server.start()
    try:
        clients: tuple[Ask, ...] = (ours, bare_aiohttp, bare_httpx)
        full, paced = Load(url, args.streams, args.chunks), Load(url, args.streams, 60, args.streams / args.rate)
        speed(clients, full, args.pairs)
        lateness(clients, paced)
        if args.minutes:
            memory(full, args.minutes)
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
