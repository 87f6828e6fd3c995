"""How often verdicts are wrong, by simulation: right at the limit they may be, and only as often as allowed.

Seeds are fixed, so a run either holds or a change of the statistics made it not hold. Bounds are the nominal rates
plus what the number of simulated runs cannot tell (about three standard errors).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_specgate.gates.shift import Shift
from pytest_specgate.stats.limits import CannotTell, Limits
from pytest_specgate.stats.paired import over_prompts, within_prompts
from pytest_specgate.stats.rates import paired_rate_change, paired_slope_change, pooled_rate, pooled_slope, slope_part
from pytest_specgate.stats.signedrank import hodges_lehmann, stored_median_factor

PROMPTS, ROUNDS, STORED = 16, 4, 16
Array = NDArray[np.float64]


def limits(answer: Limits | CannotTell) -> Limits:
    assert isinstance(answer, Limits)
    return answer


def drifting(random: np.random.Generator, rounds: int, noise: float) -> Array:
    """Log ratios of interleaved pairs: white noise, and a machine that drifts by 5 % over 50 calls."""
    calls = 2 * PROMPTS * rounds
    keep = math.exp(-1 / 50)
    drift = np.empty(calls)
    drift[0] = random.normal(0, 0.05)
    for call in range(1, calls):
        drift[call] = keep * drift[call - 1] + random.normal(0, 0.05 * math.sqrt(1 - keep**2))
    first, second = drift[0::2].reshape(rounds, PROMPTS), drift[1::2].reshape(rounds, PROMPTS)
    turns = np.where(np.add.outer(np.arange(rounds), np.arange(PROMPTS)) % 2 == 0, 1, -1)
    paired: Array = (turns * (first - second)).T + random.normal(0, noise, (PROMPTS, rounds))
    return paired


def change(random: np.random.Generator, loss: float, noise: float, alpha: float) -> Limits:
    levels = random.normal(0.4, 0.12, (PROMPTS, 1))
    now = levels + math.log1p(-loss) + drifting(random, ROUNDS, noise)
    stored = levels + drifting(random, STORED, noise)
    centred = (now - np.median(stored, axis=1, keepdims=True)).ravel().tolist()
    return limits(hodges_lehmann(centred, alpha, alpha)).widened(stored_median_factor(ROUNDS, STORED))


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.10])
def test_a_loss_right_at_the_limit_is_decided_as_rarely_as_allowed(noise: float) -> None:
    random, alpha, runs = np.random.default_rng(11), 0.05, 400
    bound = math.log1p(-0.05)
    found = [change(random, 0.05, noise, alpha) for _ in range(runs)]

    slack = 3 * math.sqrt(alpha / runs)
    assert sum(f.high < bound for f in found) / runs <= alpha + slack
    assert sum(f.low > bound for f in found) / runs <= alpha + slack


@pytest.mark.parametrize(("loss", "noise", "power"), [(0.10, 0.03, 0.97), (0.20, 0.10, 0.95), (0.10, 0.01, 0.99)])
def test_a_real_loss_is_found(loss: float, noise: float, power: float) -> None:
    random, bound = np.random.default_rng(12), math.log1p(-0.05)

    failed = [change(random, loss, noise, 0.001).high < bound for _ in range(100)]

    assert sum(failed) / 100 >= power


def run_means(random: np.random.Generator, loss: float, alpha: float) -> Limits:
    """A change judged on eight runs: prompts that ran together share what the machine did to their run."""
    rounds, prompts = 8, 14
    levels = random.normal(0.4, 0.12, (prompts, 1))

    def measured(count: int) -> Array:
        own: Array = levels + random.normal(0, 0.03, (prompts, count)) + random.normal(0, 0.02, (1, count))
        return own

    now, stored = measured(rounds) + math.log1p(-loss), measured(STORED)
    medians = np.median(stored, axis=1, keepdims=True)
    means, before = (tuple((run - medians).mean(axis=0).tolist()) for run in (now, stored))
    return limits(Shift(means, before, 0.4, rounds, STORED, means=True).limits(alpha))


@pytest.mark.parametrize("alpha", [0.003, 0.05], ids=["too few for ranks", "enough"])
def test_means_of_runs_are_decided_as_rarely_as_allowed_and_a_real_loss_is_found(alpha: float) -> None:
    random, runs, bound = np.random.default_rng(14), 1000, math.log1p(-0.05)
    found = [run_means(random, 0.05, alpha) for _ in range(runs)]

    slack = 3 * math.sqrt(alpha / runs)
    assert sum(f.high < bound for f in found) / runs <= alpha + slack
    assert sum(f.low > bound for f in found) / runs <= alpha + slack
    assert sum(run_means(random, 0.15, alpha).high < bound for _ in range(100)) >= 95


def test_ranks_of_few_single_requests_stay_silent() -> None:
    few = tuple(np.random.default_rng(15).normal(0, 0.02, 8).tolist())
    assert isinstance(Shift(few, (), 0.4, 8, STORED).limits(0.003), CannotTell)
    assert isinstance(Shift(few[:1], few[:1], 0.4, 1, 1, means=True).limits(0.003), CannotTell)


def test_the_fixed_set_is_narrower_and_the_population_covers_prompts_like_these() -> None:
    random, runs, covered, narrower = np.random.default_rng(13), 400, 0, 0
    for _ in range(runs):
        data = (random.normal(0.4, 0.12, (PROMPTS, 1)) + random.normal(0, 0.03, (PROMPTS, ROUNDS))).tolist()
        fixed, like = limits(within_prompts(data, 0.025, 0.025)), limits(over_prompts(data, 0.025, 0.025))
        covered += like.low <= 0.4 <= like.high
        narrower += fixed.high - fixed.low < like.high - like.low

    assert 0.92 <= covered / runs <= 0.98
    assert narrower == runs


def tokens(random: np.random.Generator, rates: Array) -> Array:
    return random.binomial(200, np.clip(rates, 0, 1)).astype(float)


def test_acceptance_of_like_conversations_is_covered_where_a_binomial_interval_is_not() -> None:
    random, runs, covered, binomial = np.random.default_rng(14), 400, 0, 0
    for _ in range(runs):
        hits = tokens(random, random.normal(0.6, 0.1, 32))
        found = limits(pooled_rate(hits.tolist(), [200.0] * 32, 0.025, 0.025))
        covered += found.low <= 0.6 <= found.high
        binomial += abs(hits.mean() / 200 - 0.6) <= 1.96 * math.sqrt(0.24 / 6400)

    assert 0.92 <= covered / runs <= 0.985
    assert binomial / runs < 0.6


def test_a_paired_change_of_acceptance_is_found_and_none_is_not() -> None:
    random, runs, alpha = np.random.default_rng(15), 300, 0.001
    false = found = 0
    for _ in range(runs):
        rates = random.normal(0.6, 0.1, 32)
        old, same, worse = (tokens(random, r) for r in (rates, rates, rates - 0.05))
        before = [(hits, 200.0) for hits in old]
        false += limits(paired_rate_change([(h, 200.0) for h in same], before, alpha, alpha)).high < 0
        found += limits(paired_rate_change([(h, 200.0) for h in worse], before, alpha, alpha)).high < 0

    assert false / runs <= 0.005
    assert found / runs >= 0.85


Text = tuple[list[float], list[float], list[float]]  # depths, hits and trials at each


def decaying(random: np.random.Generator, slope: float, *, easy: bool) -> list[Text]:
    """16 texts; half end after three doublings, and ``easy`` makes those that go on easier."""
    found = []
    for text in range(16):
        long = text % 2
        base = random.normal(0.6 + 0.1 * (easy and long), 0.1)
        depths = [float(depth) for depth in range(5 if long else 3)]
        hits = [float(random.binomial(50, wobbling(random, base + slope * depth))) for depth in depths]
        found.append((depths, hits, [50.0] * len(depths)))
    return found


def wobbling(random: np.random.Generator, rate: float) -> float:
    return min(max(rate + random.normal(0, 0.03), 0.0), 1.0)


def parts(texts: list[Text]) -> list[tuple[float, float]]:
    """What each text tells of the slope."""
    return [part for text in texts if (part := slope_part(*text)) is not None]


def pooled(texts: list[Text], alpha: float) -> Limits:
    """Limits of the slope of all."""
    counted = (sum(sum(hits) for _, hits, _ in texts), sum(sum(trials) for *_, trials in texts))
    return limits(pooled_slope(parts(texts), counted, alpha, alpha))


@pytest.mark.parametrize("easy", [False, True])
def test_a_decay_over_the_context_is_found_whichever_prompts_reach_far(easy: bool) -> None:
    random, alpha, runs = np.random.default_rng([16, easy]), 0.01, 300
    false = sum(pooled(decaying(random, 0.0, easy=easy), alpha).high < 0 for _ in range(runs))
    found = [pooled(decaying(random, -0.06, easy=easy), alpha) for _ in range(100)]

    assert false / runs <= alpha + 3 * math.sqrt(alpha / runs)
    assert sum(f.high < 0 for f in found) >= 95
    assert np.mean([f.estimate for f in found]) == pytest.approx(-0.06, abs=0.006)


def test_a_change_of_decay_is_found_and_none_is_not() -> None:
    random, alpha, runs = np.random.default_rng(17), 0.01, 200
    false = found = 0
    for _ in range(runs):
        before, same, worse = (parts(decaying(random, slope, easy=True)) for slope in (-0.02, -0.02, -0.12))
        counted = (16 * 200 * 0.6 * 2, 16 * 200.0 * 2)
        false += limits(paired_slope_change(same, before, counted, (alpha, alpha))).high < 0
        found += limits(paired_slope_change(worse, before, counted, (alpha, alpha))).high < 0

    assert false / runs <= alpha + 3 * math.sqrt(alpha / runs)
    assert found / runs >= 0.95
