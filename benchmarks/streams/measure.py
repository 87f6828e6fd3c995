"""The client's speed, the lateness of its stamps, and its memory over time, each as rows of a table."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from statistics import median, quantiles

import psutil
from scipy.stats import theilslopes

from streams.clients import Ask, Load, aiohttp_loop, httpx_loop, ours, run
from streams.server import Script

CLIENTS: tuple[Ask, ...] = (ours, aiohttp_loop, httpx_loop)
SHOWN = {"ours": "specgate", "aiohttp_loop": "bare aiohttp loop", "httpx_loop": "bare httpx loop"}
#: Chunks of a stream whose stamps are read.
PACED = 60
Row = tuple[str, ...]


def speed(url: str, streams: int, chunks: int, rounds: int) -> Iterator[Row]:
    """Chunks a second as fast as they are taken, each client in turn in alternating order; ratios within a round."""
    load = Load(url, streams, Script(chunks=chunks))
    rates: dict[Ask, list[tuple[float, float]]] = {ask: [] for ask in CLIENTS}
    for number in range(rounds):
        for ask in CLIENTS if number % 2 else reversed(CLIENTS):
            rates[ask].append(run(ask, load)[:2])
    yield "client", "chunks/s", "chunks/s of its own CPU time", "ours is, of both"
    for ask, found in rates.items():
        of_wall, of_cpu = (
            median(own[i] / other[i] for own, other in zip(rates[ours], found, strict=True)) for i in (0, 1)
        )
        told = "-" if ask is ours else f"{of_wall:.2f}x, {of_cpu:.2f}x"
        wall, cpu = (median(one[i] for one in found) for i in (0, 1))
        yield SHOWN[ask.__name__], f"{wall:,.0f}", f"{cpu:,.0f}", told


def lateness(url: str, streams: int, rates: Sequence[float], rounds: int) -> Iterator[Row]:
    """Milliseconds from a write to its stamp, chunks being offered at fixed rates, evenly spaced and in step."""
    yield "offered chunks/s", "chunks of all streams come", "client", "p50", "p90", "p99", "largest"
    for rate in rates:
        for in_step in (False, True):
            script = Script(chunks=PACED, gap=streams / rate, streams=streams, in_step=in_step)
            late: dict[Ask, list[float]] = {ask: [] for ask in CLIENTS[:2]}
            for number in range(rounds):
                for ask in CLIENTS[:2] if number % 2 else reversed(CLIENTS[:2]):
                    stamps = run(ask, Load(url, streams, script))[2]
                    late[ask] += [(read_ns - sent_ns) / 1e6 for read_ns, sent_ns in stamps]
            for ask, found in late.items():
                cuts = quantiles(found, n=100)
                shown = (cuts[49], cuts[89], cuts[98], max(found))
                when = "at once" if in_step else "evenly"
                yield f"{rate:,.0f}", when, SHOWN[ask.__name__], *(f"{value:.3f} ms" for value in shown)


def memory(url: str, streams: int, chunks: int, minutes: float) -> Iterator[Row]:
    """The client's resident memory over so many minutes of load, each block on a session of its own."""
    load, process = Load(url, streams, Script(chunks=chunks)), psutil.Process()
    load.prepare()
    begin, seen = time.monotonic(), list[tuple[float, float]]()
    while (now := (time.monotonic() - begin) / 60) < minutes:
        asyncio.run(ours(load))
        seen.append((now, process.memory_info().rss / 2**10))
    settled = seen[len(seen) // 4 :]
    slope, _, low, high = theilslopes([size for _, size in settled], [at for at, _ in settled])
    first, last = settled[0][1] / 2**10, settled[-1][1] / 2**10
    yield "minutes", "streams answered", "chunks", "after a quarter", "at the end", "slope (95 % interval)"
    yield (
        f"{seen[-1][0]:.1f}",
        f"{len(seen) * streams:,}",
        f"{len(seen) * load.chunks:,}",
        f"{first:.1f} MiB",
        f"{last:.1f} MiB",
        f"{slope:+.1f} KiB/min ({low:+.1f} to {high:+.1f})",
    )
