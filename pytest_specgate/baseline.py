"""Stored numbers on disk: ``<baselines>/<place>/<suite>.json``, versioned, written whole, one prompt a line.

A baseline belongs to a place (device and dtype). Its entries are cases; an entry is void when its workload
(prompts, generation parameters, target) is no longer the one that is measured, and is never void because the
subject (versions, draft, flags) changed: that is what it exists to judge.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_specgate import jsontext
from pytest_specgate.codec import CodecError, decode, encode, shown
from pytest_specgate.errors import BaselineError, Location, OutdatedBaseline, StoreError
from pytest_specgate.files import write_atomically
from pytest_specgate.masking import masker
from pytest_specgate.plausible import problems
from pytest_specgate.records import Anchor, Costs, Place, PromptSamples, Samples, Stored
from pytest_specgate.schemas import file_schema

SCHEMA = 3
_WITHOUT_COSTS = 2  # the schema before entries had costs; its entries are read as having none
_REFRESH = "restore it from version control, or delete it and record anew: pytest --specgate-update"
_CONFLICT = re.compile(r"^(<{7}|={7}|>{7}|\|{7})( |\r?$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Entry:
    """A case as the file holds it."""

    recorded: str
    workload: Mapping[str, str]
    subject: Mapping[str, str]
    greedy: bool
    scalars: Mapping[str, float]
    sessions: Mapping[str, tuple[float, ...]]
    anchor: Anchor | None
    costs: Costs | None
    prompts: tuple[PromptSamples, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A baseline file: the cases of one suite at one place."""

    schema: int
    suite: str
    place: Place
    cases: Mapping[str, Entry]


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a baseline file."""
    return file_schema(Document, "pytest-specgate baseline", SCHEMA)


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
    """The entry of this place, else that of the first other place by folder name, else None.

    Raises BaselineError.
    """
    own = path_for(folder, place, suite)
    others = sorted(path for path in folder.glob(f"*/{glob.escape(suite)}.json") if path != own)
    for path in [own, *others]:
        if path.is_file() and (stored := read(path).get(case)) is not None:
            _refuse_stray(path, stored.place)
            return Found(stored, path, elsewhere=path != own)
    return None


def _refuse_stray(path: Path, place: Place) -> None:
    """A file copied into the folder of another machine would pass for that machine's own numbers."""
    if path.parent.name != place.slug:
        what = f"holds numbers of {place.slug}, but lies in the folder of {path.parent.name}"
        home = path.parent.with_name(place.slug)
        raise BaselineError(Location(path), what, f"move it to {home}, or {_REFRESH}")


