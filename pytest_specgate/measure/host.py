"""What the host did while we measured: how busy other processes kept it, and how fast its cores ran.

On a machine without a GPU the other processes are the largest hazard to timing, above all beside spinning threads.
Readings are totals since boot or process start; a difference of two says what happened in between.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil

_CPUS = Path("/sys/devices/system/cpu")
_KHZ_PER_MHZ = 1000
_NOT_BUSY = ("idle", "iowait", "guest", "guest_nice")


@dataclass(frozen=True, slots=True)
class HostReading:
    """Totals at one instant, in seconds: wall clock, CPU time spent on the cores that we may use, our own CPU time.

    Our own is that of this process and its descendants, those that have ended and were waited for included.
    """

    wall: float
    busy: float
    own: float


def read_host() -> HostReading:
    """Take a reading; costs a millisecond or so, for the descendants are looked for among all processes."""
    return HostReading(time.monotonic(), sum(_busy(times) for times in _our_cores()), _own_seconds())


def foreign_cores(first: HostReading, last: HostReading) -> float:
    """Cores that other processes kept busy on average between two readings; never negative."""
    wall = last.wall - first.wall
    if wall <= 0:
        return 0.0
    return max(0.0, ((last.busy - first.busy) - (last.own - first.own)) / wall)


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def descendants() -> list[psutil.Process]:
    """Our children and theirs."""
    try:
        return psutil.Process().children(recursive=True)
    except psutil.Error:
        return []


def frequency(threads: int) -> float | None:
    """Mean MHz of as many of our cores as compute, the fastest ones; None where the system does not tell.

    The fastest are taken, for a core that waits lowers its clock, and where a thread runs changes.
    """
    told = sorted(mhz for mhz in _frequencies() if mhz > 0)
    return fmean(told[-threads:]) if told else None


def _frequencies() -> Sequence[float]:
    """MHz of our cores, straight from the files where there are any: psutil reads three for every core."""
    cores = _affinity()
    try:
        if cores and (_CPUS / f"cpu{cores[0]}/cpufreq/scaling_cur_freq").exists():
            files = (_CPUS / f"cpu{core}/cpufreq/scaling_cur_freq" for core in cores)
            return [int(file.read_text(encoding="ascii")) / _KHZ_PER_MHZ for file in files]
        told = [core.current for core in psutil.cpu_freq(percpu=True) or ()]
    except (OSError, ValueError, NotImplementedError, AttributeError, psutil.Error):  # which one, depends on the system
        return ()
    return [told[core] for core in cores] if cores and len(told) > cores[-1] else told


def _affinity() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _our_cores() -> Sequence[Any]:
    """CPU times of the cores that we may use: what happens on others does not disturb us."""
    times, cores = psutil.cpu_times(percpu=True), _affinity()
    return [times[core] for core in cores] if cores and len(times) > cores[-1] else times


def _busy(times: Any) -> float:
    """Seconds not idle; user and nice time contain the guests' already. Time that a hypervisor stole counts.

    The busy kinds are added up: taking idle time, by far the largest number, from the sum of all leaves the error of
    its rounding, and two readings in a row could go backwards by it.
    """
    return float(sum(getattr(times, kind) for kind in times._fields if kind not in _NOT_BUSY))


def _own_seconds() -> float:
    ended = os.times()
    total = time.process_time() + ended.children_user + ended.children_system
    for child in descendants():
        try:
            spent = child.cpu_times()
        except psutil.Error:
            continue
        total += spent.user + spent.system + spent.children_user + spent.children_system
    return total
