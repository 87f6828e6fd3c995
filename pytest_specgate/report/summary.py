"""The old → new table of a baseline update."""

from __future__ import annotations

from collections.abc import Iterator

from tabulate import tabulate

from pytest_specgate.metrics import METRICS
from pytest_specgate.records import Stored
from pytest_specgate.report.escape import flat
from pytest_specgate.samples.values import values
from pytest_specgate.units import format_value


def change_lines(case: str, old: Stored | None, new: Stored) -> Iterator[str]:
    """What an update does to one case: old → new per metric and since the first, then what changed in the subject."""
    before, after = values(old.samples) if old else {}, values(new.samples)
    names = [name for name in METRICS if name in {**before, **after}]
    headers = ["metric", "old", "new", "change"]
    rows = [_row(name, before.get(name), after.get(name)) for name in names]
    if new.anchor is not None:
        headers.append(f"since {new.anchor.recorded}")
        for row, name in zip(rows, names):
            row.append(_change(new.anchor.values.get(name), after.get(name)))
    yield f"{flat(case)}: {'refreshed' if old else 'new'}"
    yield from tabulate(rows, headers=headers, tablefmt="simple", disable_numparse=True).splitlines()
    if old is None:
        return
    for key in sorted({*new.subject, *old.subject}):
        was, now = old.subject.get(key, "-"), new.subject.get(key, "-")
        if was != now:
            yield f"  {flat(key)}: {flat(was)} → {flat(now)}"


def _row(name: str, old: float | None, new: float | None) -> list[str]:
    unit = METRICS[name].unit
    was, now = ("-" if value is None else format_value(value, unit) for value in (old, new))
    return [name, was, now, _change(old, new)]


def _change(old: float | None, new: float | None) -> str:
    return f"{new / old - 1:+.1%}" if old and new is not None else "-"
