"""A suite on the scripted engine in a folder, for tests that need no pytest inside."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_specgate.engines.base import Engine, EngineContext
from pytest_specgate.engines.registry import create
from pytest_specgate.suite.cases import Case, Suite, expand
from pytest_specgate.suite.load import load_suite

SPEEDUP = {"metric": "speedup", "limit": ">=1.2x"}
PROMPTS: Sequence[Mapping[str, object]] = [{"id": f"q{n}", "turns": [f"Say {n} words of it."]} for n in range(1, 7)]


def write(
    folder: Path,
    *gates: Mapping[str, object],
    options: Mapping[str, object] | None = None,
    prompts: Sequence[Mapping[str, object]] = PROMPTS,
    scenario: Mapping[str, object] | None = None,
    **keys: object,
) -> Path:
    """``demo.specgate.yaml`` with an engine ``tiny`` and a scenario ``qa``."""
    suite = {
        "specgate": 1,
        "engines": {"tiny": {"kind": "scripted", "options": dict(options or {})}},
        "scenarios": {"qa": {"category": "qa", "prompts": "p.jsonl", **(scenario or {})}},
        "gates": list(gates or (SPEEDUP,)),
        **keys,
    }
    lines = [json.dumps(prompt) for prompt in prompts]
    (folder / "p.jsonl").write_text("\n".join(lines), encoding="utf-8")
    path = folder / "demo.specgate.yaml"
    path.write_text(json.dumps(suite), encoding="utf-8")
    return path


def load(path: Path) -> tuple[Suite, Case]:
    """The suite and the first of its cases."""
    suite = load_suite(path, path.parent)
    return suite, expand(suite)[0]


def context(suite: Suite) -> EngineContext:
    """What the engine ``tiny`` is built from."""
    return EngineContext("tiny", suite.spec.engines["tiny"], suite.path.parent)


def started(suite: Suite) -> Engine:
    """The engine ``tiny``, up."""
    engine = create(context(suite))
    engine.start()
    return engine
