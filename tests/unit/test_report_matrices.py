"""A matrix's cells from verdicts and measurements, and the table of them in every form."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_specgate.records import Measurement, Outcome
from pytest_specgate.report import document
from pytest_specgate.report.document import Report
from pytest_specgate.report.html.page import html
from pytest_specgate.report.markdown import markdown
from pytest_specgate.report.matrices import tabulated
from pytest_specgate.report.tabled import Cell, Matrix, State, counted, laid, sign
from pytest_specgate.report.terminal import lines, matrix_lines
from pytest_specgate.runner import run
from pytest_specgate.suite.load import load_suite
from pytest_specgate.suite.matrix import Axis
from tests.unit.reporting import HOSTILE, Page

SUITE = """\
specgate: 1
matrix:
  engine: {kind: scripted}
  axes:
    model:
      good: {}
      gone: {options: {fault: start}}
      odd: {options: {fault: diverge}}
      far: {requires: {package: no_such_package_at_all}}
    size:
      one: {}
      two: {}
    way:
      plain: {}
      fast: {}
  rules:
    - {where: {model: gone, size: one}, engine: {expect: {refused: cannot start}}}
    - {where: {model: good, way: fast}, engine: {expect: {refused: never}}}
    - {where: {model: odd, size: two}, skip: nobody asks for it}
scenarios:
  qa: {category: qa, prompts: p.jsonl}
measure: {rounds: 1, memory: false, costs: false}
gates:
  - {metric: exact_match, limit: "==100%"}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("matrix")
    (made / "p.jsonl").write_text('{"id": "a", "turns": ["Say it."]}\n{"id": "b", "turns": ["Say that."]}\n')
    (made / "s.specgate.yaml").write_text(SUITE)
    return made


@pytest.fixture(scope="module")
def report(folder: Path) -> Report:
    return run(folder / "s.specgate.yaml", baselines=folder / "none")


def cells(report: Report) -> dict[str, Cell]:
    (matrix,) = report.matrices.values()
    return {cell.engine: cell for cell in matrix.cells}


def test_each_cell_says_what_came_of_its_engine(report: Report) -> None:
    found = cells(report)
    assert len(found) == 16
    assert {name: (one.state, one.expected) for name, one in found.items() if one.place[1] == "one"} == {
        "good+one+plain": (State.EXACT, True),
        "good+one+fast": (State.BROKEN, False),
        "gone+one+plain": (State.REFUSED, True),
        "gone+one+fast": (State.REFUSED, True),
        "odd+one+plain": (State.BROKEN, False),
        "odd+one+fast": (State.BROKEN, False),
        "far+one+plain": (State.ABSENT, True),
        "far+one+fast": (State.ABSENT, True),
    }
    assert (found["gone+two+plain"].state, found["gone+two+plain"].expected) == (State.REFUSED, False)
    assert found["odd+two+plain"] == Cell("odd+two+plain", ("odd", "two", "plain"), State.ABSENT, "nobody asks for it")
    assert found["gone+one+plain"].note == "the script says that this engine cannot start"
    assert found["far+one+plain"].note == "requires package 'no_such_package_at_all', which is not installed"
    assert found["good+one+fast"].note == "exact_match: expected to be refused with 'never', and it runs"


def test_texts_that_part_are_ties_only_where_their_tokens_were_judged(folder: Path, report: Report) -> None:
    grid = load_suite(folder / "s.specgate.yaml", folder, {}).grid
    assert grid is not None
    ((suite, taken),) = report.measurements.items()
    parted = tuple(_parted(one) for one in taken)
    passing = tuple(replace(v, outcome=Outcome.PASS, refused="") for v in report.verdicts)
    for metric, state in (("greedy_exactness", State.TIES), ("length_ratio", State.UNCOMPARED)):
        told = replace(report, measurements={suite: parted}, verdicts=tuple(replace(v, metric=metric) for v in passing))
        assert cells(tabulated(told, {suite: grid}))["good+one+plain"].state is state


def _parted(taken: Measurement) -> Measurement:
    first, *rest = taken.pairs
    other = replace(first, candidate=replace(first.candidate, token_ids=first.candidate.token_ids[:-1]))
    return replace(taken, pairs=(other, *rest))


