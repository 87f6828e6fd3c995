"""One run as a value: verdicts, measurements and where they came from; JSON with a schema version.

A stored report can be judged again after limits changed, without a model and without a GPU: the measurements
are whole.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest_specgate
from pytest_specgate import jsontext
from pytest_specgate.codec import CodecError, decode, encode
from pytest_specgate.errors import StoreError
from pytest_specgate.files import write_atomically
from pytest_specgate.masking import masker
from pytest_specgate.records import Measurement, Verdict
from pytest_specgate.report.advised import Advice, Wanted
from pytest_specgate.report.since import Compared
from pytest_specgate.report.tabled import Matrix
from pytest_specgate.schemas import file_schema

SCHEMA = 9
_GIVE = "give a file that --specgate-report wrote"


@dataclass(frozen=True, slots=True)
class Report:
    """A run. ``measurements`` maps ``suite path`` to the measurements of its cases, ``baselines`` to what they met.

    ``checks`` maps every suite that was collected, measured or not, to its statistical checks: together they share the
    run's error budget, so that judging again meets the same limits.
    ``wanted`` maps it to what its suite asks of adopting speculation, which ``advice`` answers. ``matrices`` maps those
    suites that have a matrix to what its cells came to.
    """

    schema: int
    version: str
    created: str
    exit_status: int
    verdicts: tuple[Verdict, ...]
    measurements: Mapping[str, tuple[Measurement, ...]]
    machine: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    baselines: Mapping[str, tuple[Compared, ...]] = field(default_factory=dict)
    checks: Mapping[str, int] = field(default_factory=dict)
    wanted: Mapping[str, Wanted] = field(default_factory=dict)
    advice: tuple[Advice, ...] = ()
    matrices: Mapping[str, Matrix] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """The page in a frame of its own, for notebooks: nothing of it reaches the notebook's own styles."""
        from pytest_specgate.report.faces import framed  # which draws on this module

        return framed(self)


def new_report(
    verdicts: Sequence[Verdict],
    measurements: Mapping[str, tuple[Measurement, ...]],
    exit_status: int,
    machine: Mapping[str, str],
    warnings: Sequence[str] = (),
) -> Report:
    """A report of now."""
    created = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    version = pytest_specgate.__version__
    return Report(SCHEMA, version, created, exit_status, tuple(verdicts), measurements, machine, tuple(warnings))


def write(path: Path, report: Report) -> None:
    """Write a whole file, secrets of the environment masked. Raises StoreError."""
    write_atomically(path, to_json(report, masker(os.environ)))


def to_json(report: Report, hide: Callable[[str], str] = str) -> str:
    """The report's text, ``hide`` applied to every string. Raises StoreError for NaN and infinities."""
    try:
        return jsontext.dump(encode(report, hide), indent=1) + "\n"
    except ValueError as error:
        raise StoreError(f"the report cannot be stored ({error})") from error


def read(path: Path) -> Report:
    """A report from its file. Raises StoreError for a broken, cut off or newer one."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror}) — {_GIVE}") from error
    except UnicodeDecodeError as error:
        raise StoreError(f"{path}: byte {error.start} is not UTF-8 — {_GIVE}") from error
    return from_json(text, path)


def from_json(text: str, shown: Path) -> Report:
    """A report from its text; messages name it ``shown``. Raises StoreError as :func:`read` does."""
    try:
        data = jsontext.parse(text)
    except jsontext.JsonError as error:
        raise StoreError(f"{shown}:{error.line}:{error.column}: {error.what} — write it again") from error
    version = data.get("schema") if isinstance(data, dict) else None
    if type(version) is not int:
        raise StoreError(f"{shown}: is no report: it has no 'schema' number — {_GIVE}")
    if version != SCHEMA:
        hint = "update pytest-specgate" if version > SCHEMA else "write it again"
        raise StoreError(f"{shown}: report schema {version}, this version reads {SCHEMA} — {hint}")
    try:
        return decode(Report, data)
    except CodecError as error:
        line, column = jsontext.locate(text, error.path)
        raise StoreError(f"{shown}:{line}:{column}: {error} — write it again") from error


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a report."""
    return file_schema(Report, "pytest-specgate report", SCHEMA)
