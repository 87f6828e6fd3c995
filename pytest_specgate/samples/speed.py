"""The speed-up family: one natural log of a ratio per prompt and round, reference ÷ candidate."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_specgate.records import Pair, Trace


def series(pairs: Sequence[Pair]) -> dict[str, tuple[float, ...]]:
    """``speedup`` and, where both arms decode beyond their first chunk, ``decode_speedup``."""
    found = {"speedup": tuple(_log_ratio(per_token(p.reference), per_token(p.candidate)) for p in pairs)}
    decode = [(decode_per_token(p.reference), decode_per_token(p.candidate)) for p in pairs]
    if all(reference and candidate for reference, candidate in decode):
        found["decode_speedup"] = tuple(_log_ratio(r or 0.0, c or 0.0) for r, c in decode)
    return found


def per_token(trace: Trace) -> float:
    """Seconds per output token, first token included; lengths are never forced to be equal."""
    return trace.seconds / trace.output_tokens


def decode_per_token(trace: Trace) -> float | None:
    """Seconds per token after the first delivery, which may hold several tokens; None where there is none."""
    first = sum(chunk.tokens for chunk in trace.chunks if chunk.t_ns == trace.chunks[0].t_ns)
    tokens = trace.output_tokens - first
    return (trace.seconds - trace.ttft_seconds) / tokens if tokens > 0 else None


def _log_ratio(reference: float, candidate: float) -> float:
    return math.log(reference / candidate) if reference > 0 and candidate > 0 else math.nan
