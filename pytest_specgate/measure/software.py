"""What torch did beside computing: compiled, tuned, captured graphs, went to the device for memory.

Totals since the process began; nothing is imported for them, so they cost nothing where torch is not used. cuDNN's own
tuning and graphs captured by hand have no counter; what they allocate on the device is seen.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from pytest_specgate.measure.readings import Allocations, Unknown

NO_TORCH = Unknown("cannot be told: torch does not run in this process")

_Totals = Mapping[str, int]


def compile_totals() -> _Totals | None:
    """Frames that dynamo compiled, tuning runs and captured graphs so far; None where torch is not loaded."""
    if sys.modules.get("torch") is None:
        return None
    counters: Mapping[str, Mapping[str, int]] = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    inductor = dict(counters.get("inductor", {}))
    tuning = [n for name, n in inductor.items() if "autotune" in name or name.startswith("benchmarking.")]
    return {
        "frames compiled": int(counters.get("frames", {}).get("total", 0)),
        "tuning runs": sum(tuning),
        "graph inputs captured": int(inductor.get("cudagraph_recorded_non_static_inputs", 0)),
    }


def compiled_since(first: _Totals | None, last: _Totals | None) -> _Totals | Unknown:
    """What was added; counters that somebody reset in between count from zero."""
    if last is None:
        return NO_TORCH
    before = first or {}
    return {kind: n - before.get(kind, 0) if n >= before.get(kind, 0) else n for kind, n in last.items()}


def allocator_totals(device: str) -> Allocations | None:
    """Calls to the device and retries so far; None where torch does not run on it."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    stats: Mapping[str, int] = torch.cuda.memory_stats(device)
    return Allocations(stats.get("num_device_alloc", 0), stats.get("num_alloc_retries", 0))


def allocations_since(first: Allocations | None, last: Allocations | None) -> Allocations | Unknown:
    """What was added."""
    if first is None or last is None:
        return NO_TORCH
    return Allocations(last.calls - first.calls, last.retries - first.retries)
