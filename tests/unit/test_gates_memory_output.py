"""Verdicts on memory peaks and on what was said."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_specgate.records import Outcome, Samples
from tests.unit.judging import BROKEN, ELSEWHERE, gate, samples, verdict

GIB = 2.0**30


def peaks(**scalars: float) -> Samples:
    return samples(scalars=scalars)


def said_of(metric: str, values: list[float], **changes: Any) -> Samples:
    """One prompt for each value."""
    return samples({metric: [[value] for value in values]}, **changes)


# --- memory ---


@pytest.mark.parametrize(
    ("value", "outcome", "reason"),
    [
        (6 * GIB, Outcome.PASS, "vram 6 GiB keeps the limit <=6 GiB"),
        (6 * GIB + 2**21, Outcome.FAIL, "vram 6.002 GiB is above the limit <=6 GiB"),
    ],
)
def test_memory_limits_are_exact(value: float, outcome: Outcome, reason: str) -> None:
    said = verdict(gate("vram", limit="<=6 GiB"), peaks(vram=value))

    assert (said.outcome, said.reason) == (outcome, reason)


@pytest.mark.parametrize(("share", "outcome"), [(0.95, Outcome.PASS), (0.8, Outcome.FAIL)])
def test_how_full_rounds_were_is_exact(share: float, outcome: Outcome) -> None:
    assert verdict(gate("occupancy", limit=">=90%"), peaks(occupancy=share)).outcome is outcome


def test_what_does_not_tell_its_rounds_has_no_occupancy() -> None:
    said = verdict(gate("occupancy", limit=">=90%"), peaks())
    assert said.outcome is Outcome.ERROR
    assert said.advice == "gate an engine that tells what its loop did (Trace.spent), as kind: native"


@pytest.mark.parametrize(
    ("metric", "now", "before", "allowed", "outcome", "reason"),
    [
        (
            "vram",
            6 * GIB,
            5 * GIB,
            "5% + 64 MiB",
            Outcome.FAIL,
            "vram 6 GiB is 20.0% above the stored 5 GiB (allowed rise: 5% + 64 MiB)",
        ),
        (
            "host_memory",
            GIB + 2**26,
            GIB,
            "64 MiB",
            Outcome.PASS,
            "host memory 1.062 GiB is 6.2% above the stored 1 GiB (allowed rise: 64 MiB)",
        ),
        (
            "host_memory",
            GIB + 2**26 + 4096,
            GIB,
            "64 MiB",
            Outcome.FAIL,
            "host memory 1.063 GiB is 6.3% above the stored 1 GiB (allowed rise: 64 MiB)",
        ),
        (
            "vram_ratio",
            1.2,
            1.2,
            "1%",
            Outcome.PASS,
            "vram ratio 1.200x equals the stored 1.200x (allowed rise: 1%)",
        ),
    ],
)
def test_memory_rises_are_exact(
    metric: str, now: float, before: float, allowed: str, outcome: Outcome, reason: str
) -> None:
    said = verdict(gate(metric, max_rise=allowed), peaks(**{metric: now}), peaks(**{metric: before}))

    assert (said.outcome, said.reason) == (outcome, reason)


@pytest.mark.parametrize(
    ("metric", "limit", "hint"),
    [
        ("vram", "<=6 GiB", "use host_memory on a machine without a GPU"),
        ("vram_ratio", "<=6x", "use host_memory on a machine without a GPU"),
        ("host_memory", "<=6 GiB", "set measure: {memory: true}"),
    ],
)
def test_memory_that_was_not_measured_is_an_error(metric: str, limit: str, hint: str) -> None:
    said = verdict(gate(metric, limit=limit), peaks())

    assert (said.outcome, said.reason) == (Outcome.ERROR, f"{metric}: not measured by this engine (e)")
    assert said.advice == hint


def test_memory_that_was_not_stored_is_an_error() -> None:
    said = verdict(gate("vram", max_rise="5%"), peaks(vram=GIB), peaks())

    assert (said.outcome, said.reason) == (Outcome.ERROR, "the baseline for e::short-t0-c1 holds no vram")


def test_memory_of_another_machine_decides_no_rise_and_its_limit_is_judged() -> None:
    said = verdict(gate("vram", limit="<=6 GiB", max_rise="5%"), peaks(vram=GIB), peaks(vram=GIB), stored_at=ELSEWHERE)

    assert said.outcome is Outcome.INCONCLUSIVE
    assert [check.outcome for check in said.checks] == [Outcome.PASS, Outcome.INCONCLUSIVE]


def test_a_slow_machine_does_not_excuse_memory() -> None:
    assert verdict(gate("vram", limit="<=6 GiB"), peaks(vram=7 * GIB), findings=(BROKEN,)).outcome is Outcome.FAIL


# --- output ---


@pytest.mark.parametrize(
    ("metric", "limit", "values", "outcome", "reason"),
    [
        ("exact_match", "==100%", [1, 1, 1], Outcome.PASS, "exact match 100.0% keeps the limit ==100%"),
        ("exact_match", "==100%", [1, 1, 0], Outcome.FAIL, "exact match 66.7% is below the limit ==100%"),
        ("length_ratio", "0.9x..1.1x", [1, 1.5], Outcome.FAIL, "length ratio 1.250x is above the limit 0.9x..1.1x"),
        ("chrf", ">=95", [100, 91], Outcome.PASS, "chrf 95.50 keeps the limit >=95"),
        ("rouge_l", ">=95", [90], Outcome.FAIL, "rouge l 90.00 is below the limit >=95"),
    ],
)
def test_greedy_output_is_exact(metric: str, limit: str, values: list[float], outcome: Outcome, reason: str) -> None:
    said = verdict(gate(metric, limit=limit), said_of(metric, values))

    assert (said.outcome, said.reason) == (outcome, reason)


def test_bookkeeping_is_exact_even_if_sampled() -> None:
    said = verdict(gate("token_accounting", limit="==100%"), said_of("token_accounting", [1] * 15 + [0], greedy=False))

    assert (said.outcome, said.reason) == (Outcome.FAIL, "token accounting 93.8% is below the limit ==100%")


def test_sampled_matches_that_all_agree_are_not_certain() -> None:
    said = verdict(gate("exact_match", limit=">=99%"), said_of("exact_match", [1] * 8, greedy=False))

    assert said.outcome is Outcome.INCONCLUSIVE
    assert said.reason == (
        "exact match 100.0% [49.2%, 100.0%] straddles the limit >=99%; "
        "with this noise 8 conversations resolve no difference below 20.1%"
    )


SCORES = [60.0, 65, 70, 62, 58, 66, 71, 69]


@pytest.mark.parametrize(
    ("limit", "outcome", "reason"),
    [
        (">=50", Outcome.PASS, "chrf 65.12 [61.91, 68.34] keeps the limit >=50"),
        (">=80", Outcome.FAIL, "chrf 65.12 [57.01, 73.24] is below the limit >=80"),
        (
            ">=63",
            Outcome.INCONCLUSIVE,
            "chrf 65.12 [57.01, 73.24] straddles the limit >=63; about 19 conversations would decide (this run had 8)",
        ),
    ],
)
def test_sampled_scores_scatter(limit: str, outcome: Outcome, reason: str) -> None:
    said = verdict(gate("chrf", limit=limit), said_of("chrf", SCORES, greedy=False))

    assert (said.outcome, said.reason) == (outcome, reason)


def test_one_sampled_prompt_decides_nothing() -> None:
    said = verdict(gate("chrf", limit=">=1"), said_of("chrf", [60], greedy=False))

    assert said.outcome is Outcome.INCONCLUSIVE
    assert said.reason == "chrf: one prompt says nothing about prompts like it; needed: 2 prompts, better 16"


def test_greedy_drops_of_a_score_are_exact() -> None:
    now, before = said_of("chrf", [60, 70]), said_of("chrf", [80, 70])

    said = verdict(gate("chrf", max_drop="5%"), now, before)

    assert (said.outcome, said.reason) == (
        Outcome.FAIL,
        "chrf 65.00 is 10.00 points below the stored 75.00 (allowed drop: 5%)",
    )


def test_sampled_drops_are_judged_by_prompt() -> None:
    before = said_of("chrf", SCORES, greedy=False)
    all_lost = said_of("chrf", [s - 30 + 0.1 * i for i, s in enumerate(SCORES)], greedy=False)
    one_lost = said_of("chrf", [SCORES[0] - 30, *SCORES[1:]], greedy=False)

    assert verdict(gate("chrf", max_drop="5%"), all_lost, before).outcome is Outcome.FAIL
    assert verdict(gate("chrf", max_drop="5%"), one_lost, before).outcome is Outcome.INCONCLUSIVE


def test_a_baseline_of_other_scores_is_an_error() -> None:
    said = verdict(gate("chrf", max_drop="5%"), said_of("chrf", [60]), said_of("bleu", [60]))

    assert (said.outcome, said.reason) == (
        Outcome.ERROR,
        "the baseline for e::short-t0-c1 holds no chrf of these prompts",
    )


def test_scores_that_were_not_computed_are_an_error() -> None:
    assert verdict(gate("chrf", limit=">=0"), peaks()).reason == "chrf: not measured by this engine (e)"
