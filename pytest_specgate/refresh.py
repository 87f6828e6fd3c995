"""Storing what was measured as the new baseline, and finding what is stored for nothing.

An update is refused, case by case, where the numbers would not serve: an environment rule did not hold, an allowed
change is finer than later builds can resolve or than a restart moves it, or a loss that the gates do not allow would
become the norm.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_specgate import baseline, gates, recording
from pytest_specgate.errors import OutdatedBaseline, SpecgateError
from pytest_specgate.records import Anchor, Check, Outcome, Stored
from pytest_specgate.samples.values import values
from pytest_specgate.session import CaseResult, SuiteSession
from pytest_specgate.suite.cases import Case


@dataclass(frozen=True, slots=True)
class Change:
    """What an update did to one case: ``old`` is None for a new entry, ``refused`` says why nothing was stored.

    ``losses`` are those that the new numbers carry against the old ones, a sentence each.
    """

    case: str
    path: Path
    old: Stored | None
    new: Stored | None
    refused: str = ""
    losses: tuple[str, ...] = ()


def update_baselines(session: SuiteSession, failed: frozenset[str]) -> list[Change]:
    """Store what the session measured, one atomic write per file; what was not measured stays as it is.

    ``failed`` names the cases in which a gate failed in this run. Raises StoreError, BaselineError.
    """
    changes, by_path = list[Change](), dict[Path, dict[str, Stored]]()
    for result in session.results():
        if result.case.scenario.generated:  # right or wrong by itself: there is nothing to compare with later
            continue
        path = baseline.path_for(session.settings.baselines, result.measurement.place, session.suite.name)
        if path not in by_path:
            by_path[path] = _entries(path)
        old = by_path[path].get(result.case.id)
        if not _may_touch(session.settings.update_only, result, old, failed):
            continue
        changes.append(_change(session, result, path, old))
        if (new := changes[-1].new) is not None:
            by_path[path][result.case.id] = new
    for path in {change.path for change in changes if change.new is not None}:
        baseline.write(path, session.suite.name, by_path[path])
    return changes


def _entries(path: Path) -> dict[str, Stored]:
    """What the file holds that can be kept: nothing of an older schema."""
    try:
        return baseline.read(path) if path.is_file() else {}
    except OutdatedBaseline:
        return {}


def _change(session: SuiteSession, result: CaseResult, path: Path, old: Stored | None) -> Change:
    new = _as_stored(result, old)
    comparable = old is not None and not baseline.mismatch(old, result.measurement.workload)
    losses = tuple(_losses(session, result, old)) if old is not None and comparable else ()
    reason = "; ".join(_refusals(session, result, new, losses))
    told = tuple(check.reason for check in losses)
    return Change(result.case.id, path, old, None if reason else new, reason, told)


def _as_stored(result: CaseResult, old: Stored | None) -> Stored:
    """The measurement as a baseline entry of today, tied to the first of its workload."""
    m, sessions = result.measurement, (result.samples, *result.sessions)
    first = old is None or bool(baseline.mismatch(old, m.workload))
    return Stored(
        place=m.place,
        workload=dict(m.workload),
        subject=dict(m.subject),
        recorded=datetime.date.today().isoformat(),
        samples=recording.merged(sessions),
        sessions=recording.levels(sessions),
        anchor=None if old is None or first else _anchor(old),
        costs=m.costs,
    )


def _anchor(old: Stored) -> Anchor:
    return old.anchor or Anchor(old.recorded, values(old.samples))


# --- what an update refuses ---


def _refusals(session: SuiteSession, result: CaseResult, new: Stored, losses: tuple[Check, ...]) -> Iterator[str]:
    for finding in result.measurement.findings:
        if not finding.held:
            yield f"environment rule '{finding.rule}' did not hold: {finding.detail}"
    if result.memory_error is not None:
        yield f"memory was not measured: {result.memory_error}"
    yield from _unholdable(session, result.case, new)
    forbidden = [loss for loss in losses if loss.outcome is Outcome.FAIL]
    if forbidden and not session.settings.accept_loss:
        yield f"{forbidden[0].reason}; to make that the new norm, add --specgate-accept-loss"


def _unholdable(session: SuiteSession, case: Case, new: Stored) -> Iterator[str]:
    """Allowed changes that later builds could not tell from none, each with the smallest that they could."""
    rounds, alpha = session.suite.spec.measure.rounds, session.context(case.id, new.place).alpha
    for one in recording.resolved(case, new.samples, rounds, alpha):
        found = f"{one.gate}: {one.kind} {one.allowed:.1%} cannot be held: "
        if one.least > one.allowed:
            amount = f"{rounds} rounds of pairs that scatter by {one.scatter:.1%}"
            yield f"{found}{amount} resolve no change below {one.least:.1%}; allow that, or raise measure.rounds"
        spread = recording.spread(new.sessions.get(one.metric, ()))
        if recording.SESSION_FACTOR * spread > one.allowed:
            yield f"{found}sessions differ by {spread:.2%}; allow at least {recording.SESSION_FACTOR * spread:.1%}"


def _losses(session: SuiteSession, result: CaseResult, old: Stored) -> Iterator[Check]:
    """Changes for the worse, against what is stored now, that are more than noise."""
    m = result.measurement
    if old.place != m.place or any(not finding.held for finding in m.findings):
        return
    context = session.context(result.case.id, m.place, m.engine_kind)
    for gate in result.case.gates:
        for check in gates.judge_once(gate, result.samples, old, context).checks:
            if _worse(check):
                yield check


def _worse(check: Check) -> bool:
    change = check.interval
    if change is None or check.kind == "limit":
        return False
    return change.high < 0 if check.kind == "max_drop" else change.low > 0


def _may_touch(only: str | None, result: CaseResult, old: Stored | None, failed: frozenset[str]) -> bool:
    if only == "new":  # an entry of another workload holds nothing that this case could be compared with
        return old is None or bool(baseline.mismatch(old, result.measurement.workload))
    return result.case.id in failed if only == "failed" else True


def unused_entries(folder: Path, suite: str, cases: Iterable[Case]) -> Mapping[Path, tuple[str, ...]]:
    """Stored entries that no case of the suite reads, by file. Unreadable files are left to those who need them."""
    known, found = [case.id for case in cases], {}
    for path in sorted(folder.glob(f"*/{suite}.json")):
        try:
            idle = baseline.unused(baseline.read(path), known)
        except SpecgateError:
            continue
        if idle:
            found[path] = idle
    return found
