"""How many requests an arm can run at once: found by running them, with what runs out of memory caught.

A concurrency fits if its requests, at full length, end without running out of memory. On a GPU its own memory is the
limit. On a CPU, where a system would rather swap or kill, the suite gives a bound: the process may not take more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import cycle, islice

from pytest_specgate.engines.base import Crowds, Engine
from pytest_specgate.errors import OutOfMemory, TurnedAway
from pytest_specgate.measure.drain import drain
from pytest_specgate.measure.resident import bounded, forget_peak, peak_resident_bytes, resident_bytes
from pytest_specgate.records import Arm, Capacity, MemoryReading, Request, Throughput, Trace
from pytest_specgate.suite.prefixes import PrefixSpec


def largest(fits: Callable[[int], bool], most: int) -> int:
    """The largest number from 1 to ``most`` that fits, by doubling and then by halving the gap; 0 where 1 does not.

    What fits is taken to fit for all smaller numbers too.
    """
    low, high = 0, most + 1
    tried = 1
    while tried < high:
        if fits(tried):
            low, tried = tried, min(2 * tried, most) if tried < most else high
        else:
            high = tried
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def measure_capacity(
    engine: Engine, requests: Sequence[Request], arm: Arm, most: int, memory: int | None = None, *, again: bool = False
) -> Capacity:
    """Search up to ``most`` requests at once, within ``memory`` bytes of this process where they are given.

    ``again`` has requests that fit run once more, and tells how fast that was: what is recorded or tuned for so many
    of them at their first run is no part of it.
    """
    rates: dict[int, float] = {}

    def fits(concurrency: int) -> bool:
        drain(engine)
        anew = forget_peak()
        try:
            with nullcontext() if memory is None else bounded(memory):
                for _ in range(1 + again):
                    traces = engine.generate(_batch(requests, concurrency), arm)
        except OutOfMemory:
            drain(engine)
            return False
        if memory is not None and (peak_resident_bytes() if anew else resident_bytes()) > memory:
            return False
        rates[concurrency] = _rate(traces)
        return True

    engine.generate(_batch(requests, 1), arm)  # what is compiled or loaded at first use is no request's cost
    found = largest(fits, most)
    drain(engine)
    kept = tuple(Throughput(number, rates[number]) for number in sorted(rates))
    return Capacity(found, found < most, kept)


def measure_served(
    engine: Crowds, requests: Sequence[Request], arm: Arm, most: int, *, shared: bool = False
) -> Capacity:
    """The same of a server, which has requests wait where they do not fit, or turns them away. Raises EngineError.

    One that turns away a request that is alone has no room to measure. Unless their beginnings are to be ``shared``,
    each request begins in a way of its own: what a prefix cache keeps once for several would let more of them fit.
    """
    rates: dict[int, float] = {}
    refused = list[int]()

    def fits(concurrency: int) -> bool:
        batch = _batch(requests, concurrency)
        try:
            rate = engine.crowd(batch if shared else [_cold(request) for request in batch], arm)
        except TurnedAway:
            if concurrency == 1:
                raise
            refused.append(concurrency)
            return False
        if rate is not None:
            rates[concurrency] = rate
        return rate is not None

    found = largest(fits, most)
    kept = tuple(Throughput(number, rates[number]) for number in sorted(rates))
    return Capacity(found, found < most, kept, tuple(sorted(refused)))


def busy_notes(memory: Mapping[Arm, MemoryReading]) -> tuple[str, ...]:
    """Warnings: where the search counted requests that were turned away as requests that do not fit."""
    searched = [(arm, reading.capacity) for arm, reading in memory.items() if reading.capacity is not None]
    return tuple(
        f"max_batch: the {arm.value} server turned requests away (429 or 503) at {', '.join(map(str, found.refused))}"
        " at once: counted as not fitting"
        for arm, found in searched
        if found.refused
    )


def _cold(request: Request) -> Request:
    first, *others = request.messages
    begin = PrefixSpec(kind="cold").before(request.prompt)
    return replace(request, messages=(replace(first, content=begin + first.content), *others))


def _batch(requests: Sequence[Request], size: int) -> list[Request]:
    """As many requests as asked for: the same texts again under names of their own."""
    chosen = islice(cycle(requests), size)
    return [replace(request, prompt=f"{request.prompt}#{number}") for number, request in enumerate(chosen)]


def _rate(traces: Sequence[Trace]) -> float:
    wall = (max(t.chunks[-1].t_ns for t in traces) - min(t.submit_ns for t in traces)) / 1e9
    return sum(trace.output_tokens for trace in traces) / wall if wall > 0 else 0.0
