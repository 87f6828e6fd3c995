"""What pages show of a case, by hand: numbers with intervals, acceptance by position, and whose case is whose."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pytest_specgate.metrics import Unit
from pytest_specgate.records import (
    Arm,
    Chunk,
    Interval,
    Measurement,
    MemoryReading,
    Outcome,
    Pair,
    Place,
    PromptSamples,
    Round,
    Samples,
    Trace,
    Verdict,
)  # fmt: skip
from pytest_specgate.report import numbers, positions
from pytest_specgate.report.document import new_report
from pytest_specgate.report.numbers import ArmsRow, Estimate, ratio_text, text
from pytest_specgate.report.outline import WORST_FIRST, alike, outline, worst_first

PLACE = Place("cpu", 1, "float32")


def samples(*logs: tuple[float, ...], **series: tuple[float, ...]) -> Samples:
    prompts = tuple(PromptSamples(f"p{n}", f"p{n}", {"speedup": own, **series}) for n, own in enumerate(logs))
    return Samples("e::c", True, prompts)


# --- numbers ---


def test_the_speedup_is_the_geometric_mean_with_its_t_interval() -> None:
    found = numbers.speedup(samples((math.log(2) - 0.1, math.log(2) + 0.1), (math.log(0.5) - 0.1, math.log(0.5) + 0.1)))

    # Scatter within prompts: sqrt(4 * 0.01 / 2) = 0.1414; two means of two: error 0.0707; t(0.975, 2) = 4.303.
    assert found is not None
    assert found.value == pytest.approx(1.0)
    assert (found.low, found.high) == pytest.approx((math.exp(-0.3042), math.exp(0.3042)), rel=1e-3)


def test_one_round_has_a_value_and_no_interval() -> None:
    found = numbers.speedup(samples((math.log(1.5),)))

    assert found is not None
    assert text(found, Unit.RATIO) == "1.500x"
    assert numbers.by_prompt(samples((math.log(1.5),))) == [("p0", Estimate(pytest.approx(1.5)))]


def test_prompts_stand_slowest_first_and_rounds_in_their_order() -> None:
    two = samples((math.log(2.0), math.log(2.0)), (math.log(0.5), math.log(2.0)))

    assert [prompt for prompt, _ in numbers.by_prompt(two)] == ["p1", "p0"]
    assert numbers.by_round(two) == pytest.approx([1.0, 2.0])


def test_what_is_not_there_is_not_measured() -> None:
    nothing = Samples("e::c", True, (PromptSamples("p", "p", {}),))

    assert numbers.speedup(nothing) is None
    assert numbers.quantiles_of(nothing, "ttft") is None
    assert {(row.reference, row.candidate, row.ratio) for row in numbers.arms(nothing, {})} == {(None, None, None)}
    assert text(None, Unit.SECONDS) == text(Estimate(math.nan), Unit.SECONDS) == "not measured"
    assert numbers.speedup(samples((math.nan, 0.0))) is None


def test_an_open_limit_is_no_number() -> None:
    assert text(Estimate(0.5, None, 1.0), Unit.SECONDS) == "500 ms [?, 1 s]"


def test_arms_stand_side_by_side_and_their_ratio_is_paired() -> None:
    both = samples((0.0, 0.0), ttft=(0.2, 0.4), reference_ttft=(0.1, 0.2))
    memory = {Arm.REFERENCE: MemoryReading(host_rss=2**30), Arm.CANDIDATE: MemoryReading(host_rss=2**31)}
    rows = {row.label: row for row in numbers.arms(replace(both, scalars={"host_memory_ratio": 2.0}), memory)}

    assert text(rows["ttft, median"].reference, Unit.SECONDS).startswith("150 ms")
    assert text(rows["ttft, median"].candidate, Unit.SECONDS).startswith("300 ms")
    assert text(rows["ttft, median"].ratio, Unit.RATIO) == "2.000x [2.000x, 2.000x]"
    assert rows["host memory peak"].ratio == Estimate(2.0)
    assert rows["device memory peak"].candidate is None


# --- positions ---


def taken(*rounds: Round, greedy: bool = True) -> Measurement:
    ids = tuple(range(sum(r.emitted for r in rounds)))
    pairs = []
    for number in range(2):
        arms = [Trace("p", arm, ids, "", 4, 0, (Chunk(1, len(ids)),), "length", rounds) for arm in Arm]
        pairs.append(Pair("p", "p", number, "AB", *arms))
    return Measurement("e::c", "scripted", PLACE, {}, {}, tuple(pairs), greedy=greedy)


def test_two_zeros_have_no_ratio_and_are_measured_all_the_same() -> None:
    none = ArmsRow("waiting", Unit.REQUESTS, Estimate(0), Estimate(0), None)

    assert ratio_text(none) == "-"
    assert ratio_text(replace(none, candidate=None)) == "not measured"
    assert ratio_text(replace(none, ratio=Estimate(1.5))) == "1.500x"


def test_acceptance_by_draft_position_leaves_out_the_cut_round() -> None:
    # Drafts of 2: both kept, the first kept, none kept, and a last round that was cut.
    found = positions.by_draft_position(
        taken(Round(2, 2, 2, 3, 1), Round(2, 2, 1, 2, 2), Round(2, 1, 0, 1, 3), Round(2, 2, 2, 1, 4))
    )

    assert [(one.position, one.trials, one.share.value) for one in found] == [
        (1, 3, pytest.approx(2 / 3)),
        (2, 3, pytest.approx(1 / 3)),
    ]


def test_a_sampled_run_counts_all_its_rounds() -> None:
    (found,) = positions.by_draft_position(taken(Round(1, 1, 1, 2, 1), greedy=False))

    assert found.trials == 2


def test_acceptance_by_context_goes_by_doublings_of_prompt_and_output() -> None:
    # The prompt has 4 tokens: rounds begin at contexts 4, 7 and 9.
    found = positions.by_context(taken(Round(2, 2, 2, 3, 1), Round(2, 2, 1, 2, 2), Round(2, 1, 0, 1, 3)))

    assert [(one.position, one.trials, one.share.value) for one in found] == [(4, 4, 0.75), (8, 1, 0.0)]


def test_one_conversation_gives_no_interval_and_no_rounds_nothing() -> None:
    one = taken(Round(1, 1, 1, 2, 1))
    blind = replace(one, pairs=tuple(replace(p, candidate=replace(p.candidate, rounds=None)) for p in one.pairs))

    assert positions.by_draft_position(one)[0].share == Estimate(1.0)
    assert positions.by_draft_position(blind) == positions.by_context(blind) == []
    assert positions.decay(one) is positions.decay(blind) is None


# --- outline ---


def verdict(outcome: Outcome, case: str, location: str = "a.yaml:3:5", **more: str) -> Verdict:
    exact = Interval(1.0, 1.0, 1.0)
    return Verdict(
        "speedup", "speedup", case, outcome, more.pop("reason", "r"), measured=exact, location=location, **more
    )


def blank(case: str) -> Measurement:
    return Measurement(case, "scripted", PLACE, {}, {}, (), greedy=True)


def test_a_gate_of_a_common_file_belongs_to_the_suite_that_measured() -> None:
    shared = [verdict(Outcome.PASS, "e::c", "base.yaml:3:5"), verdict(Outcome.FAIL, "e::c", "base.yaml:3:5")]
    report = new_report(shared, {"one.yaml": (blank("e::c"),), "two.yaml": (blank("e::c"),)}, 1, {})

    assert [(v.suite, v.worst) for v in outline(report)] == [("one.yaml", Outcome.PASS), ("two.yaml", Outcome.FAIL)]


def test_a_case_that_was_judged_alone_or_measured_alone_is_there() -> None:
    report = new_report([verdict(Outcome.ERROR, "gone::c")], {"a.yaml": (blank("e::c"),)}, 1, {})
    gone, bare = outline(report)

    assert (gone.engine, gone.problem, gone.worst) == ("gone", "this case was not measured", Outcome.ERROR)
    assert (bare.engine, bare.worst) == ("e", None)
    assert "nothing was measured" in bare.problem


def test_cases_of_an_engine_stand_together() -> None:
    cases = ["e::qa-t0-c1", "f::qa-t0-c1", "e::qa-t0-c4"]
    views = outline(new_report([verdict(Outcome.PASS, case) for case in cases], {}, 0, {}))

    assert [view.engine for view in views] == ["e", "e", "f"]
    assert [view.series for view in views] == [("qa-t0", 1), ("qa-t0", 4), ("qa-t0", 1)]


def test_what_fails_the_build_comes_before_what_is_waived() -> None:
    waived, failed = verdict(Outcome.FAIL, "e::a", softened="warn"), verdict(Outcome.FAIL, "e::b")
    passed = verdict(Outcome.PASS, "e::c")

    assert worst_first([passed, waived, failed]) == [failed, waived, passed]
    assert WORST_FIRST[0] is Outcome.FAIL


def test_one_sentence_speaks_for_all_gates_that_it_explains() -> None:
    gone = [verdict(Outcome.ERROR, f"e::{n}", reason="cannot start") for n in "abc"]
    other = verdict(Outcome.ERROR, "f::a", reason="cannot start")

    assert alike([*gone, other]) == [tuple(gone), (other,)]
