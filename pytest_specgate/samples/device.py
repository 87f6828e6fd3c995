"""What a GPU did in each arm's calls, one value per round: how busy it was, how smoothly, what it drew.

NVML tells means over up to a second past, so a sample belongs to an arm that has been running that long: shorter calls
of alternating arms cannot be told apart, and are left unmeasured. A round without a sample has no value.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from pytest_specgate.records import Arm, GpuUse, Measurement
from pytest_specgate.samples.blocks import trace_of
from pytest_specgate.samples.latency import PREFIXES

#: The longest time that a sample of NVML looks back: utilization up to a second, power a second.
LOOKS_BACK_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Call:
    begin: int
    end: int
    arm: Arm
    round: int
    tokens: int
    since: int  # when this arm took over


def series(measurement: Measurement) -> dict[str, tuple[float, ...]]:
    """The device metrics by name, the reference arm's with its prefix; nothing without samples."""
    found: dict[str, list[float]] = {}
    if not measurement.gpu:
        return {}
    calls = list(_calls(measurement))
    seen = _by_round(measurement.gpu, calls)
    for (arm, number), uses in sorted(seen.items(), key=lambda item: item[0][1]):
        of_round = [call for call in calls if (call.arm, call.round) == (arm, number)]
        for name, value in _values(uses, of_round).items():
            found.setdefault(PREFIXES[arm] + name, []).append(value)
    return {name: tuple(values) for name, values in found.items()}


def _calls(measurement: Measurement) -> Iterator[_Call]:
    """Every call, a block's requests being one, with the time at which its arm began to run without a break."""
    spans: dict[tuple[int, Arm, int], list[int]] = {}
    for pair in measurement.pairs:
        for arm in Arm:
            trace = trace_of(pair, arm)
            span = spans.setdefault((trace.submit_ns, arm, pair.round), [trace.chunks[-1].t_ns, 0])
            span[0] = max(span[0], trace.chunks[-1].t_ns)
            span[1] += trace.output_tokens
    running: Arm | None = None
    since = 0
    for (begin, arm, number), (end, tokens) in sorted(spans.items(), key=lambda item: item[0][0]):
        since = since if arm is running else begin
        running = arm
        yield _Call(begin, end, arm, number, tokens, since)


def _by_round(uses: Sequence[GpuUse], calls: Sequence[_Call]) -> Mapping[tuple[Arm, int], list[GpuUse]]:
    begins = [call.begin for call in calls]
    found: dict[tuple[Arm, int], list[GpuUse]] = {}
    for use in uses:
        place = bisect_right(begins, use.t_ns) - 1
        if place < 0:
            continue
        call = calls[place]
        if call.since + LOOKS_BACK_NS <= use.t_ns <= call.end:
            found.setdefault((call.arm, call.round), []).append(use)
    return found


def _values(uses: Sequence[GpuUse], calls: Sequence[_Call]) -> dict[str, float]:
    from pytest_specgate.stats.quantiles import of_sorted

    found: dict[str, float] = {}
    busy = sorted(use.utilization for use in uses if use.utilization is not None)
    watts = [use.watts for use in uses if use.watts is not None]
    if busy:
        high, low = of_sorted(busy, 0.95), of_sorted(busy, 0.05)
        found |= {"gpu_utilization": fmean(busy), "gpu_utilization_p95": high, "gpu_utilization_spread": high - low}
    if watts:
        seconds = sum(call.end - call.begin for call in calls) / 1e9
        tokens = sum(call.tokens for call in calls)
        found |= {"gpu_power": fmean(watts), "energy_per_token": fmean(watts) * seconds / tokens}
    return found
