"""The memory of a server: that of its process tree, whatever of it is ours to see.

A server's resident peak is the sum of its processes' peaks: at most what they ever held together, and pages that they
share (a library, weights in shared memory) count once for each that touched them. GPU memory comes from NVML by
process: in a container NVML gives the host's numbers, of which the tree knows none, and then it cannot be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil


def tree(root: int) -> tuple[int, ...]:
    """All living processes below ``root``, which is not one of them."""
    try:
        return tuple(child.pid for child in psutil.Process(root).children(recursive=True))
    except psutil.Error:
        return ()


def peak_resident(root: int) -> int | None:
    """Bytes; None where the system does not tell peaks of other processes, or nothing lives below ``root``."""
    peaks = [peak for pid in tree(root) if (peak := _peak(pid)) is not None]
    return sum(peaks) if peaks else None


def vram(pids: Iterable[int], by_process: Mapping[int, int | None]) -> int | None:
    """Bytes of GPU memory that these processes hold, of NVML's list of one device.

    None where the list names none of them, or does not tell what one of them holds: unmeasured, and not nothing.
    """
    held = [by_process[pid] for pid in pids if pid in by_process]
    if not held or any(each is None for each in held):
        return None
    return sum(each for each in held if each is not None)


def _peak(pid: int) -> int | None:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None
