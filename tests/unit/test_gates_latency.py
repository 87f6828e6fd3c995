"""Verdicts on times of the candidate arm: quantiles by order statistics, and a machine that is slower on both arms."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from pytest_specgate.codec import encode
from pytest_specgate.records import Outcome, Samples
from tests.unit.judging import BROKEN, ELSEWHERE, gate, samples, times, verdict


def tpot(level: float, reference: float = 0.04, **shape: Any) -> Samples:
    return samples({"tpot": times(level, **shape), "reference_tpot": times(reference, **shape)})


BASELINE = samples({"tpot": [[0.02] * 16] * 16, "reference_tpot": [[0.04] * 16] * 16})
SPREAD = samples({"tpot": times(0.02), "reference_tpot": times(0.04)})


@pytest.mark.parametrize(
    ("spec", "outcome", "reason"),
    [
        ({"limit": "<=25 ms"}, Outcome.PASS, "tpot 20 ms [19.89 ms, 20.11 ms] keeps the limit <=25 ms"),
        ({"limit": "<=15 ms"}, Outcome.FAIL, "tpot 20 ms [19.79 ms, 20.21 ms] is above the limit <=15 ms"),
        ({"limit": ">=25 ms"}, Outcome.FAIL, "tpot 20 ms [19.79 ms, 20.21 ms] is below the limit >=25 ms"),
        (
            {"limit": "<=20 ms"},
            Outcome.INCONCLUSIVE,
            (
                "tpot 20 ms [19.79 ms, 20.21 ms] straddles the limit <=20 ms; "
                "with this noise 128 requests resolve no difference below 1.0%"
            ),
        ),
        (
            {"limit": "<=25 ms", "statistic": "mean"},
            Outcome.PASS,
            "tpot mean 20.01 ms [19.92 ms, 20.1 ms] keeps the limit <=25 ms",
        ),
        # 128 requests cannot bound a 99th percentile from above, but well from below.
        (
            {"limit": "<=25 ms", "statistic": "p99"},
            Outcome.INCONCLUSIVE,
            (
                "tpot p99 21.37 ms [21.01 ms, ?] straddles the limit <=25 ms; "
                "at least 299 requests are needed (this run had 128)"
            ),
        ),
        (
            {"limit": "<=15 ms", "statistic": "p99"},
            Outcome.FAIL,
            "tpot p99 21.37 ms [21.01 ms, ?] is above the limit <=15 ms",
        ),
        (
            {"limit": ">=15 ms", "statistic": "p99"},
            Outcome.PASS,
            "tpot p99 21.37 ms [21.19 ms, ?] keeps the limit >=15 ms",
        ),
    ],
)
def test_limits(spec: dict[str, str], outcome: Outcome, reason: str) -> None:
    said = verdict(gate("tpot", **spec), SPREAD)

    assert (said.outcome, said.reason) == (outcome, reason)


def test_the_requests_that_are_asked_for_do_decide() -> None:
    short, enough = (
        verdict(gate("tpot", limit="<=25 ms", statistic="p99"), tpot(0.02, prompts=1, rounds=requests))
        for requests in (298, 299)
    )

    assert short.outcome is Outcome.INCONCLUSIVE
    assert enough.outcome is Outcome.PASS


@pytest.mark.parametrize("statistic", ["median", "mean", "p90", "p95", "p99"])
@pytest.mark.parametrize("size", [(1, 1), (1, 3), (2, 8), (16, 8), (16, 64)])
def test_no_verdict_holds_a_number_that_a_report_cannot(statistic: str, size: tuple[int, int]) -> None:
    now = tpot(0.02, prompts=size[0], rounds=size[1])

    said = verdict(gate("tpot", limit="<=25 ms", max_rise="5%", statistic=statistic), now, BASELINE)

    json.dumps(encode(said), allow_nan=False)


def test_an_open_side_is_shown_up_to_what_was_seen() -> None:
    now = tpot(0.02)

    said = verdict(gate("tpot", limit="<=25 ms", statistic="p99"), now)

    assert said.measured is not None
    assert said.measured.low == pytest.approx(0.02101, rel=1e-3)
    assert said.measured.high == max(v for prompt in now.prompts for v in prompt.series["tpot"])
    assert said.checks[0].interval is None


@pytest.mark.parametrize(
    ("spec", "rounds", "reason"),
    [
        ({}, 3, "tpot: 3 requests bound this quantile on neither side; needed: 10 requests"),
        (
            {"statistic": "p95"},
            3,
            (
                "tpot p95 20.53 ms [19.43 ms, ?] straddles the limit <=25 ms; "
                "at least 59 requests are needed (this run had 3)"
            ),
        ),
        ({"statistic": "mean"}, 1, "tpot mean: one round has no scatter to judge by; needed: 2 rounds"),
    ],
)
def test_too_few_requests_say_how_many_would_do(spec: dict[str, str], rounds: int, reason: str) -> None:
    said = verdict(gate("tpot", limit="<=25 ms", **spec), tpot(0.02, prompts=1, rounds=rounds))

    assert (said.outcome, said.reason) == (Outcome.INCONCLUSIVE, reason)


def test_a_throughput_is_a_rate() -> None:
    now = samples({"throughput": times(50)})

    said = verdict(gate("throughput", limit=">=60 tokens/s"), now)

    assert said.reason == "throughput 50.0 tokens/s [49.5 tokens/s, 50.5 tokens/s] is below the limit >=60 tokens/s"


@pytest.mark.parametrize(
    ("level", "statistic", "outcome", "reason"),
    [
        (0.02, "median", Outcome.PASS, "tpot 20 ms is 0.0% [-1.1%, 1.1%] above the stored 20 ms (allowed rise: 5%)"),
        (0.024, "median", Outcome.FAIL, "tpot 24 ms is 20.0% [18.7%, 21.4%] above the stored 20 ms (allowed rise: 5%)"),
        (
            0.024,
            "mean",
            Outcome.FAIL,
            "tpot mean 24 ms is 20.0% [19.3%, 20.7%] above the stored 20 ms (allowed rise: 5%)",
        ),
        (
            0.024,
            "p95",
            Outcome.FAIL,
            "tpot p95 25.19 ms is 25.9% [24.1%, ?] above the stored 20 ms (allowed rise: 5%)",
        ),
    ],
)
def test_rises(level: float, statistic: str, outcome: Outcome, reason: str) -> None:
    said = verdict(gate("tpot", max_rise="5%", statistic=statistic), tpot(level), BASELINE)

    assert (said.outcome, said.reason) == (outcome, reason)


def test_a_rise_of_the_limit_itself_is_open() -> None:
    said = verdict(gate("tpot", max_rise="5%"), tpot(0.021), BASELINE)

    assert said.outcome is Outcome.INCONCLUSIVE
    assert ", too uncertain to judge; " in said.reason


def test_a_drop_of_a_time_is_judged_if_it_is_asked_for() -> None:
    assert verdict(gate("tpot", max_drop="5%"), tpot(0.016), BASELINE).outcome is Outcome.FAIL
    assert verdict(gate("tpot", max_rise="5%"), tpot(0.016), BASELINE).outcome is Outcome.PASS


def test_a_machine_that_is_slower_on_both_arms_is_nobody_s_regression() -> None:
    said = verdict(gate("tpot", max_rise="5%"), tpot(0.024, reference=0.048), BASELINE)

    assert said.outcome is Outcome.INCONCLUSIVE
    assert said.reason == (
        "tpot 24 ms is 20.0% [18.7%, 21.4%] above the stored 20 ms (allowed rise: 5%), "
        "but the reference arm moved too: the whole machine is 20.0% slower than when the baseline was recorded"
    )


@pytest.mark.parametrize("reference", [0.04, 0.036, 0.042])
def test_a_machine_that_is_not_slower_enough_excuses_nothing(reference: float) -> None:
    assert verdict(gate("tpot", max_rise="5%"), tpot(0.024, reference=reference), BASELINE).outcome is Outcome.FAIL


def test_a_limit_is_not_excused_by_the_machine() -> None:
    now = tpot(0.024, reference=0.048)

    assert verdict(gate("tpot", limit="<=22 ms"), now, BASELINE).outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (tpot(0.024, prompts=2, rounds=2), "tpot: 4 pairs cannot reach an error of 0.001; needed: 10 pairs"),
        (
            samples({"tpot": [[0.0] * 8] * 16}),
            "tpot: a time is not positive; needed: a clock that resolves it",
        ),
    ],
)
def test_a_rise_that_cannot_be_told_is_open(now: Samples, reason: str) -> None:
    said = verdict(gate("tpot", max_rise="5%"), now, BASELINE)

    assert (said.outcome, said.reason) == (Outcome.INCONCLUSIVE, reason)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_value_that_is_no_number_is_an_error(value: float) -> None:
    said = verdict(gate("tpot", limit="<=25 ms"), samples({"tpot": [[0.02, value]]}))

    assert (said.outcome, said.reason) == (Outcome.ERROR, "tpot of p0 is not a finite number")


def test_what_was_not_measured_is_an_error() -> None:
    said = verdict(gate("ttft", limit="<=1 s"), SPREAD)

    assert (said.outcome, said.reason) == (Outcome.ERROR, "ttft: not measured by this engine (e)")


def test_what_was_not_stored_is_an_error() -> None:
    said = verdict(gate("ttft", max_rise="5%"), samples({"ttft": times(0.1)}), BASELINE)

    assert (said.outcome, said.reason) == (
        Outcome.ERROR,
        "the baseline for e::short-t0-c1 holds no ttft of these prompts",
    )


def test_times_of_another_machine_decide_nothing() -> None:
    said = verdict(gate("tpot", max_rise="5%"), tpot(0.024), BASELINE, stored_at=ELSEWHERE)

    assert said.outcome is Outcome.INCONCLUSIVE
    assert said.reason.startswith("the baseline is from nvidia-h100-x2-bfloat16; ")


def test_a_broken_environment_decides_nothing() -> None:
    said = verdict(gate("tpot", limit="<=1 ms", max_rise="5%"), tpot(0.024), BASELINE, findings=(BROKEN,))

    assert {check.outcome for check in said.checks} == {Outcome.INCONCLUSIVE}
    assert said.reason == "environment rule 'throttling' did not hold: the clock fell by 30 %"
