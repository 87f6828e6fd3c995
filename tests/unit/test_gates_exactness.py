"""Greedy exactness, judged: what the target's own noise explains and what it does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from pytest_specgate.gates.noise import is_tie, tolerance, ulp
from pytest_specgate.logits import Choices, Control, Divergence, TextRegrets
from pytest_specgate.records import Outcome, Place, Verdict
from pytest_specgate.suite.checks import by_rounds, statistical
from tests.unit.judging import gate, samples, verdict

EXACT = gate("greedy_exactness", limit="==100%")
HERE = Place("cpu", 1, "bfloat16")
CONTROL = Control(
    tokens=2048,
    width=5,
    wide_change=0.25,
    scoring_change=0.125,
    self_change=0.0,
    wide_ties=40,
    agree=False,
    median_best=20.0,
    seconds=9.0,
)
NOISE = 0.375
TEXT = (0.0,) * 250


def texts(*regrets: float, prompts: int = 4, bad_end: str = "") -> tuple[TextRegrets, ...]:
    """1000 tokens in four texts, the regrets at the end of the first."""
    first = TextRegrets("p0", (*TEXT[len(regrets) :], *regrets), bad_end)
    return (first, *(TextRegrets(f"p{n}", TEXT) for n in range(1, prompts)))


def judged(candidate: Sequence[TextRegrets], reference: Sequence[TextRegrets] | None = None, **changes: Any) -> Verdict:
    fields = {"control": CONTROL, "divergences": (), "restless": 0, "control_fresh": False, **changes}
    place, alpha = fields.pop("place", HERE), fields.pop("alpha", 0.001)
    found = Choices(tuple(candidate), tuple(texts() if reference is None else reference), **fields)
    return verdict(EXACT, replace(samples({}), choices=found), place=place, alpha=alpha)


def test_the_noise_is_the_largest_change_with_room_and_never_below_two_ulps() -> None:
    assert tolerance(CONTROL, "bfloat16") == 1.5 * 0.25
    quiet = replace(CONTROL, wide_change=0.0, scoring_change=1e-6)
    assert tolerance(quiet, "bfloat16") == 2 * 0.125
    assert tolerance(quiet, "float32") == pytest.approx(2 * 2**4 * 2**-23)
    assert tolerance(quiet, "none") == 1.5e-6


@pytest.mark.parametrize(
    ("value", "dtype", "unit"),
    [(16.0, "bfloat16", 0.125), (15.9, "bfloat16", 0.0625), (-33.0, "float16", 2**-5), (1.0, "float64", 2**-52)],
)
def test_units_in_the_last_place(value: float, dtype: str, unit: float) -> None:
    assert ulp(value, dtype) == unit
    assert ulp(value, "int3") == 0.0
    assert ulp(0.0, dtype) == 0.0


def test_only_the_targets_choices_pass() -> None:
    said = judged(texts())
    assert said.outcome is Outcome.PASS
    assert said.reason == (
        "greedy exactness: all 1000 tokens are the target's choice within its noise of 0.375 logits "
        "(largest regret 0, 0 near ties)"
    )
    assert said.measured is not None
    assert said.measured.value == 1.0


def test_ties_of_a_right_decoder_pass() -> None:
    ties = [0.125] * 12 + [0.25] * 3 + [0.375]
    said = judged(texts(*ties), texts(*ties[:11]))
    assert said.outcome is Outcome.PASS
    assert "(largest regret 0.375, 16 near ties)" in said.reason


@pytest.mark.parametrize(
    ("regrets", "outcome"),
    [
        ([0.76], Outcome.FAIL),
        ([0.75], Outcome.INCONCLUSIVE),
        ([0.376], Outcome.INCONCLUSIVE),
        ([0.376, 0.376], Outcome.FAIL),
        ([0.375, 0.376], Outcome.INCONCLUSIVE),
        ([0.375, 0.375], Outcome.PASS),
    ],
)
def test_one_far_beyond_or_two_beyond_fail_and_one_beyond_stays_open(regrets: list[float], outcome: Outcome) -> None:
    assert judged(texts(*regrets)).outcome is outcome


def test_a_failure_names_the_worst_token() -> None:
    said = judged(texts(8.25, 0.5))
    assert said.reason == (
        "greedy exactness: 2 of 1000 tokens are not the target's choice: "
        "p0, output token 249, lies 8.25 logits below it, and its noise is 0.375"
    )
    assert said.measured is not None
    assert said.measured.value == 0.998


def test_an_open_one_says_what_would_decide() -> None:
    said = judged(texts(0.5))
    assert said.reason == (
        "greedy exactness: one of 1000 tokens lies beyond the target's noise: "
        "p0, output token 250, lies 0.5 logits below it, and its noise is 0.375"
    )
    assert said.checks[0].needed == "more prompts would tell: a second such token fails"


@pytest.mark.parametrize(("wrong", "outcome"), [(50, Outcome.PASS), (51, Outcome.FAIL)])
def test_a_declared_loss_is_judged_by_its_size(wrong: int, outcome: Outcome) -> None:
    said = judged(texts(*[9.0] * wrong), max_tv=0.05)
    assert said.outcome is outcome
    assert said.reason == (
        "greedy exactness: declared lossy (max_tv 0.05), so its effect is judged and not its exactness: "
        f"{wrong} of 1000 tokens are not the target's choice: {wrong / 10:.2f}%, and 5.00% is declared"
    )


def test_a_declared_loss_ends_its_texts_all_the_same() -> None:
    said = judged(texts(bad_end="goes on after the end-of-text token"), max_tv=0.05)
    assert said.outcome is Outcome.FAIL
    assert said.reason.endswith("exactness: the text of p0 goes on after the end-of-text token")


def test_more_near_ties_than_chance_fail() -> None:
    said = judged(texts(*[0.125] * 60), texts(*[0.125] * 15))
    assert said.outcome is Outcome.FAIL
    assert said.reason == (
        "greedy exactness: 60 of 1000 tokens lie below the target's choice, each within its noise: "
        "more than chance (the reference arm's 15 of 1000, the control's 40 of 2048)"
    )


@pytest.mark.parametrize(
    ("many", "few", "wide", "alpha"),
    [
        (60, 50, 40, 0.001),  # the reference arm has as many
        (60, 15, 110, 0.001),  # verifying does it by itself
        (60, 15, 40, 1e-12),  # the check may not err so often
        (20, 15, 20, 0.001),
    ],
)
def test_near_ties_that_chance_the_reference_or_the_width_explain_pass(
    many: int, few: int, wide: int, alpha: float
) -> None:
    control = replace(CONTROL, wide_ties=wide)
    said = judged(texts(*[0.125] * many), texts(*[0.125] * few), control=control, alpha=alpha)
    assert said.outcome is Outcome.PASS


def test_a_machine_whose_target_regrets_its_own_text_blames_nobody() -> None:
    said = judged(texts(8.0, 9.0), texts(5.0))
    assert said.outcome is Outcome.INCONCLUSIVE
    assert said.reason == (
        "greedy exactness: the reference arm fails the same test "
        "(p0, output token 250, lies 5 logits below it, and its noise is 0.375): "
        "on this machine the target disagrees with itself, which is not the decoder's doing"
    )
    assert said.checks[0].needed.startswith("run the case with dtype: float32: where that decides it, ")


def test_noise_that_hides_faults_is_refused() -> None:
    said = judged(texts(8.0), control=replace(CONTROL, wide_change=0.51))
    assert said.outcome is Outcome.INCONCLUSIVE
    assert said.reason == (
        "greedy exactness: the target's own arithmetic moves margins by up to 0.51 logits here, "
        "and noise of 0.765 hides faults (at most 0.75)"
    )
    needed = "gate exactness with dtype: float32 too, or with kernels that do not depend on the batch"
    assert said.checks[0].needed == needed
    again = judged(texts(8.0), control=replace(CONTROL, self_change=0.51))
    assert again.outcome is Outcome.INCONCLUSIVE
    assert again.checks[0].needed.startswith("find out why the same forward differs when it runs again: ")


def test_a_small_control_is_refused() -> None:
    said = judged(texts(8.0), control=replace(CONTROL, tokens=127))
    assert (said.outcome, said.checks[0].needed) == (
        Outcome.INCONCLUSIVE,
        "raise max_tokens or add prompts: it takes 128",
    )


PARTED = Divergence("p1", 7, 3, 4, 9.5, 9.5)
STILL = replace(CONTROL, wide_change=0.0, scoring_change=0.0, agree=True)


@pytest.mark.parametrize(
    ("dtype", "changes", "outcome"),
    [
        ("float32", {}, Outcome.FAIL),
        ("float64", {}, Outcome.FAIL),
        ("bfloat16", {}, Outcome.PASS),
        ("float32", {"restless": 1}, Outcome.PASS),
        ("float32", {"control": replace(STILL, agree=False)}, Outcome.PASS),
        ("float32", {"control": replace(STILL, self_change=1e-6)}, Outcome.PASS),
    ],
)
def test_equal_texts_are_demanded_where_widths_agree_to_the_last_bit(
    dtype: str, changes: dict[str, Any], outcome: Outcome
) -> None:
    said = judged(texts(), **{"divergences": (PARTED,), "control": STILL, "place": Place("cpu", 1, dtype), **changes})
    assert said.outcome is outcome
    if outcome is Outcome.FAIL:
        assert said.reason == (
            "greedy exactness: the texts part at p1, output token 8, though on this machine forwards of 1 and 5 "
            "tokens agree to the last bit"
        )


def test_a_wrong_end_fails_unless_the_reference_arm_ends_so_too() -> None:
    said = judged(texts(bad_end="goes on after the end-of-text token"))
    assert said.outcome is Outcome.FAIL
    assert said.reason == "greedy exactness: the text of p0 goes on after the end-of-text token"
    both = judged(texts(bad_end="ends after 3 of 4 tokens"), texts(bad_end="ends after 3 of 4 tokens"))
    assert both.outcome is Outcome.PASS


SHORT = replace(PARTED, candidate_id=None, candidate_logit=None)
LONG = replace(PARTED, reference_id=None, reference_logit=None)


@pytest.mark.parametrize(
    ("part", "outcome", "says"),
    [
        (SHORT, Outcome.FAIL, "the text of p1 breaks off after 7 tokens, where the reference arm's goes on"),
        (LONG, Outcome.FAIL, "the text of p1 goes on after 7 tokens, where the reference arm's ends"),
        # By an end of text that the ids do not show: what the other text says there tells how wrong it is.
        (replace(SHORT, regret=0.375), Outcome.PASS, "all 1000 tokens"),
        (replace(SHORT, regret=0.4), Outcome.FAIL, "the text of p1 breaks off after 7 tokens"),
        (replace(LONG, regret=0.375), Outcome.PASS, "all 1000 tokens"),
        (replace(LONG, regret=0.4), Outcome.INCONCLUSIVE, "the texts of p1 part at output token 8 by more than"),
        (replace(PARTED, candidate_logit=1.0), Outcome.INCONCLUSIVE, "the texts of p1 part at output token 8"),
        (replace(PARTED, candidate_logit=9.1, regret=0.375), Outcome.PASS, "all 1000 tokens"),
    ],
)
def test_nothing_passes_where_texts_really_part(part: Divergence, outcome: Outcome, says: str) -> None:
    said = judged(texts(), divergences=(part,))
    assert (said.outcome, says in said.reason) == (outcome, True), said.reason
    assert ("0 by real_divergence" in said.warnings[-1]) == (outcome is Outcome.PASS)


def test_a_text_that_breaks_off_is_not_the_decoders_where_the_reference_arm_ends_wrongly() -> None:
    said = judged(texts(), texts(bad_end="stops"), divergences=(replace(SHORT, prompt="p0"),))
    assert said.outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(("part", "outcome"), [(SHORT, Outcome.FAIL), (replace(SHORT, regret=9.0), Outcome.PASS)])
def test_a_declared_loss_breaks_no_text_off(part: Divergence, outcome: Outcome) -> None:
    assert judged(texts(), max_tv=0.05, divergences=(part,)).outcome is outcome


def test_divergences_are_ties_up_to_the_noise() -> None:
    assert is_tie(replace(PARTED, candidate_logit=9.125), NOISE)
    assert not is_tie(replace(PARTED, candidate_logit=9.0), NOISE)
    assert not is_tie(replace(PARTED, candidate_id=None, candidate_logit=None), NOISE)


def test_notes_tell_ties_unrest_and_what_the_control_cost() -> None:
    control = replace(CONTROL, self_change=0.0625)
    parts = (PARTED, replace(PARTED, candidate_logit=1.0))
    said = judged(texts(), divergences=parts, restless=2, control=control, control_fresh=True)
    assert said.warnings == (
        "control: 2048 tokens in 9 s, kept for later runs and not counted",
        "the reference arm gave 2 prompts another text in another round: not the decoder's doing",
        "one-token forwards run again differ by up to 0.0625 logits on this machine",
        "texts that part: 1 by numerical_tie, 1 by real_divergence",
    )


def test_a_case_that_samples_is_an_error_and_not_a_pass() -> None:
    said = verdict(EXACT, samples({}, greedy=False))
    assert said.outcome is Outcome.ERROR
    assert said.reason == "greedy_exactness asks for the target's highest choice, and this case samples"
    assert said.advice == "narrow the gate with 'scenarios', or set the scenario's temperature to 0"


def test_texts_that_were_not_scored_are_an_error() -> None:
    said = verdict(EXACT, samples({}))
    assert (said.outcome, said.reason) == (Outcome.ERROR, "greedy_exactness: not measured by this engine (e)")
    assert said.advice == "remove the gate, or use an engine that scores texts"


def test_it_draws_once_on_the_error_budget_and_waits_for_all_rounds() -> None:
    assert statistical(EXACT, greedy=True) == 1
    assert not by_rounds(EXACT, greedy=True)
    assert by_rounds(gate("speedup", limit=">=1x"), greedy=True)
    assert not by_rounds(gate("exact_match", limit="==100%"), greedy=True)


@pytest.mark.parametrize(
    "demand", [{"limit": ">=99%"}, {"limit": "==99%"}, {"max_drop": "1%"}, {"limit": "==100%", "max_rise": "1%"}]
)
def test_nothing_but_all_tokens_can_be_asked_for(demand: dict[str, str]) -> None:
    with pytest.raises(ValidationError) as raised:
        gate("greedy_exactness", **demand)
    assert (
        "greedy_exactness is all or nothing, and compares with no baseline — "
        'write limit: "==100%" and neither max_drop nor max_rise'
    ) in str(raised.value)
