"""Proposed gates as text: what they read like, and that each can fail."""

from __future__ import annotations

import math

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specgate.metrics import METRICS, Family, Unit
from pytest_specgate.study.suggest import Proposal, Suggestion
from pytest_specgate.study.suggest_table import gate_text, lines
from pytest_specgate.suite.model import GateSpec

PROPOSED = sorted(
    name
    for name, metric in METRICS.items()
    if metric.family not in (Family.EXACTNESS, Family.DISTRIBUTION, Family.REQUESTS, Family.TASK)
)


def proposal(label: str, level: float, room: float, *, exact: bool = False) -> Proposal:
    """Runs about a level that unchanged builds leave by no more than the room, either way."""
    return Proposal("tiny", "qa", label, level, level - room, room, room / 3, exact)


def demanded(one: Proposal) -> str | None:
    """The text without the engine and scenario, which all share."""
    text = gate_text(one)
    return None if text is None else text.removesuffix(", engines: [tiny], scenarios: [qa]")


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (proposal("speedup", 1.5, 0.06), 'metric: speedup, limit: ">=1.44x", max_drop: "6.0%"'),
        (
            proposal("conditional_acceptance", 0.5, 0.1),
            'metric: conditional_acceptance, limit: ">=40%", max_drop: "0.1"',
        ),
        (proposal("conditional_acceptance", 0.05, 0.1), None),
        (proposal("conditional_acceptance", 0.1, 0.1), None),
        (proposal("conditional_acceptance", 0.0, 0.0, exact=True), None),
        (proposal("acceptance_length", 1.2, 0.1), 'metric: acceptance_length, limit: ">=1.1", max_drop: "10.0%"'),
        (proposal("acceptance_length", 1.01, 0.02), None),
        (proposal("exact_match", 1.0, 0.0, exact=True), 'metric: exact_match, limit: "==100%"'),
        (proposal("chrf", 3.0, 4.0), None),
        (proposal("kv_cache_usage", 0.9, 0.2), None),
        (proposal("kv_cache_usage", 0.5, 0.2), 'metric: kv_cache_usage, limit: "<=70%", max_rise: "0.2"'),
        (proposal("prefix_cache_hit_rate", 0.9, 0.2), 'metric: prefix_cache_hit_rate, limit: ">=70%"'),
        (proposal("prefix_cache_hit_rate", 0.5, 0.5), None),
        (proposal("length_ratio", 1.0, 0.1), 'metric: length_ratio, limit: "0.9x..1.1x"'),
        (proposal("acceptance_slope", -0.01, 0.02), 'metric: acceptance_slope, max_drop: "0.02"'),
        (proposal("ttft.p90", 0.1, 0.01), 'metric: ttft, statistic: p90, limit: "<=110 ms", max_rise: "1.0%"'),
    ],
)
def test_a_gate_as_it_is_pasted(one: Proposal, expected: str | None) -> None:
    assert demanded(one) == expected


def test_where_no_gate_could_fail_that_is_said() -> None:
    found = Suggestion(3, 0.01, 2, (proposal("chrf", 3.0, 4.0), proposal("exact_match", 0.0, 0.0, exact=True)))

    more = "more runs, or more measure.rounds, would allow one"
    assert list(lines(found))[2:] == [
        f"note: tiny, qa: chrf: no limit is proposed, 3.00, runs differ by 1.33; {more}",
        "note: tiny, qa: exact_match: no limit is proposed, 0.0% in every run",
    ]


@pytest.mark.parametrize("name", PROPOSED)
@given(hundredths=st.tuples(st.integers(0, 200), st.integers(0, 100)), exact=st.booleans())
@settings(max_examples=30, deadline=None)
def test_what_is_proposed_can_fail(name: str, hundredths: tuple[int, int], exact: bool) -> None:
    metric = METRICS[name]
    most = {Unit.FRACTION: 1.0, Unit.SCORE: 100.0}.get(metric.unit, math.inf)
    least = 1.0 if name == "acceptance_length" else 0.0
    if metric.family in (Family.DECAY, Family.GROWTH):
        least, most = -math.inf, math.inf
    scale = 1.0 if metric.unit is Unit.SCORE else 0.01
    value = min(max(hundredths[0] * scale, least), most)

    text = gate_text(proposal(name, value, 0.0 if exact else hundredths[1] * scale, exact=exact))

    if text is None:
        return
    gate = GateSpec.model_validate(yaml.safe_load(f"{{{text}}}"))
    for limit in filter(None, [gate.limit]):
        assert limit.low is None or limit.low > least
        assert limit.high is None or limit.high < most or limit.high == limit.low
    assert gate.max_drop is None or value - gate.max_drop.of(value) > least
    assert gate.max_rise is None or value + gate.max_rise.of(value) < most
