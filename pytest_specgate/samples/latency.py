"""The latency family: seconds as the caller feels them, one value per prompt and round.

The candidate arm carries the plain names; the reference arm's are kept beside them (``reference_tpot``), because a
machine that is slower on both arms has not seen a regression. A percentile is judged over these per-request values:
single gaps of one request depend on each other, and a baseline that kept them all could not be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from pytest_specgate.records import Arm, Chunk, Pair, Trace
from pytest_specgate.samples.blocks import blocks, trace_of
from pytest_specgate.samples.speed import decode_per_token

PREFIXES: Mapping[Arm, str] = {Arm.CANDIDATE: "", Arm.REFERENCE: "reference_"}


def series(pairs: Sequence[Pair]) -> dict[str, tuple[float, ...]]:
    """Every latency of one request that all traces of the prompt have, for both arms."""
    found: dict[str, tuple[float, ...]] = {}
    for name, measure in _MEASURES.items():
        for arm, prefix in PREFIXES.items():
            values = [measure(trace_of(pair, arm)) for pair in pairs]
            if all(value is not None for value in values):
                found[prefix + name] = tuple(value for value in values if value is not None)
    return found


def throughput(pairs: Sequence[Pair], arm: Arm) -> dict[str, tuple[float, ...]]:
    """Output tokens per second of wall time of every block, kept with the first prompt of the block."""
    found: dict[str, list[float]] = {}
    for block in blocks(pairs, arm):
        traces = [trace_of(pair, arm) for pair in block]
        wall = (max(t.chunks[-1].t_ns for t in traces) - min(t.submit_ns for t in traces)) / 1e9
        if wall > 0:
            rate = sum(trace.output_tokens for trace in traces) / wall
            found.setdefault(block[0].prompt, []).append(rate)
    return {prompt: tuple(rates) for prompt, rates in found.items()}


def deliveries(trace: Trace) -> list[Chunk]:
    """The chunks that brought tokens; one delivery in several chunks at the same instant is one."""
    found: list[Chunk] = []
    for chunk in trace.chunks:
        if found and found[-1].t_ns == chunk.t_ns:
            found[-1] = Chunk(chunk.t_ns, found[-1].tokens + chunk.tokens)
        elif chunk.tokens:
            found.append(chunk)
    return found


def _itl(trace: Trace) -> float | None:
    """Mean gap per token over deliveries."""
    gaps = [(b.t_ns - a.t_ns) / 1e9 / b.tokens for a, b in pairwise(deliveries(trace))]
    return sum(gaps) / len(gaps) if gaps else None


_MEASURES: Mapping[str, Callable[[Trace], float | None]] = {
    "ttft": lambda trace: trace.ttft_seconds,
    "tpot": decode_per_token,
    "itl": _itl,
    "e2el": lambda trace: trace.seconds,
}
