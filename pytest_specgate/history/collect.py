"""Report → line of a history: one number a metric, drawn as tables draw them, with what was stored at the time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_specgate import baseline
from pytest_specgate.errors import SpecgateError
from pytest_specgate.history.record import SCHEMA, CaseLine, RunLine, Source
from pytest_specgate.metrics import METRICS
from pytest_specgate.records import Anchor, Measurement, Stored, Verdict
from pytest_specgate.report.document import Report
from pytest_specgate.report.outline import outline
from pytest_specgate.samples import reduce
from pytest_specgate.samples.values import values


@dataclass(slots=True)
class _Baselines:
    """Stored entries, each file read once; one that cannot be read holds none, for the run has said so."""

    folder: Path
    names: Mapping[str, str]
    _files: dict[Path, Mapping[str, Stored]] = field(default_factory=dict)

    def of(self, suite: str, measurement: Measurement) -> Stored | None:
        """The entry of this place and workload."""
        path = baseline.path_for(
            self.folder, measurement.place, self.names.get(suite) or Path(suite).name.split(".")[0]
        )
        if path not in self._files:
            self._files[path] = _read(path)
        stored = self._files[path].get(measurement.case)
        return None if stored is None or baseline.mismatch(stored, measurement.workload) else stored


def _read(path: Path) -> Mapping[str, Stored]:
    try:
        return baseline.read(path) if path.is_file() else {}
    except SpecgateError:
        return {}


def summarize(
    report: Report, source: Source, seconds: float, baselines: Path, names: Mapping[str, str] | None = None
) -> RunLine:
    """The run, which took so long in all, as a line of a history.

    ``names`` maps the path of a suite to its name where that is not its file's. A case that was not measured, or whose
    traces contradict themselves, has no line: its verdicts are in the report.
    """
    stored = _Baselines(baselines, names or {})
    cases = tuple(_cases(report, stored))
    return RunLine(SCHEMA, report.version, report.created, source, report.exit_status, seconds, cases)


def _cases(report: Report, stored: _Baselines) -> Iterator[CaseLine]:
    for view in outline(report):
        measurement = view.measurement
        if measurement is None or view.samples is None:
            continue
        judged = [verdict.metric for verdict in view.verdicts]
        numbers = values(reduce(measurement, judged))
        entry = stored.of(view.suite, measurement)
        yield CaseLine(
            suite=view.suite,
            case=measurement.case,
            place=measurement.place,
            workload=measurement.workload,
            subject=measurement.subject,
            values=_finite({**numbers, **_by_label(view.verdicts)}),
            outcomes={verdict.gate: verdict.outcome for verdict in view.verdicts},
            broken=tuple(dict.fromkeys(finding.rule for finding in measurement.findings if not finding.held)),
            seconds=measurement.seconds,
            rounds=len({pair.round for pair in measurement.pairs}),
            baseline=None if entry is None else Anchor(entry.recorded, _finite(values(entry.samples))),
            anchor=None if entry is None else (entry.anchor or Anchor(entry.recorded, _finite(values(entry.samples)))),
        )


def _by_label(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """What gates on other statistics than the metric's own measured."""
    others = (verdict for verdict in verdicts if verdict.gate not in METRICS and verdict.measured is not None)
    return {verdict.gate: verdict.measured.value for verdict in others if verdict.measured is not None}


def _finite(found: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in found.items() if math.isfinite(value)}
