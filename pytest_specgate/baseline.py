"""Stored numbers on disk: ``<baselines>/<place>/<suite>.json``, versioned, written whole, one prompt a line.

A baseline belongs to a place (device and dtype). Its entries are cases; an entry is void when its workload (prompts,
generation parameters, target) is no longer the one that is measured, and is never void because the subject (versions,
draft, flags) changed: that is what it exists to judge.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_specgate.codec import decode, encode
from pytest_specgate.errors import BaselineError, Location
from pytest_specgate.files import write_atomically
from pytest_specgate.records import Place, PromptSamples, Samples, Stored

SCHEMA = 1
_REFRESH = "record it again: pytest --specgate-update"


@dataclass(frozen=True, slots=True)
class Found:
    """The entry for a case: of this place, or else of another one (``elsewhere``)."""

    stored: Stored
    path: Path
    elsewhere: bool


def path_for(folder: Path, place: Place, suite: str) -> Path:
    """Where the baseline of a suite at a place lives."""
    return folder / place.slug / f"{suite}.json"


def find(folder: Path, suite: str, case: str, place: Place) -> Found | None:
    """This place's entry for the case, else the first of another place by folder name, else None. Raises BaselineError."""
    own = path_for(folder, place, suite)
    others = sorted(path for path in folder.glob(f"*/{suite}.json") if path != own)
    for path in [own, *others]:
        if path.is_file() and (stored := read(path).get(case)) is not None:
            return Found(stored, path, elsewhere=path != own)
    return None


def mismatch(stored: Stored, workload: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the workload's parts that differ from those of the entry."""
    names = sorted({*stored.workload, *workload})
    return tuple(name for name in names if stored.workload.get(name) != workload.get(name))


def unused(entries: Mapping[str, Stored], known: Iterable[str]) -> tuple[str, ...]:
    """Entries that no case of the suite reads any more."""
    return tuple(sorted(set(entries) - set(known)))


# --- reading ----------------------------------------------------------------------------------------------------


def read(path: Path) -> dict[str, Stored]:
    """Every entry of a file by case id. Raises BaselineError for anything but a whole file of this schema."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BaselineError(Location(path), f"cannot be read ({error})", _REFRESH) from error
    if "<<<<<<< " in text:
        line = text[: text.index("<<<<<<< ")].count("\n") + 1
        raise BaselineError(Location(path, line, 1), "holds a merge conflict", "settle it, or " + _REFRESH)
    try:
        data = json.loads(text, object_pairs_hook=_no_duplicates)
    except json.JSONDecodeError as error:
        raise BaselineError(Location(path, error.lineno, error.colno), f"is no whole JSON ({error.msg})", _REFRESH) from error
    except ValueError as error:
        raise BaselineError(Location(path), str(error), _REFRESH) from error
    return _entries(path, data)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _entries(path: Path, data: Any) -> dict[str, Stored]:
    version = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(version, int):
        raise BaselineError(Location(path), "is no baseline: 'schema' is missing", _REFRESH)
    if version > SCHEMA:
        raise BaselineError(Location(path), f"schema {version} is newer than {SCHEMA}", "update pytest-specgate")
    if version < SCHEMA:
        raise BaselineError(Location(path), f"schema {version} is older than {SCHEMA}", _REFRESH)
    try:
        place = decode(Place, data["place"], "place")
        return {case: _entry(case, place, entry) for case, entry in data["cases"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BaselineError(Location(path), f"is not what this version writes ({error})", _REFRESH) from error


def _entry(case: str, place: Place, entry: Mapping[str, Any]) -> Stored:
    prompts = decode(tuple[PromptSamples, ...], entry["prompts"], f"cases.{case}.prompts")  # type: ignore[arg-type]
    samples = Samples(case, bool(entry["greedy"]), prompts, dict(entry["scalars"]))
    return Stored(place, dict(entry["workload"]), dict(entry["subject"]), str(entry["recorded"]), samples)


# --- writing ----------------------------------------------------------------------------------------------------


def write(path: Path, suite: str, entries: Mapping[str, Stored]) -> None:
    """Store all entries of one place as a whole file. Raises StoreError, and ValueError for numbers that are not finite."""
    write_atomically(path, render(suite, entries))


def render(suite: str, entries: Mapping[str, Stored]) -> str:
    """The file's text: sorted, rounded to six significant digits, one prompt a line, so that a diff can be read."""
    place = next(iter(entries.values())).place
    cases = ",\n".join(_render_case(case, entries[case]) for case in sorted(entries))
    head = f'"schema": {SCHEMA},\n "suite": {json.dumps(suite)},\n "place": {_line(encode(place))}'
    return f'{{{head},\n "cases": {{\n{cases}\n }}\n}}\n'


def _render_case(case: str, stored: Stored) -> str:
    prompts = ",\n".join(f"    {_line(encode(prompt))}" for prompt in stored.samples.prompts)
    parts = [
        f'   "recorded": {json.dumps(stored.recorded)}',
        f'   "workload": {_block(stored.workload)}',
        f'   "subject": {_block(stored.subject)}',
        f'   "greedy": {json.dumps(stored.samples.greedy)}',
        f'   "scalars": {_line(encode(stored.samples.scalars))}',
        f'   "prompts": [\n{prompts}\n   ]',
    ]
    return f"  {json.dumps(case)}: {{\n" + ",\n".join(parts) + "\n  }"


def _block(values: Mapping[str, str]) -> str:
    lines = ",\n".join(f"    {json.dumps(key)}: {json.dumps(values[key], ensure_ascii=False)}" for key in sorted(values))
    return f"{{\n{lines}\n   }}" if values else "{}"


def _line(data: Any) -> str:
    return json.dumps(_rounded(data), sort_keys=True, ensure_ascii=False, allow_nan=False)


def _rounded(data: Any) -> Any:
    if isinstance(data, float):
        return float(f"{data:.6g}")
    if isinstance(data, dict):
        return {key: _rounded(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_rounded(value) for value in data]
    return data
