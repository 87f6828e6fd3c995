"""What the host did while we measured: how busy other processes kept it, and whether ours got its share.

On a machine without a GPU the other processes are the largest hazard to timing, above all beside spinning threads.
Readings are totals since boot or process start; a difference of two says what happened in between.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class HostReading:
    """Totals at one instant, in seconds: wall clock, CPU time of all processes, CPU time of our own."""

    wall: float
    busy: float
    own: float


def read_host() -> HostReading:
    """Take a reading; costs some tens of microseconds."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    own = time.process_time()
    return HostReading(time.monotonic(), sum(times) - idle - getattr(times, "guest", 0.0), own)


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
