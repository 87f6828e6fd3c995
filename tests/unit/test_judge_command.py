"""``python -m pytest_specgate judge``: a stored report under other limits; and ``schema``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_specgate import Report, run
from pytest_specgate.__main__ import main
from pytest_specgate.report import document
from tests.unit.project import PROMPTS, SPEEDUP, write

ROOT = Path(__file__).parents[2]
STRICTER = {"metric": "speedup", "limit": ">=1.8x"}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPECGATE_CACHE", str(tmp_path / ".cache"))
    monkeypatch.setenv("COLUMNS", "160")


def stored(folder: Path, *gates: Mapping[str, object], **how: object) -> Report:
    """Run the suite and write ``report.json``."""
    report = run(write(folder, *gates, **how))  # type: ignore[arg-type]
    document.write(folder / "report.json", report)
    return report


def test_another_limit_flips_the_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(tmp_path)
    assert main(["judge", "report.json"]) == 0
    assert "PASS" in capsys.readouterr().out
    write(tmp_path, STRICTER)
    assert main(["judge", "report.json"]) == 1
    out = capsys.readouterr().out
    assert "FAIL demo.specgate.yaml:1:" in out
    assert " >=1.8x " in out or " ≥ 1.8x " in out
    write(tmp_path, SPEEDUP)
    assert main(["judge", "report.json"]) == 0


def test_any_face_tells_what_was_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(tmp_path)
    write(tmp_path, STRICTER)
    faces = [f"out.{ending}" for ending in ("html", "md", "json")]

    asked = [argument for face in faces for argument in ("--report", face)]
    assert main(["judge", "report.json", *asked, "--price", "2.50/h"]) == 1

    out = capsys.readouterr().out
    assert all(f"report written: {face}" in out for face in faces)
    assert "advice: demo.specgate.yaml · tiny: adopt" in out
    again = document.read(tmp_path / "out.json")
    assert again.exit_status == 1
    assert [verdict.outcome.value for verdict in again.verdicts] == ["FAIL"]
    assert again.advice[-1].costs
    for face in faces[:2]:
        assert "1 failed" in (tmp_path / face).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--report", "out.pdf"], "out.pdf: no ending that names a format — end it in one of: .html, .md, .json"),
        (["--price", "cheap"], "--price: 'cheap' is no price of an hour above zero — write it like 2.50/h"),
    ],
)
def test_a_wrong_face_or_price_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: list[str], said: str
) -> None:
    stored(tmp_path)

    assert main(["judge", "report.json", *asked]) == 4
    assert capsys.readouterr().err == f"specgate: {said}\n"


def test_the_verdict_is_the_one_of_the_run(tmp_path: Path) -> None:
    from pytest_specgate.commands.judge import Ask, _judge

    report = stored(
        tmp_path, SPEEDUP, {"metric": "ttft", "limit": "<=1s"}, {"metric": "conditional_acceptance", "limit": ">=90%"}
    )
    again = _judge(Ask(Path("report.json"), Path(), Path("baselines")), report)
    assert tuple(one.verdict for one in again.judged) == report.verdicts
    assert report.exit_status == 1


def test_the_error_budget_is_shared_as_it_was_in_the_run(tmp_path: Path) -> None:
    from pytest_specgate.commands.judge import Ask, _judge

    report = stored(tmp_path)
    assert report.checks == {"demo.specgate.yaml": 1}
    ask = Ask(Path("report.json"), Path(), Path("baselines"))

    (alone,) = _judge(ask, report).judged
    (among_many,) = _judge(ask, replace(report, checks={**report.checks, "other.specgate.yaml": 499})).judged

    wide, narrow = among_many.verdict.checks[0].interval, alone.verdict.checks[0].interval
    assert wide is not None
    assert narrow is not None
    assert (wide.low, wide.value) != (narrow.low, narrow.value)
    assert wide.low < narrow.low


def test_secrets_of_this_environment_are_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(tmp_path)
    write(tmp_path, {**STRICTER, "waive": {"reason": "as correct-horse says", "until": "2999-01-01"}})
    monkeypatch.setenv("MY_PASSWORD", "correct-horse")

    assert main(["judge", "report.json"]) == 0

    out = capsys.readouterr().out
    assert "correct-horse" not in out
    assert "as ******** says" in out


def test_a_softened_failure_and_a_new_gate(tmp_path: Path) -> None:
    stored(tmp_path)
    write(tmp_path, {**STRICTER, "on_fail": "warn"}, {"metric": "exact_match", "limit": "==100%"})
    assert main(["judge", "report.json"]) == 0


def test_an_undecided_gate_fails_under_strict(tmp_path: Path) -> None:
    stored(tmp_path, SPEEDUP, {"metric": "decode_speedup", "limit": ">=1.5x"})
    assert main(["judge", "report.json"]) == 0
    assert main(["judge", "report.json", "--strict"]) == 1


def test_an_engine_of_which_no_gate_is_decided_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(tmp_path)
    write(tmp_path, {"metric": "decode_speedup", "limit": ">=1.5x"})
    assert main(["judge", "report.json"]) == 1
    assert "ERROR: demo: tiny: no gate reached PASS or FAIL, so nothing was gated — " in capsys.readouterr().out


def test_what_could_not_be_measured_stays_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engines = {"tiny": {"kind": "scripted"}, "broken": {"kind": "scripted", "options": {"fault": "crash"}}}
    stored(tmp_path, engines=engines)
    assert main(["judge", "report.json"]) == 1
    out = capsys.readouterr().out
    assert "broken: q1: the script says crash" in out
    assert "broken::qa-t0-c1 is not among the report's measurements, and was not judged" in out


def test_other_prompts_than_were_measured_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(tmp_path)
    write(tmp_path, prompts=PROMPTS[:2], scenario={"max_tokens": 9})
    assert main(["judge", "report.json"]) == 1
    out = capsys.readouterr().out
    assert "tiny::qa-t0-c1: prompts, max_tokens changed since it was measured" in out
    assert "next: measure it again: pytest --specgate demo.specgate.yaml" in out


def test_a_case_that_the_suite_has_no_more_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two = {"scenarios": {name: {"category": "qa", "prompts": "p.jsonl"} for name in ("qa", "gone")}}
    stored(tmp_path, **two)
    write(tmp_path)
    assert main(["judge", "report.json"]) == 0
    told = "note: demo.specgate.yaml: tiny::gone-t0-c1 was measured, but the suite has no such case now"
    assert told in capsys.readouterr().out.splitlines()


def test_nothing_left_to_judge_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(tmp_path)
    write(tmp_path, engines={"renamed": {"kind": "scripted"}})
    assert main(["judge", "report.json"]) == 4
    assert capsys.readouterr().err == (
        "specgate: report.json: holds no measurement of a case that its suites still have — "
        "measure again: pytest --specgate --specgate-report report.json\n"
    )


def test_a_run_that_was_interrupted_is_not_a_pass(tmp_path: Path) -> None:
    report = stored(tmp_path)
    document.write(tmp_path / "report.json", replace(report, exit_status=2))
    assert main(["judge", "report.json"]) == 2
    write(tmp_path, STRICTER)
    assert main(["judge", "report.json"]) == 1


def test_suites_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    write(other, STRICTER)
    assert main(["judge", "report.json", "--suites", "other"]) == 1
    assert main(["judge", "report.json", "--suites", "nowhere"]) == 4
    assert capsys.readouterr().err == (
        "specgate: nowhere/demo.specgate.yaml: the report's suite is not there — "
        "name the folder that the report's paths start from with --suites\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "report.json: cannot be read (No such file or directory) — give a file that --specgate-report wrote"),
        ("[]", "report.json: is no report: it has no 'schema' number — give a file that --specgate-report wrote"),
        ('{"schema": 99}', "report.json: report schema 99, this version reads SCHEMA — update pytest-specgate"),
    ],
)
def test_an_unreadable_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, message: str
) -> None:
    if text is not None:
        (tmp_path / "report.json").write_text(text)
    assert main(["judge", "report.json"]) == 4
    assert capsys.readouterr().err == f"specgate: {message.replace('SCHEMA', str(document.SCHEMA))}\n"


def test_a_broken_suite_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(tmp_path)
    (tmp_path / "demo.specgate.yaml").write_text("specgate: 1\nengine: {}\n")
    assert main(["judge", "report.json"]) == 4
    err = capsys.readouterr().err
    assert err.startswith("specgate: demo.specgate.yaml:1:1: the suite has no 'scenarios' — ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: COMMAND — see python -m pytest_specgate --help"),
        (
            ["judge"],
            "the following arguments are required: REPORT.json — see python -m pytest_specgate judge --help",
        ),
        (
            ["judge", "r.json", "--suite", "x"],
            "unrecognized arguments: --suite x — see python -m pytest_specgate --help",
        ),
    ],
)
def test_a_mistake_in_the_command_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 4
    assert capsys.readouterr().err == f"specgate: {message}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["judge", "--help"]])
def test_help_gives_examples(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 0
    assert "  python -m pytest_specgate judge report.json\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["suite", "baseline", "report", "history"])
def test_the_published_schema_is_the_one_printed(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main(["schema", name]) == 0
    published = ROOT / "docs" / "schema" / f"{name}.schema.json"
    assert json.loads(capsys.readouterr().out) == json.loads(published.read_text(encoding="utf-8"))


def test_judging_again_loads_no_torch(tmp_path: Path) -> None:
    stored(tmp_path)
    code = (
        "import sys\nfrom pytest_specgate.__main__ import main\nstatus = main(['judge', 'report.json'])\n"
        "assert not {'torch', 'transformers', 'pytest'} & set(sys.modules)\nsys.exit(status)"
    )
    environment = {"PYTHONPATH": str(ROOT), "SPECGATE_CACHE": str(tmp_path / ".cache"), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    command = f"{sys.executable} -m pytest_specgate schema report | true"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stderr == ""
