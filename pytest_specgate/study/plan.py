"""Which builds a study makes, in which order, and of what: pure, so that a study that goes on makes the same ones.

Builds are numbered from 1 and interleaved (unchanged, each plant, unchanged, ...), so that a machine that drifts hits
all alike. The error budget counts all checks of the suite, as in a real run, however few cases are selected.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_specgate.engines.planted import planted
from pytest_specgate.engines.plants import Plant
from pytest_specgate.errors import SpecgateError
from pytest_specgate.suite.cases import Case, Suite, expand
from pytest_specgate.suite.checks import checks_in
from pytest_specgate.suite.model import EngineSpec
from pytest_specgate.suite.prompts import prompts_hash
from pytest_specgate.units import did_you_mean


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked: ``builds`` unchanged ones and as many with each plant.

    ``out`` is the study's folder. ``engines`` and ``scenarios`` narrow the suite, empty for all. ``sessions`` is how
    many processes record the baseline.
    """

    suite: Suite
    out: Path
    builds: int
    plants: tuple[Plant, ...] = ()
    engines: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    sessions: int = 1
    device: str | None = None
    allow_remote_code: bool = False
    allow_pickle: bool = False

    @property
    def total(self) -> int:
        """Builds of the whole study."""
        return self.builds * (1 + len(self.plants))

    @property
    def checks(self) -> int:
        """Statistical checks that share a build's error budget."""
        return checks_in(expand(self.suite))


def sequence(plan: Plan) -> Iterator[tuple[int, Plant | None]]:
    """Number and plant of every build, in the order in which they are made."""
    kinds = (None, *plan.plants)
    for number in range(1, plan.total + 1):
        yield number, kinds[(number - 1) % len(kinds)]


def suite_of(plan: Plan, number: int, plant: Plant | None) -> Suite:
    """The suite whose engines carry the plant. Number 0 is the baseline."""
    return _with_engines(plan.suite, number, plant)


def reseeded(suite: Suite, number: int) -> Suite:
    """The suite as build ``number`` without a plant runs it."""
    return _with_engines(suite, number, None)


def _with_engines(suite: Suite, number: int, plant: Plant | None) -> Suite:
    engines = {name: _engine(spec, number, plant) for name, spec in suite.spec.engines.items()}
    return replace(suite, spec=suite.spec.model_copy(update={"engines": engines}))


def _engine(spec: EngineSpec, number: int, plant: Plant | None) -> EngineSpec:
    seed = spec.options.get("seed", 0)
    if spec.kind == "scripted" and isinstance(seed, int):
        # The fake draws its noise from its seed: with equal seeds every build would be the same one.
        spec = spec.model_copy(update={"options": {**spec.options, "seed": seed + number}})
    return spec if plant is None else planted(spec, plant, number)


def cases_by_engine(plan: Plan, suite: Suite) -> Mapping[str, tuple[Case, ...]]:
    """The selected cases of each engine, in the suite's order, those that make up their own requests left out.

    Raises SpecgateError where nothing is selected.
    """
    _refuse_unknown("engine", plan.engines, suite.spec.engines)
    _refuse_unknown("scenario", plan.scenarios, suite.spec.scenarios)
    found: dict[str, tuple[Case, ...]] = {}
    for case in expand(suite):
        if case.scenario.generated:
            continue
        if _selected(case.engine, plan.engines) and _selected(case.scenario.name, plan.scenarios):
            found[case.engine] = (*found.get(case.engine, ()), case)
    if not found:
        chosen = f"--engine {', '.join(plan.engines)} and --scenario {', '.join(plan.scenarios)}"
        raise SpecgateError(f"{chosen} never meet in {suite.name} — choose a scenario that the engine runs")
    return found


def _selected(name: str, chosen: tuple[str, ...]) -> bool:
    return not chosen or name in chosen


def _refuse_unknown(kind: str, chosen: tuple[str, ...], known: Mapping[str, object]) -> None:
    for name in chosen:
        if name not in known:
            what = f"--{kind}: no {kind} {name!r}{did_you_mean(name, known)}"
            raise SpecgateError(f"{what} — choose among: {', '.join(known)}")


def question(plan: Plan) -> dict[str, str]:
    """What must stay the same while a study goes on, by name; the number of builds may grow."""
    spec = plan.suite.spec.model_dump_json()
    prompts = "".join(prompts_hash(scenario.conversations) for scenario in plan.suite.scenarios)
    return {
        "suite": hashlib.sha256(spec.encode()).hexdigest()[:16],
        "prompts": hashlib.sha256(prompts.encode()).hexdigest()[:16],
        "plants": ", ".join(plant.text for plant in plan.plants),
        "engines": ", ".join(plan.engines),
        "scenarios": ", ".join(plan.scenarios),
        "baseline sessions": str(plan.sessions),
        "device": plan.device or "",
    }
