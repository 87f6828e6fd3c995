"""What the loop did with its time and with its drafts, counted from inside.

Times are the host's, in nanoseconds: on a device that works behind the host's back, the time of a forward shows in the
phase that waits for it, which is ``sample``, where the round's one synchronisation is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

#: The parts of a round: making drafts, the target's forward, choosing and waiting for tokens, the rest; and prompts.
PHASES = ("draft", "verify", "sample", "host", "prefill")


@dataclass(frozen=True, slots=True)
class Totals:
    """Counters at one moment; ``ns`` has one entry per phase, in their order."""

    rounds: int
    rows: int
    slots: int
    ns: tuple[int, ...]

    def since(self, before: Totals) -> Totals:
        """What was added."""
        ns = tuple(now - then for now, then in zip(self.ns, before.ns))
        return Totals(self.rounds - before.rounds, self.rows - before.rows, self.slots - before.slots, ns)


@dataclass(slots=True)
class Meter:
    """Counters over runs.

    ``drafted_at[i]`` and ``accepted_at[i]`` count by position in the draft; ``rows`` is summed over rounds, and so is
    ``slots``, those that there was room for. ``last`` is when the last lap ended. ``shared`` rounds had several rows,
    ``ragged`` ones rows that accepted different numbers. What a text cost is the difference of two totals, so a round
    pays for nothing but its laps.
    """

    rounds: int = 0
    rows: int = 0
    slots: int = 0
    ragged: int = 0
    shared: int = 0
    drafted_at: list[int] = field(default_factory=list)
    accepted_at: list[int] = field(default_factory=list)
    ns: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PHASES, 0))
    room: int = 0
    last: int = 0

    def begin(self, room: int = 0) -> int:
        """Start the clock of a run with room for so many rows; return the time."""
        self.room = room
        self.last = time.perf_counter_ns()
        return self.last

    def totals(self) -> Totals:
        """The counters of rounds and of time as they stand."""
        return Totals(self.rounds, self.rows, self.slots, tuple(self.ns[phase] for phase in PHASES))

    def lap(self, phase: str) -> int:
        """Charge the time since the last lap to a phase; return the time."""
        now = time.perf_counter_ns()
        self.ns[phase] += now - self.last
        self.last = now
        return now

    def count(self, drafted: Sequence[int], accepted: Sequence[int]) -> None:
        """Count a round: one entry per row."""
        self.rounds += 1
        self.rows += len(drafted)
        self.slots += self.room
        self.shared += len(drafted) > 1
        self.ragged += len(set(accepted)) > 1
        for place in range(len(self.drafted_at), max(drafted, default=0)):
            self.drafted_at.insert(place, 0)
            self.accepted_at.insert(place, 0)
        for number, kept in zip(drafted, accepted):
            for place in range(number):
                self.drafted_at[place] += 1
            for place in range(kept):
                self.accepted_at[place] += 1

    @property
    def occupancy(self) -> float:
        """Rows active ÷ rows there; raises ZeroDivisionError before the first round."""
        return self.rows / self.slots
