"""Sampling exactness, judged: which evidence fails, what passes, what stays open, and how each is said."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from pytest_specgate.chances import Drawn, Draws, Places, Series, Spot
from pytest_specgate.metrics import METRICS, Family
from pytest_specgate.records import Outcome, Verdict
from pytest_specgate.suite.checks import by_rounds, statistical
from pytest_specgate.suite.model import Candidate
from tests.unit.judging import gate, samples, verdict

FIT = gate("distribution_fit", limit="==100%")
NAMES = ("draft", "top1", "rank")


def drawn(tokens: int = 20000, *, shifted: str = "", by: float = 0.0, seed: int = 1, **fields: Any) -> Drawn:
    """Fair coins, three of them a token, one of them unfair by so much."""
    source = random.Random(seed)
    scores = {}
    for name in NAMES:
        up = 0.5 + (by if name == shifted else 0.0)
        coins = [0.5 if source.random() < up else -0.5 for _ in range(tokens)]
        scores[name] = Series(tuple(coins), (0.25,) * tokens)
    return Drawn(scores, tokens, **fields)


SOUND, PLAIN = drawn(), drawn(seed=2)


def judged(candidate: Drawn, reference: Drawn = PLAIN, *, max_tv: float | None = None, **changes: Any) -> Verdict:
    found = replace(samples({}, greedy=False), draws=Draws(candidate, reference, max_tv))
    return verdict(FIT, found, **changes)


def test_enough_fair_tokens_pass() -> None:
    said = judged(SOUND)
    assert said.outcome is Outcome.PASS
    assert said.reason == (
        "distribution fit: 20000 tokens fit the target within 1 points "
        "(draft -0.20 ± 0.35, rank -0.19 ± 0.35, top1 +0.14 ± 0.35)"
    )
    assert said.warnings == ()
    assert said.measured is not None
    assert (round(said.measured.value, 4), said.measured.high) == (0.998, 1.0)
    assert said.measured.low == pytest.approx(0.998 - 1.645 * 0.0035355, abs=1e-4)


def test_few_fair_tokens_stay_open_and_say_how_many_would_do() -> None:
    said = judged(drawn(2000))
    assert said.outcome is Outcome.INCONCLUSIVE
    assert re.fullmatch(r"about \d{5} tokens would decide \(this run had 2000\)", said.checks[0].needed)
    assert said.reason.startswith(
        "distribution fit: 2000 tokens show no fault beyond doubt, and none of 1 points is excluded (draft "
    )
    assert said.reason.endswith(said.checks[0].needed)


def test_a_shift_between_the_margins_stays_open() -> None:
    said = judged(drawn(30000, shifted="top1", by=0.01, seed=4))
    assert said.outcome is Outcome.INCONCLUSIVE
    assert said.checks[0].needed == "more rounds would tell"


@pytest.mark.parametrize(
    ("score", "by", "reading"),
    [
        ("draft", 0.1, "what the draft likes is drawn too often (draft score +"),
        ("draft", -0.1, "what the draft likes is drawn too rarely (draft score -"),
        ("top1", 0.1, "the first choice is drawn too often, as at a lower temperature (top1 score +"),
        ("top1", -0.1, "the first choice is drawn too rarely, as at a higher temperature (top1 score -"),
        ("rank", 0.1, "likely tokens are drawn too often, as at a lower temperature (rank score +"),
        ("rank", -0.1, "unlikely tokens are drawn too often, as at a higher temperature or without a filter (rank sc"),
    ],
)
def test_a_shift_fails_and_is_read(score: str, by: float, reading: str) -> None:
    said = judged(drawn(4000, shifted=score, by=by))
    assert said.outcome is Outcome.FAIL
    assert said.reason.startswith("distribution fit: odds of ")
    assert " to 1 against draws from the target, enough after " in said.reason
    assert f" of 4000 tokens: {reading}" in said.reason
    assert said.advice.startswith("see whether all of the request's settings reach verification")


def test_the_odds_that_fail_follow_from_the_error_rate() -> None:
    fair = drawn(300, shifted="top1", by=0.15)
    assert judged(fair, alpha=0.1).outcome is Outcome.FAIL
    assert judged(fair, alpha=1e-9).outcome is Outcome.INCONCLUSIVE


def test_odds_once_won_are_kept() -> None:
    """A fault that goes away later was there: the bets may be looked at whenever one likes."""
    early, late = drawn(1000, shifted="draft", by=0.2), drawn(20000, shifted="draft", by=-0.004, seed=3)
    both = {
        name: Series(
            early.scores[name].deviations + late.scores[name].deviations,
            early.scores[name].variances + late.scores[name].variances,
        )
        for name in NAMES
    }
    assert judged(Drawn(both, 21000)).outcome is Outcome.FAIL


def test_bonus_tokens_are_judged_on_their_own() -> None:
    bonus = tuple(n % 20 == 0 for n in range(4000))
    fair = drawn(4000)
    skewed = [0.5 if b and n % 60 else d for n, (d, b) in enumerate(zip(fair.scores["draft"].deviations, bonus))]
    scores = {**fair.scores, "draft": Series(tuple(skewed), (0.25,) * 4000)}
    told, untold = judged(Drawn(scores, 4000, bonus)), judged(Drawn(scores, 4000))
    assert told.outcome is Outcome.FAIL
    assert "of the tokens that follow a block of drafts kept whole, what the draft likes is drawn too of" in told.reason
    assert untold.outcome is not Outcome.FAIL


SPOTS = (Spot("p3", 1, 16, 45), Spot("p4", 0, 2, 7))


def test_a_forbidden_token_is_proof() -> None:
    said = judged(replace(SOUND, outside=SPOTS))
    assert said.outcome is Outcome.FAIL
    assert said.reason == (
        "distribution fit: 2 of 20000 tokens are such as the request forbids: "
        "first p3, round 2, output token 17 (id 45)"
    )


def test_a_text_that_comes_again_is_proof() -> None:
    said = judged(replace(SOUND, repeated=("p1", "p2")))
    assert said.outcome is Outcome.FAIL
    assert said.reason == (
        "distribution fit: 2 prompts get the same text again in another round, as if seeds were not honoured "
        "(first: p1)"
    )


# --- the control ---


def refused(reference: Drawn) -> Verdict:
    said = judged(SOUND, reference)
    assert said.outcome is Outcome.ERROR
    return said


def test_a_scorer_that_is_wrong_about_plain_draws_is_an_error() -> None:
    said = refused(drawn(4000, shifted="top1", by=0.1))
    assert said.reason.startswith("e: the control failed: plain draws of the reference arm do not fit either (odds of ")
    assert said.advice == (
        "find out what the reference arm does to its scores that the scorer does not: processors, dtype, vocabulary"
    )


def test_so_is_a_reference_arm_that_says_what_is_forbidden() -> None:
    assert refused(replace(PLAIN, outside=SPOTS)).reason == (
        "e: the control failed: the reference arm's 2 of 20000 tokens are such as the request forbids: "
        "first p3, round 2, output token 17 (id 45)"
    )


def test_and_one_that_does_not_draw_anew() -> None:
    said = refused(replace(PLAIN, repeated=("p1",)))
    assert said.reason == "e: the reference arm draws the same text again in another round (p1)"
    assert said.advice == "let the engine draw by the request's seed, which is another in every round"


def test_a_greedy_case_and_an_engine_without_scores_are_errors() -> None:
    said = verdict(FIT, replace(samples({}), draws=Draws(SOUND, PLAIN)))
    assert (said.outcome, said.reason) == (
        Outcome.ERROR,
        "distribution_fit asks how tokens are drawn, and this case is greedy",
    )
    said = verdict(FIT, samples({}, greedy=False))
    assert (said.outcome, said.reason) == (Outcome.ERROR, "distribution_fit: not measured by this engine (e)")


# --- what rounds tell ---

RIGHT = Places(tested=1000, kept=600, expected=598.0, variance=160.0, replaced=400, impossible=0)


TOLD = replace(RIGHT, offers=1000, offered=403.0, usual=400.0, scatter=90.0, checked=600, foreign=3)


@pytest.mark.parametrize(
    ("places", "told"),
    [
        (replace(RIGHT, kept=700, replaced=300), "the accept rule is wrong: 70.0% of 1000 tested drafts were kept"),
        (replace(RIGHT, impossible=90), "what replaces rejected drafts is wrong: 90 of 400 tokens are such as the dr"),
        (RIGHT, "no part is wrong by itself: see whether drafts are really drawn from the q that the accept rule "),
        (replace(TOLD, offered=500.0), "the declared q is wrong: 1000 drafts have 50.0% of it on average, and draws f"),
        (replace(TOLD, foreign=60), "the declared q is wrong: 60 of 600 kept drafts are declared with another chance "),
        (TOLD, "no part is wrong by itself"),
        (replace(TOLD, offered=420.0, foreign=10), "no part is wrong by itself"),
    ],
)
def test_a_failure_names_the_part(places: Places, told: str) -> None:
    said = judged(drawn(4000, shifted="draft", by=0.1, places=places))
    assert sum(note.startswith(told) for note in said.warnings) == 1
    assert not any(" is wrong: " in note and not note.startswith(told) for note in said.warnings)


def test_the_parts_are_told_of_a_failure_alone() -> None:
    assert judged(replace(SOUND, places=replace(RIGHT, kept=700))).warnings == ()


def test_a_draft_that_could_not_be_asked_is_told() -> None:
    blind = replace(SOUND, scores={name: SOUND.scores[name] for name in ("top1", "rank")})
    said = judged(blind)
    assert said.outcome is Outcome.PASS
    (note,) = said.warnings
    assert note == (
        "the draft could not be asked, so faults of what replaces a rejected draft, of the bonus token and of a "
        "lenient accept rule stay next to invisible"
    )


# --- declared lossy ---

LOSSY = "distribution fit: declared lossy (max_tv 0.05), so its effect is judged and not its exactness: "


@pytest.mark.parametrize(("by", "outcome"), [(0.03, Outcome.PASS), (0.05, Outcome.INCONCLUSIVE), (0.09, Outcome.FAIL)])
def test_a_declared_loss_is_judged_by_its_size(by: float, outcome: Outcome) -> None:
    said = judged(drawn(shifted="top1", by=by), max_tv=0.05)
    assert said.outcome is outcome
    assert said.reason.startswith(LOSSY)


def test_forbidden_tokens_of_a_declared_loss_are_counted() -> None:
    said = judged(replace(SOUND, outside=SPOTS), max_tv=0.05)
    assert said.outcome is Outcome.PASS
    assert said.warnings == (
        "declared lossy: 2 of 20000 tokens are such as the request forbids: first p3, round 2, output token 17 (id 45)",
    )
    assert judged(replace(SOUND, outside=SPOTS * 600), max_tv=0.05).outcome is Outcome.FAIL


@pytest.mark.parametrize("wrong", [{}, {"max_tv": 0}, {"max_tv": 0.6}, {"max_tv": "5%"}, {"max_tv": 0.1, "why": "?"}])
def test_a_declaration_needs_its_size(wrong: dict[str, object]) -> None:
    assert Candidate.model_validate({"method": "prompt_lookup", "lossy": {"max_tv": 0.05}}).lossy is not None
    with pytest.raises(ValidationError):
        Candidate.model_validate({"method": "prompt_lookup", "lossy": wrong})


# --- the suite ---


@pytest.mark.parametrize("demand", [{"limit": ">=99%"}, {"max_drop": "1%"}, {"limit": "==100%", "max_drop": "1%"}])
def test_the_gate_is_all_or_nothing(demand: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="distribution_fit is all or nothing, and compares with no baseline"):
        gate("distribution_fit", **demand)


def test_candidate_and_control_share_the_budget_and_more_rounds_tell_more() -> None:
    assert METRICS["distribution_fit"].family is Family.DISTRIBUTION
    assert statistical(FIT, greedy=False) == 2
    assert by_rounds(FIT, greedy=False)


# --- log-probabilities that the engine tells --------------------------------------------------------------------------

WRONG = tuple(Spot("p3", 1, 4, 17) for _ in range(300))


def test_wrong_log_probabilities_fail() -> None:
    said = judged(replace(SOUND, misquoted=WRONG))
    assert said.outcome is Outcome.FAIL
    assert said.reason == (
        "distribution fit: 300 of 20000 tokens are told with another log-probability than the target gives: "
        "first p3, round 2, output token 5 (id 17)"
    )


def test_an_engine_that_means_something_else_by_them_is_not_blamed() -> None:
    assert judged(replace(SOUND, misquoted=WRONG), replace(PLAIN, misquoted=WRONG)).outcome is Outcome.PASS


def test_a_few_are_rounding() -> None:
    assert judged(replace(SOUND, misquoted=WRONG[:200])).outcome is Outcome.PASS
