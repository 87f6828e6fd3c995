"""Verdicts as GitHub's workflow commands: ``::error file=...,line=...::what``, which mark the gate's own line.

A command ends with its line, and its parts are set off by ``:`` and ``,``; all of these are escaped, so that no text
of a model becomes a command of its own. GitHub shows ten marks of a kind a step: the worst come first, and the last of
them says how many more there are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from pytest_specgate.errors import LocatedError, SpecgateError
from pytest_specgate.records import Outcome, Verdict
from pytest_specgate.report.escape import flat
from pytest_specgate.report.outline import worst_first

MOST = 10
_LOCATION = re.compile(r"^(.*?)(?::(\d+))?(?::(\d+))?$")


def github(
    verdicts: Sequence[Verdict],
    mistakes: Iterable[SpecgateError] = (),
    shown: Callable[[str], str] = str,
    hide: Callable[[str], str] = str,
) -> Iterator[str]:
    """A command for each verdict that is no plain pass, and for each suite that cannot be read.

    ``shown`` turns a path of ours into one from the repository's root; ``hide`` is applied to every text.
    """
    errors = [_mistake(error, shown, hide) for error in mistakes]
    warnings: list[str] = []
    for verdict in worst_first(verdicts):
        if verdict.outcome is Outcome.PASS:
            continue
        hard = verdict.outcome is not Outcome.INCONCLUSIVE and not verdict.softened
        (errors if hard else warnings).append(_verdict(verdict, "error" if hard else "warning", shown, hide))
    for found, level in ((errors, "error"), (warnings, "warning")):
        yield from found if len(found) <= MOST else [*found[: MOST - 1], _more(found, level)]


def _more(found: Sequence[str], level: str) -> str:
    return _command(level, {"title": "specgate"}, f"{len(found) - MOST + 1} more; see the job's summary")


def _verdict(verdict: Verdict, level: str, shown: Callable[[str], str], hide: Callable[[str], str]) -> str:
    label = f"{verdict.outcome.value} ({verdict.softened.split(':')[0]})" if verdict.softened else verdict.outcome.value
    title = f"{label} {verdict.gate}[{verdict.case}]"
    advice = f" — {verdict.advice}" if verdict.advice else ""
    where = _parts(verdict.location, shown)
    return _command(level, {**where, "title": hide(title)}, hide(f"{verdict.reason}{advice}"))


def _mistake(error: SpecgateError, shown: Callable[[str], str], hide: Callable[[str], str]) -> str:
    if not isinstance(error, LocatedError):
        return _command("error", {"title": "specgate"}, hide(str(error)))
    where = _parts(str(error.location), shown)
    return _command("error", {**where, "title": "suite"}, hide(f"{error.what} — {error.hint}"))


def _parts(location: str, shown: Callable[[str], str]) -> dict[str, str]:
    match = _LOCATION.match(location)
    path, line, column = match.groups() if match else (location, None, None)
    found = {"file": shown(path), "line": line or "", "col": column or ""}
    return {name: value for name, value in found.items() if value}


def _command(level: str, properties: dict[str, str], message: str) -> str:
    told = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {told}::{_data(flat(message))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(flat(text)).replace(":", "%3A").replace(",", "%2C")


def from_workspace(root: Path, workspace: str) -> Callable[[str], str]:
    """How paths from pytest's root are written from the workspace's, which is where GitHub looks for them."""
    base = Path(workspace).resolve() if workspace else root

    def shown(path: str) -> str:
        whole = (root / path).resolve()
        return whole.relative_to(base).as_posix() if whole.is_relative_to(base) else path

    return shown


def defused(text: str) -> str:
    """The text without what GitHub's runner takes for a command of the old form, wherever it stands in a line."""
    return text.replace("##[", "# #[")
