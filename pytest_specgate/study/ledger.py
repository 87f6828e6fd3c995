"""A study's folder: what it asks, and one JSON line for each finished build.

``study.json`` is written whole. A line of ``builds.jsonl`` is one write, flushed to the disk before the next build
begins; a last line that a kill tore is cut off, and its build is made again. Log ratios of all pairs are kept, so that
the machine's noise can be used again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_specgate import jsontext
from pytest_specgate.codec import CodecError, decode, encode
from pytest_specgate.errors import StoreError
from pytest_specgate.files import write_atomically
from pytest_specgate.masking import masker
from pytest_specgate.records import Outcome

SCHEMA = 1
_ANEW = "choose another --out, or remove the folder to begin anew"
_AGAIN = "remove this line, and its build is made again"


@dataclass(frozen=True, slots=True)
class Begun:
    """What a study asks; ``recorded`` is each case's mean time per token in the baseline, None until there is one."""

    schema: int
    suite: str
    question: Mapping[str, str]
    recorded: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """What a gate said of a case in one build."""

    case: str
    gate: str
    metric: str
    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True)
class CaseRun:
    """How a case was measured in one build.

    ``time_per_token`` is what the naive rule compares, ``log_ratios`` has one value per round for each prompt, and
    ``broken`` names the environment rules that did not hold.
    """

    case: str
    rounds: int
    seconds: float
    time_per_token: float
    naive: Outcome
    broken: tuple[str, ...]
    log_ratios: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Build:
    """One finished build; ``planted`` is empty for an unchanged one, ``seconds`` is the time to its verdict."""

    number: int
    planted: str
    started: str
    seconds: float
    gates: tuple[GateOutcome, ...]
    cases: tuple[CaseRun, ...]


def begin(folder: Path, suite: str, question: Mapping[str, str]) -> Begun:
    """The study of this folder, begun now or before. Raises StoreError where it asks something else."""
    path = folder / "study.json"
    if not path.exists():
        if (folder / "builds.jsonl").exists():
            raise StoreError(f"{folder}: holds builds without the study.json that says of what — {_ANEW}")
        begun = Begun(SCHEMA, suite, dict(question))
        keep(folder, begun)
        return begun
    begun = _read_begun(path)
    changed = [name for name, now in question.items() if begun.question.get(name) != now]
    if changed or begun.suite != suite:
        what = ", ".join(changed) or f"the suite is {suite}, was {begun.suite}"
        raise StoreError(f"{folder}: was begun with another question (changed: {what}) — {_ANEW}")
    return begun


def keep(folder: Path, begun: Begun) -> None:
    """Write ``study.json`` whole. Raises StoreError."""
    write_atomically(folder / "study.json", jsontext.dump(encode(begun), indent=1) + "\n")


def _read_begun(path: Path) -> Begun:
    data = _parsed(path, _content(path).decode("utf-8", errors="replace"), 1, _ANEW)
    version = data.get("schema") if isinstance(data, dict) else None
    if version != SCHEMA:
        raise StoreError(f"{path}: study schema {version}, this version reads {SCHEMA} — {_ANEW}")
    try:
        return decode(Begun, data)
    except CodecError as error:
        raise StoreError(f"{path}: {error} — {_ANEW}") from error


def _parsed(path: Path, text: str, line: int, hint: str) -> Any:
    try:
        return jsontext.parse(text)
    except jsontext.JsonError as error:
        raise StoreError(f"{path}:{line + error.line - 1}:{error.column}: {error.what} — {hint}") from error


def read(folder: Path) -> list[Build]:
    """Every finished build. Raises StoreError for a line that is whole and still no build."""
    path = folder / "builds.jsonl"
    whole = _whole(path).decode("utf-8", errors="replace")
    builds: dict[int, Build] = {}
    for number, line in enumerate(whole.split("\n")[:-1], start=1):
        try:
            build = decode(Build, _parsed(path, line, number, _AGAIN))
        except CodecError as error:
            raise StoreError(f"{path}:{number}: {error} — {_AGAIN}") from error
        builds.setdefault(build.number, build)
    return [builds[number] for number in sorted(builds)]


def append(folder: Path, build: Build) -> None:
    """Add a line, on the disk when this returns; what a kill left of an earlier one is cut off first."""
    path = folder / "builds.jsonl"
    line = jsontext.dump(encode(build, masker(os.environ))) + "\n"
    end = len(_whole(path))
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.truncate(end)
            file.seek(end)
            file.write(line.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror}) — choose a writable --out") from error


def _whole(path: Path) -> bytes:
    """The file up to its last line end: what follows was torn."""
    data = _content(path) if path.exists() else b""
    return data[: data.rfind(b"\n") + 1]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror}) — {_ANEW}") from error
