"""From a suite to the cases it measures and the gates that judge each: pure expansion, in YAML order.

A case is engine × scenario × sampling setting × concurrency. It is measured once and judged by every gate
whose selectors take it in.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_specgate.errors import Location, SuiteError
from pytest_specgate.metrics import Family
from pytest_specgate.records import Sampling
from pytest_specgate.suite.matrix import Grid
from pytest_specgate.suite.model import Category, EngineSpec, GateSpec, Prompts, ScenarioSpec, SuiteSpec
from pytest_specgate.suite.prompts import Conversation


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate of a suite with the place where it is written."""

    spec: GateSpec
    location: Location


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario with its conversations loaded.

    One that is ``generated`` has none: its requests are made up when an engine is there to say what bounds them.
    """

    name: str
    spec: ScenarioSpec
    location: Location
    conversations: tuple[Conversation, ...]
    generated: bool = False


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite file, understood: its model, its prompts, and where each part is written.

    ``shown`` is its path as messages write it; ``grid`` is where the engines of its matrix stand, if it has one.
    """

    path: Path
    shown: str
    name: str
    spec: SuiteSpec
    scenarios: tuple[Scenario, ...]
    gates: tuple[Gate, ...]
    warnings: tuple[str, ...] = ()
    grid: Grid | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured once: one engine on one scenario at one sampling setting and concurrency.

    Where the scenario has requests come by the clock, ``concurrency`` is all of its conversations: so many may meet.
    """

    engine: str
    engine_spec: EngineSpec
    scenario: Scenario
    sampling: Sampling
    concurrency: int
    gates: tuple[Gate, ...]

    @property
    def slug(self) -> str:
        """``short-qa-t0-c1``: the case's name within its engine; ``short-qa-t0-r4`` at four requests a second."""
        load = self.scenario.spec.load
        return f"{self.scenario.name}-{self.sampling.label}-{f'r{load.rate:g}' if load else f'c{self.concurrency}'}"

    @property
    def id(self) -> str:
        """``smollm2+draft::short-qa-t0-c1``: the case's name within its suite."""
        return f"{self.engine}::{self.slug}"


def _concurrencies(scenario: Scenario) -> tuple[int, ...]:
    return (len(scenario.conversations),) if scenario.spec.load else scenario.spec.concurrency


def gate_id(gate: Gate, case: Case) -> str:
    """``speedup[short-qa-t0-c1]``: the test's name under its engine."""
    return f"{gate.spec.label}[{case.slug}]"


def expand(suite: Suite) -> tuple[Case, ...]:
    """Every case of the suite that at least one gate judges.

    Raises SuiteError where two gates would carry the same id, or a gate selects nothing.
    """
    cases = tuple(case for case in _all_cases(suite) if case.gates)
    _refuse_duplicates(cases)
    _refuse_idle_gates(suite, cases)
    return cases


def _all_cases(suite: Suite) -> list[Case]:
    cases: list[Case] = []
    for engine, engine_spec in suite.spec.engines.items():
        for scenario in suite.scenarios:
            if scenario.spec.engines and engine not in scenario.spec.engines:
                continue
            gates = tuple(gate for gate in suite.gates if _selects(gate.spec, engine, scenario.name))
            for sampling_spec in scenario.spec.sampling:
                sampling = sampling_spec.value
                cases.extend(
                    Case(engine, engine_spec, scenario, sampling, concurrency, gates)
                    for concurrency in _concurrencies(scenario)
                )
        if sweeping := tuple(gate for gate in suite.gates if _sweeps(gate.spec, engine)):
            cases.append(Case(engine, engine_spec, _made_up(sweeping[0]), Sampling(), 1, sweeping))
    return cases


def _sweeps(spec: GateSpec, engine: str) -> bool:
    return spec.info.family is Family.REQUESTS and (not spec.engines or engine in spec.engines)


def _made_up(gate: Gate) -> Scenario:
    """The scenario of a gate that makes up its own requests; nothing of its spec is asked for."""
    spec = ScenarioSpec(category=Category.QA, prompts=Prompts(file="none"))
    return Scenario("requests", spec, gate.location, (), generated=True)


def _selects(spec: GateSpec, engine: str, scenario: str) -> bool:
    if spec.info.family is Family.REQUESTS:
        return False
    return (not spec.engines or engine in spec.engines) and (not spec.scenarios or scenario in spec.scenarios)


def _refuse_duplicates(cases: tuple[Case, ...]) -> None:
    seen: dict[tuple[str, str], Gate] = {}
    for case in cases:
        for gate in case.gates:
            key = (case.engine, gate_id(gate, case))
            if key in seen:
                raise SuiteError(
                    gate.location,
                    _twice(gate, seen[key], case),
                    "narrow one of the two with 'engines' or 'scenarios'"
                    if gate is not seen[key]
                    else "list every concurrency once, and give sampling settings a 'name'",
                )
            seen[key] = gate


def _twice(gate: Gate, first: Gate, case: Case) -> str:
    if gate is first:
        return f"{gate.spec.label} judges {case.id} twice: two of the scenario's settings have the same label"
    return f"{gate.spec.label} judges {case.id} twice (also at line {first.location.line})"


def _refuse_idle_gates(suite: Suite, cases: tuple[Case, ...]) -> None:
    used = {id(gate) for case in cases for gate in case.gates}
    for gate in suite.gates:
        if id(gate) not in used:
            raise SuiteError(
                gate.location,
                f"{gate.spec.label} judges no case: its engines and scenarios never meet",
                "widen 'engines' or 'scenarios' of this gate, or of the scenario",
            )
