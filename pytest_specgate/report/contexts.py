"""What changes along the context: acceptance, time between tokens and cache, by doublings of prompt and output so far.

Acceptance is counted as in :mod:`pytest_specgate.report.positions`. A time is a request's own: the seconds of its
deliveries within the bucket ÷ their tokens; its limits are those of a median over requests, of which those that ran
together count as one. The cache is what one request holds at the longest context that was seen in the bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pytest_specgate.metrics import Unit
from pytest_specgate.records import Arm, Measurement, Trace
from pytest_specgate.report import positions
from pytest_specgate.report.numbers import TAIL, UNMEASURED, Estimate, estimate, text
from pytest_specgate.samples.blocks import trace_of
from pytest_specgate.samples.latency import deliveries
from pytest_specgate.stats import quantiles
from pytest_specgate.units import format_value

#: A text is long from so many tokens of prompt and output on: there the table is worth its room everywhere.
LONG = 1024


@dataclass(frozen=True, slots=True)
class Bucket:
    """Contexts of ``first`` to ``last`` tokens, as far as they were seen; what was not measured is None.

    Pairs are reference and candidate; ``cache`` is in bytes.
    """

    first: int
    last: int
    acceptance: Estimate | None
    itl: tuple[Estimate | None, Estimate | None]
    cache: tuple[int | None, int | None]

    @property
    def label(self) -> str:
        """``512–1023``."""
        return f"{self.first}–{self.last}"


@dataclass(slots=True)
class _Seen:
    """Times per token in one bucket, by arm, with the call that each was part of; and the longest context."""

    times: dict[Arm, list[tuple[float, tuple[int, int]]]]
    last: int = 0


def by_context(measurement: Measurement) -> list[Bucket]:
    """Every bucket that a token was delivered in, from the shortest context; nothing where all stand in one."""
    seen: dict[int, _Seen] = {}
    for pair in measurement.pairs:
        for arm in Arm:
            trace = trace_of(pair, arm)
            for place, seconds, last in _times(trace):
                found = seen.setdefault(place, _Seen({arm: [] for arm in Arm}))
                found.times[arm].append((seconds, (pair.round, trace.submit_ns)))
                found.last = max(found.last, last)
    if len(seen) < 2:
        return []
    kept = {one.position: one.share for one in positions.by_context(measurement)}
    per_token = [_bytes_per_token(measurement, arm) for arm in Arm]
    return [
        Bucket(
            first=2**place,
            last=found.last,
            acceptance=kept.get(2**place),
            itl=(_middle(found.times[Arm.REFERENCE]), _middle(found.times[Arm.CANDIDATE])),
            cache=(_whole(per_token[0], found.last), _whole(per_token[1], found.last)),
        )
        for place, found in sorted(seen.items())
    ]


def is_long(buckets: Sequence[Bucket]) -> bool:
    """Whether the case has long contexts."""
    return bool(buckets) and buckets[-1].last >= LONG


def cells(one: Bucket) -> tuple[str, ...]:
    """The cells of one bucket."""
    caches = (UNMEASURED if size is None else format_value(size, Unit.BYTES) for size in one.cache)
    times = (text(time, Unit.SECONDS) for time in one.itl)
    return (one.label, text(one.acceptance, Unit.FRACTION), *times, *caches)


def _times(trace: Trace) -> Iterator[tuple[int, float, int]]:
    """(bucket, seconds per token, longest context) of one request, deliveries counted by the context before them."""
    found: dict[int, list[int]] = {}
    context = trace.prompt_tokens
    for earlier, later in pairwise(deliveries(trace)):
        context += earlier.tokens
        # A bucket begins at a power of two: its number is that of the context's bits.
        spent = found.setdefault(max(context, 1).bit_length() - 1, [0, 0, 0])
        spent[0] += later.t_ns - earlier.t_ns
        spent[1] += later.tokens
        spent[2] = context
    for place, (nanoseconds, tokens, last) in found.items():
        yield place, nanoseconds / 1e9 / tokens, last


def _middle(times: Sequence[tuple[float, tuple[int, int]]]) -> Estimate | None:
    if not times:
        return None
    values = [seconds for seconds, _ in times]
    limits = quantiles.quantile(values, 0.5, TAIL, TAIL, len({call for _, call in times}))
    return estimate(limits, quantiles.of_sorted(sorted(values), 0.5))


def _bytes_per_token(measurement: Measurement, arm: Arm) -> float | None:
    """What a token of a request takes in the caches of this arm; None where the engine does not look inside."""
    for pair in measurement.pairs:
        trace = trace_of(pair, arm)
        tokens = trace.prompt_tokens + trace.output_tokens
        if trace.spent is not None and tokens:
            return trace.spent.cache_bytes / tokens
    return None


def _whole(per_token: float | None, tokens: int) -> int | None:
    return None if per_token is None else round(per_token * tokens)
