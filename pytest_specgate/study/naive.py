"""The rule that people use without gates, on the same data: the mean time per token against the stored mean + 5 %."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_specgate.records import Outcome, Pair
from pytest_specgate.samples.speed import per_token

LARGEST_RISE = 1.05


def mean_time(pairs: Sequence[Pair]) -> float:
    """Mean of the candidate arm's seconds per output token over all its generations."""
    return sum(per_token(pair.candidate) for pair in pairs) / len(pairs)


def judge(now: float, stored: float) -> Outcome:
    """FAIL where the mean rose by more than 5 %, else PASS: this rule is never undecided."""
    return Outcome.FAIL if now > LARGEST_RISE * stored else Outcome.PASS
