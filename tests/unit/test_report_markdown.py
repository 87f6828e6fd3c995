"""The job summary: worst first, within its size whatever the run, inert whatever a model wrote."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.records import Outcome
from pytest_specgate.report import faces
from pytest_specgate.report.document import Report, new_report
from pytest_specgate.report.markdown import MOST_BYTES, code, markdown, said
from pytest_specgate.report.outline import counts

from .reporting import HOSTILE, hostile, measured, times


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return measured(tmp_path_factory.mktemp("md"))


def _rows(text: str, title: str) -> list[str]:
    section = text.partition(f"### {title}\n")[2].partition("\n### ")[0]
    return [line for line in section.splitlines() if line.startswith("| ")][1:]


def test_the_counts_are_those_of_the_verdicts(report: Report) -> None:
    text = markdown(report)

    for outcome, number in counts(report.verdicts).items():
        assert number == sum(v.outcome is outcome for v in report.verdicts)
        assert re.search(rf"\| \S+ {outcome.value} \| {number}\b", text)
    assert len(_rows(text, "Gates")) == len(report.verdicts)


def test_failures_come_before_all_else(report: Report) -> None:
    outcomes = [row.split(" | ")[5].split()[1] for row in _rows(markdown(report), "Gates")]

    assert outcomes[0] == "FAIL"
    order = ["FAIL", "ERROR", "INCONCLUSIVE", "PASS"]
    assert outcomes == sorted(outcomes, key=order.index)


def test_both_arms_stand_side_by_side_with_intervals(report: Report) -> None:
    rows = [row for row in _rows(markdown(report), "Both arms") if "`quick::qa-t0-c1`" in row]

    assert re.search(r"\| tokens per second \| [\d.]+ tokens/s &#91;.*&#93; \| .*x &#91;", rows[0])
    assert any("host memory peak | 953.7 MiB | 1.024 GiB | 1.100x" in row for row in rows)
    assert "device memory peak | not measured" in markdown(replace(report, measurements={
        suite: tuple(replace(one, memory={}) for one in taken) for suite, taken in report.measurements.items()
    }))  # fmt: skip


@pytest.mark.parametrize("cases", [1, 40, 500])
def test_it_fits_a_job_summary_and_says_what_it_left_out(report: Report, cases: int) -> None:
    many = times(report, cases)
    text = markdown(many)

    assert len(text.encode()) <= MOST_BYTES
    shown = len(_rows(text, "Gates"))
    left_out = re.search(r"_(\d+) of (\d+) gates left out here", text)
    assert (shown < len(many.verdicts)) == (left_out is not None)
    if left_out:
        assert int(left_out[1]) + shown == int(left_out[2]) == len(many.verdicts)


def test_it_fits_even_where_every_text_is_long(report: Report) -> None:
    assert len(markdown(hostile(times(report, 60), "é|`" * 10_000)).encode()) <= MOST_BYTES


def test_hostile_text_is_inert(report: Report) -> None:
    text = markdown(hostile(report))

    assert not any(c in text for c in "\x1b\x00\u202e")
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "CODE", text)
    assert not re.search(r"<script|\]\(|@all|://|<!--|\$\$|&lt;", outside)
    for row in _rows(text, "Gates"):
        assert len(re.findall(r"(?<!\\)\|", row)) == 8


@given(st.text(max_size=80))
def test_no_name_leaves_its_code_span_nor_its_cell(text: str) -> None:
    made = code(text)
    fence = re.match("`+", made)

    assert fence is not None
    assert made.endswith(fence[0])
    inner = made[len(fence[0]) : -len(fence[0])]
    assert fence[0] not in re.findall("`+", inner)
    assert len(made.splitlines()) == 1
    assert not re.search(r"(?<!\\)\|", made)


@given(st.text(alphabet="`*_[]<>|~!#$&{}\\ab @:/w.\n\x1b", max_size=60))
def test_no_sentence_holds_what_markdown_obeys(text: str) -> None:
    made = said(text)

    assert len(made.splitlines()) <= 1
    if not made.startswith("`"):
        assert not re.search(r"[\\`*_\[\]<>|~!$]|#(?!\d+;)|&(?!#\d+;)|@|://", made)


def test_a_run_that_judged_nothing_says_so() -> None:
    text = markdown(new_report((), {}, 5, {}))

    assert text.startswith("## Speculation gates: nothing was judged\n")
    assert "NaN" not in text


def test_secrets_are_masked_before_signs_become_entities(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "pa|ss<wo>rd_*&"
    monkeypatch.setenv("MY_TOKEN", secret)
    assert os.environ["MY_TOKEN"] == secret
    leaky = hostile(report, f"key {secret}.")

    faces.write(tmp_path / "r.md", leaky)

    text = (tmp_path / "r.md").read_text(encoding="utf-8")
    assert "key ********." in text.replace("&#42;", "*")
    assert "wo" not in text.replace("would", "").replace("two", "").replace("work", "")
    assert Outcome.FAIL.value in text
    assert HOSTILE not in text
