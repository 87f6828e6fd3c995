"""``python -m pytest_specgate compare``: real reports of the scripted engine side by side."""

from __future__ import annotations

import functools
import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_specgate import run
from pytest_specgate.__main__ import main
from pytest_specgate.compare import Question, compare
from pytest_specgate.metrics import METRICS
from pytest_specgate.records import Finding, Outcome, Place
from pytest_specgate.report import document
from tests.unit.project import PROMPTS, SPEEDUP, write

ACCEPTANCE = {"metric": "conditional_acceptance", "limit": ">=30%"}
OTHER_PROMPTS = [{"id": f"z{n}", "turns": [f"Tell {n} of them."]} for n in range(1, 7)]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPECGATE_CACHE", str(tmp_path / ".cache"))


def report(name: str, speedup: float = 1.5, *gates: Mapping[str, object], **how: object) -> document.Report:
    """Run a suite whose candidate is so fast, and keep its report as ``NAME.json``."""
    made = run(write(Path.cwd(), *(gates or (SPEEDUP, ACCEPTANCE)), options={"speedup": speedup}, **how))  # type: ignore[arg-type]
    document.write(Path(f"{name}.json"), made)
    return made


def keep(name: str, made: document.Report) -> None:
    document.write(Path(f"{name}.json"), made)


def changed(made: document.Report, **changes: object) -> document.Report:
    """The report with its one measurement changed."""
    ((suite, (taken,)),) = made.measurements.items()
    return replace(made, measurements={suite: (replace(taken, **changes),)})  # type: ignore[arg-type]


def test_the_same_run_is_no_worse(capsys: pytest.CaptureFixture[str]) -> None:
    report("a")

    assert main(["compare", "a.json", "a.json"]) == 0

    out = capsys.readouterr().out
    assert "demo.specgate.yaml · tiny::qa-t0-c1 · the same prompts\n" in out
    assert re.search(r"speedup +1\.50\dx +1\.50\dx +~ \+0\.0% \[-\d\.\d%, \+\d\.\d%\] +ok", out)
    assert re.search(r"conditional_acceptance +62\.4% +62\.4% +none +ok", out)


def test_a_loss_beyond_what_is_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    report("a")
    report("b", 1.3)

    assert main(["compare", "a.json", "b.json"]) == 1

    out = capsys.readouterr().out
    assert re.search(r"speedup +1\.50\dx +1\.30\dx +-13\.\d% \[-1\d\.\d%, -1\d\.\d%\] +WORSE", out)
    assert re.search(
        r"WORSE tiny::qa-t0-c1: speedup 1\.30\dx is 13\.\d% \[1\d\.\d%, 1\d\.\d%\] below the first report's 1\.\d+x "
        r"\(allowed drop: 5%\)",
        out,
    )


def test_the_other_way_round_it_is_better(capsys: pytest.CaptureFixture[str]) -> None:
    report("a", 1.3)
    report("b")

    assert main(["compare", "a.json", "b.json", "--metric", "speedup", "--metric", "tpot"]) == 0
    assert capsys.readouterr().out.count(" better\n") == 2


@pytest.mark.parametrize(
    ("allow", "status"), [(["20%"], 0), (["speedup=20%"], 0), (["1%", "speedup=20%"], 0), (["20%", "speedup=2%"], 1)]
)
def test_what_is_allowed_may_be_said(allow: list[str], status: int) -> None:
    report("a")
    report("b", 1.3)

    assert main(["compare", "a.json", "b.json", *(f"--allow={one}" for one in allow)]) == status


def test_other_prompts_are_compared_by_each_runs_own_limits(capsys: pytest.CaptureFixture[str]) -> None:
    report("a", prompts=PROMPTS)
    report("b", 1.1, prompts=OTHER_PROMPTS)

    assert main(["compare", "a.json", "b.json", "--metric", "speedup"]) == 1

    out = capsys.readouterr().out
    assert "· other prompts: each run's own limits\n" in out
    assert "note: not asked the same: prompts\n" in out
    assert re.search(r"speedup +1\.5\d\dx +1\.1\d\dx +-2\d\.\d% \[-\d\d\.\d%, -\d\d\.\d%\] +WORSE", out)


@pytest.mark.parametrize("metric", ["tpot", "conditional_acceptance", "length_ratio", "exact_match", "throughput"])
def test_every_family_of_other_prompts_has_an_answer(metric: str, capsys: pytest.CaptureFixture[str]) -> None:
    report("a", prompts=PROMPTS)
    report("b", prompts=OTHER_PROMPTS)

    assert main(["compare", "a.json", "b.json", "--metric", metric, "--allow=90%"]) in {0, 3}
    assert re.search(rf"{metric} +\S.* (ok|undecided)\n", capsys.readouterr().out)


