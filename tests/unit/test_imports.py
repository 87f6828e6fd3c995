"""What starting pytest, collecting suites and importing the package load, and who may import what."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_specgate

PACKAGE = Path(pytest_specgate.__file__).parent
HEAVY = {"torch", "transformers", "numpy", "scipy", "pydantic", "yaml", "sacrebleu", "tabulate", "psutil", "filelock"}


def _loaded(code: str, folder: Path) -> set[str]:
    """Top-level and specgate modules in a fresh interpreter after the code."""
    script = f"{code}\nimport sys, json\nprint('LOADED' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.rpartition("LOADED")[2]))


def _pytest(*arguments: str) -> str:
    plugins = "import os; os.environ['PYTEST_DISABLE_PLUGIN_AUTOLOAD'] = '1'"
    return f"{plugins}; import pytest; pytest.main({['-p', 'pytest_specgate.plugin', '-q', *arguments]!r})"


def test_the_package_itself_imports_nothing(tmp_path: Path) -> None:
    loaded = _loaded("import pytest_specgate", tmp_path)

    assert not loaded & HEAVY
    assert "pytest" not in loaded


def test_an_unused_plugin_loads_its_options_alone(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text("def test_x(): pass\n")

    loaded = _loaded(_pytest(), tmp_path)

    assert {name for name in loaded if name.startswith("pytest_specgate")} == {
        "pytest_specgate",
        "pytest_specgate.plugin",
        "pytest_specgate.plugin.hookspecs",
        "pytest_specgate.plugin.options",
    }
    assert not loaded & HEAVY


def test_collecting_loads_no_torch_and_no_numbers_and_asks_no_network(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"id": "q", "turns": ["Say it."]}\n')
    (tmp_path / "x.specgate.yaml").write_text(
        "specgate: 1\nengines: {tiny: {target: no/such-model}}\n"
        "scenarios: {qa: {category: qa, prompts: p.jsonl}}\ngates: [{metric: speedup, limit: '>=1x'}]\n"
    )

    offline = "import os, socket\ndef refuse(*_): os._exit(9)\nsocket.socket.connect = socket.getaddrinfo = refuse\n"

    loaded = _loaded(offline + _pytest("--specgate", "--collect-only"), tmp_path)

    assert "pytest_specgate.plugin.collect" in loaded
    assert not loaded & {"torch", "transformers", "numpy", "scipy", "sacrebleu"}


def _modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py"))


def _imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("path", _modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_pytest_stays_in_the_plugin(path: Path) -> None:
    imported = _imports(path)

    assert "_pytest" not in imported
    assert "pytest" not in imported or path.parent.name == "plugin"


@pytest.mark.parametrize("path", sorted((PACKAGE / "plugin").glob("*.py")), ids=lambda path: path.name)
def test_hooks_are_at_most_six_lines(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("pytest_") and path.name != "hookspecs.py":
            body = node.body[1:] if ast.get_docstring(node) else node.body
            lines = body[-1].end_lineno - body[0].lineno + 1  # type: ignore[operator]
            assert lines <= 6, f"{path.name}:{node.lineno} {node.name} has {lines} lines"
