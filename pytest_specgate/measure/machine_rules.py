"""Rules about the host and about the software: load, frequency, clocks, compilation, allocations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median, quantiles

from pytest_specgate.measure.readings import Observed, Ruling, Unknown
from pytest_specgate.units import many

#: What other processes may take of the cores that we compute on; cores that we leave free are theirs to use.
LARGEST_FOREIGN_SHARE = 0.25
#: Fall of the CPU's median frequency from the first to the last quarter: what throttles so is another machine.
LARGEST_FREQUENCY_FALL = 0.20
#: Spread of the CPU's frequency that is worth a line. No reason to refuse: unlike a GPU's, a CPU's clock follows every
#: pause between two calls and every change of instructions, in both arms alike, and interleaved pairs cancel that.
NOTABLE_FREQUENCY_RANGE = 1.25
#: Quarters of fewer samples have no median worth the name.
LEAST_SAMPLES = 8
#: Seconds by which the wall clock may leave the monotonic one between two samples; time servers slew far less.
LARGEST_CLOCK_STEP = 1.0


def foreign_load(observed: Observed) -> Ruling:
    """Cores that others kept busy, against those that our threads leave free plus a share of ours."""
    load = observed.readings.load
    if isinstance(load, Unknown):
        return Ruling(True, load.why)
    threads = min(load.threads, load.cores)
    allowed = load.cores - threads + LARGEST_FOREIGN_SHARE * threads
    beside = f"{many(load.threads, 'compute thread')}"
    detail = f"other processes used {load.foreign:.2f} of {load.cores} cores (at most {allowed:.2f} beside {beside})"
    return Ruling(load.foreign <= allowed, detail)


def cpu_frequency(observed: Observed) -> Ruling:
    """How the frequency of the computing cores fell over the measurement, and how widely it ranged."""
    mhz = observed.readings.cpu_mhz
    if isinstance(mhz, Unknown):
        return Ruling(True, mhz.why)
    if len(mhz) < LEAST_SAMPLES:
        return Ruling(True, f"cannot be told: {len(mhz)} samples, {LEAST_SAMPLES} are needed")
    if len(set(mhz)) == 1:
        # Virtual machines report the frequency that the host had when they started.
        return Ruling(True, f"cannot be told: {mhz[0]:.0f} MHz in every sample, as virtual machines report it")
    quarter = len(mhz) // 4
    change = median(mhz[-quarter:]) / median(mhz[:quarter]) - 1
    low, high = outer_percentiles(mhz)
    detail = f"CPU at {low:.0f}-{high:.0f} MHz, {change:+.0%} from first to last quarter"
    if change < -LARGEST_FREQUENCY_FALL:
        return Ruling(False, f"{detail} (at most -{LARGEST_FREQUENCY_FALL:.0%})")
    return Ruling(True, detail, noted=high > NOTABLE_FREQUENCY_RANGE * low)


def clock_steps(observed: Observed) -> Ruling:
    """Whether the monotonic clock went back, or the wall clock jumped against it."""
    steps = list(pairwise(observed.readings.clocks))
    if not steps:
        return Ruling(True, "cannot be told: the clocks were not read")
    back = min(after.monotonic - before.monotonic for before, after in steps)
    if back < 0:
        return Ruling(True, f"the monotonic clock went back by {-back:.3g} s", noted=True)
    jump = max(((b.wall - a.wall) - (b.monotonic - a.monotonic) for a, b in steps), key=abs)
    if abs(jump) > LARGEST_CLOCK_STEP:
        detail = f"the wall clock jumped by {jump:+.1f} s: it was set, or the machine slept"
        return Ruling(True, f"{detail}; durations use the monotonic clock", noted=True)
    return Ruling(True, f"wall clock within {abs(jump):.3f} s of the monotonic clock")


def compilation(observed: Observed) -> Ruling:
    """Whether anything was compiled, tuned or captured while it was timed."""
    compiled = observed.readings.compiled
    if isinstance(compiled, Unknown):
        return Ruling(True, compiled.why)
    happened = [f"{count} {kind}" for kind, count in compiled.items() if count]
    if not happened:
        return Ruling(True, "nothing was compiled in the timed region")
    return Ruling(False, f"{', '.join(happened)} in the timed region (none is allowed: warm-up has to cover it)")


def device_allocations(observed: Observed) -> Ruling:
    """Whether the allocator went to the device for memory while calls were timed."""
    made = observed.readings.allocations
    if isinstance(made, Unknown):
        return Ruling(True, made.why)
    counts = f"{made.calls} device allocations and {made.retries} retries in the timed region (none is allowed)"
    return Ruling(made.calls == made.retries == 0, counts)


def outer_percentiles(values: Sequence[float]) -> tuple[float, float]:
    """5th and 95th percentile of at least two values."""
    cuts = quantiles(values, n=20, method="inclusive")
    return cuts[0], cuts[-1]
