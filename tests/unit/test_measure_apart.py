"""Arms that are never up together: alternating fresh starts, each of which is one observation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_specgate import samples
from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.planted import planted
from pytest_specgate.engines.plants import parse_plant
from pytest_specgate.engines.registry import create
from pytest_specgate.gates.parts import units
from pytest_specgate.measure.run import Plan, measure_case
from pytest_specgate.records import Arm, Outcome, Verdict
from pytest_specgate.session import SuiteSession
from pytest_specgate.settings import Settings
from pytest_specgate.stats.looks import Looks
from pytest_specgate.suite.cases import expand
from tests.unit.apart_engines import OneAtATime, Together
from tests.unit.project import PROMPTS, context, load, write

A, B = Arm.REFERENCE, Arm.CANDIDATE
FAST = {"metric": "speedup", "limit": ">=1.2x"}
CHAT = [{"id": "chat", "turns": ["Say it.", "Say it again."]}, *PROMPTS[:1]]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECGATE_CACHE", str(tmp_path / ".cache"))


def a_suite(folder: Path, kind: str, rounds: int, **options: object) -> Path:
    engine = {"kind": f"tests.unit.apart_engines:{kind}", "options": {"tokens": 8, **options}}
    return write(folder, FAST, prompts=PROMPTS[:4], engines={"tiny": engine}, measure={"rounds": rounds})


def judged(path: Path, **settings: object) -> tuple[Verdict, SuiteSession]:
    suite, case = load(path)
    session = SuiteSession(suite, "tiny", replace(Settings(path.parent / "baselines"), **settings))  # type: ignore[arg-type]
    return session.judge(case.gates[0], case), session


def test_every_round_starts_both_arms_anew_and_alternates_who_begins(tmp_path: Path) -> None:
    suite, case = load(write(tmp_path, prompts=PROMPTS[:2], options={"tokens": 8}))
    engine = OneAtATime(context(suite))
    told: list[str] = []

    measurement = measure_case(engine, case, Plan(Looks((3,)), 1, None, lambda *_: ["open"], told.append))

    assert engine.starts == [A, B, B, A, A, B]
    warmed_and_measured = [("q1",), ("q1",), ("q2",)]
    assert engine.calls == [(arm, prompts) for arm in engine.starts for prompts in warmed_and_measured]
    assert [(p.prompt, p.round, p.order) for p in measurement.pairs] == [
        (f"q{n}", number, "BA" if number == 1 else "AB") for number in range(3) for n in (1, 2)
    ]
    assert {p.reference.arm for p in measurement.pairs} == {A}
    assert measurement.apart
    assert told[0] == "tiny::qa-t0-c1: fresh start 1 of the reference arm"


def test_later_turns_carry_the_reference_arms_first_answers(tmp_path: Path) -> None:
    suite, case = load(write(tmp_path, prompts=CHAT, options={"tokens": 8}, scenario={"concurrency": [2]}))
    engine = OneAtATime(context(suite))

    measurement = measure_case(engine, case, Plan(Looks((2,)), 1, None, lambda *_: ["open"], lambda _: None))

    turns = [("chat/1", "q1"), ("chat/2",)]
    assert [prompts for arm, prompts in engine.calls if arm is B] == [turns[0], *turns, turns[0], *turns]
    assert [p.prompt for p in measurement.pairs[:3]] == ["chat/1", "q1", "chat/2"]
    assert [p.cluster for p in measurement.pairs[:3]] == ["chat", "q1", "chat"]


def test_an_engine_whose_arms_fit_together_is_measured_as_ever(tmp_path: Path) -> None:
    suite, case = load(write(tmp_path, prompts=PROMPTS[:2], options={"tokens": 8}))
    engine = Together(context(suite))

    measurement = measure_case(engine, case, Plan(Looks((2,)), 1, None, lambda *_: ["open"], lambda _: None))

    assert engine.starts == []
    assert not measurement.apart


def test_a_planted_loss_takes_turns_as_its_engine_does(tmp_path: Path) -> None:
    suite, case = load(a_suite(tmp_path, "OneAtATime", rounds=4))
    spec = planted(suite.spec.engines["tiny"], parse_plant("delay=10%"), seed=1)
    engine = create(EngineContext("tiny", spec, tmp_path))

    measurement = measure_case(engine, case, Plan(Looks((2,)), 1, None, lambda *_: ["open"], lambda _: None))

    assert measurement.apart
    assert len(measurement.pairs) == 8


def test_a_fresh_start_is_one_observation_whatever_its_prompts(tmp_path: Path) -> None:
    suite, case = load(write(tmp_path, prompts=PROMPTS[:4], options={"tokens": 8}))
    plan = Plan(Looks((6,)), 1, None, lambda *_: ["open"], lambda _: None)
    apart = measure_case(OneAtATime(context(suite)), case, plan)

    def observed(measurement: object) -> list[int]:
        found = samples.reduce(measurement, {"speedup"})  # type: ignore[arg-type]
        return [len(group) for group in units({p.prompt: p.series["speedup"] for p in found.prompts}, found).groups]

    assert observed(apart) == [6]
    assert observed(replace(apart, apart=False)) == [6, 6, 6, 6]


def test_enough_fresh_starts_decide(tmp_path: Path) -> None:
    verdict, session = judged(a_suite(tmp_path, "OneAtATime", rounds=16, speedup=2.5))

    assert verdict.outcome is Outcome.PASS
    # Looks at one and two rounds never took place.
    assert verdict.checks[0].looks[0].rounds == 4
    (result,) = session.results()
    assert next(seen.rounds for seen in result.seen) == 4


def test_the_noise_between_starts_is_in_the_interval(tmp_path: Path) -> None:
    """Starts scatter by 5 % per arm: on 16 rounds of 4 quiet prompts the limits must know it."""
    verdict, session = judged(a_suite(tmp_path, "OneAtATime", rounds=16, speedup=1.2, noise=0.0005))
    (result,) = session.results()
    pooled = session.judge  # the same numbers, as if prompts were independent
    session.take(expand(session.suite)[0], replace(result.measurement, apart=False))
    naive = pooled(expand(session.suite)[0].gates[0], expand(session.suite)[0])

    assert verdict.measured is not None
    assert naive.measured is not None
    honest_width = verdict.measured.high - verdict.measured.low
    assert honest_width > 1.5 * (naive.measured.high - naive.measured.low)


def test_too_few_fresh_starts_are_inconclusive_whatever_they_say(tmp_path: Path) -> None:
    verdict, session = judged(a_suite(tmp_path, "OneAtATime", rounds=3, speedup=50.0))

    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.reason == (
        "environment rule 'fresh starts' did not hold: each arm was started anew 3 times (at least 4)"
    )
    engine = session.running
    assert isinstance(engine, OneAtATime)
    assert len(engine.starts) == 6, "measuring once more would not have helped"


def test_a_budget_that_ends_early_says_the_same(tmp_path: Path) -> None:
    path = a_suite(tmp_path, "OneAtATime", rounds=8, speedup=50.0)
    suite, case = load(path)
    engine = OneAtATime(context(suite))

    measurement = measure_case(engine, case, Plan(Looks((8,)), 1, 0.0, lambda *_: ["open"], lambda _: None))

    (finding,) = [f for f in measurement.findings if f.rule == "fresh starts"]
    assert not finding.held
    assert finding.detail == "each arm was started anew 1 time (at least 4)"