def test_half_of_the_axes_are_rows_and_reasons_are_numbered(report: Report) -> None:
    (matrix,) = report.matrices.values()
    table = laid(matrix)
    assert (table.heads, table.columns) == (("model", "size"), ("way",))
    assert (table.groups, table.inner) == (((),), ("plain", "fast"))
    assert [row.options for row in table.rows][:3] == [("good", "one"), ("good", "two"), ("gone", "one")]
    signs = {row.options: [sign(c, table.number(c)) for c in row.cells if c] for row in table.rows}
    assert signs["good", "one"] == ["=", "X1!"]
    assert signs["gone", "one"] == ["r2", "r2"]
    assert signs["gone", "two"] == ["r2!", "r2!"]
    assert signs["odd", "two"] == [".4", ".4"]


def test_the_terminal_shows_a_table_in_place_of_those_that_pass(report: Report) -> None:
    plain = "\n".join(lines(report.verdicts, 120, report.matrices))
    assert "good+one+plain" not in plain
    assert "good+one+fast" in plain
    text = "\n".join(matrix_lines(report.matrices))
    assert "s.specgate.yaml · model × size × way" in text
    assert "gone     two     r2!      r2!" in text
    assert "16 cells: 2 works exactly (=), 4 refused (r), 4 broken (X), 6 not run (.); 6 fail the build (!)" in text
    assert "  2: the script says that this engine cannot start" in text


def test_notes_on_what_passed_are_counted_and_those_on_what_did_not_are_told(report: Report) -> None:
    noted = tuple(replace(verdict, warnings=("seen", "heard")) for verdict in report.verdicts)
    text = "\n".join(lines(noted, 120, report.matrices))
    passing = {cell.engine for cell in next(iter(report.matrices.values())).cells if cell.expected}
    told = sum(verdict.outcome is Outcome.PASS and verdict.case.partition("::")[0] in passing for verdict in noted)
    assert (
        f"notes on gates that passed, of engines in the table below: {2 * told}, all of them in a JSON report" in text
    )
    assert text.count("note: seen") == len(noted) - told
    assert "note: seen" not in "\n".join(lines(report.verdicts, 120, report.matrices))


def test_grouped_columns_stand_side_by_side() -> None:
    options = {"a": ("x",), "b": ("y",), "c": ("p", "q"), "d": ("u", "v")}
    axes = tuple(Axis(name, found) for name, found in options.items())
    made = [Cell("+".join(("x", "y", c, d)), ("x", "y", c, d), State.EXACT) for c in "pq" for d in "uv"]
    made[3] = replace(made[3], state=State.TIES)
    text = list(matrix_lines({"s": Matrix(axes, tuple(made))}))
    assert text[1] == "within a column, by d: u, v"
    assert text[-3].split() == ["x", "y", "=", "=", "=", "~"]


def test_the_page_has_a_table_with_heads_and_reasons(report: Report) -> None:
    page = Page(html(report))
    assert page.misplaced == []
    assert "What works" in page.text
    assert "16 cells: 2 works exactly, 4 refused, 4 broken, 6 not run; 6 fail the build. Exact: every gate" in page.text
    anchors = {one.get("id") for one in page.all("li")}
    links = [one["href"] for one in page.all("a") if (one.get("href") or "").startswith("#note-")]
    assert links
    assert all((link or "")[1:] in anchors for link in links)
    assert [one for one in page.all("table") if one.get("class") == "matrix"]


def test_markdown_and_json_tell_the_same(folder: Path, report: Report) -> None:
    text = markdown(report)
    assert "### What works: `s.specgate.yaml`" in text
    assert "| model | size | plain | fast |" in text
    assert "| good | one | = | X1&#33; |" in text
    told = json.loads(document.to_json(report))
    assert told["matrices"]["s.specgate.yaml"]["cells"][0]["state"] == "works exactly"
    assert document.from_json(document.to_json(report), Path("x")).matrices == report.matrices


def test_hostile_reasons_stay_text(report: Report) -> None:
    ((suite, matrix),) = report.matrices.items()
    bad = Matrix(matrix.axes, tuple(replace(cell, note=HOSTILE) for cell in matrix.cells))
    told = replace(report, matrices={suite: bad})
    page = Page(html(told))
    assert page.all("script") == []
    assert "\n- 1: `` <script>alert(1)</script> \\| `x` [a](http" in markdown(told)


def test_advice_leaves_a_matrix_out_that_judges_no_speed(report: Report) -> None:
    assert report.advice == ()


def test_what_is_counted_is_said_in_the_singular_too() -> None:
    matrix = Matrix((Axis("a", ("x",)),), (Cell("x", ("x",), State.BROKEN, "why", expected=False),))
    assert counted(matrix) == "1 cells: 1 broken (X); 1 fails the build (!)"
    assert next(iter(matrix_lines({"s": matrix}))) == "s · a"
