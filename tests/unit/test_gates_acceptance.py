"""Verdicts on acceptance: integers on greedy runs, clustered limits elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pytest_specgate.records import Counts, Outcome, Samples
from tests.unit.judging import BROKEN, ELSEWHERE, gate, samples, verdict


def run(accepted: Sequence[int], **changes: Any) -> Samples:
    """One prompt each: two equal rounds with 4 target forwards, 16 tokens drafted and 10 tested."""
    return samples(counts=[[Counts(4, 4, 16, 10, a)] * 2 for a in accepted], **changes)


SEVEN = run([7] * 4)


@pytest.mark.parametrize(
    ("metric", "limit", "outcome", "reason"),
    [
        ("conditional_acceptance", ">=70%", Outcome.PASS, "conditional acceptance 70.0% keeps the limit >=70%"),
        ("conditional_acceptance", ">=70.1%", Outcome.FAIL, "conditional acceptance 70.0% is below the limit >=70.1%"),
        ("conditional_acceptance", "<=60%", Outcome.FAIL, "conditional acceptance 70.0% is above the limit <=60%"),
        ("acceptance_rate", ">=40%", Outcome.PASS, "acceptance rate 43.8% keeps the limit >=40%"),
        ("acceptance_length", "==2.75", Outcome.PASS, "acceptance length 2.75 keeps the limit ==2.75"),
    ],
)
def test_greedy_limits_are_exact(metric: str, limit: str, outcome: Outcome, reason: str) -> None:
    said = verdict(gate(metric, limit=limit), SEVEN)

    assert (said.outcome, said.reason) == (outcome, reason)


@pytest.mark.parametrize(
    ("spec", "now", "outcome", "reason"),
    [
        (
            {"max_drop": "0%"},
            7,
            Outcome.PASS,
            "conditional acceptance 70.0% equals the stored 70.0% (allowed drop: 0%)",
        ),
        (
            {"max_drop": "0.05"},
            6,
            Outcome.FAIL,
            "conditional acceptance 60.0% is 10.0 points below the stored 70.0% (allowed drop: 0.05)",
        ),
        # 0.6 − 0.7 is a little more than 0.1 in binary fractions; it is an allowed drop all the same.
        (
            {"max_drop": "0.1"},
            6,
            Outcome.PASS,
            "conditional acceptance 60.0% is 10.0 points below the stored 70.0% (allowed drop: 0.1)",
        ),
        (
            {"max_rise": "10%"},
            8,
            Outcome.FAIL,
            "conditional acceptance 80.0% is 10.0 points above the stored 70.0% (allowed rise: 10%)",
        ),
    ],
)
def test_greedy_changes_are_exact(spec: dict[str, str], now: int, outcome: Outcome, reason: str) -> None:
    said = verdict(gate("conditional_acceptance", **spec), run([now] * 4), SEVEN)

    assert (said.outcome, said.reason) == (outcome, reason)
    assert said.warnings == ()


def test_an_acceptance_length_changes_by_tokens() -> None:
    said = verdict(gate("acceptance_length", max_rise="1%"), run([8] * 4), SEVEN)

    assert said.reason == "acceptance length 3.00 is 0.25 tokens above the stored 2.75 (allowed rise: 1%)"


def test_changed_texts_are_judged_by_their_scatter() -> None:
    said = verdict(gate("conditional_acceptance", max_drop="0.05"), run([6] * 4, digests="abcd"), SEVEN)

    assert said.outcome is Outcome.INCONCLUSIVE
    assert said.reason.startswith("conditional acceptance 60.0% is 10.0 points [")
    assert ", too uncertain to judge; " in said.reason
    assert said.warnings == ("4 of 4 texts differ from the baseline's, p0 first: their counts scatter",)


def test_many_changed_texts_that_lost_much_fail() -> None:
    said = verdict(
        gate("conditional_acceptance", max_drop="0.05"), run([3] * 32, digests=["other"] * 32), run([8] * 32)
    )

    assert said.outcome is Outcome.FAIL
    assert said.reason == (
        "conditional acceptance 30.0% is 50.0 points [40.6 points, 59.4 points] below the stored 80.0% "
        "(allowed drop: 0.05)"
    )


def test_one_changed_text_is_named_and_the_others_are_judged() -> None:
    now = run([7, 7, 7, 1], digests=["same", "same", "same", "other"])

    said = verdict(gate("conditional_acceptance", max_drop="0.05"), now, SEVEN)

    assert said.outcome is Outcome.PASS
    assert said.reason == "conditional acceptance 70.0% equals the stored 70.0% (allowed drop: 0.05)"
    assert said.warnings == ("1 of 4 texts differ from the baseline's, p3 first: their counts scatter",)


@pytest.mark.parametrize(
    ("unchanged", "changed", "outcome"),
    [(7, 7, Outcome.PASS), (7, 10, Outcome.PASS), (7, 1, Outcome.FAIL), (5, 7, Outcome.FAIL)],
)
def test_a_few_changed_texts_excuse_no_others_and_count_if_they_prove_a_loss(
    unchanged: int, changed: int, outcome: Outcome
) -> None:
    now = run([unchanged] * 10 + [changed] * 6, digests=["same"] * 10 + ["other"] * 6)

    assert verdict(gate("conditional_acceptance", max_drop="0.05"), now, run([7] * 16)).outcome is outcome


def test_a_text_without_a_digest_is_not_taken_for_the_same() -> None:
    said = verdict(
        gate("conditional_acceptance", max_drop="0.05"), run([6] * 4, digests=[""] * 4), run([7] * 4, digests=[""] * 4)
    )

    assert said.outcome is Outcome.INCONCLUSIVE


def test_a_greedy_run_that_does_not_repeat_itself_has_scatter() -> None:
    now = samples(counts=[[Counts(4, 4, 16, 10, 6), Counts(4, 4, 16, 10, 8)]] * 4)

    said = verdict(gate("conditional_acceptance", limit=">=69%"), now)

    assert said.outcome is Outcome.INCONCLUSIVE


def test_sampled_runs_have_scatter() -> None:
    said = verdict(gate("conditional_acceptance", limit=">=69%"), run([5, 6, 7, 8, 9], greedy=False))

    assert said.outcome is Outcome.INCONCLUSIVE
    assert said.reason == (
        "conditional acceptance 70.0% [19.3%, 100.0%] straddles the limit >=69%; "
        "with this noise 5 conversations resolve no difference below 21.5%"
    )


def test_sampled_runs_far_from_the_limit_are_decided() -> None:
    now = run([5, 6, 7, 8, 9] * 4, greedy=False)

    assert verdict(gate("conditional_acceptance", limit=">=50%"), now).outcome is Outcome.PASS
    assert verdict(gate("conditional_acceptance", limit=">=90%"), now).outcome is Outcome.FAIL


def test_one_sampled_conversation_decides_nothing() -> None:
    said = verdict(gate("conditional_acceptance", limit=">=69%"), run([5], greedy=False))

    assert said.outcome is Outcome.INCONCLUSIVE
    assert said.reason == (
        "conditional acceptance: one conversation says nothing about others; needed: 2 conversations, better 16"
    )


@pytest.mark.parametrize("asked", [{"limit": ">=69%"}, {"max_drop": "0.05"}])
def test_counters_of_all_requests_together_are_one_observation_of_however_many_prompts(asked: dict[str, str]) -> None:
    counts = [[Counts(16, 16, 64, 40, 28)], *([[Counts(0, 0, 0, 0, 0)]] * 3)]
    now = samples(counts=counts, greedy=False, digests=[""] * 4)

    said = verdict(gate("conditional_acceptance", **asked), now, now)

    assert said.outcome is Outcome.INCONCLUSIVE
    assert said.reason == (
        "conditional acceptance: counters of all requests that ran together are one observation; "
        "needed: acceptance told of each request, or concurrency 1"
    )


@pytest.mark.parametrize(
    ("metric", "counts", "instead"),
    [
        ("conditional_acceptance", Counts(8, None, 24, None, 6), "acceptance_rate or acceptance_length"),
        ("conditional_acceptance", Counts(8, None, None, None, 6), "acceptance_length"),
        ("acceptance_rate", Counts(8, None, None, None, 6), "acceptance_length"),
    ],
)
def test_what_totals_do_not_tell_is_unmeasured_and_what_they_tell_is_named(
    metric: str, counts: Counts, instead: str
) -> None:
    said = verdict(gate(metric, limit=">=10%"), samples(counts=[[counts]]))

    assert said.outcome is Outcome.ERROR
    assert said.reason == f"{metric}: not measured by this engine (e)"
    assert said.advice == f"gate {instead}, which it tells, or use an engine that tells its rounds"


@pytest.mark.parametrize(
    ("counts", "reason", "advice"),
    [
        (
            [],
            "acceptance_rate: not measured by this engine (e)",
            "remove the gate, or use an engine that tells its rounds",
        ),
        (
            [[Counts(5, 0, 0, 0, 0)]],
            "nothing was drafted: speculation never engaged",
            "check the candidate's method and its settings",
        ),
        (
            [[Counts(0, 0, 0, 0, 0)]],
            "acceptance_rate: no whole round was counted",
            "raise max_tokens: every round was the last one of its text",
        ),
    ],
)
def test_nothing_to_count_is_an_error(counts: list[list[Counts]], reason: str, advice: str) -> None:
    said = verdict(gate("acceptance_rate", limit="<=100%"), samples(counts=counts))

    assert (said.outcome, said.reason, said.advice) == (Outcome.ERROR, reason, advice)


@pytest.mark.parametrize("metric", ["conditional_acceptance", "acceptance_length"])
def test_plain_decoding_passes_no_gate(metric: str) -> None:
    assert verdict(gate(metric, limit=">=0"), samples(counts=[[Counts(5, 0, 0, 0, 0)]])).outcome is Outcome.ERROR


def test_counts_of_some_prompts_only_are_an_error() -> None:
    said = verdict(gate("conditional_acceptance", limit=">=10%"), samples(counts=[[Counts(4, 4, 16, 10, 7)], [], []]))

    assert said.outcome is Outcome.ERROR
    assert said.reason == "conditional_acceptance: 2 of 3 prompts came without rounds, p1 first"
    assert said.advice == "have the engine tell the rounds of all ranks and replicas"


def test_a_baseline_without_counts_is_an_error() -> None:
    said = verdict(gate("acceptance_rate", max_drop="5%"), SEVEN, samples({"speedup": [[0.5]] * 4}))

    assert (said.outcome, said.reason) == (
        Outcome.ERROR,
        "the baseline for e::short-t0-c1 holds no acceptance_rate of these prompts",
    )


def test_a_baseline_from_elsewhere_is_compared_and_named() -> None:
    said = verdict(gate("acceptance_rate", max_drop="5%"), SEVEN, SEVEN, stored_at=ELSEWHERE)

    assert said.outcome is Outcome.PASS
    assert said.warnings == ("compared with a baseline from nvidia-h100-x2-bfloat16",)


def test_a_slow_machine_does_not_excuse_acceptance() -> None:
    assert verdict(gate("acceptance_rate", limit=">=90%"), SEVEN, findings=(BROKEN,)).outcome is Outcome.FAIL
