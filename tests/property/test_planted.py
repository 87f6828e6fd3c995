"""Planted losses change what they say and nothing else, and leave every identity of a trace alone."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.engines.base import Engine, EngineContext
from pytest_specgate.engines.planted import planted
from pytest_specgate.engines.plants import parse_plant
from pytest_specgate.engines.registry import create
from pytest_specgate.identities import trace_problems
from pytest_specgate.records import Arm, Message, Request, Sampling, Trace
from pytest_specgate.suite.model import EngineSpec

SCRIPTS = st.fixed_dictionaries(
    {
        "tokens": st.integers(1, 60),
        "k": st.integers(1, 9),
        "acceptance": st.floats(0, 1),
        "seconds_per_token": st.just(1e-6),
    }
)
BUDGETS = st.integers(1, 60)


def both(plant: str, options: dict[str, object], seed: int = 0) -> tuple[Engine, Engine]:
    spec = EngineSpec(kind="scripted", options=options)
    worse = planted(spec, parse_plant(plant), seed)
    return tuple(create(EngineContext("fake", one, Path())) for one in (spec, worse))  # type: ignore[return-value]


def generate(engine: Engine, arm: Arm, budget: int, prompt: str = "p1") -> Trace:
    (trace,) = engine.generate([Request(prompt, (Message("user", "say it"),), budget, Sampling())], arm)
    return trace


@given(options=SCRIPTS, budget=BUDGETS, share=st.integers(1, 100), seed=st.integers(0, 99))
def test_lost_acceptance_keeps_the_output_and_the_identities(
    options: dict[str, object], budget: int, share: int, seed: int
) -> None:
    plain, worse = both(f"acceptance={share}%", options, seed)
    before, after = (generate(engine, Arm.CANDIDATE, budget) for engine in (plain, worse))
    assert trace_problems(after) == ()
    assert (after.token_ids, after.text, after.chunks) == (before.token_ids, before.text, before.chunks)
    assert before.rounds is not None
    assert after.rounds is not None
    lost = sum(r.accepted for r in before.rounds) - sum(r.accepted for r in after.rounds)
    accepting = sum(r.accepted > 0 for r in before.rounds)
    assert abs(lost - accepting * share / 100) <= 1
    assert sum(r.tested for r in after.rounds) >= sum(r.tested for r in before.rounds) - 1  # a cut last round's
    assert generate(worse, Arm.CANDIDATE, budget).rounds is not None
    assert [r.accepted for r in generate(worse, Arm.CANDIDATE, budget).rounds or ()] == [
        r.accepted for r in after.rounds
    ]


@given(options=SCRIPTS, budget=BUDGETS, percent=st.integers(1, 300))
def test_a_delay_stretches_every_time_and_nothing_else(options: dict[str, object], budget: int, percent: int) -> None:
    plain, worse = both(f"delay={percent}%", {**options, "seconds_per_token": 0.01}, 0)
    before, after = (generate(engine, Arm.CANDIDATE, budget) for engine in (plain, worse))
    assert trace_problems(after) == ()
    assert after.token_ids == before.token_ids
    assert after.submit_ns == before.submit_ns
    for one, other in zip((*before.chunks, *(before.rounds or ())), (*after.chunks, *(after.rounds or ()))):
        stretched = (one.t_ns - before.submit_ns) * (1 + percent / 100)
        assert abs(other.t_ns - after.submit_ns - stretched) <= 1


@given(options=SCRIPTS, plant=st.sampled_from(["delay=15%", "acceptance=50%", "memory=1KiB", "sampler=0.1"]))
def test_the_reference_arm_is_left_alone(options: dict[str, object], plant: str) -> None:
    plain, worse = both(plant, options)
    assert generate(worse, Arm.REFERENCE, 20) == generate(plain, Arm.REFERENCE, 20)
