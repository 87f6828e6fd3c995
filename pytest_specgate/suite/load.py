"""From a file to a Suite: read, lay over bases, fill in the environment, validate, check, load prompts.

Every mistake is a SuiteError (or PromptError) at its line and column; of several mistakes the first in the
file is told. Nothing is imported or opened beyond the suite, its bases and its prompt files, all of which
must lie in the suite's folder or the root. Positions and messages name files relative to the root.
"""

from __future__ import annotations

import os
from collections.abc import Mapping as Environment
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from pytest_specgate.errors import Location, SuiteError
from pytest_specgate.metrics import Family
from pytest_specgate.suite.cases import Gate, Scenario, Suite
from pytest_specgate.suite.expanding import selected, with_engines
from pytest_specgate.suite.explain import suite_error
from pytest_specgate.suite.extends import inside, read_with_bases
from pytest_specgate.suite.matrix import Grid
from pytest_specgate.suite.model import GateSpec, ScenarioSpec, SuiteSpec
from pytest_specgate.suite.modelpaths import from_suite
from pytest_specgate.suite.nodes import Mapping, find, plain
from pytest_specgate.suite.prompts import PromptFiles, load_prompts
from pytest_specgate.suite.substitute import substitute
from pytest_specgate.suite.telling import untold
from pytest_specgate.units import did_you_mean

Part = TypeVar("Part", GateSpec, ScenarioSpec)


def load_suite(
    path: Path,
    root: Path,
    environ: Environment[str, str] = os.environ,
    prompt_files: PromptFiles | None = None,
) -> Suite:
    """The suite at ``path``; ``root`` is the project's folder; ``prompt_files`` reads shared prompts once.

    Raises SuiteError and PromptError.
    """
    root = root.resolve()
    path = path.resolve()
    files = prompt_files if prompt_files is not None else PromptFiles(root)
    folders = (path.parent, root)
    tree = substitute(read_with_bases(path, folders, lambda file: shown(file, root)), environ)
    tree, grid = with_engines(tree)
    tree = from_suite(tree, path.parent, root)
    try:
        spec = SuiteSpec.model_validate(plain(tree))
    except ValidationError as error:
        raise suite_error(error, tree, SuiteSpec) from None
    spec = _where_resolved(spec, grid, tree)
    _check_selectors(spec, tree)
    scenarios = tuple(
        _scenario(name, scenario, tree, folders, root, files) for name, scenario in spec.scenarios.items()
    )
    return Suite(
        path=path,
        shown=str(shown(path, root)),
        name=spec.name or path.name.split(".")[0],
        spec=spec,
        scenarios=scenarios,
        gates=tuple(Gate(gate, _at(tree, "gates", index)) for index, gate in enumerate(spec.gates)),
        warnings=_warnings(scenarios),
        grid=grid,
    )


#: What is judged by the texts, which a forced acceptance makes up.
_SAID = (Family.OUTPUT, Family.EXACTNESS, Family.DISTRIBUTION, Family.ACCEPTANCE, Family.DECAY)


def shown(path: Path, root: Path) -> Path:
    """A path as messages write it: relative to the root where it lies inside, else as it is."""
    return path.relative_to(root) if path.is_relative_to(root) else path


def _at(tree: Mapping, *steps: str | int) -> Location:
    return find(tree, steps)[1]


def _key(tree: Mapping, *steps: str) -> Location:
    return find(tree, (*steps, "[key]"))[1]


def _where_resolved(spec: SuiteSpec, grid: Grid | None, tree: Mapping) -> SuiteSpec:
    """The spec with the engines named that each ``where`` of a gate or scenario chooses."""

    def named(part: Part, *steps: str | int) -> Part:
        if not part.where:
            return part
        if part.engines:
            where = find(tree, (*steps, "where", "[key]"))[1]
            raise SuiteError(where, "'engines' and 'where' both choose engines", "keep one of the two")
        return part.model_copy(update={"engines": tuple(selected(part.where, grid, tree, (*steps, "where")))})

    gates = tuple(named(gate, "gates", number) for number, gate in enumerate(spec.gates))
    scenarios = {name: named(scenario, "scenarios", name) for name, scenario in spec.scenarios.items()}
    return spec.model_copy(update={"gates": gates, "scenarios": scenarios})


