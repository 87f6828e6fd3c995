"""A line of a history: one run, its commit, and one number a metric for each of its cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_specgate.records import Anchor, Outcome, Place
from pytest_specgate.schemas import file_schema

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Source:
    """What was run: ``commit`` and ``branch``, empty where unknown, and a ``link`` to the job that ran it.

    ``changed`` says that files of the working tree differed from the commit.
    """

    commit: str = ""
    branch: str = ""
    link: str = ""
    changed: bool = False


@dataclass(frozen=True, slots=True)
class CaseLine:
    """One case of a run.

    ``workload`` and ``subject`` are those of its measurement. ``values`` has one number a metric, and one for each gate
    on another statistic than the metric's own (``ttft.p95``); ``outcomes`` what each gate said. ``broken`` names
    environment rules that did not hold. ``baseline`` is what was stored when it ran, ``anchor`` the first of its kind.
    """

    suite: str
    case: str
    place: Place
    workload: Mapping[str, str]
    subject: Mapping[str, str]
    values: Mapping[str, float]
    outcomes: Mapping[str, Outcome]
    broken: tuple[str, ...]
    seconds: float
    rounds: int
    baseline: Anchor | None = None
    anchor: Anchor | None = None


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run: when it ended (UTC), of which commit, with which exit status, how long in all, and its cases."""

    schema: int
    version: str
    created: str
    source: Source
    exit_status: int
    seconds: float
    cases: tuple[CaseLine, ...] = field(default=())


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of one line of a history."""
    return file_schema(RunLine, "pytest-specgate history, one line", SCHEMA)