def test_a_tail_of_other_prompts_stays_open(capsys: pytest.CaptureFixture[str]) -> None:
    report("a", prompts=PROMPTS)
    report("b", prompts=OTHER_PROMPTS)

    assert main(["compare", "a.json", "b.json", "--metric", "ttft.p95"]) == 3
    assert "ttft.p95 of other prompts is another tail; compare the same prompts" in capsys.readouterr().out


def test_what_is_not_measured_is_no_pass(capsys: pytest.CaptureFixture[str]) -> None:
    report("a")

    assert main(["compare", "a.json", "a.json", "--metric", "vram"]) == 3
    assert re.search(
        r"unmeasured tiny::qa-t0-c1: vram: not measured by this engine \(scripted\)", capsys.readouterr().out
    )


def test_another_machine_leaves_times_open(capsys: pytest.CaptureFixture[str]) -> None:
    made = report("a")
    keep("b", changed(made, place=Place("H200", 1, "bfloat16")))

    assert main(["compare", "a.json", "b.json"]) == 3

    out = capsys.readouterr().out
    assert "note: from simulated-x1-none to h200-x1-bfloat16: times and memory do not compare\n" in out
    assert re.search(r"conditional_acceptance +62\.4% +62\.4% +none +ok", out)


@pytest.mark.parametrize("which", ["a", "b"])
def test_a_broken_environment_of_either_run_leaves_times_open(which: str, capsys: pytest.CaptureFixture[str]) -> None:
    made = report("a")
    keep("b", made)
    keep(which, changed(made, findings=(Finding("noise", held=False, detail="too much"),)))

    assert main(["compare", "a.json", "b.json"]) == 3
    assert "environment rule 'noise' did not hold: too much" in capsys.readouterr().out


def test_what_else_changed_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    made = report("a")
    keep("b", changed(made, subject={"torch": "9", "engine": "scripted"}))

    main(["compare", "a.json", "b.json"])

    out = capsys.readouterr().out
    assert "note: torch: - → 9\n" in out
    assert "note: engine" not in out


def test_a_case_that_is_gone_leaves_the_answer_open_and_a_new_one_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    two = {"scenarios": {name: {"category": "qa", "prompts": "p.jsonl"} for name in ("qa", "more")}}
    report("two", **two)
    report("one")

    assert main(["compare", "two.json", "one.json"]) == 3
    assert "undecided tiny::more-t0-c1 (demo.specgate.yaml): one.json has no such case\n" in capsys.readouterr().out
    assert main(["compare", "one.json", "two.json"]) == 0
    assert "note: tiny::more-t0-c1 (demo.specgate.yaml) is new in two.json\n" in capsys.readouterr().out


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_can_be_asked_for(metric: str) -> None:
    made = made_once()
    found = compare(made, made, Question((metric,)))

    ((row,),) = [case.rows for case in found.cases]
    assert row.outcome is not Outcome.FAIL
    assert row.reason


@functools.cache
def made_once() -> document.Report:
    with tempfile.TemporaryDirectory() as folder:
        return run(write(Path(folder), SPEEDUP))


def test_no_shared_case_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    report("a")
    report("b", engines={"other": {"kind": "scripted"}})

    assert main(["compare", "a.json", "b.json"]) == 2
    assert capsys.readouterr().err == (
        "specgate: the two reports share no case (A: tiny::qa-t0-c1; B: other::qa-t0-c1) — compare runs of one suite\n"
    )


def test_a_newer_report_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    report("a")
    newer = {**json.loads(Path("a.json").read_text()), "schema": document.SCHEMA + 1}
    Path("b.json").write_text(json.dumps(newer))

    assert main(["compare", "a.json", "b.json"]) == 2
    what = f"b.json: report schema {document.SCHEMA + 1}, this version reads {document.SCHEMA}"
    assert capsys.readouterr().err == f"specgate: {what} — update pytest-specgate\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--metric", "spedup"],
            "--metric: unknown metric 'spedup'; did you mean 'speedup'? — choose one of: speedup, ",
        ),
        (["--metric", "speedup.p95"], "--metric: speedup has no statistic 'p95' — a latency may have one of: mean, "),
        (["--allow", "lots"], "--allow: 'lots' is no quantity — write it like "),
        (["--allow", "0.01"], "--allow: '0.01' of which metric? — write it as NAME=0.01, or in percent"),
        (["--allow", "nope=1%"], "--metric: unknown metric 'nope'"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    report("a")

    assert main(["compare", "a.json", "a.json", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"specgate: {message}")


def test_a_missing_argument_is_status_2() -> None:
    with pytest.raises(SystemExit) as caught:
        main(["compare", "a.json"])

    assert caught.value.code == 2
