"""The values that travel between the layers: frozen, without behaviour beyond their own arithmetic.

``Request`` goes into an engine, a ``Trace`` comes out; two traces of one prompt make a ``Pair``; all pairs of a case,
its memory passes and what the machine did meanwhile make a ``Measurement``; ``Samples`` are the per-prompt numbers
drawn from it that a gate judges and a baseline keeps; a ``Verdict`` is what a gate says, with its evidence.
Times are monotonic nanoseconds inside traces and seconds everywhere else; memory is in bytes. ``None`` means
*unmeasured* throughout, never zero.
"""

from __future__ import annotations

from pytest_specgate.records.asked import (
    Arm,
    Bias,
    Bounds,
    Capability,
    Message,
    Request,
    Sampling,
)
from pytest_specgate.records.judged import (
    Check,
    Interval,
    Look,
    Outcome,
    Verdict,
)
from pytest_specgate.records.machine import (
    OTHER_TRAFFIC,
    Capacity,
    Costs,
    Finding,
    Forwards,
    GpuUse,
    MemoryReading,
    Place,
    ScoringCost,
    Served,
    Soak,
    Throughput,
)
from pytest_specgate.records.measured import (
    Graded,
    Measurement,
    Pair,
    Probe,
    Reply,
    Sweep,
)
from pytest_specgate.records.numbers import (
    Anchor,
    PromptSamples,
    Samples,
    Stored,
)
from pytest_specgate.records.traced import (
    Chunk,
    Counts,
    Round,
    Spent,
    Told,
    Trace,
)

__all__ = [
    "OTHER_TRAFFIC",
    "Anchor",
    "Arm",
    "Bias",
    "Bounds",
    "Capability",
    "Capacity",
    "Check",
    "Chunk",
    "Costs",
    "Counts",
    "Finding",
    "Forwards",
    "GpuUse",
    "Graded",
    "Interval",
    "Look",
    "Measurement",
    "MemoryReading",
    "Message",
    "Outcome",
    "Pair",
    "Place",
    "Probe",
    "PromptSamples",
    "Reply",
    "Request",
    "Round",
    "Samples",
    "Sampling",
    "ScoringCost",
    "Served",
    "Soak",
    "Spent",
    "Stored",
    "Sweep",
    "Throughput",
    "Told",
    "Trace",
    "Verdict",
]
