"""Which job runs in which slot: first come, first served, and a slot that falls free is filled before the next round.

Running rows always occupy the first slots, so that a batch is a slice of the cache: when one in the middle finishes,
the last one moves into its place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pytest_specgate.decoding.job import Job, Row


class Scheduler:
    """Continuous batching with a fixed number of slots. ``rows[i]`` runs in slot ``i``."""

    def __init__(self, jobs: Sequence[Job], slots: int) -> None:
        if slots < 1:
            raise ValueError("at least one slot is needed")
        self._waiting = deque(Row(number, job, list(job.prompt)) for number, job in enumerate(jobs))
        self._slots = slots
        self.rows: list[Row] = []
        self.done: list[Row] = []

    @property
    def room(self) -> bool:
        """Whether a job waits and a slot is free for it."""
        return bool(self._waiting) and len(self.rows) < self._slots

    @property
    def busy(self) -> bool:
        """Whether anything runs or waits."""
        return bool(self.rows or self._waiting)

    def admit(self) -> Row | None:
        """Give the next waiting job the next slot; None where there is no job or no slot."""
        if not self.room:
            return None
        row = self._waiting.popleft()
        self.rows.append(row)
        return row

    def retire(self) -> list[tuple[int, int]]:
        """Take out what is finished; return the moves ``(from slot, to slot)`` that close the gaps, in order."""
        moves = []
        for slot in reversed(range(len(self.rows))):
            if self.rows[slot].finish:
                self.done.append(self.rows[slot])
                last = len(self.rows) - 1
                if slot != last:
                    moves.append((last, slot))
                self.rows[slot] = self.rows[last]
                self.rows.pop()
        return moves
