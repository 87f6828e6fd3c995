"""A project in a scratch folder whose suites run on the scripted engine: a simulated clock, nothing to load."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

# Loaded before pytester takes its picture of sys.modules: numpy cannot be imported twice in one process.
import pytest_specgate.session  # noqa: F401

#: On the scripted engine's default settings, these gates of one case come out as their names say.
PASS = {"metric": "speedup", "limit": ">=1.2x"}
FAIL = {"metric": "conditional_acceptance", "limit": ">=90%"}
UNDECIDED = {"metric": "decode_speedup", "limit": ">=1.5x"}
ERROR = {"metric": "vram_ratio", "max_rise": "5%"}
#: The outer run has imported the plugin already, which pytest remarks on where it was installed as editable.
ALONE = ("-W", "ignore::pytest.PytestAssertRewriteWarning", "-p", "pytest_specgate.plugin")


class Project:
    """Writes suites and runs pytest on them; ``python`` runs a process of its own."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path

    def suite(self, *gates: Mapping[str, object], name: str = "demo", **keys: object) -> Path:
        """``suites/NAME.specgate.yaml`` with an engine ``tiny``, a scenario ``qa``, these gates and these keys."""
        suite = {
            "specgate": 1,
            "engines": {"tiny": {"kind": "scripted"}},
            "scenarios": {"qa": {"category": "qa", "prompts": "prompts/p.jsonl"}},
            **keys,
        }
        head = "".join(f"{key}: {json.dumps(value)}\n" for key, value in suite.items())
        body = "".join(f"  - {json.dumps(gate)}\n" for gate in gates or (PASS,))
        return self.write(f"suites/{name}.specgate.yaml", f"{head}gates:\n{body}")

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def run(self, *arguments: str) -> pytest.RunResult:
        """Run in this process, with no other plugin: finding and loading them takes a second."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
            return self.pytester.runpytest_inprocess(*ALONE, *arguments)

    def python(self, *arguments: str) -> pytest.RunResult:
        """Run in a process of its own, with the plugins that the arguments leave."""
        return self.pytester.runpytest_subprocess(*arguments)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """An empty project with prompts."""
    monkeypatch.setenv("SPECGATE_CACHE", str(pytester.path / ".cache"))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("CI", raising=False)
    made = Project(pytester)
    prompts = "".join(json.dumps({"id": f"q{n}", "turns": [f"Say {n}."]}) + "\n" for n in range(1, 7))
    made.write("suites/prompts/p.jsonl", prompts)
    return made
