"""Advice: each rule alone, each condition alone, what they make together, and every face that tells it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_specgate.records import Measurement, Outcome, Place, Samples, Verdict
from pytest_specgate.report import document
from pytest_specgate.report.advice import RULES, advise, conditions, on_scenario
from pytest_specgate.report.advised import Advice, Recommendation, Wanted, wanted
from pytest_specgate.report.document import Report
from pytest_specgate.report.evidence import LOSES, OPEN, PAYS, UNMEASURED, Evidence, evidence
from pytest_specgate.report.html.page import html
from pytest_specgate.report.markdown import markdown
from pytest_specgate.report.numbers import Estimate
from pytest_specgate.report.outline import CaseView
from pytest_specgate.report.prediction import Suggestion
from pytest_specgate.report.terminal import advice_lines
from pytest_specgate.report.together import on_engine
from pytest_specgate.suite.advising import AdviceSpec
from tests.unit.reporting import HOSTILE, hostile, measured

DOCUMENTED = Path(__file__).parents[2] / "docs" / "advice.md"
ADOPT, CONDITIONS, REFUSE, UNKNOWN = Recommendation
WANTED = Wanted()
VIEW = CaseView("s.yaml", "e", "qa-t0-c1", (), None, None, "this case was not measured")
SPEEDS = {
    PAYS: Estimate(1.5, 1.4, 1.6),
    LOSES: Estimate(0.8, 0.7, 0.9),
    OPEN: Estimate(1.05, 0.9, 1.2),
    UNMEASURED: None,
}


def seen(standing: str, at_once: int = 1, **others: object) -> Evidence:
    found = Evidence(VIEW, at_once, standing, SPEEDS[standing])
    return replace(found, **others)  # type: ignore[arg-type]


def better(k: int, low: float) -> Suggestion:
    return Suggestion(k, 4, Estimate(low + 0.05, low, low + 0.1), 8)


# --- the rules ---

CASES: dict[str, tuple[list[Evidence], Recommendation]] = {
    "output is not the target's": ([seen(PAYS), seen(PAYS, 4, wrong="exact_match fails: 1 of 6 differ")], REFUSE),
    "not measured": ([seen(UNMEASURED)], UNKNOWN),
    "machine not steady": ([seen(OPEN, unsteady="environment rule 'load' did not hold: 3 others")], UNKNOWN),
    "too much memory": ([seen(PAYS, memory=1.6)], REFUSE),
    "another draft length pays": ([seen(LOSES, suggestion=better(2, 1.6))], CONDITIONS),
    "loses everywhere": ([seen(LOSES), seen(LOSES, 4)], REFUSE),
    "not decided": ([seen(OPEN), seen(LOSES, 4)], UNKNOWN),
    "pays within bounds": ([seen(PAYS), seen(PAYS, 4), seen(LOSES, 8)], CONDITIONS),
    "pays": ([seen(PAYS), seen(PAYS, 4)], ADOPT),
}


def test_every_rule_has_its_case_and_its_row_in_the_documentation() -> None:
    assert list(CASES) == [rule.name for rule in RULES]
    rows = [line for line in DOCUMENTED.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
    told = {row.split(" | ")[0][2:]: row.split(" | ")[2].removesuffix(" |").partition(":")[0] for row in rows}
    assert told == {rule.name: rule.recommendation.value for rule in RULES}


@pytest.mark.parametrize("name", CASES)
def test_the_first_rule_that_holds_decides(name: str) -> None:
    group, recommendation = CASES[name]

    found = on_scenario("qa-t0", group, WANTED)

    assert (found.rule, found.recommendation) == (name, recommendation)
    assert found.reasons


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"max_memory_rise": 1.0}, "pays"),
        ({"max_memory_rise": 0.5}, "too much memory"),
    ],
)
def test_thresholds_are_the_suites(changed: dict[str, float], rule: str) -> None:
    assert on_scenario("qa-t0", [seen(PAYS, memory=1.6)], replace(WANTED, **changed)).rule == rule


def test_a_length_is_not_recommended_on_a_number_that_its_interval_does_not_carry() -> None:
    weak = [seen(LOSES, suggestion=better(2, 1.3))]  # 0.8x times 1.35 is 1.08x, but 0.7x times 1.3 is 0.91x

    assert on_scenario("qa-t0", weak, WANTED).rule == "loses everywhere"


# --- the conditions ---


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ([seen(PAYS), seen(PAYS, 4), seen(OPEN, 8)], "up to 4 requests at once"),
        ([seen(PAYS), seen(LOSES, 4)], "up to 1 request at once"),
        ([seen(LOSES), seen(PAYS, 4), seen(LOSES, 8)], "at 4 requests at once"),
        ([seen(PAYS, context=512), seen(PAYS, 4, context=1024)], "up to a context of 512 tokens"),
        (
            [seen(PAYS, suggestion=better(6, 1.1))],
            "with k = 6 instead of 4 (expected 1.150x [1.100x, 1.200x] as fast; measure it)",
        ),
        (
            [seen(PAYS, ttft=Estimate(1.5, 1.4, 1.6))],
            "where the first token may come later (1.500x [1.400x, 1.600x] of the reference arm's time)",
        ),
    ],
)
def test_a_bound_is_told_in_words(group: list[Evidence], said: str) -> None:
    assert conditions(group, WANTED) == (said,)


@pytest.mark.parametrize(
    "group",
    [
        [seen(PAYS), seen(PAYS, 8)],
        [seen(PAYS, suggestion=better(6, 1.01))],
        [seen(PAYS, suggestion=better(4, 1.0))],
        [seen(PAYS, ttft=Estimate(1.5, 1.1, 1.9))],
        [seen(PAYS, memory=1.2)],
    ],
)
def test_what_holds_everywhere_or_is_small_is_no_condition(group: list[Evidence]) -> None:
    assert conditions(group, WANTED) == ()


def test_memory_that_is_too_much_at_some_concurrency_is_a_bound() -> None:
    (said,) = conditions([seen(PAYS, memory=1.1), seen(PAYS, 8, memory=1.4)], WANTED)

    assert said.startswith("where there is room: at 8 requests at once")


def test_lost_room_is_a_bound_where_it_was_measured() -> None:
    numbers = Samples("e::qa-t0-c1", True, (), {"max_batch": 6.0, "max_batch_ratio": 0.6})
    tight = seen(PAYS, capacity=0.6, view=replace(VIEW, samples=numbers))

    assert conditions([tight], WANTED) == (
        "where fewer requests may fit: 6 requests at once fit (max_batch) against 10: 40% of the room is lost",
    )
    assert conditions([replace(tight, capacity=0.9)], WANTED) == ()


# --- all scenarios together ---


def on(scenario: str, recommendation: Recommendation, rule: str = "pays", *bounds: str) -> Advice:
    return Advice("s.yaml", "e", scenario, recommendation, rule, bounds, ("because",), ())


@pytest.mark.parametrize(
    ("scenarios", "recommendation", "bounds"),
    [
        ([on("a", ADOPT), on("b", ADOPT)], ADOPT, ()),
        ([on("a", ADOPT), on("b", REFUSE)], CONDITIONS, ("for a", "not for b")),
        ([on("a", CONDITIONS, "pays", "up to 4"), on("b", UNKNOWN)], CONDITIONS, ("a: up to 4", "b undecided")),
        ([on("a", REFUSE), on("b", UNKNOWN)], REFUSE, ()),
        ([on("a", UNKNOWN)], UNKNOWN, ()),
        ([on("a", ADOPT), on("b", REFUSE, "output is not the target's")], REFUSE, ()),
    ],
)
def test_scenarios_make_one_advice(
    scenarios: list[Advice], recommendation: Recommendation, bounds: tuple[str, ...]
) -> None:
    found = on_engine(scenarios)

    assert (found.recommendation, found.conditions, found.scenario) == (recommendation, bounds, "")
    assert found.again


# --- what a case says ---


def test_different_texts_are_excused_where_every_token_is_the_targets_own() -> None:
    same = Verdict("exact_match", "exact_match", "e::qa-t0-c1", Outcome.FAIL, "2 of 6 differ")
    exact = Verdict("greedy_exactness", "greedy_exactness", "e::qa-t0-c1", Outcome.PASS, "all within noise")
    failed = replace(exact, outcome=Outcome.FAIL)

    assert evidence(replace(VIEW, verdicts=(same,)), WANTED).wrong == "exact_match fails: 2 of 6 differ"
    assert evidence(replace(VIEW, verdicts=(same, exact)), WANTED).wrong == ""
    assert evidence(replace(VIEW, verdicts=(failed,)), WANTED).wrong == "greedy_exactness fails: all within noise"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    made = measured(tmp_path_factory.mktemp("suite"))
    return advise(replace(made, wanted={suite: Wanted(price=2.5) for suite in made.measurements}))


def whole(report: Report) -> dict[str, Advice]:
    return {one.engine: one for one in report.advice if not one.scenario}


def test_a_run_is_advised_on(report: Report) -> None:
    found = {engine: one.recommendation for engine, one in whole(report).items()}

    assert {found["quick"], found["blind"]} <= {ADOPT, CONDITIONS}
    assert (found["slow"], found["gone"]) == (REFUSE, UNKNOWN)
    scenarios = [(one.engine, one.scenario) for one in report.advice if one.scenario]
    assert scenarios == [(engine, name) for engine in found for name in ("qa-t0", "chat-t0.7")]


def test_a_million_tokens_cost_less_by_the_speedup(report: Report) -> None:
    cost = whole(report)["quick"].costs[0]

    assert cost.reference is not None
    assert cost.candidate is not None
    # 10 ms a token are 360,000 tokens an hour, so 2.50 buys a million for 6.94.
    assert cost.reference.value == pytest.approx(6.94, rel=0.02)
    assert cost.reference.value / cost.candidate.value == pytest.approx(1.5, rel=0.03)
    assert cost.candidate.low <= cost.candidate.value <= cost.candidate.high


def test_two_devices_cost_twice_as_much(report: Report) -> None:
    def on_two(one: Measurement) -> Measurement:
        return replace(one, place=Place("simulated", 2, "none"))

    more = {suite: tuple(map(on_two, taken)) for suite, taken in report.measurements.items()}
    once, twice = (whole(r)["quick"].costs[0].reference for r in (report, advise(replace(report, measurements=more))))

    assert once is not None
    assert twice is not None
    assert twice.value == pytest.approx(2 * once.value)


def test_the_check_list_has_every_part_and_says_what_was_not_measured(report: Report) -> None:
    rows = {row.metric: row for row in whole(report)["quick"].checks}

    assert {row.part for row in rows.values()} == {"throughput", "output quality", "resources"}
    assert (rows["speedup"].expected, rows["speedup"].reading) == (">=1.2x", "gates: 4 kept")
    assert rows["greedy_exactness"].measured == "not measured"
    assert rows["length_ratio"].reading == "no gate asks; met"
    assert {row.metric: row.reading for row in whole(report)["slow"].checks}["exact_match"] == "gates: 3 broken"


def test_every_face_tells_it(report: Report) -> None:
    page, text, lines = html(report), markdown(report), list(advice_lines(report.advice))

    for face in (page, text):
        assert "Adopt speculation?" in face
        assert "do not adopt" in face
        assert "heck list" in face
    said = "advice: demo.specgate.yaml · slow: do not adopt: output is not the target's in qa-t0"
    assert said in lines
    assert document.from_json(document.to_json(report), Path("r.json")).advice == report.advice


@pytest.mark.parametrize(
    "text",
    [HOSTILE, "\x1b]0;gone\x07\x1b[2J\u202e\u2066\x00\ud800", "long " + "x" * 1_000_000],
    ids=["all kinds", "controls", "a megabyte"],
)
def test_hostile_names_are_inert_in_every_face(report: Report, text: str) -> None:
    struck = advise(hostile(report, text))

    shown = list(advice_lines(struck.advice))
    assert shown
    assert max(map(len, shown)) < 450
    for face in (*shown, markdown(struck), html(struck)):
        assert not re.search("[\x00\x07\x1b\u202e\u2066\ud800]", face)
    assert "<script>alert" not in html(struck)
    assert len(markdown(struck).encode()) <= 65_000
    if len(text) < 1000:  # the JSON report keeps every text whole, here a megabyte some thousand times
        assert document.from_json(document.to_json(struck), Path("r.json")) == struck


@pytest.mark.parametrize(
    ("load", "said"),
    [("4/s poisson seed=1", "4 requests/s (Poisson)"), ("1.5/s fixed seed=0", "1.5 requests/s (evenly)")],
)
def test_requests_by_the_clock_are_told_by_their_rate(report: Report, load: str, said: str) -> None:
    def by_the_clock(one: Measurement) -> Measurement:
        return replace(one, case=f"{one.case.rpartition('-c')[0]}-r4", workload={**one.workload, "load": load})

    kept = {name: [one for one in ones if one.case.endswith("-c1")] for name, ones in report.measurements.items()}
    found = advise(
        replace(
            report,
            verdicts=(),
            measurements={name: tuple(map(by_the_clock, ones)) for name, ones in kept.items()},
        )
    )

    told = [line for one in found.advice for line in (*one.conditions, *one.reasons, *one.limits)]
    assert any(f"at {said}" in line for line in told)
    assert not any("at once" in line for line in told)
    assert {cost.load for one in found.advice for cost in one.costs} == {said}
    assert f"at {said}: " in " ".join(advice_lines(found.advice))
    assert f"<td>{said}</td>" in html(found)


def test_no_price_no_costs(report: Report) -> None:
    without = advise(replace(report, wanted={}))

    assert all(one.costs == () for one in without.advice)
    assert "million" not in html(without)


def test_a_report_without_cases_has_no_advice(report: Report) -> None:
    empty = advise(replace(report, verdicts=(), measurements={}))

    assert empty.advice == ()
    assert "Adopt speculation?" not in html(empty)
    assert list(advice_lines(empty.advice)) == []


# --- what a suite says ---


def test_a_suite_overrides_the_thresholds() -> None:
    spec = AdviceSpec(min_speedup="1.2x", max_memory_rise="10%", max_ttft_rise=0.5, min_gain="3%", price="2.50/h")

    assert wanted(spec) == Wanted(1.2, 0.1, 0.5, 0.25, 0.03, 2.5)
    assert wanted(spec, 4.0).price == 4.0
    assert wanted(AdviceSpec()) == Wanted()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("price", "2.50", "'2.50' is no price of an hour above zero — write it like 2.50/h"),
        ("price", "0/h", "'0/h' is no price of an hour above zero — write it like 2.50/h"),
        ("price", 2.5, "2.5 is no price of an hour above zero — write it like 2.50/h"),
        ("max_memory_rise", "25", "'25' is out of range, which is 0 to 1000% — write it like 25%"),
    ],
)
def test_a_wrong_threshold_is_refused(key: str, value: object, said: str) -> None:
    with pytest.raises(ValueError, match="Value error") as caught:
        AdviceSpec(**{key: value})

    assert said in str(caught.value)