def mismatch(stored: Stored, workload: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the workload's parts that differ from those of the entry."""
    names = sorted({*stored.workload, *workload})
    return tuple(name for name in names if stored.workload.get(name) != workload.get(name))


def unused(entries: Mapping[str, Stored], known: Iterable[str]) -> tuple[str, ...]:
    """Entries that no case of the suite reads any more."""
    return tuple(sorted(set(entries) - set(known)))


# --- reading ---


def read(path: Path) -> dict[str, Stored]:
    """Every entry of a file by case id. Raises BaselineError for anything but a whole file of this schema."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BaselineError(Location(path), f"cannot be read ({error.strerror})", "check the path") from error
    except UnicodeDecodeError as error:
        raise BaselineError(Location(path), f"byte {error.start} is not UTF-8", _REFRESH) from error
    if conflict := _CONFLICT.search(text):
        where = Location(path, *jsontext.line_and_column(text, conflict.start()))
        raise BaselineError(where, "holds a merge conflict", f"keep one of the two sides, or {_REFRESH}")
    try:
        data = jsontext.parse(text)
    except jsontext.JsonError as error:
        raise BaselineError(Location(path, error.line, error.column), error.what, _REFRESH) from error
    _refuse_version(path, text, data)
    try:
        document = decode(Document, _upgraded(data))
    except CodecError as error:
        where = Location(path, *jsontext.locate(text, error.path))
        raise BaselineError(where, str(error), _REFRESH) from error
    _refuse_nonsense(path, text, document)
    return {case: _stored(case, document.place, entry) for case, entry in document.cases.items()}


def _refuse_nonsense(path: Path, text: str, document: Document) -> None:
    """Well formed is not yet possible: a build must not be judged by numbers that nothing could have measured."""
    if document.suite != path.stem:
        where = Location(path, *jsontext.locate(text, ("suite",)))
        what = f"holds numbers of the suite {document.suite!r}, but is named for {path.stem!r}"
        raise BaselineError(where, what, f"name it {document.suite}.json, or {_REFRESH}")
    for case, entry in document.cases.items():
        for inside, what in problems(entry.recorded, entry.scalars, entry.anchor, entry.prompts, entry.costs):
            at = ("cases", case, *inside)
            raise BaselineError(Location(path, *jsontext.locate(text, at)), f"{shown(at)}: {what}", _REFRESH)


def _refuse_version(path: Path, text: str, data: Any) -> None:
    version = data.get("schema") if isinstance(data, dict) else None
    where = Location(path, *jsontext.locate(text, ("schema",)))
    if type(version) is not int:
        raise BaselineError(where, "is no baseline: it has no 'schema' number", _REFRESH)
    if version > SCHEMA:
        what = f"schema {version} is newer than {SCHEMA}, which this version reads"
        raise BaselineError(where, what, "update pytest-specgate")
    if version < _WITHOUT_COSTS:
        what = f"schema {version} is older than {SCHEMA}, which this version reads"
        raise OutdatedBaseline(where, what, "record it anew: pytest --specgate-update")


def _upgraded(data: dict[str, Any]) -> dict[str, Any]:
    """The file as this schema has it: an older one that lacks nothing but costs never told any."""
    cases = data.get("cases")
    if data["schema"] == SCHEMA or not isinstance(cases, dict):
        return data
    told = {name: {"costs": None, **entry} if isinstance(entry, dict) else entry for name, entry in cases.items()}
    return {**data, "schema": SCHEMA, "cases": told}


def _stored(case: str, place: Place, entry: Entry) -> Stored:
    samples = Samples(case, entry.greedy, entry.prompts, entry.scalars)
    told = (entry.sessions, entry.anchor, entry.costs)
    return Stored(place, entry.workload, entry.subject, entry.recorded, samples, *told)


# --- writing ---


def write(path: Path, suite: str, entries: Mapping[str, Stored]) -> None:
    """Store all entries of one place as a whole file.

    Secrets of the environment are masked in the subject; the workload is left alone, for it must compare
    equal later. Raises StoreError where the file cannot be written, a number is not finite, or places mix.
    """
    hide = masker(os.environ)
    try:
        text = render(suite, entries, hide)
    except ValueError as error:
        raise StoreError(f"{path}: {error}") from error
    write_atomically(path, text)


def render(suite: str, entries: Mapping[str, Stored], hide: Callable[[str], str] = str) -> str:
    """The file's text: sorted, rounded to six significant digits, one prompt a line, for readable diffs.

    Raises ValueError where a number is not finite, or the entries are not of exactly one place.
    """
    places = {stored.place for stored in entries.values()}
    if len(places) != 1:
        raise ValueError(f"entries of {len(places)} places cannot be stored in one file — write one file a place")
    cases = ",\n".join(_render_case(case, entries[case], hide) for case in sorted(entries))
    head = f'"schema": {SCHEMA},\n "suite": {_line(suite)},\n "place": {_line(encode(places.pop()))}'
    return f'{{{head},\n "cases": {{\n{cases}\n }}\n}}\n'


def _render_case(case: str, stored: Stored, hide: Callable[[str], str]) -> str:
    samples = stored.samples
    lines = ",\n".join(f"    {_line(line)}" for line in _encoded(case, "prompts", samples.prompts))
    parts = [
        f'   "recorded": {_line(stored.recorded)}',
        f'   "workload": {_block(encode(stored.workload))}',
        f'   "subject": {_block(encode(stored.subject, hide))}',
        f'   "greedy": {_line(samples.greedy)}',
        f'   "scalars": {_line(_encoded(case, "scalars", samples.scalars))}',
        f'   "sessions": {_line(_encoded(case, "sessions", stored.sessions))}',
        f'   "anchor": {_line(_encoded(case, "anchor", stored.anchor))}',
        f'   "costs": {_line(_encoded(case, "costs", stored.costs))}',
        f'   "prompts": [\n{lines}\n   ]' if lines else '   "prompts": []',
    ]
    return f"  {_line(case)}: {{\n" + ",\n".join(parts) + "\n  }"


def _encoded(case: str, name: str, value: object) -> Any:
    try:
        return encode(value)
    except CodecError as error:
        raise CodecError((case, name, *error.path), error.what) from None


def _block(values: Mapping[str, str]) -> str:
    lines = ",\n".join(f"    {_line(key)}: {_line(values[key])}" for key in sorted(values))
    return f"{{\n{lines}\n   }}" if values else "{}"


def _line(data: Any) -> str:
    return jsontext.dump(_rounded(data), sort_keys=True)


def _rounded(data: Any) -> Any:
    if isinstance(data, float):
        return float(f"{data:.6g}")
    if isinstance(data, dict):
        return {key: _rounded(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_rounded(value) for value in data]
    return data
