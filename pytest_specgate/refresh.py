"""Storing what was measured as the new baseline, and finding what is stored for nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_specgate import baseline
from pytest_specgate.errors import SpecgateError
from pytest_specgate.records import Stored
from pytest_specgate.session import Settings, SuiteSession
from pytest_specgate.suite.cases import Case, Suite


@dataclass(frozen=True, slots=True)
class Change:
    """What an update did to one case: ``old`` is None for a new entry, ``refused`` says why nothing was stored."""

    case: str
    path: Path
    old: Stored | None
    new: Stored | None
    refused: str = ""


def update_baselines(session: SuiteSession, failed: frozenset[str]) -> list[Change]:
    """Store what the session measured, one atomic write per file; what was not measured stays as it is.

    ``failed`` names the cases in which a gate failed in this run. Raises StoreError, BaselineError.
    """
    changes, by_path = [], {}  # type: tuple[list[Change], dict[Path, dict[str, Stored]]]
    for result in session.results():
        path = baseline.path_for(session.settings.baselines, result.measurement.place, session.suite.name)
        if path not in by_path:
            by_path[path] = baseline.read(path) if path.is_file() else {}
        old = by_path[path].get(result.case.id)
        if not _may_touch(session.settings.update_only, result.case.id, old, failed):
            continue
        if result.refusal:
            changes.append(Change(result.case.id, path, old, None, result.refusal))
            continue
        new = result.as_stored()
        by_path[path][result.case.id] = new
        changes.append(Change(result.case.id, path, old, new))
    for path in {change.path for change in changes if change.new is not None}:
        baseline.write(path, session.suite.name, by_path[path])
    return changes


def _may_touch(only: str | None, case: str, old: Stored | None, failed: frozenset[str]) -> bool:
    if only == "new":
        return old is None
    return case in failed if only == "failed" else True


def unused_entries(suite: Suite, cases: Iterable[Case], settings: Settings) -> Mapping[Path, tuple[str, ...]]:
    """Stored entries that no case of the suite reads, by file. Unreadable files are left to those who need them."""
    known, found = [case.id for case in cases], {}
    for path in sorted(settings.baselines.glob(f"*/{suite.name}.json")):
        try:
            idle = baseline.unused(baseline.read(path), known)
        except SpecgateError:
            continue
        if idle:
            found[path] = idle
    return found
