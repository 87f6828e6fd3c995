"""Arms run in turn on the same prompts; a ratio is taken within a turn, and the median of turns is told.

The best of several arms is better on the turns that it was chosen on than elsewhere, by luck. So turns come in two
halves, in alternation: an arm is chosen on one, and told by the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from decoders.arms import Arm, Native, Prompt
from pytest_specgate.decoding.meter import PHASES

#: The halves of the turns, by the number of a turn modulo 2.
CHOOSING, TELLING = 0, 1


class Turn(NamedTuple):
    """Seconds of wall and of CPU time and tokens after each text's first, and the texts."""

    wall: float
    cpu: float
    tokens: int
    texts: list[list[int]]


@dataclass(slots=True)
class Timed:
    """An arm's turns by their numbers; those that made no token after the first are missing."""

    turns: dict[int, Turn] = field(default_factory=dict)

    def rate(self) -> float:
        """Tokens per second of CPU time."""
        return sum(turn.tokens for turn in self.turns.values()) / sum(turn.cpu for turn in self.turns.values())


def in_turn(
    arms: Mapping[str, Arm], groups: Sequence[Sequence[Prompt]], tokens: int, say: Callable[[str], None]
) -> dict[str, Timed]:
    """Run every arm on every group, in alternating order; what the target takes to read the prompts is taken off.

    The native decoder's is timed within the run; for others, what a run of one token takes is taken off. A draft's own
    reading of the prompts is decoding.
    """
    found = {name: Timed() for name in arms}
    for arm in arms.values():
        arm(groups[0][:8], 3)
    for number, group in enumerate(groups):
        say(f"turn {number + 1} of {len(groups)}")
        for name in list(arms) if number // 2 % 2 else reversed(list(arms)):
            turn = _turn(arms[name], group, tokens)
            if turn.tokens:
                found[name].turns[number] = turn
    return found


def _turn(arm: Arm, group: Sequence[Prompt], tokens: int) -> Turn:
    if isinstance(arm, Native):
        read = arm.reading.wall, arm.reading.cpu
        wall, cpu, texts = _timed(arm, group, tokens)
        read_wall, read_cpu = arm.reading.wall - read[0], arm.reading.cpu - read[1]
    else:
        read_wall, read_cpu, _ = _timed(arm, group, 1)
        wall, cpu, texts = _timed(arm, group, tokens)
    return Turn(wall - read_wall, cpu - read_cpu, sum(len(text) - 1 for text in texts), texts)


def _timed(arm: Arm, group: Sequence[Prompt], tokens: int) -> tuple[float, float, list[list[int]]]:
    wall, cpu = time.perf_counter(), time.process_time()
    texts = arm(group, tokens)
    return time.perf_counter() - wall, time.process_time() - cpu, texts


@dataclass(frozen=True, slots=True)
class Ratio:
    """Speed of one arm over another's: medians over turns by either clock, and all tokens over all CPU time."""

    cpu: float
    wall: float
    whole: float
    turns: int
    same: str


def ratio(one: Timed, base: Timed, half: int | None = None) -> Ratio:
    """How much faster ``one`` is than ``base``, over all turns or one half of them."""
    numbers = [number for number in one.turns if number in base.turns and half in {None, number % 2}]
    ours, theirs = [one.turns[number] for number in numbers], [base.turns[number] for number in numbers]
    rates = [sum(turn.tokens for turn in turns) / sum(turn.cpu for turn in turns) for turns in (ours, theirs)]
    texts = [(a, b) for mine, other in zip(ours, theirs) for a, b in zip(mine.texts, other.texts)]
    return Ratio(
        cpu=median(b.cpu / b.tokens * a.tokens / a.cpu for a, b in zip(ours, theirs)),
        wall=median(b.wall / b.tokens * a.tokens / a.wall for a, b in zip(ours, theirs)),
        whole=rates[0] / rates[1],
        turns=len(numbers),
        same=f"{sum(a == b for a, b in texts)} of {len(texts)}",
    )


def spent(arm: Native) -> list[float]:
    """Milliseconds of wall time a round by part, drafted and kept tokens of a row and round, and slots taken."""
    meter = arm.meter
    parts = [meter.ns[phase] / meter.rounds / 1e6 for phase in PHASES[:-1]]
    return [*parts, sum(meter.drafted_at) / meter.rows, sum(meter.accepted_at) / meter.rows, meter.occupancy]
