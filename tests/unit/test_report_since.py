"""What a report tells of a baseline: its date, what changed since, and what a changed speed is made of."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.records import Counts, Measurement, Place, PromptSamples, Samples, Stored
from pytest_specgate.report.document import new_report
from pytest_specgate.report.html.page import html
from pytest_specgate.report.markdown import markdown
from pytest_specgate.report.outline import CaseView
from pytest_specgate.report.phrases import since
from pytest_specgate.report.since import compared, explanation, metric_changes, parts, subject_changes

PLACE = Place("cpu", 1, "float32")


def samples(alone: float, tpot: float, accepted: int = 20) -> Samples:
    """One prompt of ten rounds with so many accepted tokens, each arm's seconds per token constant."""
    series = {"tpot": (tpot, tpot), "reference_tpot": (alone, alone), "speedup": (math.log(alone / tpot),) * 2}
    return Samples("e::c", True, (PromptSamples("a", "a", series, (Counts(10, 10, 40, 30, accepted),)),))


def stored(of: Samples, **subject: str) -> Stored:
    return Stored(PLACE, {}, subject, "2030-01-31T12:00:00Z", of)


BEFORE = compared("e::c", stored(samples(0.03, 0.02), torch="2.11", k="4"))


def test_a_baseline_is_kept_in_one_number_a_metric() -> None:
    assert BEFORE.recorded == "2030-01-31T12:00:00Z"
    assert BEFORE.values["speedup"] == pytest.approx(1.5)
    assert BEFORE.values["acceptance_length"] == 3.0
    assert BEFORE.decode == pytest.approx({"tpot": 0.02, "reference_tpot": 0.03})


def test_metrics_that_both_hold_stand_side_by_side() -> None:
    found = {name: pair for name, *pair in metric_changes(BEFORE, samples(0.03, 0.025))}

    assert found["speedup"] == pytest.approx([1.5, 1.2])
    assert "vram" not in found


def test_a_slower_round_explains_a_lost_speedup() -> None:
    # Three tokens a round, so 60 ms became 75 ms a round, and 1.5x became 1.2x.
    assert explanation(BEFORE, samples(0.03, 0.025)) == (
        "decode speedup 1.500x → 1.200x (-20.0%): time per round 60 ms → 75 ms explains -20.0%"
    )


def test_lost_acceptance_and_the_reference_arm_are_told_apart() -> None:
    # Two tokens a round instead of three: with 60 ms a round, 30 ms a token. The reference arm itself is 10 % faster.
    assert explanation(BEFORE, samples(0.027, 0.03, accepted=10)) == (
        "decode speedup 1.500x → 0.900x (-40.0%): tokens per round 3.00 → 2.00 explains -33.3%, "
        "the reference arm's time per token 30 ms → 27 ms explains -10.0%"
    )


def test_what_did_not_move_is_no_reason() -> None:
    assert explanation(BEFORE, samples(0.03, 0.02)).endswith("(+0.0%): nothing moved by half a percent")


@given(st.floats(1e-4, 1.0), st.floats(1e-4, 1.0), st.integers(0, 30))
def test_the_parts_make_up_the_whole_change(alone: float, tpot: float, accepted: int) -> None:
    now = samples(alone, tpot, accepted)

    whole = math.prod(1 + part.effect for part in parts(BEFORE, now))

    assert whole == pytest.approx((alone / tpot) / 1.5)


def test_nothing_is_explained_by_what_was_not_measured() -> None:
    without_rounds = replace(samples(0.03, 0.02), prompts=(replace(samples(0.03, 0.02).prompts[0], counts=()),))
    without_times = replace(samples(0.03, 0.02), prompts=(PromptSamples("a", "a", {}),))

    assert explanation(BEFORE, without_rounds) == ""
    assert explanation(BEFORE, without_times) == ""
    assert explanation(replace(BEFORE, decode={"tpot": 0.02}), samples(0.03, 0.02)) == ""


def test_the_subject_tells_what_is_new_gone_and_different() -> None:
    assert subject_changes(BEFORE, {"torch": "2.13", "k": "4", "driver": "570"}) == [
        ("driver", "-", "570"),
        ("torch", "2.11", "2.13"),
    ]


def _view(subject: dict[str, str], place: Place = PLACE) -> CaseView:
    taken = Measurement("e::c", "scripted", place, {}, subject, (), greedy=True)
    return CaseView("s.yaml", "e", "c", (), taken, samples(0.03, 0.025), baseline=BEFORE)


def test_a_reader_is_told_since_when_and_what_changed() -> None:
    assert since(_view({"torch": "2.13", "k": "4"})) == [
        "decode speedup 1.500x → 1.200x (-20.0%): time per round 60 ms → 75 ms explains -20.0%",
        "baseline of 2030-01-31T12:00:00Z; changed since: torch 2.11 → 2.13",
    ]
    assert since(_view({"torch": "2.11", "k": "4"}, Place("NVIDIA H100", 1, "bfloat16")))[-1] == (
        "baseline of 2030-01-31T12:00:00Z on another machine (cpu-x1-float32); changed since: nothing in the subject"
    )
    assert since(replace(_view({}), baseline=None)) == []


def test_both_faces_show_it() -> None:
    taken = Measurement("e::c", "scripted", PLACE, {}, {"torch": "2.13", "k": "4"}, (), greedy=True)
    report = replace(new_report((), {"s.yaml": (taken,)}, 0, {}), baselines={"s.yaml": (BEFORE,)})

    for text in (html(report), markdown(report)):
        assert "aseline of 2030-01-31T12:00:00Z; changed since: torch 2.11 → 2.13" in text
