"""What a speedup is made of: acceptance, and what draft and verify forwards cost; and the draft length that would pay.

Expected tokens a round ÷ what the round costs, in forwards of the target, is the speedup that a loop without any work
of its own would reach; measured ÷ predicted says what the loop itself wastes. A round that drafted nothing costs one
plain forward. Costs are medians over repetitions (see :class:`~pytest_specgate.records.Costs`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean, median

from pytest_specgate.records import Costs, Counts, Samples
from pytest_specgate.report.numbers import TAIL, Estimate, estimate, pooled
from pytest_specgate.stats import quantiles
from pytest_specgate.stats.paired import sane


@dataclass(frozen=True, slots=True)
class PerRound:
    """Means over rounds: tokens emitted, tokens drafted, and the share of rounds that drafted any."""

    emitted: float
    drafted: float
    drafting: float


@dataclass(frozen=True, slots=True)
class RoundTime:
    """Seconds of a mean round: drafting, the target's forward, and the rest, which is the loop's own.

    ``single`` is a target forward of one token; ``alone`` the reference arm's time per token, in the same rounds.
    """

    draft: float
    verify: float
    loop: float
    single: float
    alone: float

    @property
    def whole(self) -> float:
        """All of it."""
        return self.draft + self.verify + self.loop


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The draft length that costs and acceptance ask for, beside the present one: expected speedup then ÷ now.

    ``most`` is the longest that was looked at: verify forwards beyond it were not timed.
    """

    k: int
    present: int
    gain: Estimate
    most: int


def per_round(samples: Samples) -> PerRound | None:
    """What a round did; None where the engine tells no rounds, or nothing was drafted."""
    counts = _counts(samples)
    rounds, drafts, drafted = (_sum(counts, name) for name in ("rounds", "drafts", "drafted"))
    if not rounds or not drafts or drafted is None:
        return None
    return PerRound(1 + sum(c.accepted for c in counts) / rounds, drafted / rounds, drafts / rounds)


def _sum(counts: Sequence[Counts], name: str) -> int | None:
    """Sum of a counter; None where one of them was not told."""
    values = [getattr(count, name) for count in counts]
    return None if None in values else sum(values)


def decode_times(samples: Samples) -> dict[str, float]:
    """Geometric means over prompts of both arms' time per decoded token; only of what every prompt has."""
    found = {}
    for name in ("reference_tpot", "tpot"):
        series = [p.series.get(name, ()) for p in samples.prompts]
        if series and all(times and sane(times) and min(times) > 0 for times in series):
            found[name] = math.exp(fmean(fmean(map(math.log, times)) for times in series))
    return found


def draft_seconds(costs: Costs) -> float:
    """A draft forward of one token; 0 where drafting takes none."""
    return 0.0 if costs.draft is None else median(costs.draft.seconds)


def target_seconds(costs: Costs, width: float) -> float:
    """A target forward of so many tokens, on straight lines between the widths that were timed."""
    known = [(float(one.width), median(one.seconds)) for one in costs.target]
    if width <= known[0][0]:
        return known[0][1]
    for (low, before), (high, after) in pairwise(known):
        if width <= high:
            return before + (after - before) * (width - low) / (high - low)
    return known[-1][1]


def draft_cost(costs: Costs) -> Estimate | None:
    """One draft forward ÷ one target forward of width 1; None where drafting takes no forward."""
    return None if costs.draft is None else _ratio(costs.draft.seconds, costs.target[0].seconds)


def verify_cost(costs: Costs) -> Estimate | None:
    """A target forward of width k+1 ÷ one of width 1."""
    wide = next((one for one in costs.target if one.width == costs.draft_tokens + 1), None)
    return None if wide is None else _ratio(wide.seconds, costs.target[0].seconds)


def predicted_speedup(samples: Samples, costs: Costs) -> float | None:
    """Tokens a round ÷ its cost in target forwards, as acceptance and costs were measured."""
    rounds = per_round(samples)
    if rounds is None:
        return None
    cost = rounds.drafted * draft_seconds(costs) + verify_seconds(rounds, costs)
    return rounds.emitted * target_seconds(costs, 1) / cost


def verify_seconds(rounds: PerRound, costs: Costs) -> float:
    """The target's forward of a mean round: of the drafted width where anything was drafted, else plain."""
    wide = target_seconds(costs, 1 + rounds.drafted / rounds.drafting)
    return rounds.drafting * wide + (1 - rounds.drafting) * target_seconds(costs, 1)


