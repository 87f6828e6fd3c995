"""What a report tells of a baseline: its date, what changed since, and what a changed speed is made of."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.records import Costs, Counts, Forwards, Measurement, Place, PromptSamples, Samples, Stored
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


def stored(of: Samples, told: Costs | None = None, **subject: str) -> Stored:
    return Stored(PLACE, {}, subject, "2030-01-31T12:00:00Z", of, costs=told)


def costs(single: float = 0.02, wide: float = 0.022, draft: float = 0.0021) -> Costs:
    """Four tokens a round, each forward timed three times."""
    target = (Forwards(1, (single,) * 3), Forwards(5, (wide,) * 3), Forwards(9, (wide,) * 3))
    return Costs(target, Forwards(1, (draft,) * 3), 4, 1, 100)


WITH_COSTS = compared("e::c", stored(samples(0.0216, 0.0144), costs()))
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
        "speedup 1.500x → 1.200x (-20.0%): time per round 60 ms → 75 ms explains -20.0%"
        "; what forwards cost is not told by this engine"
    )


def test_lost_acceptance_and_the_reference_arm_are_told_apart() -> None:
    # Two tokens a round instead of three: with 60 ms a round, 30 ms a token. The reference arm itself is 10 % faster.
    assert explanation(BEFORE, samples(0.027, 0.03, accepted=10)) == (
        "speedup 1.500x → 0.900x (-40.0%): acceptance 3.00 → 2.00 tokens per round explains -33.3%, "
        "the reference arm's time per token 30 ms → 27 ms explains -10.0%"
        "; what forwards cost is not told by this engine"
    )


def test_a_slower_draft_is_told_from_verifying_and_the_loop() -> None:
    # A round of 43.2 ms: 4 × 2.1 ms of drafting, 22 ms of verifying, 12.8 ms of the loop's own; three tokens each. The
    # draft's 1.3 ms more make it 48.4 ms, for which 43.2 / 48.4 = 0.893 is the whole reason.
    now = samples(0.0216, 0.0484 / 3)

    assert explanation(WITH_COSTS, now, costs(draft=0.0034)) == (
        "speedup 1.500x → 1.339x (-10.7%): draft forward 2.1 ms → 3.4 ms explains -10.7%"
    )


def test_a_machine_that_slows_both_arms_down_explains_nothing() -> None:
    now = samples(0.0216 * 1.1, 0.0144 * 1.1)

    assert explanation(WITH_COSTS, now, costs(0.022, 0.0242, 0.00231)) == (
        "speedup 1.500x → 1.500x (+0.0%): nothing moved by half a percent"
        "; all relative to the target alone, 21.6 ms → 23.76 ms per token"
    )


def test_a_longer_draft_that_is_not_kept_is_told_as_such() -> None:
    drafted = replace(samples(0.0216, 0.0144).prompts[0], counts=(Counts(10, 10, 80, 30, 20),))
    now = samples(0.0216, 0.0516 / 3)
    now = replace(now, prompts=(replace(drafted, series=now.prompts[0].series),))
    said = explanation(WITH_COSTS, now, replace(costs(), draft_tokens=8))

    assert "drafted tokens per round 4.00 → 8.00 explains -16.3%" in said
    assert "draft forward" not in said


def test_a_baseline_without_costs_asks_for_a_new_one() -> None:
    said = explanation(BEFORE, samples(0.03, 0.025), costs())

    assert said.endswith("; the baseline holds no costs of forwards, so a round is not told apart")


def test_what_did_not_move_is_no_reason() -> None:
    assert "(+0.0%): nothing moved by half a percent" in explanation(BEFORE, samples(0.03, 0.02))


_TIME = st.floats(1e-4, 1.0)


@given(_TIME, _TIME, st.integers(0, 30), st.none() | st.builds(costs, _TIME, _TIME, _TIME))
def test_the_parts_make_up_the_whole_change(alone: float, tpot: float, accepted: int, told: Costs | None) -> None:
    now = samples(alone, tpot, accepted)

    whole = sum(part.log_effect for part in parts(WITH_COSTS, now, told))

    assert whole == pytest.approx(math.log((alone / tpot) / 1.5))


def test_nothing_is_explained_by_what_was_not_measured() -> None:
    without_rounds = replace(samples(0.03, 0.02), prompts=(replace(samples(0.03, 0.02).prompts[0], counts=()),))
    without_times = replace(samples(0.03, 0.02), prompts=(PromptSamples("a", "a", {}),))

    assert explanation(BEFORE, without_rounds) == ""
    assert explanation(BEFORE, without_times) == ""
    assert explanation(replace(BEFORE, decode={"tpot": 0.02}), samples(0.03, 0.02)) == ""


def test_the_subject_tells_what_is_new_gone_and_different() -> None:
    assert subject_changes(BEFORE.subject, {"torch": "2.13", "k": "4", "driver": "570"}) == [
        ("driver", "-", "570"),
        ("torch", "2.11", "2.13"),
    ]


def _view(subject: dict[str, str], place: Place = PLACE) -> CaseView:
    taken = Measurement("e::c", "scripted", place, {}, subject, (), greedy=True)
    return CaseView("s.yaml", "e", "c", (), taken, samples(0.03, 0.025), baseline=BEFORE)


def test_a_reader_is_told_since_when_and_what_changed() -> None:
    assert since(_view({"torch": "2.13", "k": "4"})) == [
        (
            "speedup 1.500x → 1.200x (-20.0%): time per round 60 ms → 75 ms explains -20.0%"
            "; what forwards cost is not told by this engine"
        ),
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
