"""Runs for tests of histories: made by hand, as a CI would append them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_specgate.history.record import SCHEMA, CaseLine, RunLine, Source
from pytest_specgate.records import Anchor, Outcome, Place

PLACE = Place("cpu", 1, "float32")
WORKLOAD = {"prompts": "p1", "target": "t"}


def commit(number: int) -> str:
    """A commit's name."""
    return f"{number:07x}" + "a" * 33


def case(values: Mapping[str, float], **changes: object) -> CaseLine:
    """One case with a passing gate on each of its values."""
    fields = {
        "suite": "suites/demo.specgate.yaml",
        "case": "tiny::qa-t0-c1",
        "place": PLACE,
        "workload": WORKLOAD,
        "subject": {"torch": "2.13"},
        "values": values,
        "outcomes": dict.fromkeys(values, Outcome.PASS),
        "broken": (),
        "seconds": 1.0,
        "rounds": 8,
        **changes,
    }
    return CaseLine(**fields)  # type: ignore[arg-type]


def run(number: int, *cases: CaseLine, branch: str = "main", of: str | None = None) -> RunLine:
    """Run number ``number``, an hour after the one before."""
    created = f"2026-{1 + number // 600:02d}-{1 + number // 24 % 25:02d}T{number % 24:02d}:00:00+00:00"
    return RunLine(SCHEMA, "0.1.0", created, Source(commit(number) if of is None else of, branch), 0, 60.0, cases)


def runs(metric: str, values: Sequence[float], **changes: object) -> list[RunLine]:
    """A run of one case for each value."""
    return [run(number, case({metric: value}, **changes)) for number, value in enumerate(values)]


def stored(metric: str, value: float, recorded: str = "2026-01-01") -> Anchor:
    """A baseline's value."""
    return Anchor(recorded, {metric: value})
