"""Verdicts on ratios of interleaved arms, word for word."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pytest_specgate.records import Interval, Outcome, Samples
from tests.unit.judging import BROKEN, ELSEWHERE, HELD, gate, samples, spread, verdict

ELSEWHERE_REASON = (
    "the baseline is from nvidia-h100-x2-bfloat16; "
    "run --specgate-update --specgate-update-only new to record one for this machine"
)


def speedup(level: float, **shape: Any) -> Samples:
    return samples({"speedup": spread(math.log(level), **shape)})


BASELINE = samples({"speedup": [[math.log(1.8)] * 16] * 16})


@pytest.mark.parametrize(
    ("limit", "outcome", "reason"),
    [
        (">=1.5x", Outcome.PASS, "speedup 1.800x [1.792x, 1.808x] keeps the limit >=1.5x"),
        (">=1.79x", Outcome.PASS, "speedup 1.800x [1.792x, 1.808x] keeps the limit >=1.79x"),
        (">=2x", Outcome.FAIL, "speedup 1.800x [1.784x, 1.816x] is below the limit >=2x"),
        ("1x..1.6x", Outcome.FAIL, "speedup 1.800x [1.784x, 1.816x] is above the limit 1x..1.6x"),
        (
            ">=1.81x",
            Outcome.INCONCLUSIVE,
            (
                "speedup 1.800x [1.784x, 1.816x] straddles the limit >=1.81x; "
                "about 21 rounds would decide (this run had 8)"
            ),
        ),
        (
            ">=1.8x",
            Outcome.INCONCLUSIVE,
            (
                "speedup 1.800x [1.784x, 1.816x] straddles the limit >=1.8x; "
                "with this noise 8 rounds resolve no difference below 0.5%"
            ),
        ),
    ],
)
def test_limits(limit: str, outcome: Outcome, reason: str) -> None:
    said = verdict(gate("speedup", limit=limit), speedup(1.8))

    assert (said.outcome, said.reason) == (outcome, reason)


def test_more_rounds_do_decide_what_was_said_to_need_them() -> None:
    said = verdict(gate("speedup", limit=">=1.81x"), speedup(1.8, rounds=21))

    assert said.outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("level", "outcome", "reason"),
    [
        (1.8, Outcome.PASS, "speedup 1.800x is 0.0% [-1.1%, 1.1%] above the stored 1.800x (allowed drop: 5%)"),
        (1.62, Outcome.FAIL, "speedup 1.620x is 10.0% [9.0%, 11.0%] below the stored 1.800x (allowed drop: 5%)"),
        (
            1.71,
            Outcome.INCONCLUSIVE,
            (
                "speedup 1.710x is 5.0% [3.9%, 6.1%] below the stored 1.800x (allowed drop: 5%), "
                "too uncertain to judge; with this noise 8 rounds resolve no difference below 1.1%"
            ),
        ),
    ],
)
def test_drops(level: float, outcome: Outcome, reason: str) -> None:
    said = verdict(gate("speedup", max_drop="5%"), speedup(level), BASELINE)

    assert (said.outcome, said.reason) == (outcome, reason)
    assert said.baseline is not None
    assert said.baseline.value == pytest.approx(1.8)


def test_a_rise_is_judged_if_it_is_asked_for() -> None:
    said = verdict(gate("speedup", limit=">=1x", max_rise="5%"), speedup(2.1), BASELINE)

    assert said.outcome is Outcome.FAIL
    assert said.reason == "speedup 2.100x is 16.7% [15.4%, 18.0%] above the stored 1.800x (allowed rise: 5%)"
    assert [check.outcome for check in said.checks] == [Outcome.PASS, Outcome.FAIL]
    assert verdict(gate("speedup", max_drop="5%"), speedup(2.1), BASELINE).outcome is Outcome.PASS


def test_drift_is_judged_prompt_by_prompt() -> None:
    levels = [1.0, 4.0] * 8
    before = samples({"speedup": [[math.log(level)] * 16 for level in levels]})
    now = [[math.log(level) + v for v in row] for level, row in zip(levels, spread(math.log(0.9)))]

    said = verdict(gate("speedup", max_drop="5%"), samples({"speedup": now}), before)

    assert said.reason == "speedup 1.800x is 10.0% [9.0%, 11.0%] below the stored 2.000x (allowed drop: 5%)"


def test_prompts_that_the_baseline_lacks_are_left_out_of_the_drift() -> None:
    now = speedup(1.8).prompts
    before = samples({"speedup": [[math.log(1.8)] * 16] * 8})

    said = verdict(gate("speedup", max_drop="5%"), Samples("c", True, now), before)

    assert said.outcome is Outcome.PASS
    assert said.checks[0].interval is not None


def test_the_population_question_needs_prompts_that_agree() -> None:
    levels = [math.log(1.2), math.log(1.5), math.log(1.8), math.log(2.7)]
    now = samples({"speedup": [[level - 0.01, level + 0.01] * 4 for level in levels]})

    assert verdict(gate("speedup", limit=">=1.5x"), now).outcome is Outcome.PASS
    said = verdict(gate("speedup", limit=">=1.5x", population=True), now)
    assert said.outcome is Outcome.INCONCLUSIVE
    assert said.reason.endswith("about 28 prompts would decide (this run had 4)")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([[0.5], [0.6]], "speedup: one round has no scatter to judge by; needed: 2 rounds"),
        (
            [[0.5, 0.9]],
            "speedup: so few pairs leave the ratio open by more than 100x either way; needed: about 3 rounds",
        ),
    ],
)
def test_too_few_pairs_decide_nothing(values: list[list[float]], reason: str) -> None:
    said = verdict(gate("speedup", limit=">=1.5x"), samples({"speedup": values}))

    assert (said.outcome, said.reason) == (Outcome.INCONCLUSIVE, reason)
    assert said.measured is not None


def test_one_prompt_can_be_judged_but_not_as_one_of_many() -> None:
    now = speedup(1.8, prompts=1, rounds=16)

    assert verdict(gate("speedup", limit=">=1.5x"), now).outcome is Outcome.PASS
    said = verdict(gate("speedup", limit=">=1.5x", population=True), now)
    assert said.reason == "speedup: one prompt says nothing about prompts like it; needed: 2 prompts, better 16"


def test_too_few_pairs_for_a_drift_say_how_many_would_do() -> None:
    said = verdict(gate("speedup", max_drop="5%"), samples({"speedup": [[0.5, 0.6]]}), BASELINE)

    assert said.outcome is Outcome.INCONCLUSIVE
    assert said.reason == "speedup: 2 pairs cannot reach an error of 0.001; needed: 10 pairs"


def test_a_value_that_is_no_number_is_an_error() -> None:
    said = verdict(gate("speedup", limit=">=1.5x"), samples({"speedup": [[0.5, math.nan]]}))

    assert (said.outcome, said.reason) == (Outcome.ERROR, "speedup of p0 is not a finite number")
    assert said.advice == "look at the clock of the engine's adapter"


def test_what_was_not_measured_is_an_error() -> None:
    said = verdict(gate("decode_speedup", limit=">=1.5x"), speedup(1.8))

    assert (said.outcome, said.reason) == (Outcome.ERROR, "decode_speedup: not measured by this engine (e)")
    assert said.advice == "remove the gate, or use an engine that gives it"


def test_a_baseline_without_the_metric_is_an_error() -> None:
    said = verdict(gate("speedup", max_drop="5%"), speedup(1.8), samples({}))

    assert (said.outcome, said.reason) == (
        Outcome.ERROR,
        "the baseline for e::short-t0-c1 holds no speedup of these prompts",
    )


def test_a_baseline_from_elsewhere_decides_no_drift() -> None:
    said = verdict(gate("speedup", max_drop="5%"), speedup(1.62), BASELINE, stored_at=ELSEWHERE)

    assert (said.outcome, said.reason) == (Outcome.INCONCLUSIVE, ELSEWHERE_REASON)


def test_a_limit_is_judged_whatever_the_baseline_s_place() -> None:
    said = verdict(gate("speedup", limit=">=2x", max_drop="5%"), speedup(1.8), BASELINE, stored_at=ELSEWHERE)

    assert said.outcome is Outcome.FAIL
    assert [check.outcome for check in said.checks] == [Outcome.FAIL, Outcome.INCONCLUSIVE]


def test_a_broken_environment_decides_nothing_and_hides_no_number() -> None:
    said = verdict(gate("speedup", limit=">=2x", max_drop="5%"), speedup(1.62), BASELINE, findings=(HELD, BROKEN))

    assert said.outcome is Outcome.INCONCLUSIVE
    assert said.reason == "environment rule 'throttling' did not hold: the clock fell by 30 %"
    assert [(check.kind, check.outcome) for check in said.checks] == [
        ("limit", Outcome.INCONCLUSIVE),
        ("max_drop", Outcome.INCONCLUSIVE),
    ]
    assert isinstance(said.measured, Interval)
    assert said.measured.value == pytest.approx(1.62)


def test_a_rule_that_held_stops_nothing() -> None:
    assert verdict(gate("speedup", limit=">=1.5x"), speedup(1.8), findings=(HELD,)).outcome is Outcome.PASS


def test_truncated_texts_are_warned_about() -> None:
    now = samples({"speedup": spread(math.log(1.8)), "length_ratio": [[0.5]] * 16})

    assert verdict(gate("speedup", limit=">=1.5x"), now).warnings == (
        "the candidate arm's texts are 0.50x as long as the reference arm's: times do not compare",
    )


def test_stalls_of_single_calls_are_warned_about() -> None:
    calm, stalling = [[1.0] * 8] * 16, [[1.0] * 6 + [2.0] * 2] * 16
    now = samples({"speedup": spread(math.log(1.8)), "tpot": stalling, "reference_tpot": calm})

    assert verdict(gate("speedup", limit=">=1.5x"), now).warnings == (
        (
            "the candidate arm stalls: 32 of 128 calls are more than 15% slower than their prompt's median "
            "(reference arm: 0 of 128)"
        ),
    )


def stalling(slow: int, loss: float = 0.7) -> Samples:
    """128 pairs, the candidate arm of ``slow`` of them much slower."""
    calm = spread(math.log(1.8), noise=0.01)
    rows = [[v - loss * (16 * r + i < slow) for r, v in enumerate(row)] for i, row in enumerate(calm)]
    return samples({"speedup": rows})


def test_a_drop_that_sits_in_a_few_calls_fails() -> None:
    said = verdict(gate("speedup", max_drop="5%"), stalling(16), BASELINE)

    assert said.outcome is Outcome.FAIL
    assert said.reason.endswith(
        "(allowed drop: 5%); but the mean of all pairs is 8.4% below: "
        "16 of 128 pairs are more than 15% below the typical one (stored: 0 of 256), so the candidate arm stalls"
    )


def test_a_drop_in_too_few_calls_to_tell_from_chance_stays_open() -> None:
    said = verdict(gate("speedup", max_drop="5%"), stalling(6, loss=1.4), BASELINE)

    assert said.outcome is Outcome.INCONCLUSIVE
    assert said.checks[0].needed == "more rounds tell stalls from chance"


def test_a_candidate_that_always_stalled_has_lost_nothing() -> None:
    assert verdict(gate("speedup", max_drop="5%"), stalling(16), stalling(16)).outcome is Outcome.PASS


def test_stalls_within_the_allowance_pass() -> None:
    assert verdict(gate("speedup", max_drop="10%"), stalling(16), BASELINE).outcome is Outcome.PASS


def test_requests_that_ran_together_count_once() -> None:
    alone = [[math.log(1.8) + d for d in (-0.03, 0.03, -0.03, 0.03)]] * 4
    together = samples({"speedup": alone, "block": [[0.0] * 4] * 4})

    wide, narrow = (
        verdict(gate("speedup", limit=">=1x"), of).measured for of in (together, samples({"speedup": alone}))
    )

    assert wide is not None
    assert narrow is not None
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_each_of_several_looks_may_err_less() -> None:
    one, four = (verdict(gate("speedup", limit=">=1x"), speedup(1.8), looks=looks).measured for looks in (1, 4))

    assert one is not None
    assert four is not None
    assert four.low < one.low
