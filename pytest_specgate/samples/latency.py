"""The latency family: seconds as the caller feels them, one value per prompt and round.

The candidate arm carries the plain names; the reference arm's are kept beside them (``reference_tpot``), because a
machine that is slower on both arms has not seen a regression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pytest_specgate.records import Pair, Trace
from pytest_specgate.samples.speed import decode_per_token


def series(pairs: Sequence[Pair]) -> dict[str, tuple[float, ...]]:
    """Every latency metric that all traces of the prompt have, for both arms."""
    found: dict[str, tuple[float, ...]] = {}
    for name, measure in _MEASURES.items():
        for prefix, arm in (("", "candidate"), ("reference_", "reference")):
            values = [measure(getattr(pair, arm)) for pair in pairs]
            if all(value is not None for value in values):
                found[prefix + name] = tuple(value for value in values if value is not None)
    return found


def _itl(trace: Trace) -> float | None:
    """Mean gap per token: each gap between chunks is shared by the tokens of the later chunk."""
    gaps = [
        (later.t_ns - earlier.t_ns) / 1e9 / later.tokens
        for earlier, later in zip(trace.chunks, trace.chunks[1:])
        if later.tokens
    ]
    return sum(gaps) / len(gaps) if gaps else None


def _throughput(trace: Trace) -> float | None:
    return trace.output_tokens / trace.seconds if trace.seconds > 0 else None


_MEASURES: Mapping[str, Callable[[Trace], float | None]] = {
    "ttft": lambda trace: trace.ttft_seconds,
    "tpot": decode_per_token,
    "itl": _itl,
    "e2el": lambda trace: trace.seconds,
    "throughput": _throughput,
}
