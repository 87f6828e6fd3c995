"""From verdicts and measurements to what each cell of a matrix came to.

Works exactly: every gate passed, and both arms gave the same tokens everywhere. Within ties: every gate passed, texts
part, and a gate found each token the target's own choice within its rounding. A passing cell is never called either
where no text of it was compared, or where only some of its gates ran.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_specgate.metrics import METRICS, Family
from pytest_specgate.records import Measurement, Outcome, Verdict
from pytest_specgate.report.document import Report
from pytest_specgate.report.outline import CaseView, outline, worst_first
from pytest_specgate.report.tabled import Cell, Matrix, State, combinations
from pytest_specgate.samples.output import same_output
from pytest_specgate.suite.matrix import Grid

_COMPARING = frozenset({Family.EXACTNESS, Family.DISTRIBUTION})
_STATES = {Outcome.FAIL: State.BROKEN, Outcome.ERROR: State.BROKEN, Outcome.INCONCLUSIVE: State.UNDECIDED}


def tabulated(
    report: Report, grids: Mapping[str, Grid], absent: Mapping[str, Mapping[str, str]] | None = None
) -> Report:
    """The report with a table for each suite that has a matrix; ``absent`` says by suite why engines did not run."""
    views: dict[tuple[str, str], list[CaseView]] = {}
    for view in outline(report) if grids else ():
        views.setdefault((view.suite, view.engine), []).append(view)
    matrices = {}
    for suite, grid in grids.items():
        why = (absent or {}).get(suite, {})
        cells = [
            _in_part(
                _cell(engine, place, views.get((suite, engine), ()), why.get(engine, "")),
                sum(len(view.verdicts) for view in views.get((suite, engine), ())),
                grid.gates.get(engine, 0),
            )
            for engine, place in grid.engines.items()
        ]
        cells += [Cell("+".join(one.place), one.place, State.ABSENT, one.reason) for one in grid.left_out]
        by_place = {cell.place: cell for cell in cells}
        matrices[suite] = Matrix(grid.axes, tuple(by_place[place] for place in combinations(grid.axes)))
    return replace(report, matrices=matrices)


def _cell(engine: str, place: tuple[str, ...], views: Sequence[CaseView], absent: str) -> Cell:
    verdicts = [verdict for view in views for verdict in view.verdicts]
    if not verdicts:
        return Cell(engine, place, State.ABSENT, absent)
    worst = worst_first(verdicts)[0]
    if worst.refused:
        return Cell(engine, place, State.REFUSED, worst.refused, worst.outcome is Outcome.PASS)
    if worst.outcome is not Outcome.PASS:
        fails = worst.outcome is not Outcome.INCONCLUSIVE and not worst.softened
        return Cell(engine, place, _STATES[worst.outcome], f"{worst.gate}: {worst.reason}", not fails)
    return Cell(engine, place, _working([view.measurement for view in views], verdicts))


def _in_part(cell: Cell, ran: int, gates: int) -> Cell:
    """The cell; one that is fine by some of its gates alone, the others being deselected or not reached, is not so."""
    if cell.state not in (State.EXACT, State.TIES, State.UNCOMPARED) or ran >= gates:
        return cell
    return replace(cell, state=State.PARTIAL, note=f"{ran} of {gates} gates ran, and passed")


def _working(taken: Sequence[Measurement | None], verdicts: Sequence[Verdict]) -> State:
    """What a cell is called all of whose gates passed."""
    pairs = [pair for one in taken if one is not None and one.greedy for pair in one.pairs]
    if pairs and all(same_output(pair.reference, pair.candidate) for pair in pairs):
        return State.EXACT
    judged = any(v.metric in METRICS and METRICS[v.metric].family in _COMPARING for v in verdicts)
    return State.TIES if judged else State.UNCOMPARED
