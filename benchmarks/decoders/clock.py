"""Arms run in turn on the same prompts; a ratio is taken within a turn, and the median of turns is told."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from decoders.arms import Arm, Native, Prompt
from pytest_specgate.decoding.meter import PHASES


@dataclass(slots=True)
class Timed:
    """Seconds of wall and of CPU time and tokens after the first of each turn, and the texts of all turns."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    texts: list[list[int]] = field(default_factory=list)

    def rate(self) -> float:
        """Tokens per second of CPU time."""
        return sum(self.tokens) / sum(self.cpu)


def in_turn(arms: Mapping[str, Arm], groups: Sequence[Sequence[Prompt]], tokens: int, rounds: int) -> dict[str, Timed]:
    """Run every arm on every group, ``rounds`` times, in alternating order; what one token takes is taken off."""
    found = {name: Timed() for name in arms}
    for arm in arms.values():
        arm(groups[0], 3)
    for turn, group in enumerate([group for _ in range(rounds) for group in groups]):
        for name in list(arms) if turn % 2 else reversed(list(arms)):
            wall_first, cpu_first, _ = _timed(arms[name], group, 1)
            wall, cpu, texts = _timed(arms[name], group, tokens)
            count = sum(len(text) - 1 for text in texts)
            if count:
                found[name].wall.append(wall - wall_first)
                found[name].cpu.append(cpu - cpu_first)
                found[name].tokens.append(count)
                found[name].texts += texts
    return found


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


def ratio(one: Timed, base: Timed) -> Ratio:
    """How much faster ``one`` is than ``base``."""

    def middle(ours: Sequence[float], theirs: Sequence[float]) -> float:
        return median(b / n * m / a for a, b, m, n in zip(ours, theirs, one.tokens, base.tokens))

    equal = sum(a == b for a, b in zip(one.texts, base.texts))
    return Ratio(
        cpu=middle(one.cpu, base.cpu),
        wall=middle(one.wall, base.wall),
        whole=one.rate() / base.rate(),
        turns=len(one.cpu),
        same=f"{equal} of {len(base.texts)}",
    )


def spent(arm: Native) -> list[float]:
    """Milliseconds of wall time a round by part, drafted and kept tokens of a row and round, and slots taken."""
    meter = arm.meter
    parts = [meter.ns[phase] / meter.rounds / 1e6 for phase in PHASES[:-1]]
    return [*parts, sum(meter.drafted_at) / meter.rows, sum(meter.accepted_at) / meter.rows, meter.occupancy]
