"""The slope of acceptance over a context: judged within prompts, over conversations, against limits and a baseline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from pytest_specgate.records import Arm, Chunk, Counts, Measurement, Outcome, Pair, Place, Round, Samples, Trace
from pytest_specgate.report import positions
from pytest_specgate.samples import reduce
from pytest_specgate.samples.acceptance import SLOPE, WEIGHT
from pytest_specgate.samples.values import values
from tests.unit.judging import gate, samples, verdict

#: Slopes of sixteen conversations, about -0.04; each has 400 tested tokens spread over three doublings.
SLOPES = [-0.04 + 0.01 * math.sin(n) for n in range(16)]


def run(
    slopes: Sequence[float], *, weight: float = 300.0, rounds: int = 1, digests: Sequence[str] = (), greedy: bool = True
) -> Samples:
    series = {SLOPE: [[slope] * rounds for slope in slopes], WEIGHT: [[weight] * rounds] * len(slopes)}
    counts = [[Counts(200, 200, 400, 400, 240)] * rounds] * len(slopes)
    return samples(series, counts, digests=digests, greedy=greedy)


def test_a_decay_beyond_the_limit_fails_and_one_within_it_passes() -> None:
    worse, fine = (verdict(gate(SLOPE, limit=limit), run(SLOPES)) for limit in (">=-0.01", ">=-0.1"))
    assert (worse.outcome, fine.outcome) == (Outcome.FAIL, Outcome.PASS)
    assert worse.reason.startswith("acceptance slope -3.88 points [")
    assert worse.reason.endswith("is below the limit >=-0.01")
    assert worse.advice == (
        "look at the draft's window, its cache after rollbacks and its positions "
        "beyond the length that it was trained on"
    )


def test_few_conversations_are_inconclusive_and_say_how_many_would_decide() -> None:
    said = verdict(gate(SLOPE, limit=">=-0.02"), run(SLOPES[:3], weight=20))
    assert said.outcome is Outcome.INCONCLUSIVE
    assert "conversations" in said.reason


def test_one_conversation_says_nothing() -> None:
    said = verdict(gate(SLOPE, limit=">=-0.02"), run(SLOPES[:1]))
    assert (said.outcome, said.reason) == (
        Outcome.INCONCLUSIVE,
        (
            "acceptance slope: too few conversations span different contexts; "
            "needed: 2 conversations of several depths each"
        ),
    )


def test_a_greedy_engine_proves_nothing_by_repeating_itself() -> None:
    once, often = (verdict(gate(SLOPE, limit=">=-0.02"), run(SLOPES, rounds=rounds)) for rounds in (1, 8))
    assert once.measured == often.measured
    drawn = verdict(gate(SLOPE, limit=">=-0.02"), run(SLOPES, rounds=8, greedy=False))
    assert drawn.measured.high - drawn.measured.low < once.measured.high - once.measured.low


def test_the_texts_of_the_baseline_are_compared_without_error() -> None:
    before, now = run(SLOPES), run([slope - 0.015 for slope in SLOPES])
    kept = verdict(gate(SLOPE, max_drop="0.02"), now, before)
    lost = verdict(gate(SLOPE, max_drop="0.01"), now, before)
    assert (kept.outcome, lost.outcome) == (Outcome.PASS, Outcome.FAIL)
    assert lost.reason == (
        "acceptance slope -5.38 points is 1.50 points below the stored -3.88 points (allowed drop: 0.01)"
    )


def test_other_texts_are_compared_by_conversation() -> None:
    names = [f"x{n}" for n in range(16)]
    before = run([-0.3 + 0.04 * n for n in range(16)], weight=3e4)
    now = run([-0.4 + 0.04 * n for n in range(16)], weight=3e4, digests=names)
    said = verdict(gate(SLOPE, max_drop="0.05"), now, before)
    assert said.outcome is Outcome.FAIL
    assert "10.00 points [" in said.reason
    same = verdict(gate(SLOPE, max_drop="0.05"), run([-0.3 + 0.04 * n for n in range(16)], digests=names), before)
    assert same.outcome is not Outcome.FAIL


def test_slopes_of_some_prompts_only_are_an_error() -> None:
    whole = run([-0.01] * 3)
    part = replace(whole, prompts=(*whole.prompts[:2], replace(whole.prompts[2], series={}, counts=())))
    said = verdict(gate("acceptance_slope", limit=">=-0.02"), part)
    assert said.outcome is Outcome.ERROR
    assert said.reason == "acceptance_slope: 1 of 3 prompts came without rounds, p2 first"


def test_a_baseline_without_slopes_is_none() -> None:
    said = verdict(gate(SLOPE, max_drop="0.05"), run(SLOPES), samples({}, [[Counts(1, 1, 1, 1, 1)]] * 16))
    assert (said.outcome, said.reason) == (
        Outcome.ERROR,
        "the baseline for e::short-t0-c1 holds no acceptance_slope of these prompts",
    )


@pytest.mark.parametrize("series", [{SLOPE: [[math.nan]], WEIGHT: [[1.0]]}, {SLOPE: [[0.1]], WEIGHT: [[-1.0]]}])
def test_a_slope_that_is_no_number_is_an_error(series: dict[str, list[list[float]]]) -> None:
    said = verdict(gate(SLOPE, limit=">=0"), samples(series))
    assert (said.outcome, said.reason) == (Outcome.ERROR, "acceptance_slope of p0 is no slope of counted tokens")


# --- from traces ------------------------------------------------------------------------------------------------------


def trace(arm: Arm, accepted: Sequence[int]) -> Trace:
    """Rounds of one draft token each; the prompt's 15 tokens and the prefill's one stand before the first."""
    rounds = tuple(Round(1, 1, kept, kept + 1, 10 + n) for n, kept in enumerate(accepted))
    made = 1 + sum(r.emitted for r in rounds)
    chunks = (Chunk(5, 1), *(Chunk(r.t_ns, r.emitted) for r in rounds))
    shown = rounds if arm is Arm.CANDIDATE else None
    return Trace("p", arm, tuple(range(made)), "", 15, 0, chunks, "length", shown, prefill_tokens=1)


def measured(*texts: Sequence[int]) -> Measurement:
    pairs = tuple(
        Pair(f"p{n}", f"p{n}", 0, "AB", *(replace(trace(arm, accepted), prompt=f"p{n}") for arm in Arm))
        for n, accepted in enumerate(texts)
    )
    return Measurement("e::c", "e", Place("cpu", 1, "float64"), {}, {}, pairs, greedy=True)


def test_the_slope_of_a_text_is_that_of_its_rounds_weighted_by_tokens_tested() -> None:
    # Contexts 16, 18, 20, ... while all is accepted, then steps of one: a text of two halves.
    found = reduce(measured([1] * 8 + [0] * 32)).prompts[0].series
    depths = [math.log2(16 + 2 * n) for n in range(8)] + [math.log2(32 + n) for n in range(32)]
    mean = sum(depths) / 40
    weight = sum((depth - mean) ** 2 for depth in depths)
    slope = sum((depth - mean) * (n < 8) for n, depth in enumerate(depths)) / weight
    assert found[WEIGHT] == pytest.approx((weight,))
    assert found[SLOPE] == pytest.approx((slope,))
    assert slope < -0.5


def test_a_text_of_one_round_has_no_slope() -> None:
    assert SLOPE not in reduce(measured([1])).prompts[0].series


def test_gate_value_and_page_agree() -> None:
    taken = measured([1, 1, 0, 1, 0, 0, 0, 1], [1, 1, 1, 0, 0], [0, 1, 0, 1, 1, 0])
    reduced = reduce(taken)
    said, shown = verdict(gate(SLOPE, limit=">=-1"), reduced), positions.decay(taken)
    assert said.measured is not None
    assert shown is not None
    assert said.measured.value == pytest.approx(shown.value) == pytest.approx(values(reduced)[SLOPE])
