"""ARCHITECTURE.md against the files: its rows name every module once, from top to bottom, and its paths exist."""

from __future__ import annotations

import configparser
import re
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path

import pytest_specgate

PACKAGE = Path(pytest_specgate.__file__).parent
ROOT = PACKAGE.parent
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
ROWS = [row.split("|")[2] for row in TEXT.splitlines() if row.startswith("| ") and "`" in row.split("|")[2]]
MODULES = {
    path.name + "/" * path.is_dir()
    for path in PACKAGE.iterdir()
    if (path.is_dir() and (path / "__init__.py").exists()) or (path.suffix == ".py" and path.name != "__init__.py")
}


def named(row: str) -> list[str]:
    """The modules of a row of the table; a star stands for several."""
    found = [name if name.endswith(("/", ".py")) else f"{name}.py" for name in re.findall(r"`([^`]+)`", row)]
    return [module for name in found for module in (sorted(one for one in MODULES if fnmatch(one, name)) or [name])]


def layers() -> list[set[str]]:
    """The layers that import-linter holds, from top to bottom."""
    contract = configparser.ConfigParser()
    contract.read(ROOT / ".importlinter")
    lines = contract["importlinter:contract:layers"]["layers"].split("\n")
    return [set(re.findall(r"\w+", line)) for line in lines if line.strip()]


def test_every_module_stands_in_one_row() -> None:
    assert sorted(module for row in ROWS for module in named(row)) == sorted(MODULES)


def test_rows_come_in_the_order_of_the_layers() -> None:
    depth = {module: at for at, layer in enumerate(layers()) for module in layer}
    spans = [[depth[name.removesuffix("/").removesuffix(".py")] for name in named(row)] for row in ROWS]

    assert all(max(upper) <= min(lower) for upper, lower in pairwise(spans))


def test_paths_that_the_text_names_exist() -> None:
    paths = set(re.findall(r"`([\w./*-]+(?:/|\.py))`", TEXT))
    folders = (PACKAGE, ROOT / "docs", ROOT / "models")
    known = [path for folder in folders for path in (folder, *folder.rglob("*"))]
    files = ["/" + path.relative_to(ROOT).as_posix() + "/" * path.is_dir() for path in known]

    assert paths
    assert sorted(path for path in paths if not any(fnmatch(file, f"*/{path}") for file in files)) == []
