"""Pairs on a made-up clock, and one rule's finding, for tests of the environment rules."""

from __future__ import annotations

from pytest_specgate.measure.environment import examine
from pytest_specgate.measure.readings import Observed, Readings
from pytest_specgate.records import Arm, Chunk, Finding, Pair, Trace


def trace(arm: Arm, seconds: float, begin: float = 0.0) -> Trace:
    """Ten tokens at once, after so many seconds."""
    end = Chunk(int((begin + seconds) * 1e9), 10)
    return Trace("q", arm, tuple(range(10)), "", 3, int(begin * 1e9), (end,), "length")


def pair(prompt: str, number: int, reference: float, candidate: float, order: str = "AB") -> Pair:
    """Both arms' seconds."""
    return Pair(prompt, prompt, number, order, trace(Arm.REFERENCE, reference), trace(Arm.CANDIDATE, candidate))


def pairs(*rounds: tuple[float, float], prompts: int = 3) -> list[Pair]:
    """Every prompt takes the same time: seconds of both arms, by round."""
    return [pair(f"q{n}", r, *seconds) for r, seconds in enumerate(rounds) for n in range(prompts)]


def finding(rule: str, observed: Observed) -> Finding:
    """What one rule found."""
    return next(found for found in examine(observed) if found.rule == rule)


def seen(rule: str, readings: Readings) -> Finding:
    """What one rule found in readings beside a plain run."""
    return finding(rule, Observed(pairs((1.0, 0.5), (1.0, 0.5)), readings))
