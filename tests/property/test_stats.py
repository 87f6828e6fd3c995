"""What limits obey whatever the data are."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_specgate.stats.limits import CannotTell, Limits
from pytest_specgate.stats.paired import between_runs, over_prompts, within_prompts
from pytest_specgate.stats.quantiles import quantile
from pytest_specgate.stats.rates import paired_rate_change, pooled_rate
from pytest_specgate.stats.signedrank import critical_rank, hodges_lehmann

NUMBERS = st.floats(-3, 3)
PAIRS = st.lists(NUMBERS, min_size=10, max_size=40)
ALPHAS = st.floats(0.001, 0.4)
GROUPS = st.lists(st.lists(NUMBERS, min_size=2, max_size=6), min_size=2, max_size=8)
COUNTS = st.lists(
    st.integers(1, 300).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials))),
    min_size=2,
    max_size=12,
)
#: Squares of larger numbers are no floats; no clock and no counter shows them.
ANY_VALUES = st.lists(st.floats(-1e100, 1e100) | st.sampled_from([math.nan, math.inf, -math.inf]), max_size=12)


def limits(answer: Limits | CannotTell) -> Limits:
    assert isinstance(answer, Limits)
    return answer


def close(a: Limits, b: Limits) -> bool:
    ends = ((a.estimate, b.estimate), (a.low, b.low), (a.high, b.high))
    return all(math.isclose(x, y, abs_tol=1e-9) for x, y in ends)


@given(values=PAIRS, shift=NUMBERS)
def test_hodges_lehmann_moves_with_the_data(values: list[float], shift: float) -> None:
    before = limits(hodges_lehmann(values, 0.001, 0.05))

    after = limits(hodges_lehmann([value + shift for value in values], 0.001, 0.05))

    assert close(after, Limits(before.estimate + shift, before.low + shift, before.high + shift))


@given(values=PAIRS)
def test_hodges_lehmann_mirrors_with_the_data(values: list[float]) -> None:
    before = limits(hodges_lehmann(values, 0.001, 0.05))

    after = limits(hodges_lehmann([-value for value in values], 0.05, 0.001))

    assert close(after, Limits(-before.estimate, -before.high, -before.low))


@given(data=st.data(), values=PAIRS)
def test_the_order_of_pairs_does_not_matter(data: st.DataObject, values: list[float]) -> None:
    shuffled = data.draw(st.permutations(values))

    assert hodges_lehmann(shuffled, 0.01, 0.01) == hodges_lehmann(values, 0.01, 0.01)
    assert quantile(shuffled, 0.5, 0.05, 0.05) == quantile(values, 0.5, 0.05, 0.05)


@given(data=st.data(), groups=GROUPS)
def test_the_order_of_prompts_and_rounds_does_not_matter(data: st.DataObject, groups: list[list[float]]) -> None:
    shuffled = [data.draw(st.permutations(group)) for group in data.draw(st.permutations(groups))]

    for question in (within_prompts, over_prompts):
        assert close(limits(question(shuffled, 0.01, 0.05)), limits(question(groups, 0.01, 0.05)))


@given(values=PAIRS, groups=GROUPS, counts=COUNTS, alphas=st.tuples(ALPHAS, ALPHAS))
def test_a_smaller_error_rate_never_narrows(
    values: list[float], groups: list[list[float]], counts: list[tuple[int, int]], alphas: tuple[float, float]
) -> None:
    strict, lax = sorted(alphas)
    hits, trials = [h for h, _ in counts], [t for _, t in counts]
    questions = (
        lambda a: hodges_lehmann(values, a, a),
        lambda a: within_prompts(groups, a, a),
        lambda a: over_prompts(groups, a, a),
        lambda a: between_runs(groups, groups[::-1], a, a),
        lambda a: pooled_rate(hits, trials, a, a),
        lambda a: paired_rate_change(counts, counts[::-1], a, a),
    )
    for question in questions:
        wide, narrow = limits(question(strict)), limits(question(lax))
        assert wide.low <= narrow.low
        assert wide.high >= narrow.high
        assert narrow.low <= narrow.estimate <= narrow.high


@given(counts=COUNTS)
def test_no_agreement_of_conversations_makes_a_rate_certain(counts: list[tuple[int, int]]) -> None:
    found = limits(pooled_rate([h for h, _ in counts], [t for _, t in counts], 0.05, 0.05))

    assert found.low < found.estimate < found.high


@settings(max_examples=200)
@given(values=ANY_VALUES, alpha=ALPHAS)
def test_nothing_raises_or_warns_whatever_the_data(values: list[float], alpha: float) -> None:
    answers = [
        hodges_lehmann(values, alpha, alpha),
        quantile(values, 0.9, alpha, alpha),
        within_prompts([values, values[:1]], alpha, alpha),
        over_prompts([values, values[:2]], alpha, alpha),
        between_runs([values], [values], alpha, alpha),
    ]
    for answer in answers:
        assert isinstance(answer, CannotTell) or not math.isnan(answer.estimate)


@pytest.mark.parametrize("n", range(1, 21))
@pytest.mark.parametrize("alpha", [0.4, 0.1, 0.05, 0.01, 0.001])
def test_critical_ranks_are_those_of_the_exact_signed_rank_law(n: int, alpha: float) -> None:
    rank = critical_rank(n, alpha)

    assert rank < 0 or p_at_most(n, rank) <= alpha
    assert p_at_most(n, rank + 1) > alpha


def p_at_most(n: int, rank: int) -> float:
    """P(W+ <= rank), from scipy's exact test on a sample whose positive ranks add up to ``rank``."""
    positive, left = set(), rank
    for candidate in range(n, 0, -1):
        if candidate <= left:
            positive.add(candidate)
            left -= candidate
    sample = [r if r in positive else -r for r in range(1, n + 1)]
    return float(stats.wilcoxon(sample, alternative="less", method="exact").pvalue)
