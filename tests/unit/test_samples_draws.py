"""From chances to scores: which tokens count, where a text ends, what comes again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_specgate.chances import Chances, DraftChances, DrawnText, Fit
from pytest_specgate.errors import InvalidTrace
from pytest_specgate.records import Arm, Chunk, Measurement, Pair, Place, Round, Trace
from pytest_specgate.samples.draws import draws

DRAFT = DraftChances((1.0, 0.5, 0.0), (0.75, 0.5, 0.25), (0.7, 0.3, 0.1))
CHANCES = Chances((0.5, 0.25, 0.125), (0.0, 0.5, 0.875), (0.5, 0.5, 0.5), DRAFT)
RARE = Chances((1e-4,) * 3, (0.5,) * 3, (0.5,) * 3)


def trace(prompt: str, arm: Arm, ids: tuple[int, ...], eos: tuple[int, ...] = ()) -> Trace:
    chunks = (Chunk(10, len(ids)),)
    return Trace(prompt, arm, ids, "", 3, 0, chunks, "length", prefill_tokens=1, max_tokens=len(ids), eos_ids=eos)


def measured(
    *texts: tuple[str, int, tuple[int, ...]], chances: Chances = CHANCES, eos: tuple[int, ...] = ()
) -> Measurement:
    """One pair for each (prompt, round, candidate's ids); the reference arm says (1, 2, 3), but never twice alike."""
    pairs = []
    for number, (prompt, round_number, ids) in enumerate(texts):
        plain = trace(prompt, Arm.REFERENCE, (1, 2, 100 + number), eos)
        pairs.append(Pair(prompt, prompt, round_number, "AB", plain, trace(prompt, Arm.CANDIDATE, ids, eos)))
    keys = dict.fromkeys((t.prompt, t.token_ids) for pair in pairs for t in (pair.reference, pair.candidate))
    fit = Fit(tuple(DrawnText(*key, chances) for key in keys))
    return Measurement("e::c", "k", Place("cpu", 1, "float64"), {}, {}, tuple(pairs), greedy=False, fit=fit)


def test_scores_are_what_happened_less_what_was_expected() -> None:
    found = draws(measured(("a", 0, (4, 5, 6))))
    assert found is not None
    scores = found.candidate.scores
    assert scores["top1"].deviations == (0.5, -0.5, -0.5)
    assert scores["top1"].variances == (0.25, 0.25, 0.25)
    assert scores["draft"].deviations == (0.25, 0.0, -0.25)
    assert scores["draft"].variances == pytest.approx((0.1375, 0.05, 0.0375))
    first, second, third = scores["rank"].deviations
    assert 0.0 <= first <= 0.5
    assert -0.25 <= second <= 0.0
    assert -0.5 <= third <= -0.375
    assert found.candidate.tokens == 3


def test_a_place_is_the_same_at_every_reduction_and_another_in_every_round() -> None:
    measurement = measured(("a", 0, (4, 5, 6)), ("a", 1, (4, 5, 6)))
    found = draws(measurement)
    assert found is not None
    assert found == draws(measurement)
    ranks = found.candidate.scores["rank"].deviations
    assert ranks[:3] != ranks[3:]
    assert found.candidate.scores["top1"].deviations == (0.5, -0.5, -0.5) * 2


def test_a_text_ends_with_its_end_of_text() -> None:
    found = draws(measured(("a", 0, (4, 9, 6)), eos=(9,), chances=replace(CHANCES, outside=(1, 2))))
    assert found is not None
    assert found.candidate.tokens == 2
    assert [(spot.position, spot.token) for spot in found.candidate.outside] == [(1, 9)]
    assert found.reference.tokens == 3


def test_a_text_that_comes_again_is_told_where_it_is_rare() -> None:
    again = ("a", 0, (4, 5, 6)), ("b", 0, (4, 5, 6)), ("a", 1, (4, 5, 6)), ("b", 1, (4, 5, 7))
    likely, rare = draws(measured(*again)), draws(measured(*again, chances=RARE))
    assert likely is not None
    assert rare is not None
    assert likely.candidate.repeated == ()
    assert rare.candidate.repeated == ("a",)
    assert rare.reference.repeated == ()


def test_the_control_is_as_long_as_it_is_said_to_be() -> None:
    measurement = measured(("a", 0, (4, 5, 6)), ("b", 0, (4, 5, 7)))
    assert measurement.fit is not None
    few = replace(measurement.fit, plain=1, texts=tuple(t for t in measurement.fit.texts if t.token_ids[-1] != 101))
    found = draws(replace(measurement, fit=few))
    assert found is not None
    assert (found.candidate.tokens, found.reference.tokens) == (6, 3)


OFFERED = replace(DRAFT, chance=(0.6, 0.5, 0.4), usual=(0.5, 0.4, 0.3), usual_square=(0.4, 0.2, 0.1))


@pytest.mark.parametrize(
    ("offered", "told"),
    [
        ((0.6, 0.5, 0.9), (2, 1.1, 0.9, 1, 0)),  # the third was not tested
        ((0.1, 0.5, 0.9), (2, 0.6, 0.9, 1, 1)),  # of the rejected one nobody knows the draft's chance
        ((), (0, 0.0, 0.0, 0, 0)),
    ],
)
def test_declared_chances_are_held_against_the_draft_s_own(offered: tuple[float, ...], told: tuple[float, ...]) -> None:
    """One draft kept, one rejected and replaced."""
    measurement = measured(("a", 0, (4, 5, 6)), chances=replace(CHANCES, draft=OFFERED))
    (pair,) = measurement.pairs
    rounds = (Round(3, 2, 1, 2, 5, offered), Round(0, 0, 0, 1, 6))
    said = replace(pair, candidate=replace(pair.candidate, rounds=rounds, prefill_tokens=0))
    found = draws(replace(measurement, pairs=(said,)))
    assert found is not None
    places = found.candidate.places
    assert places is not None
    numbers = (places.offers, places.offered, places.usual, places.checked, places.foreign)
    assert numbers == pytest.approx(told)
    assert places.scatter == pytest.approx(0.4 - 0.25 + 0.2 - 0.16 if offered else 0)


def test_without_a_draft_two_scores_are_left() -> None:
    found = draws(measured(("a", 0, (4, 5, 6)), chances=RARE))
    assert found is not None
    assert set(found.candidate.scores) == {"top1", "rank"}


def test_a_text_that_was_not_scored_voids_the_case() -> None:
    measurement = measured(("a", 0, (4, 5, 6)))
    assert measurement.fit is not None
    missing = replace(measurement, fit=replace(measurement.fit, texts=measurement.fit.texts[:1]))
    with pytest.raises(InvalidTrace, match="e::c: a: the candidate arm's text was not scored whole — measure again"):
        draws(missing)
    assert draws(replace(measurement, fit=None)) is None
