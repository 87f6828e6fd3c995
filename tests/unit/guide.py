"""Runs a page of the guide: writes its files, runs its commands in order, and checks what it shows of their output.

A block with ``title="PATH"`` is a file. A ``console`` block holds commands after ``$ ``, each with lines of its output,
in which ``…`` stands for anything and spaces count once; ``# exit 1`` behind a command is its exit status, else 0. All
commands of a page run in one process, for what they load takes longer than they do.

    python -m tests.unit.guide PAGE FOLDER
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_EXIT = re.compile(r"\s+# exit (\d+)$")


@dataclass(frozen=True)
class File:
    """A file that the page shows."""

    path: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command of the page, its exit status, and lines of its output."""

    text: str
    status: int
    shown: tuple[str, ...]


def steps(page: str) -> Iterator[File | Command]:
    """What the page does, in order."""
    for language, info, body in _BLOCK.findall(page):
        title = _TITLE.search(info)
        if title:
            yield File(title[1], body)
        elif language == "console":
            yield from _commands(body)


def _commands(body: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        first, *shown = part.rstrip("\n").split("\n")
        match = _EXIT.search(first)
        text = first[: match.start()] if match else first
        yield Command(text, int(match[1]) if match else 0, tuple(line for line in shown if line.strip()))


def run(command: Command) -> str:
    """The mismatch between the command and the page, empty where there is none."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        status = _status(shlex.split(command.text))
    output = out.getvalue()
    if status != command.status:
        return f"{command.text}: exit status {status}, the page says {command.status}\n{output}"
    lines = iter([" ".join(line.split()) for line in output.splitlines()])
    for expected in command.shown:
        pattern = re.compile(".*".join(map(re.escape, " ".join(expected.split()).split("…"))))
        if not any(pattern.fullmatch(line) for line in lines):
            return f"{command.text}: the page shows {expected!r}, and the output has no such line there\n{output}"
    return ""


def _status(words: list[str]) -> int:
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        os.environ[name] = value
    if words[0] == "python":
        # As the interpreter does it, and the command `pytest` does not.
        sys.path.insert(0, str(Path.cwd()))
    if words[:3] == ["python", "-m", "pytest"]:
        words = words[2:]
    if words[0] == "pytest":
        import pytest

        return int(pytest.main(["-p", "pytest_specgate.plugin", *words[1:]]))
    if words[:3] == ["python", "-m", "pytest_specgate"]:
        from pytest_specgate.__main__ import main

        return main(words[3:])
    if words[0] == "python":
        exec(compile(Path(words[1]).read_text(encoding="utf-8"), words[1], "exec"), {"__name__": "__main__"})  # noqa: S102
        return 0
    raise ValueError(f"a page may run pytest and python, not {words[0]}")


def play(page: Path, folder: Path) -> str:
    """Everything that the page does, in the folder; the first mismatch."""
    os.chdir(folder)
    for step in steps(page.read_text(encoding="utf-8")):
        if isinstance(step, File):
            path = folder / step.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step.text, encoding="utf-8")
        elif problem := run(step):
            return problem
    return ""


if __name__ == "__main__":
    sys.stdout.write(play(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()))
