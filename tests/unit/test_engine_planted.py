"""An engine with a planted loss: it passes for the engine that it wraps, and refuses what it cannot carry."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.engines.base import Engine, EngineContext
from pytest_specgate.engines.planted import KIND, Planted, planted
from pytest_specgate.engines.plants import parse_plant
from pytest_specgate.engines.registry import create
from pytest_specgate.errors import EngineError
from pytest_specgate.measure.child import decode_context, encode_context
from pytest_specgate.records import Arm, Message, Request, Sampling
from pytest_specgate.suite.model import EngineSpec

ENGINES = "tests.unit.study_engines"


def worse(plant: str, kind: str = "scripted", **options: object) -> Any:
    spec = planted(EngineSpec(kind=kind, options=options), parse_plant(plant), 3)
    return create(EngineContext("fake", spec, Path()))


def request(temperature: float = 0.0) -> Request:
    return Request("p1", (Message("user", "say it"),), 20, Sampling(temperature))


def test_it_passes_for_the_engine_it_wraps() -> None:
    plain = create(EngineContext("fake", EngineSpec(kind="scripted", options={"k": 7}), Path()))
    other = worse("delay=15%", k=7)
    assert isinstance(other, Planted)
    assert isinstance(other, Engine)
    other.start()
    for fact in ("place", "workload", "subject"):
        assert getattr(other, fact)() == getattr(plain, fact)()
    assert other.capabilities == plain.capabilities
    assert other.memory([Arm.CANDIDATE]) == plain.memory([Arm.CANDIDATE])
    other.close()
    other.close()


def test_it_travels_to_the_memory_pass() -> None:
    spec = planted(EngineSpec(kind="scripted", options={"tokens": 5}), parse_plant("acceptance=10%"), 3)
    context = EngineContext("fake", spec, Path("folder"), arms=(Arm.CANDIDATE,))
    assert decode_context(encode_context(context)) == context
    assert spec.kind == KIND


def test_a_delay_is_spent_before_it_stands_in_a_trace() -> None:
    engine = worse("delay=200%", f"{ENGINES}:TrueClock")
    engine.start()
    traces = engine.generate([request()], Arm.CANDIDATE)
    assert traces[-1].chunks[-1].t_ns <= time.perf_counter_ns()


def test_a_sampler_is_asked_for_more_heat() -> None:
    engine = worse("sampler=0.25", f"{ENGINES}:Remembers")
    engine.start()
    engine.check(1, True)
    engine.generate([request(), request(0.5)], Arm.CANDIDATE)
    engine.generate([request()], Arm.REFERENCE)
    assert engine._inner.checked == [(1, True), (1, False)]
    assert [(arm, one.sampling.temperature) for arm, one in engine._inner.asked] == [
        (Arm.CANDIDATE, 0.25),
        (Arm.CANDIDATE, 0.75),
        (Arm.REFERENCE, 0.0),
    ]


@pytest.mark.parametrize(("arms", "held"), [((Arm.CANDIDATE,), 2**20), ((Arm.REFERENCE,), 0), (tuple(Arm), 2**20)])
def test_memory_is_held_until_the_end(arms: tuple[Arm, ...], held: int) -> None:
    spec = planted(EngineSpec(kind="scripted"), parse_plant("memory=1MiB"), 0)
    engine: Any = create(EngineContext("fake", spec, Path(), arms=arms))
    engine.start()
    assert sum(map(len, engine._ballast)) == held
    assert engine.generate([request()], Arm.CANDIDATE)[0].token_ids
    engine.close()
    assert engine._ballast == []


def test_a_leak_grows_with_every_request_of_the_candidate() -> None:
    spec = planted(EngineSpec(kind="scripted"), parse_plant("leak=1KiB"), 0)
    engine: Any = create(EngineContext("fake", spec, Path()))
    engine.start()
    for requests, arm in ((1, Arm.CANDIDATE), (2, Arm.REFERENCE), (3, Arm.CANDIDATE)):
        assert len(engine.generate([request()] * requests, arm)) == requests
    assert sum(map(len, engine._ballast)) == 4 * 2**10
    engine.close()
    assert engine._ballast == []


def test_acceptance_needs_rounds() -> None:
    engine = worse("acceptance=5%", fault="no_rounds")
    message = (
        "fake: a loss of acceptance cannot be planted: no rounds are told — "
        "plant another loss, or use an engine that tells its rounds"
    )
    with pytest.raises(EngineError, match=f"^{re.escape(message)}$"):
        engine.start()


@pytest.mark.parametrize(
    ("text", "kind", "size"),
    [
        ("delay=15%", "delay", 0.15),
        (" delay = 0.15 ", "delay", 0.15),
        ("acceptance=1", "acceptance", 1.0),
        ("memory=64MiB", "memory", 2**26),
        ("sampler=0.1", "sampler", 0.1),
    ],
)
def test_plants_are_written_like_this(text: str, kind: str, size: float) -> None:
    plant = parse_plant(text)
    assert (plant.kind, plant.size) == (kind, size)


ALL = "delay=15%, acceptance=0.05, memory=64MiB, leak=1MiB, sampler=0.1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dealy=15%", f"unknown plant 'dealy'; did you mean 'delay'? — write one of: {ALL}"),
        ("", f"unknown plant '' — write one of: {ALL}"),
        ("delay", "plant 'delay' has no size — write it like delay=15%"),
        ("memory=", "plant 'memory' has no size — write it like memory=64MiB"),
        ("delay=0", "'0' is out of range, which is above 0 to 1000% — write it like delay=15%"),
        ("acceptance=101%", "'101%' is out of range, which is above 0 to 100% — write it like acceptance=0.05"),
        ("sampler=3", "'3' is out of range, which is above 0 to 2 — write it like sampler=0.1"),
        ("memory=-1MiB", "'-1MiB' is not positive — write it like 6 GiB"),
        ("delay=10", "'10' means 1000% — write 10% or 1000%"),
        ("delay=soon", "'soon' is no quantity — write it like 95% or 0.95"),
    ],
)
def test_other_plants_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_plant(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "scripted", "plant": "delya=1"}, "fake: unknown plant 'delya'; did you mean 'delay'? — "),
        ({"kind": "scripted", "plant": "delay=1", "x": 1}, "fake: unknown option 'x' — valid: kind, options, plant, "),
        ({"plant": "delay=1"}, "fake: a planted engine needs the kind and options of the one it wraps — options: "),
        ({"kind": "scriptd", "plant": "delay=1"}, "fake: unknown engine kind 'scriptd'; did you mean 'scripted'? — "),
    ],
)
def test_wrong_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(EngineError, match=f"^{re.escape(message)}"):
        create(EngineContext("fake", EngineSpec(kind=KIND, options=options), Path()))
