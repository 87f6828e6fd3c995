"""What can be planted into an engine's candidate arm: the name of each loss, its size, and what it does to a trace.

Values and pure functions, memory apart, which is taken for real; the engine that carries a loss is in ``planted.py``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from pytest_specgate.errors import EngineError
from pytest_specgate.metrics import Unit
from pytest_specgate.records import Chunk, Counts, MemoryReading, Request, Round, Told, Trace
from pytest_specgate.units import did_you_mean, parse_bytes, parse_quantity

#: What can be planted, an example of each, and what it does.
PLANTS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "delay": ("delay=15%", "the candidate's generation takes 15 % longer, in its time stamps and in truth"),
        "acceptance": ("acceptance=0.05", "5 % of the rounds that accept something lose their first draft token"),
        "memory": ("memory=64MiB", "the candidate's process holds 64 MiB more, on its GPU as well where it has one"),
        "leak": ("leak=1MiB", "the candidate's process keeps 1 MiB more with every request, on its GPU as well"),
        "sampler": ("sampler=0.1", "the candidate samples at a temperature 0.1 higher, greedy requests included"),
    }
)
#: What of a reading counts the bytes that a process holds.
_HELD = ("host_rss", "max_process_vram", "max_global_vram")
_EXAMPLES = ", ".join(example for example, _ in PLANTS.values())


@dataclass(frozen=True, slots=True)
class Plant:
    """A loss: one of :data:`PLANTS`, its size (a share, bytes, or a temperature), and how it was written."""

    kind: str
    size: float
    text: str


def parse_plant(text: str) -> Plant:
    """``"delay=15%"`` → Plant. Raises ValueError, whose text is ``what — what to do``."""
    kind, equals, size = (part.strip() for part in text.partition("="))
    if kind not in PLANTS:
        what = f"unknown plant {kind!r}{did_you_mean(kind, PLANTS)}"
        raise ValueError(f"{what} — write one of: {_EXAMPLES}")
    if not equals or not size:
        raise ValueError(f"plant {kind!r} has no size — write it like {PLANTS[kind][0]}")
    return Plant(kind, _SIZES[kind](size), f"{kind}={size}")


# --- what each plant does ---------------------------------------------------------------------------------------


def stretched(trace: Trace, factor: float, begin_ns: int) -> Trace:
    """The trace with every time ``factor`` times as far from when the first request of its run was submitted."""

    def later(t_ns: int) -> int:
        return begin_ns + round((t_ns - begin_ns) * factor)

    chunks = tuple(Chunk(later(chunk.t_ns), chunk.tokens) for chunk in trace.chunks)
    rounds = None if trace.rounds is None else tuple(replace(r, t_ns=later(r.t_ns)) for r in trace.rounds)
    return replace(trace, submit_ns=later(trace.submit_ns), chunks=chunks, rounds=rounds)


class Losses:
    """Which accepting rounds lose their first draft token: a systematic sample from a random start.

    An exact share of all rounds of all prompts, and the same rounds of a prompt every time it is run: a real loss of
    a deterministic decoder repeats itself too.
    """

    def __init__(self, share: float, seed: int) -> None:
        self._share = share
        self._start = random.Random(f"planted:{seed}").random()
        self._first: dict[str, int] = {}
        self._seen = 0

    def lowered(self, trace: Trace) -> Trace:
        """The trace with the same output in more rounds."""
        if trace.rounds is None:
            told = trace.told
            return trace if told is None or told.counts is None else replace(trace, told=self._fewer(told, told.counts))
        rounds = trace.rounds
        accepting = sum(r.accepted > 0 for r in rounds)
        if trace.prompt not in self._first:
            self._first[trace.prompt] = self._seen
            self._seen += accepting
        number = self._first[trace.prompt]
        found: list[Round] = []
        before_ns = trace.submit_ns
        for r in rounds:
            number += r.accepted > 0
            found += _split(r, before_ns) if r.accepted and self._falls_on(number) else [r]
            before_ns = r.t_ns
        return replace(trace, rounds=tuple(found))

    def _fewer(self, told: Told, counts: Counts) -> Told:
        """Totals as if so many of the rounds that accept something had lost their first draft token."""
        most = counts.accepted if counts.drafts is None else min(counts.drafts, counts.accepted)
        lost = round(self._share * most)
        length = round(counts.drafted / counts.drafts) if counts.drafted and counts.drafts else 1
        more = Counts(
            rounds=None if counts.rounds is None else counts.rounds + lost,
            drafts=None if counts.drafts is None else counts.drafts + lost,
            drafted=None if counts.drafted is None else counts.drafted + lost * (length - 1),
            tested=counts.tested,
            accepted=counts.accepted - lost,
        )
        return replace(told, counts=more)

    def _falls_on(self, number: int) -> bool:
        """Whether the ``number``-th accepting round (from 1) is in the sample."""
        return math.floor(self._start + number * self._share) > math.floor(self._start + (number - 1) * self._share)


def _split(r: Round, before_ns: int) -> list[Round]:
    """A round as two: the first rejects the first draft token, the second goes on with the rest of the draft."""
    if r.emitted <= 1:  # cut after one token: there is nothing left for a second round
        return [replace(r, tested=1, accepted=0)]
    half_way = min(r.t_ns, before_ns + max(0, r.t_ns - before_ns) // 2)
    return [
        Round(r.drafted, 1, 0, 1, half_way),
        Round(r.drafted - 1, r.tested - 1, r.accepted - 1, r.emitted - 1, r.t_ns),
    ]


def hotter(request: Request, more: float) -> Request:
    """The request at a temperature ``more`` higher."""
    return replace(request, sampling=replace(request.sampling, temperature=request.sampling.temperature + more))


def heavier(reading: MemoryReading, size: int) -> MemoryReading:
    """A server's reading with so many bytes more wherever bytes were read, and a pool twice as full."""
    served = reading.served
    if served is not None:
        served = replace(served, kv_cache_usage=tuple(min(2 * usage, 1.0) for usage in served.kv_cache_usage))
    held = {name: value + size for name in _HELD if (value := getattr(reading, name)) is not None}
    gpus = {uuid: value + size // len(reading.gpus) for uuid, value in reading.gpus.items()}
    return replace(reading, **held, gpus=gpus, served=served)


def leaking(reading: MemoryReading, size: int) -> MemoryReading:
    """A server's reading with so many bytes more after each request of its soak."""
    if (soak := reading.soak) is None:
        return reading
    host, vram, cache = (
        tuple(held + size * soak.requests * number for number, held in enumerate(kept, start=1))
        for kept in (soak.host, soak.vram, soak.cache)
    )
    return replace(reading, soak=replace(soak, host=host, vram=vram, cache=cache))


def host_memory(engine: str, size: int) -> bytearray:
    """So many bytes of this process's memory, in use. Raises EngineError where there are not as many."""
    try:
        return bytearray(b"\x01") * size  # written, not only reserved: zeros would stay unbacked pages
    except (MemoryError, OverflowError) as error:
        raise EngineError(engine, f"{size} bytes cannot be planted: no memory", "plant less") from error


def gpu_memory(size: int, device: str) -> Any:
    """So many bytes of the GPU's memory, held while the tensor lives."""
    import torch

    return torch.ones(size, dtype=torch.uint8, device=device)


# --- sizes ------------------------------------------------------------------------------------------------------


def _share(text: str, most: float, example: str) -> float:
    share = parse_quantity(text, Unit.FRACTION)
    if share > 1 and "%" not in text:  # 10 is rather 10 % than ten times as long
        raise ValueError(f"{text!r} means {share:.0%} — write {text.strip()}% or {share:.0%}")
    if not 0 < share <= most:
        raise ValueError(f"{text!r} is out of range, which is above 0 to {most:.0%} — write it like {example}")
    return share


def _temperature(text: str) -> float:
    more = parse_quantity(text, Unit.SCORE)
    if not 0 < more <= 2:
        raise ValueError(f"{text!r} is out of range, which is above 0 to 2 — write it like {PLANTS['sampler'][0]}")
    return more


_SIZES: Mapping[str, Callable[[str], float]] = {
    "delay": lambda text: _share(text, 10.0, PLANTS["delay"][0]),
    "acceptance": lambda text: _share(text, 1.0, PLANTS["acceptance"][0]),
    "memory": parse_bytes,
    "leak": parse_bytes,
    "sampler": _temperature,
}
