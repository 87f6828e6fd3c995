"""Watch the machine while a case is measured: totals at both ends, samples in a thread in between.

The thread looks about twice a second and rests longer where a look is slow, so that looking takes at most a five
hundredth of the time. What cannot be read is told as such; a monitor never stops a measurement.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from types import TracebackType

from pytest_specgate.measure import host, software
from pytest_specgate.measure.nvml import GpuReader, open_gpu
from pytest_specgate.measure.readings import (
    NO_DEVICE,
    NOT_CPU,
    NOT_GPU,
    Allocations,
    Gpu,
    GpuSample,
    Instant,
    Load,
    Readings,
    Unknown,
)

#: Seconds from one look to the next.
INTERVAL = 0.5
#: The part of the time that looking may take.
LARGEST_COST = 0.002
#: Seconds between two clocks that count as read together, and how often that is tried.
_TOGETHER, _TRIES = 0.001, 5
_NO_FREQUENCY = Unknown("cannot be told: the system does not tell the CPU's frequency")


class Monitor:
    """A context manager whose :meth:`readings` cover the time from its entry on.

    ``subject`` is the engine's: its ``device`` decides what is looked at, its ``threads`` how many cores are ours.
    ``before`` are the GPUs' processes from before the engine started (:func:`nvml.processes_by_gpu`), where known.
    """

    def __init__(
        self,
        subject: Mapping[str, str],
        before: Mapping[str, frozenset[int]] | None = None,
        interval: float = INTERVAL,
    ) -> None:
        self._device = subject.get("device", "")
        self._cores = host.available_cores()
        self._threads = _threads(subject, self._cores)
        self._before, self._interval = before, interval
        self._clocks: list[Instant] = []
        self._mhz: list[float] = []
        self._gpu: GpuReader | Unknown = self._absent(NOT_GPU)
        self._gpu_samples: list[GpuSample] = []
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="specgate-monitor", daemon=True)
        #: Seconds that looking took so far.
        self.spent = 0.0

    def __enter__(self) -> Monitor:
        if self._device.startswith("cuda"):
            self._gpu = open_gpu(self._device)
        self._own = _own_pids() if isinstance(self._gpu, GpuReader) else frozenset[int]()
        self._look()
        self._compiled, self._allocated = software.compile_totals(), self._allocator()
        self._host = host.read_host() if self._device == "cpu" else None
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        if isinstance(self._gpu, GpuReader):
            self._gpu.close()

    def readings(self) -> Readings:
        """Everything up to now; may be asked for as often as one likes while the monitor is entered."""
        self._look()
        load, mhz = self._load(), tuple(self._mhz) or _NO_FREQUENCY
        return Readings(
            clocks=tuple(self._clocks),
            load=load,
            cpu_mhz=mhz if self._device == "cpu" else self._absent(NOT_CPU),
            gpu=self._gpu_readings(),
            compiled=software.compiled_since(self._compiled, software.compile_totals()),
            allocations=self._allocations(),
        )

    # --- looking ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause = self._interval
        while not self._over.wait(pause):
            pause = max(self._interval, self._look() / LARGEST_COST)

    def _look(self) -> float:
        """Take one sample of everything, in order even where two threads look; how long it took."""
        with self._lock:
            begin = time.perf_counter()
            self._clocks.append(_instant())
            if self._device == "cpu" and (mhz := host.frequency(self._threads)) is not None:
                self._mhz.append(mhz)
            if isinstance(self._gpu, GpuReader):
                self._gpu_samples.append(self._gpu.sample())
            took = time.perf_counter() - begin
            self.spent += took
            return took

    def _absent(self, otherwise: Unknown) -> Unknown:
        return otherwise if self._device else NO_DEVICE

    def _load(self) -> Load | Unknown:
        if self._host is None:
            return self._absent(NOT_CPU)
        return Load(host.foreign_cores(self._host, host.read_host()), self._cores, self._threads)

    def _gpu_readings(self) -> Gpu | Unknown:
        if isinstance(self._gpu, Unknown):
            return self._gpu
        before = None if self._before is None else self._before.get(self._gpu.uuid, frozenset())
        return Gpu(tuple(self._gpu_samples), self._own | _own_pids(), before)

    def _allocator(self) -> Allocations | None:
        return software.allocator_totals(self._device) if self._device.startswith("cuda") else None

    def _allocations(self) -> Allocations | Unknown:
        if not self._device.startswith("cuda"):
            return self._absent(NOT_GPU)
        return software.allocations_since(self._allocated, self._allocator())


def _instant() -> Instant:
    """Both clocks, read together: what kept us between them would look like a step of the wall clock."""
    readings = []
    for _ in range(_TRIES):
        before, wall, after = time.monotonic(), time.time(), time.monotonic()
        readings.append((after - before, Instant(after, wall)))
        if after - before < _TOGETHER:
            break
    return min(readings, key=lambda reading: reading[0])[1]


def _threads(subject: Mapping[str, str], cores: int) -> int:
    """The engine's compute threads; where it does not tell, all cores are taken to be ours."""
    told = subject.get("threads", "")
    return int(told) if told.isdigit() and int(told) > 0 else cores


def _own_pids() -> frozenset[int]:
    return frozenset({os.getpid(), *(process.pid for process in host.descendants())})
