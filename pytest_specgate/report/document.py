"""One run as a value: verdicts, measurements and where they came from; JSON with a schema version.

A stored report can be judged again after limits changed, without a model and without a GPU: the measurements are whole.
"""

from __future__ import annotations

import datetime
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest_specgate
from pytest_specgate.codec import decode, encode
from pytest_specgate.errors import StoreError
from pytest_specgate.files import write_atomically
from pytest_specgate.records import Measurement, Verdict

SCHEMA = 1
_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSWORD", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Report:
    """A run. ``measurements`` maps ``suite path`` to the measurements of its cases."""

    schema: int
    version: str
    created: str
    exit_status: int
    verdicts: tuple[Verdict, ...]
    measurements: Mapping[str, tuple[Measurement, ...]]
    machine: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


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
    """Write a whole file. Raises StoreError."""
    text = json.dumps(_encoded(report), ensure_ascii=False, indent=1, allow_nan=False)
    write_atomically(path, masked(text, os.environ) + "\n")


def _encoded(report: Report) -> object:
    """The report as JSON values; raises StoreError where a measured number is not finite."""
    try:
        return encode(report)
    except ValueError as error:
        raise StoreError(f"the report cannot be stored ({error})") from error


def read(path: Path) -> Report:
    """A report from its file. Raises StoreError for a broken, cut off or newer one."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: cannot be read ({error}) — give a file that --specgate-report wrote") from error
    except json.JSONDecodeError as error:
        raise StoreError(f"{path}:{error.lineno}:{error.colno}: is no whole JSON ({error.msg}) — write it again") from error
    version = data.get("schema") if isinstance(data, dict) else None
    if version != SCHEMA:
        hint = "update pytest-specgate" if isinstance(version, int) and version > SCHEMA else "write it again"
        raise StoreError(f"{path}: report schema {version!r}, this version reads {SCHEMA} — {hint}")
    try:
        return decode(Report, data)
    except ValueError as error:
        raise StoreError(f"{path}: is not what this version writes ({error}) — write it again") from error


def masked(text: str, environ: Mapping[str, str]) -> str:
    """Replace the values of environment variables that look like secrets, wherever they turn up."""
    for name, value in environ.items():
        if _SECRET_NAME.search(name) and len(value) >= 8:
            text = text.replace(value, "********")
    return text
