"""The guide: every snippet does what its page shows, the reference is what the code holds, links lead somewhere."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from tests.unit.guide import Command, File, steps

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted((DOCS / "guide").glob("*.md"))
READMES = [path for path in (ROOT / "README.md", ROOT / "README.zh.md") if path.is_file()]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if list(steps(page.read_text(encoding="utf-8")))], ids=lambda page: page.stem
)
def test_a_page_does_what_it_shows(page: Path, tmp_path: Path) -> None:
    """A process for each page: what it loads takes seconds, which all its commands share."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "CI", "PYTEST_"))},
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "SPECGATE_CACHE": str(tmp_path / ".cache"),
        "COLUMNS": "180",
        "NO_COLOR": "1",
    }
    folder = tmp_path / "project"
    folder.mkdir()

    command = [sys.executable, "-m", "tests.unit.guide", str(page), str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=1800)

    assert done.stdout == "", done.stdout
    assert done.returncode == 0, done.stderr


def test_the_runner_sees_files_commands_and_their_status() -> None:
    files = '```yaml title="a.yaml"\nx: 1\n```\n'
    commands = "```console\n$ pytest a  # exit 1\nFAIL … x\n$ pytest b\n```\n"
    page = f"{files}{commands}```text\nno\n```\n"

    assert list(steps(page)) == [
        File("a.yaml", "x: 1\n"),
        Command("pytest a", 1, ("FAIL … x",)),
        Command("pytest b", 0, ()),
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_snippets_are_of_kinds_that_the_runner_knows(page: Path) -> None:
    for language, info in re.findall(r"^```(\w+)([^\n]*)$", page.read_text(encoding="utf-8"), re.MULTILINE):
        assert language in {"console", "text"} or "title=" in info


def _generator() -> ModuleType:
    path = DOCS / "reference" / "generate.py"
    spec = importlib.util.spec_from_file_location("generate_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["metrics.md", "options.md", "suite.md"])
def test_the_reference_is_what_the_code_holds(name: str) -> None:
    written = (DOCS / "reference" / name).read_text(encoding="utf-8")

    assert written == _generator().text(name), "write it anew: python docs/reference/generate.py"


@pytest.mark.parametrize("page", [*sorted(DOCS.rglob("*.md")), *READMES], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if not link.startswith(("http", "#")):
            assert (page.parent / link.partition("#")[0]).exists(), link


def test_the_navigation_names_pages_that_there_are() -> None:
    data = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))

    def pages(entry: object) -> list[str]:
        if isinstance(entry, dict):
            return [name for value in entry.values() for name in pages(value)]
        if isinstance(entry, list):
            return [name for value in entry for name in pages(value)]
        return [str(entry)]

    named = pages(data["nav"])
    assert all((DOCS / name).is_file() for name in named)
    assert {f"guide/{page.name}" for page in PAGES} <= set(named)


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("material")

    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site/guide/first-gate/index.html").is_file()
