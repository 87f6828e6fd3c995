"""What a suite's matrix came to, as values: every combination of options, and whether it works.

Each cell stands for one engine. Texts are plain; every face escapes and arranges them its own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pytest_specgate.suite.matrix import Axis


class State(str, Enum):
    """What can be said of an engine, the best first."""

    EXACT = "works exactly"
    TIES = "works within ties"
    UNCOMPARED = "runs, no text compared"
    PARTIAL = "passed in part"
    REFUSED = "refused"
    UNDECIDED = "undecided"
    BROKEN = "broken"
    ABSENT = "not run"


#: A sign for each, in ASCII; one that asks for its reason is followed by the reason's number.
SIGNS = {
    State.EXACT: "=",
    State.TIES: "~",
    State.UNCOMPARED: "o",
    State.PARTIAL: "-",
    State.REFUSED: "r",
    State.UNDECIDED: "?",
    State.BROKEN: "X",
    State.ABSENT: ".",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One engine: ``place`` is its options, one per axis; ``note`` is why it is refused, broken, undecided or not run.

    Of one that passed in part it is how much of it ran.
    ``expected`` is false where a gate of it fails, or could not be judged, against what the suite says; an undecided
    one is not told apart by it.
    """

    engine: str
    place: tuple[str, ...]
    state: State
    note: str = ""
    expected: bool = True


@dataclass(frozen=True, slots=True)
class Matrix:
    """A suite's matrix, its cells in the order of the axes' options."""

    axes: tuple[Axis, ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """Options of the axes that are rows, and the cells of every combination of the others; None where there is none."""

    options: tuple[str, ...]
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True)
class Laid:
    """A matrix as a table: the first half of its axes are rows, the others columns.

    ``groups`` are the columns' options but the last, each with as many columns as ``inner`` has options; of one axis
    alone there are none. ``notes`` are the reasons, in the order of their numbers.
    """

    heads: tuple[str, ...]
    columns: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    inner: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    def number(self, cell: Cell) -> int | None:
        """The number of the cell's reason, from 1; None where it has none."""
        return self.notes.index(cell.note) + 1 if cell.note else None


def laid(matrix: Matrix) -> Laid:
    """The matrix arranged for reading."""
    split = (len(matrix.axes) + 1) // 2
    rows, columns = matrix.axes[:split], matrix.axes[split:]
    by_place = {cell.place: cell for cell in matrix.cells}
    across = combinations(columns)
    return Laid(
        heads=tuple(axis.name for axis in rows),
        columns=tuple(axis.name for axis in columns),
        groups=tuple(combinations(columns[:-1])),
        inner=columns[-1].options if columns else ("",),
        rows=tuple(Row(place, tuple(by_place.get(place + rest) for rest in across)) for place in combinations(rows)),
        notes=tuple(dict.fromkeys(cell.note for cell in matrix.cells if cell.note)),
    )


def sign(cell: Cell | None, number: int | None) -> str:
    """``=``, ``~``, ``r2``; one that fails the build has a mark."""
    if cell is None:
        return SIGNS[State.ABSENT]
    return f"{SIGNS[cell.state]}{number or ''}{'' if cell.expected else '!'}"


def counted(matrix: Matrix, *, signs: bool = True) -> str:
    """``312 cells: 200 works exactly (=), 90 refused (r), 22 not run (.); 4 fail the build (!)``, or without signs."""
    found = [(state, [cell for cell in matrix.cells if cell.state is state]) for state in State]
    parts = [f"{len(cells)} {state.value}{_aside(state, cells, signs=signs)}" for state, cells in found if cells]
    wrong = sum(not cell.expected for cell in matrix.cells)
    mark = " (!)" if signs else ""
    return f"{len(matrix.cells)} cells: {', '.join(parts)}; {wrong or 'none'} fail{'s' * (wrong == 1)} the build{mark}"


def _aside(state: State, cells: Sequence[Cell], *, signs: bool) -> str:
    """A state's sign, and what is the matter with engines that did not run for no reason of their own."""
    silent = sum(state is State.ABSENT and not cell.note for cell in cells)
    told = [SIGNS[state]] * signs + [f"{silent} of them deselected or not reached"] * bool(silent)
    return f" ({'; '.join(told)})" if told else ""


def combinations(axes: Sequence[Axis]) -> list[tuple[str, ...]]:
    """Every choice of an option of each axis, the last axis fastest."""
    found: list[tuple[str, ...]] = [()]
    for axis in axes:
        found = [(*place, option) for place in found for option in axis.options]
    return found
