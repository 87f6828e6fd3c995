"""What a machine's rounding explains, in logits: up to where a token ties with the target's choice."""

from __future__ import annotations

import math

from pytest_specgate.logits import Control, Divergence
from pytest_specgate.stats.choosing import reach

#: The noise is the control's largest change times this: a larger sample has a larger maximum.
FACTOR = 1.5
#: Nor is it less than so many units in the last place of a typical highest logit.
LEAST_ULPS = 2.0
#: A server's forwards of one and of several tokens are not known to agree with those that scored: in 16 bits the gap of
#: two logits from 16 to 32 moves by so much between any two of them.
LEAST_OUTSIDE = 0.25
#: What the noise of a server may pass for once in so many runs, here and for near ties.
_RARE = 1e-3
_MANTISSA = {"bfloat16": 7, "float16": 10, "float32": 23, "float64": 52}
#: In these a tie that rounding can turn is so rare that equal arithmetic means equal texts.
FINE = frozenset({"float32", "float64"})


def tolerance(control: Control, dtype: str) -> float:
    """The regret, in logits, that this machine's rounding explains.

    From outside: that of which noise puts so few tokens beyond it that two would be rare.
    """
    if (law := control.between) is not None:
        return max(LEAST_OUTSIDE, reach(control.tokens, law.density, law.scale, math.sqrt(_RARE)))
    return max(FACTOR * control.gap_change, LEAST_ULPS * ulp(control.median_best, dtype))


def ulp(value: float, dtype: str) -> float:
    """The unit in the last place of a number; 0 for a dtype whose rounding is not known."""
    if dtype not in _MANTISSA or value == 0:
        return 0.0
    return math.ldexp(1.0, math.frexp(abs(value))[1] - 1 - _MANTISSA[dtype])


def is_tie(divergence: Divergence, noise: float) -> bool:
    """Whether the target scores both tokens alike, within its noise: ``numerical_tie``, else ``real_divergence``."""
    return any(far is not None and far <= noise for far in (divergence.gap, divergence.regret))


def tied_within(control: Control, dtype: str) -> float:
    """Up to which gap two tokens tie: from outside, one that the reference server itself shows is none either."""
    noise = tolerance(control, dtype)
    return noise if control.between is None else max(noise, control.between.worst)