def _check_selectors(spec: SuiteSpec, tree: Mapping) -> None:
    for name, scenario in spec.scenarios.items():
        _refuse_unknown("engine", scenario.engines, spec.engines, tree, ("scenarios", name, "engines"))
    for index, gate in enumerate(spec.gates):
        _refuse_unknown("engine", gate.engines, spec.engines, tree, ("gates", index, "engines"))
        _refuse_unknown("scenario", gate.scenarios, spec.scenarios, tree, ("gates", index, "scenarios"))
        _refuse_cold(gate, spec, _at(tree, "gates", index, "metric"))
        _refuse_untold(gate, spec, _at(tree, "gates", index, "metric"))
        _refuse_forced(gate, spec, _at(tree, "gates", index, "metric"))
    for name, engine in spec.engines.items():
        if engine.scorer is not None and engine.scorer.engine is not None:
            _check_scorer(engine.scorer.engine, spec, _at(tree, "engines", name, "scorer"))


def _check_scorer(name: str, spec: SuiteSpec, where: Location) -> None:
    """A scorer is an engine of the suite that computes here."""
    local = {engine: None for engine, one in spec.engines.items() if one.kind != "openai"}
    hint = f"choose among: {', '.join(local)}" if local else "describe it here: scorer: {target: ...}"
    if name not in spec.engines:
        raise SuiteError(where, f"no engine {name!r}{did_you_mean(name, local)}", hint)
    if name not in local:
        raise SuiteError(where, f"engine {name!r} is a server too, and a scorer computes in this process", hint)


def _refuse_cold(gate: GateSpec, spec: SuiteSpec, where: Location) -> None:
    """What is scored is asked again by its prompt, and a cold one is another in every round."""
    cold = [name for name, scenario in spec.scenarios.items() if scenario.prefix.kind == "cold"]
    judged = [name for name in cold if not gate.scenarios or name in gate.scenarios]
    if judged and gate.info.family in (Family.EXACTNESS, Family.DISTRIBUTION):
        what = f"{gate.metric} scores texts by their prompts, which 'prefix: cold' of scenario {judged[0]!r} changes"
        raise SuiteError(where, f"{what} from round to round", "name other scenarios in the gate's 'scenarios'")


def _refuse_untold(gate: GateSpec, spec: SuiteSpec, where: Location) -> None:
    """What a server never tells is an ERROR of every run."""
    judged = {name: engine.server for name, engine in spec.engines.items() if not gate.engines or name in gate.engines}
    for what, instead in untold(gate.metric, {name: server for name, server in judged.items() if server}):
        raise SuiteError(where, what, f"{instead}, or name other engines in the gate's 'engines'")


def _refuse_forced(gate: GateSpec, spec: SuiteSpec, where: Location) -> None:
    """A forced acceptance keeps wrong tokens, so what is said then is nobody's output."""
    candidates = {name: engine.candidate for name, engine in spec.engines.items()}
    forced = [name for name, candidate in candidates.items() if candidate and candidate.acceptance is not None]
    judged = [name for name in forced if not gate.engines or name in gate.engines]
    if judged and gate.info.family in _SAID:
        what = f"{gate.metric} judges what is said, and the acceptance of engine {judged[0]!r} is forced"
        raise SuiteError(where, what, "name other engines in the gate's 'engines'")


def _refuse_unknown(
    kind: str,
    chosen: tuple[str, ...],
    known: Environment[str, object],
    tree: Mapping,
    steps: tuple[str | int, ...],
) -> None:
    for index, name in enumerate(chosen):
        if name not in known:
            where = _at(tree, *steps, index)
            raise SuiteError(
                where, f"no {kind} {name!r}{did_you_mean(name, known)}", f"choose among: {', '.join(known)}"
            )


def _scenario(
    name: str, spec: ScenarioSpec, tree: Mapping, folders: tuple[Path, ...], root: Path, files: PromptFiles
) -> Scenario:
    steps = ("scenarios", name, "prompts", "file")
    where = _at(tree, *steps)
    # A base's prompts are named from where the base lies.
    written_in = (root / where.path).parent
    try:
        path = (written_in / spec.prompts.file).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise SuiteError(where, f"{spec.prompts.file!r} is no usable path: {error}", "name a prompt file") from error
    if not inside(path, folders):
        hint = "move it into the suite's folder or the project's root"
        raise SuiteError(where, f"prompt file {spec.prompts.file!r} lies outside the project", hint)
    conversations = load_prompts(path, spec.prompts, where, files)
    return Scenario(name, spec, _key(tree, "scenarios", name), conversations)


def _warnings(scenarios: tuple[Scenario, ...]) -> tuple[str, ...]:
    return tuple(
        f"{scenario.location}: scenario {scenario.name!r} ignores the end of text, "
        "which distorts acceptance — remove 'ignore_eos' unless a fixed length is what you measure"
        for scenario in scenarios
        if scenario.spec.ignore_eos
    )
