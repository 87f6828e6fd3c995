"""Time by a cost model: forwards are charged by what they read, and nobody waits.

The loop is the real one; its meter reads this clock instead of the host's, so that a fault of speed is the same on
every machine.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from pytest_specgate.decoding.meter import Meter

#: Scatter of the log time of every charge.
NOISE = 0.01


@dataclass(frozen=True, slots=True)
class CostModel:
    """Seconds of a forward of ``width`` new tokens for each of ``rows`` texts, the longest of ``length`` tokens."""

    target: Callable[[int, int, int], float]
    draft: Callable[[int, int, int], float]


def flat(rows: int, width: int, length: int) -> float:
    """A target that is bound by reading its weights; a prompt's forward is a share of one for all that wait."""
    weights = 1e-3 if width == length else 10e-3
    return weights + 2e-5 * rows * width + 1e-7 * rows * length


def tenth(rows: int, width: int, length: int) -> float:
    """A draft of a tenth of the target's cost."""
    return flat(rows, width, length) / 10


#: What ordinary entries run on.
ORDINARY = CostModel(flat, tenth)


@dataclass(slots=True)
class Clock:
    """Simulated nanoseconds; every charge scatters by the seed."""

    seed: int = 0
    now_ns: int = 1_000_000_000
    _source: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._source = random.Random(self.seed)

    def charge(self, seconds: float) -> None:
        """Let time pass."""
        self.now_ns += round(seconds * 1e9 * math.exp(self._source.gauss(0, NOISE)))


class SimulatedMeter(Meter):
    """The loop's meter on a simulated clock."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def begin(self, room: int = 0) -> int:
        super().begin(room)
        self.last = self._clock.now_ns
        return self.last

    def lap(self, phase: str) -> int:
        now = self._clock.now_ns
        self.ns[phase] += now - self.last
        self.last = now
        return now
