"""``python -m pytest_specgate export``: a stored report's answers as Spec-Bench's scripts read them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate import Report, run
from pytest_specgate.__main__ import main
from pytest_specgate.report import document
from tests.unit.project import write

TURNS = [
    {"question_id": 81, "category": "writing", "turns": ["Say one.", "Say two."]},
    {"question_id": 82, "category": "roleplay", "turns": ["Say three."]},
]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def stored(folder: Path, **how: Any) -> Report:
    report = run(write(folder, prompts=TURNS, **how))
    document.write(folder / "report.json", report)
    return report


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(name).read_text().splitlines()]


def test_both_arms_are_written_question_by_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = stored(tmp_path)

    assert main(["export", "report.json", "--spec-bench", "out.jsonl"]) == 0

    assert capsys.readouterr().out == "out.jsonl: 2 questions\nout-vanilla.jsonl: 2 questions\n"
    (first, second), (plain, _) = lines("out.jsonl"), lines("out-vanilla.jsonl")
    assert (first["question_id"], first["category"], first["model_id"]) == (81, "writing", "tiny")
    assert (plain["question_id"], plain["model_id"]) == (81, "tiny-vanilla")
    assert second["category"] == "roleplay"
    pairs = next(iter(report.measurements.values()))[0].pairs
    assert len(first["choices"]) == 1 + max(pair.round for pair in pairs)
    choice, trace = first["choices"][0], pairs[0].candidate
    assert choice["turns"][0] == trace.text
    assert choice["new_tokens"][0] == trace.output_tokens
    assert choice["wall_time"][0] == pytest.approx(trace.seconds)
    assert len(choice["turns"]) == len(choice["decoding_steps"]) == 2


def test_the_numbers_are_those_that_its_speed_script_adds_up(tmp_path: Path) -> None:
    stored(tmp_path)
    main(["export", "report.json", "--spec-bench", "out.jsonl"])

    for name in ("out.jsonl", "out-vanilla.jsonl"):
        for question in lines(name):
            choice = question["choices"][0]
            assert sum(choice["accept_lengths"]) == sum(choice["new_tokens"])
            assert len(choice["accept_lengths"]) == sum(choice["decoding_steps"])
            assert sum(choice["wall_time"]) > 0
    assert {step for question in lines("out-vanilla.jsonl") for step in question["choices"][0]["accept_lengths"]} == {1}


def test_without_its_suite_a_category_is_the_scenario(tmp_path: Path) -> None:
    stored(tmp_path)

    main(["export", "report.json", "--spec-bench", "out.jsonl", "--suites", "elsewhere"])

    assert {question["category"] for question in lines("out.jsonl")} == {"qa"}


def test_cases_that_share_a_question_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(tmp_path, scenario={"concurrency": [1, 2]})

    assert main(["export", "report.json", "--spec-bench", "out.jsonl"]) == 4
    assert capsys.readouterr().err == (
        "specgate: tiny::qa-t0-c1 and tiny::qa-t0-c2 both answer 81, and a file holds one answer a question"
        " — choose with --case from: tiny::qa-t0-c1, tiny::qa-t0-c2\n"
    )
    assert main(["export", "report.json", "--spec-bench", "out.jsonl", "--case", "c2"]) == 0
    assert main(["export", "report.json", "--spec-bench", "out.jsonl", "--case", "c9"]) == 4
    assert capsys.readouterr().err == (
        "specgate: no measured case holds 'c9' — choose with --case from: tiny::qa-t0-c1, tiny::qa-t0-c2\n"
    )


def test_steps_that_nobody_knows_are_not_made_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(tmp_path, options={"fault": "no_rounds"})

    assert main(["export", "report.json", "--spec-bench", "out.jsonl"]) == 4
    assert "the engine tells no rounds, so that its steps are not known — export another" in capsys.readouterr().err
    assert not Path("out.jsonl").exists()


def test_hostile_text_stays_in_its_line(tmp_path: Path) -> None:
    report = stored(tmp_path)
    text = "\x00</script>\u2028\ud800\n" + "x" * 1_000_000
    taken = next(iter(report.measurements.values()))[0]
    pairs = tuple(replace(p, candidate=replace(p.candidate, text=text)) for p in taken.pairs)
    hostile = replace(report, measurements={"demo.specgate.yaml": (replace(taken, pairs=pairs),)})
    document.write(tmp_path / "report.json", hostile)

    main(["export", "report.json", "--spec-bench", "out.jsonl"])

    assert lines("out.jsonl")[0]["choices"][0]["turns"][0] == text
