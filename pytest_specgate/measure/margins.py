"""How far the margins of the same tokens lie apart in two evaluations of a target: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_specgate.logits import Control, Scores

#: Only a token whose margin is about as small as the noise can turn into a near tie. Where the target is sure, its
#: logits are larger and rounding moves them more, which must not excuse anything elsewhere.
SMALL_MARGIN = 2.0
#: With fewer tokens of a small margin than this, all count.
LEAST_SMALL = 64


def change(one: Sequence[Scores], other: Sequence[Scores]) -> float:
    """The largest change of a small margin; the second run may be shorter."""
    margins = [both for s, o in zip(one, other) for both in zip(s.margins, o.margins)]
    small = [(a, b) for a, b in margins if min(abs(a), abs(b)) <= SMALL_MARGIN]
    return max(abs(a - b) for a, b in (small if len(small) >= LEAST_SMALL else margins))


def rescored(made: Control, whole: Sequence[Scores], again: Sequence[Scores], half: Sequence[Scores]) -> Control:
    """A control from outside with what the same texts' scores, and those of their first halves, change by.

    ``agree`` says of it that neither changes a margin at all.
    """
    alike = all(
        a == b
        for others in (again, half)
        for one, other in zip(whole, others)
        for a, b in zip(one.margins, other.margins)
    )
    return replace(made, self_change=change(whole, again), scoring_change=change(whole, half), agree=alike)
