"""Memory of this process as the system accounts for it, in bytes; and a bound on what it may take."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
#: What clears the peak of resident memory, by the kernel's own numbers.
_PEAK = "5"


def peak_resident_bytes() -> int:
    """Peak resident memory of this process since it runs this program; Linux counts in KiB, macOS in bytes.

    Linux carries getrusage's peak over from the process that started this one, which may have held both models; the
    peak of the address space itself begins anew.
    """
    if _STATUS.is_file():
        for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def resident_bytes() -> int:
    """Resident memory now."""
    return int(psutil.Process().memory_info().rss)


def forget_peak() -> bool:
    """Let the peak begin anew at what is resident now; whether the system can do so."""
    try:
        _CLEAR.write_text(_PEAK, encoding="ascii")
    except OSError:
        return False
    return True


@contextmanager
def bounded(most: int) -> Iterator[None]:
    """While open, what would take this process's own memory above ``most`` bytes fails as it does without memory.

    Where the system knows no such bound (macOS), nothing fails.
    """
    if sys.platform != "linux":
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    hard = before[1]
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
