"""Whatever the numbers are, judging answers: no exception, no warning, one line, and nothing that JSON cannot hold."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specgate.errors import Location
from pytest_specgate.gates import JudgeContext, Seen, judge
from pytest_specgate.metrics import METRICS, STATISTICS, Family, Unit
from pytest_specgate.records import Counts, Outcome, Place, PromptSamples, Samples, Stored
from pytest_specgate.suite.cases import Gate
from pytest_specgate.suite.model import GateSpec

HERE, ELSEWHERE = Place("cpu", 1, "float32"), Place("cuda", 1, "float16")
LIMITS = {
    Unit.RATIO: (">=1.2x", "<=0x", "0.9x..1.1x", "==1x"),
    Unit.FRACTION: (">=50%", "==100%", "<=0%"),
    Unit.TOKENS: (">=2", "<=1"),
    Unit.BYTES: ("<=1 GiB",),
    Unit.SECONDS: ("<=20 ms", ">=0 s"),
    Unit.RATE: (">=10 tokens/s",),
    Unit.SCORE: (">=90", "==100"),
    Unit.REQUESTS: (">=8",),
    Unit.WATTS: ("<=300 W",),
    Unit.JOULES: ("<=0.5 J", ">=0 J"),
    Unit.SLOPE: (">=-0.02", "<=0", "-0.1..0.1"),
}
WILD = st.one_of(
    st.floats(0.5, 2),
    st.sampled_from([0.0, -1.0, 1.0, 1e9, -1e9, 1e300]),
    st.floats(allow_nan=True, allow_infinity=True),
)
TAME = st.floats(0.9, 1.1)
COUNTS = st.builds(
    lambda rounds, tested, accepted: Counts(rounds, rounds, 4 * rounds, tested, min(tested, accepted)),
    *[st.integers(0, 12)] * 3,
)


#: These take one demand alone and are judged by passes of their own: tests of their own have them.
OWN = (Family.EXACTNESS, Family.DISTRIBUTION, Family.REQUESTS, Family.TASK)
FREE = sorted(name for name, metric in METRICS.items() if metric.family not in OWN)


@st.composite
def gates(draw: st.DrawFn) -> Gate:
    metric = METRICS[draw(st.sampled_from(FREE))]
    spec: dict[str, object] = {"metric": metric.name, "max_rise": "5%"}
    spec["limit"] = draw(st.sampled_from((None, *LIMITS[metric.unit])))
    spec["max_drop"] = draw(st.sampled_from([None, "5%", "0%"]))
    if metric.family is Family.LATENCY:
        spec["statistic"] = draw(st.sampled_from(STATISTICS))
    spec["population"] = draw(st.booleans())
    return Gate(GateSpec.model_validate(spec), Location(Path("a.specgate.yaml"), 1, 1))


@st.composite
def runs(draw: st.DrawFn, metric: str, *, greedy: bool) -> Samples:
    values = draw(st.sampled_from([WILD, TAME]))
    rounds = draw(st.integers(1, 4))
    prompts = []
    for number in range(draw(st.integers(1, 16))):
        series = {
            name: tuple(draw(st.lists(values, min_size=rounds, max_size=rounds)))
            for name in (metric, f"reference_{metric}", f"{metric}_weight")
        }
        if draw(st.booleans()):
            series["block"] = (float(number // 4),) * rounds
        counts = tuple(draw(st.lists(COUNTS, max_size=rounds)))
        cluster, digest = f"c{number // 2}", draw(st.sampled_from(["", "x", "y"]))
        prompts.append(PromptSamples(f"p{number}", cluster, series, counts, digest))
    scalars = {metric: draw(values)} if draw(st.booleans()) else {}
    repeated = {metric: tuple(draw(st.lists(values, max_size=4)))}
    return Samples("e::c", greedy, tuple(prompts), scalars, growth=repeated, device=repeated)


def seen(now: Samples) -> list[Seen]:
    """The run after one round, after two, and after all."""
    rounds = max((len(series) for prompt in now.prompts for series in prompt.series.values()), default=1)
    return [Seen(look, first(look, now)) for look in sorted({1, 2, rounds}) if look <= rounds]


def first(rounds: int, of: Samples) -> Samples:
    prompts = [
        replace(p, series={name: s[:rounds] for name, s in p.series.items()}, counts=p.counts[:rounds])
        for p in of.prompts
    ]
    return replace(of, prompts=tuple(prompts))


def impossible(gate: Gate, now: Samples) -> bool:
    """Whether the first round holds a number that no clock and no count shows."""
    values = [prompt.series[gate.spec.metric][0] for prompt in now.prompts]
    if gate.spec.info.family is Family.LATENCY and min(values) < 0:
        return True
    timed = gate.spec.info.family in {Family.SPEEDUP, Family.LATENCY, Family.OUTPUT}
    return timed and not all(map(math.isfinite, values))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_judging_always_answers(data: st.DataObject) -> None:
    gate, greedy = data.draw(gates()), data.draw(st.booleans())
    now = data.draw(runs(gate.spec.metric, greedy=greedy))
    place = data.draw(st.sampled_from([HERE, ELSEWHERE]))
    before = data.draw(st.none() | runs(gate.spec.metric, greedy=greedy))
    stored = None if before is None else Stored(place, {}, {}, "2030-01-01", before)
    looks = data.draw(st.sampled_from([[Seen(4, now)], seen(now)]))
    context = JudgeContext("a", "e::c", "e", 0.001, HERE, dt.date(2030, 1, 1), looks=len(looks))

    verdict = judge(gate, looks, stored, context)

    assert verdict.outcome in Outcome
    if impossible(gate, now):
        assert verdict.outcome is Outcome.ERROR
    assert verdict.reason
    assert "\n" not in verdict.reason
    for found in (verdict.measured, verdict.baseline, *(check.interval for check in verdict.checks)):
        assert found is None or all(map(math.isfinite, (found.low, found.value, found.high)))
