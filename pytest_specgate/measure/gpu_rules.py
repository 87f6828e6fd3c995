"""Rules about an NVIDIA GPU: its clock, what held the clock down, and who else used the device."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from pytest_specgate.measure.machine_rules import outer_percentiles
from pytest_specgate.measure.readings import Gpu, GpuSample, Observed, Ruling, Unknown
from pytest_specgate.records import Pair

#: NVML clock event bits after which a timing says nothing about the software.
SLOWDOWNS = {0x08: "hardware slowdown", 0x20: "software thermal", 0x40: "hardware thermal", 0x80: "power brake"}
#: The power cap is common on busy data-centre cards: only noted.
POWER_CAP = 0x04
#: An idle GPU lowers its clock, which says nothing about calls.
IDLE = 0x01
#: 95th over 5th percentile of the SM clock in timed calls.
LARGEST_SM_RANGE = 1.10
#: A range of fewer samples is chance.
LEAST_SAMPLES = 5
#: Device memory that somebody else may take while we measure.
LARGEST_FOREIGN_GROWTH = 64 * 2**20


def clock_events(observed: Observed) -> Ruling:
    """Whether the driver held the clock down, in any sample."""
    gpu = observed.readings.gpu
    if isinstance(gpu, Unknown):
        return Ruling(True, gpu.why)
    seen = [sample.reasons for sample in gpu.samples if sample.reasons is not None]
    if not seen:
        return Ruling(True, "cannot be told: NVML tells no clock events of this device")
    counts = {name: sum(bool(reasons & bit) for reasons in seen) for bit, name in SLOWDOWNS.items()}
    said = ", ".join(f"{name} in {count} of {len(seen)} samples" for name, count in counts.items() if count)
    if said:
        return Ruling(False, f"the GPU slowed down: {said} (none is allowed)")
    capped = sum(bool(reasons & POWER_CAP) for reasons in seen)
    detail = f"power cap in {capped} of {len(seen)} samples" if capped else f"no slowdown in {len(seen)} samples"
    return Ruling(True, detail, noted=capped > 0)


def sm_clock(observed: Observed) -> Ruling:
    """The range of the SM clock while calls were timed."""
    gpu = observed.readings.gpu
    if isinstance(gpu, Unknown):
        return Ruling(True, gpu.why)
    timed = _while_timed(gpu.samples, observed.pairs)
    mhz = [s.sm_mhz for s in timed if s.sm_mhz and not (s.reasons or 0) & IDLE]
    if len(mhz) < LEAST_SAMPLES:
        return Ruling(True, f"cannot be told: {len(mhz)} samples in timed calls, {LEAST_SAMPLES} are needed")
    low, high = outer_percentiles(mhz)
    detail = f"SM clock {low:.0f}-{high:.0f} MHz in timed calls, a factor of {high / low:.2f}"
    return Ruling(high <= LARGEST_SM_RANGE * low, f"{detail} (at most {LARGEST_SM_RANGE:.2f})")


def foreign_gpu_work(observed: Observed) -> Ruling:
    """Whether another process computed on the device, or took memory there."""
    gpu = observed.readings.gpu
    if isinstance(gpu, Unknown):
        return Ruling(True, gpu.why)
    if not (gpu.samples and any(s.memory is not None or s.used is not None for s in gpu.samples)):
        return Ruling(True, "cannot be told: NVML tells no processes and no memory of this device")
    if strangers := _strangers(gpu):
        return Ruling(False, strangers)
    growth = _foreign_growth(gpu)
    if growth is None:
        return Ruling(True, "no other process on the GPU; its memory cannot be told")
    taken = f"memory that is not ours grew by {growth / 2**20:.0f} MiB (at most {LARGEST_FOREIGN_GROWTH // 2**20})"
    return Ruling(growth <= LARGEST_FOREIGN_GROWTH, f"no other process seen on the GPU, {taken}")


def _while_timed(samples: Sequence[GpuSample], pairs: Sequence[Pair]) -> Sequence[GpuSample]:
    """The samples taken during a call; all of them where the traces are on a clock of their own."""
    spans = sorted((t.submit_ns, t.chunks[-1].t_ns) for p in pairs for t in (p.reference, p.candidate))
    begins = [begin for begin, _ in spans]
    ends: list[int] = []
    for _, end in spans:  # calls overlap, so the span that began last is not always the one that ends last
        ends.append(max(end, ends[-1] if ends else end))
    inside = [s for s in samples if (n := bisect_right(begins, s.counter_ns)) and s.counter_ns <= ends[n - 1]]
    return inside or samples


def _strangers(gpu: Gpu) -> str:
    """Who else computed on the device, in words, or nothing."""
    listed = [frozenset(sample.memory) for sample in gpu.samples if sample.memory is not None]
    if not listed:
        return ""
    at_first, ever = listed[0], frozenset[int]().union(*listed)
    if ever & gpu.own:
        return _named(ever - gpu.own)
    # We are not found: these are another system's numbers (we are in a container), or we hold nothing on the device.
    arrived = ever - at_first
    if gpu.before is not None:
        return _named(arrived | (gpu.before & ever))
    if gpu.samples[0].reserved and len(gpu.own) == 1 and len(at_first) > 1:
        return f"{len(at_first)} processes compute on the GPU, one of which is ours (none but ours is allowed)"
    return _named(arrived)


def _named(pids: frozenset[int]) -> str:
    numbers = ", ".join(map(str, sorted(pids)))
    return f"other processes compute on the GPU: pid {numbers} (none is allowed)" if pids else ""


def _foreign_growth(gpu: Gpu) -> int | None:
    """The most by which memory that is not ours exceeded that of the first sample; None where it cannot be told."""
    samples = [sample for sample in gpu.samples if sample.used is not None]
    by_list = [_listed_as_ours(sample, gpu.own) for sample in samples]
    # What NVML lists as ours includes the context and kernels; torch knows of its own allocator alone.
    ours = by_list if None not in by_list else [sample.reserved for sample in samples]
    foreign = [(sample.used or 0) - (own or 0) for sample, own in zip(samples, ours)]
    return max(foreign) - foreign[0] if foreign else None


def _listed_as_ours(sample: GpuSample, own: frozenset[int]) -> int | None:
    listed = sample.memory or {}
    mine = [memory for pid, memory in listed.items() if pid in own]
    if not mine and sample.reserved and len(listed) == 1:
        mine = list(listed.values())  # the only process there, and we are there
    known = [memory for memory in mine if memory is not None]
    return sum(known) if known and len(known) == len(mine) else None