def round_time(rounds: PerRound | None, costs: Costs | None, decode: dict[str, float]) -> RoundTime | None:
    """Where a mean round's time goes; ``decode`` has both arms' seconds per decoded token."""
    if rounds is None or costs is None or len(decode) < 2:
        return None
    draft, verify = rounds.drafted * draft_seconds(costs), verify_seconds(rounds, costs)
    whole = decode["tpot"] * rounds.emitted
    return RoundTime(draft, verify, whole - draft - verify, target_seconds(costs, 1), decode["reference_tpot"])


def suggestion(samples: Samples, costs: Costs | None) -> Suggestion | None:
    """The best draft length among those whose forwards were timed; None where costs or acceptance are not known."""
    known = _known(samples, costs)
    if known is None:
        return None
    present = known.costs.draft_tokens
    best = max(known.lengths, key=lambda k: known.speed(k, known.rate.value))
    gain = known.over(lambda rate: known.speed(best, rate) / known.speed(present, rate))
    return Suggestion(best, present, gain, known.lengths[-1])


def by_length(samples: Samples, costs: Costs | None) -> list[tuple[int, Estimate]]:
    """The expected speedup over the reference arm by draft length, from 1 to the longest that was timed."""
    known = _known(samples, costs)
    if known is None:
        return []
    return [(k, known.over(partial(known.speedup, k))) for k in known.lengths]


@dataclass(frozen=True, slots=True)
class _Known:
    """What an expectation rests on: rounds that draft as often, and a loop that takes as much, as was measured."""

    rounds: PerRound
    costs: Costs
    spent: RoundTime
    rate: Estimate

    @property
    def lengths(self) -> range:
        """Draft lengths whose verify forwards lie within those that were timed."""
        return range(1, self.costs.target[-1].width)

    def speed(self, k: int, rate: float) -> float:
        """Tokens per second at draft length k and this acceptance."""
        drafting, share = k * draft_seconds(self.costs) + target_seconds(self.costs, k + 1), self.rounds.drafting
        whole = share * drafting + (1 - share) * target_seconds(self.costs, 1) + max(0.0, self.spent.loop)
        return (share * expected(rate, k) + 1 - share) / whole

    def speedup(self, k: int, rate: float) -> float:
        """That over the reference arm's."""
        return self.speed(k, rate) * self.spent.alone

    def over(self, of: Callable[[float], float]) -> Estimate:
        """A function of acceptance, with its least and largest value over acceptance's limits."""
        ends = [max(0.0, min(1.0, end)) for end in (self.rate.low, self.rate.high) if end is not None]
        found = [of(rate) for rate in (*ends, self.rate.value)]
        return Estimate(found[-1], min(found), max(found)) if len(ends) == 2 else Estimate(found[-1])


def _known(samples: Samples, costs: Costs | None) -> _Known | None:
    rounds, rate = per_round(samples), conditional(samples)
    spent = round_time(rounds, costs, decode_times(samples))
    if rounds is None or costs is None or spent is None or rate is None:
        return None
    return _Known(rounds, costs, spent, rate)


def expected(rate: float, k: int) -> float:
    """Tokens of a round that drafts k, each accepted with chance ``rate``: 1 + rate + rate² + ... + rate^k."""
    return float(k + 1) if rate >= 1 else (1 - rate ** (k + 1)) / (1 - rate)


def conditional(samples: Samples) -> Estimate | None:
    """Accepted ÷ tested over all prompts, with the limits that conversations as units give."""
    clusters: dict[str, list[int]] = {}
    for prompt in samples.prompts:
        counted = clusters.setdefault(prompt.cluster, [0, 0])
        # A greedy decoder repeats itself, so its rounds tell nothing twice.
        for one in prompt.counts[:1] if samples.greedy else prompt.counts:
            counted[0] += one.accepted
            if one.tested is None:
                return None
            counted[1] += one.tested
    return pooled(list(clusters.values()))


def _counts(samples: Samples) -> list[Counts]:
    return [count for prompt in samples.prompts for count in prompt.counts]


def middle(values: Sequence[float]) -> Estimate | None:
    """The median, with limits that know no law."""
    if not values or not math.isfinite(fmean(values)):
        return None
    return estimate(quantiles.quantile(sorted(values), 0.5, TAIL, TAIL, len(values)), median(values))


def _ratio(above: Sequence[float], below: Sequence[float]) -> Estimate | None:
    """The median of ratios taken together."""
    return middle([a / b for a, b in zip(above, below)])
