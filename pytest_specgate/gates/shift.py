"""How far one run lies from the stored medians of another, prompt by prompt, on a log scale."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from pytest_specgate.gates.parts import standing_clock, units
from pytest_specgate.records import Interval, Samples
from pytest_specgate.stats.limits import CannotTell, Limits
from pytest_specgate.stats.paired import between_runs
from pytest_specgate.stats.signedrank import hodges_lehmann, stored_median_factor

_FAR = 50.0
#: From so many stored rounds on, a stall or two among them does not move their medians.
_STEADY = 8

Both = Mapping[str, tuple[Sequence[float], Sequence[float]]]


@dataclass(frozen=True, slots=True)
class Shift:
    """Log values now, each less its prompt's stored median; ``level`` is the mean of those medians.

    ``before`` are the stored values, less the same medians. ``means``: both are means of several requests that ran
    together.
    """

    values: tuple[float, ...]
    before: tuple[float, ...]
    level: float
    rounds: int
    stored_rounds: int
    means: bool = False

    def limits(self, alpha: float) -> Limits | CannotTell:
        """Hodges–Lehmann limits of the shift, widened for the noise of the stored medians.

        Ranks of few values cannot reach a small error whatever the values are, and medians of few stored rounds may be
        off. Means of requests that ran together are few, and near to normal: of them Student's t tells then, by the
        scatter of both runs. Numbers of rounds and the error alone decide which.
        """
        if trouble := standing_clock({"": self.values}):
            return trouble
        limits = hodges_lehmann(self.values, alpha, alpha)
        if self.means and (self.stored_rounds < _STEADY or isinstance(limits, CannotTell)):
            return between_runs([self.values], [self.before], alpha, alpha)
        if isinstance(limits, CannotTell):
            return limits
        return limits.widened(stored_median_factor(self.rounds, self.stored_rounds))


def shift_from_stored(both: Both, samples: Samples, stored: Samples) -> Shift:
    """The shift of (log values now, log values stored) by prompt; what ran at the same time counts once."""
    medians = {prompt: median(old) for prompt, (_, old) in both.items()}
    now, before = (
        units({prompt: [value - medians[prompt] for value in pair[run]] for prompt, pair in both.items()}, of)
        for run, of in enumerate((samples, stored))
    )
    return Shift(
        values=tuple(now.values),
        before=tuple(before.values),
        level=fmean(medians.values()),
        rounds=now.rounds,
        stored_rounds=min(len(old) for _, old in both.values()),
        means=now.together and before.together,
    )


def from_log(value: float) -> float:
    """The ratio or time of this natural log, cut at e^±50: beyond, nothing is either, and soon no float."""
    return math.exp(min(max(value, -_FAR), _FAR))


def difference(level: float, limits: Limits) -> Interval:
    """A shift of logs as a change in the metric's own unit, about the stored level."""
    ends = (level * math.expm1(min(end, _FAR)) for end in (limits.estimate, limits.low, limits.high))
    return Interval(*ends)
