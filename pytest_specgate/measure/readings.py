"""What the machine was seen to do while a case was measured: plain values, so that rules can be tried on recorded ones.

A reading that could not be had is an :class:`Unknown` with its reason, never a number. Times of samples are on the
clock of the traces (``time.perf_counter_ns``), frequencies in MHz, memory in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_specgate.records import GpuUse, Pair


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why there is nothing to look at, in the words of the finding."""

    why: str


NOT_READ = Unknown("nothing was read")
NO_DEVICE = Unknown("cannot be told: the engine names no device")
NOT_CPU = Unknown("the device is not the CPU")
NOT_GPU = Unknown("the device is not a GPU")


@dataclass(frozen=True, slots=True)
class Instant:
    """Monotonic clock and wall clock, read together, in seconds."""

    monotonic: float
    wall: float


@dataclass(frozen=True, slots=True)
class Load:
    """Cores that other processes kept busy on average, of those that we may use; our compute threads."""

    foreign: float
    cores: int
    threads: int


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One look at a GPU; a field that NVML does not tell on this device is None.

    ``reasons`` are NVML's clock event bits, ``used`` is all memory in use, ``memory`` maps the processes that compute
    on the device to theirs, ``reserved`` is what torch's allocator in this process holds there. ``utilization`` is the
    share of the time just past in which a kernel ran, ``watts`` the mean power over it.
    """

    counter_ns: int
    reasons: int | None
    sm_mhz: int | None
    used: int | None
    memory: Mapping[int, int | None] | None
    reserved: int = 0
    utilization: float | None = None
    watts: float | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU over time. ``own`` are this process and its descendants as this system numbers them.

    In a container NVML gives the host's numbers, among which ``own`` is not found. ``before`` are the processes that
    computed on the device before the engine was started, in NVML's numbers; None where nobody looked.
    """

    samples: tuple[GpuSample, ...]
    own: frozenset[int]
    before: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Allocations:
    """What torch's allocator asked of the device in the timed region: calls, and calls repeated for lack of memory."""

    calls: int
    retries: int


@dataclass(frozen=True, slots=True)
class Readings:
    """Everything that a monitor saw from its entry on.

    ``cpu_mhz`` holds one value per sample: the mean frequency of as many cores as compute, the fastest ones.
    ``compiled`` counts by kind what torch compiled, tuned or captured.
    """

    clocks: tuple[Instant, ...] = ()
    load: Load | Unknown = NOT_READ
    cpu_mhz: tuple[float, ...] | Unknown = NOT_READ
    gpu: Gpu | Unknown = NOT_READ
    compiled: Mapping[str, int] | Unknown = NOT_READ
    allocations: Allocations | Unknown = NOT_READ


@dataclass(frozen=True, slots=True)
class Observed:
    """What the rules look at: the pairs so far, at least one, and the readings beside them.

    ``apart`` is whether the arms are never up together, each round being a fresh start of both; ``prefix`` is how the
    scenario has its requests begin (as_is, cold, shared).
    """

    pairs: Sequence[Pair]
    readings: Readings = field(default_factory=Readings)
    apart: bool = False
    prefix: str = "as_is"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a rule says: whether it held, the numbers in words, and whether they are worth telling though it held."""

    held: bool
    detail: str
    noted: bool = False


def gpu_use(readings: Readings) -> tuple[GpuUse, ...]:
    """What the samples tell of the GPU's work; nothing without a GPU, or where it tells neither."""
    samples = () if isinstance(readings.gpu, Unknown) else readings.gpu.samples
    told = (GpuUse(one.counter_ns, one.utilization, one.watts) for one in samples)
    return tuple(use for use in told if use.utilization is not None or use.watts is not None)
