"""``python -m pytest_specgate trend``: what it says of made histories, and by which exit status."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_specgate.__main__ import main
from pytest_specgate.history import store
from pytest_specgate.history.record import RunLine
from pytest_specgate.history.sparkline import sparkline
from tests.unit.histories import case, commit, run, runs, stored


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def noisy(levels: Sequence[float], scatter: float = 0.01, seed: int = 1) -> list[float]:
    chance = random.Random(seed)
    return [level * (1 + chance.gauss(0, scatter)) for level in levels]


def keep(history: Sequence[RunLine]) -> None:
    for one in history:
        store.append(Path("h"), one)


def test_a_step_is_told_with_its_commits_and_what_changed_there(capsys: pytest.CaptureFixture[str]) -> None:
    good = runs("speedup", noisy([1.6] * 20), subject={"torch": "2.12", "driver": "550"})
    bad = [
        run(number, case({"speedup": value}, subject={"torch": "2.13", "driver": "550"}))
        for number, value in enumerate(noisy([1.3] * 10, seed=2), start=20)
    ]
    keep([*good, *bad])

    assert main(["trend", "h"]) == 1

    out = capsys.readouterr().out
    assert re.search(
        r"WORSE tiny::qa-t0-c1 speedup: 1\.6\d\dx → 1\.\d+x \(-1\d\.\d%\) since 0000014aaaaa\n"
        r"    first bad commit: after 0000013aaaaa, up to 0000014aaaaa \(1 run, 95 %\)\n"
        r"    list them: git log 0000013aaaaa\.\.0000014aaaaa\n"
        r"    changed there: torch: 2\.12 → 2\.13\n",
        out,
    )
    assert "suites/demo.specgate.yaml · tiny::qa-t0-c1 · cpu-x1-float32 · 30 runs, 0000000aaaaa to 000001daaaaa" in out
    assert out.count("WORSE") == 1


def test_a_rise_of_what_should_fall_is_a_loss(capsys: pytest.CaptureFixture[str]) -> None:
    keep(runs("ttft", noisy([0.1] * 12 + [0.2] * 12)))

    assert main(["trend", "h"]) == 1
    assert "WORSE tiny::qa-t0-c1 ttft: 99." in capsys.readouterr().out


def test_what_got_better_since_is_no_loss(capsys: pytest.CaptureFixture[str]) -> None:
    keep(runs("speedup", noisy([1.6] * 15 + [1.2] * 15 + [1.6] * 15)))

    assert main(["trend", "h"]) == 0

    out = capsys.readouterr().out
    assert out.count("WORSE") == out.count("BETTER") == 1
    assert "    first better commit: after 000001daaaaa, up to 000001eaaaaa (1 run, 95 %)\n" in out


def test_nothing_happened(capsys: pytest.CaptureFixture[str]) -> None:
    keep(runs("speedup", noisy([1.6] * 30), anchor=stored("speedup", 1.6), baseline=stored("speedup", 1.61)))

    assert main(["trend", "h"]) == 0

    out = capsys.readouterr().out
    assert "WORSE" not in out
    assert out.endswith("Steps and drifts of 1 series: 5% error for all together; distances have 95 % limits.\n")


def test_small_losses_that_each_baseline_forgave_are_seen_against_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Every ten runs the baseline is recorded anew, 2 % lower: each comparison forgives it."""
    history: list[RunLine] = []
    for number, value in enumerate(noisy([1.6 * 0.98 ** (n // 10) for n in range(60)], 0.004)):
        rolling = stored("speedup", 1.6 * 0.98 ** (number // 10), "2026-03-01")
        history.append(run(number, case({"speedup": value}, baseline=rolling, anchor=stored("speedup", 1.6))))
    keep(history)

    assert main(["trend", "h"]) == 1

    out = capsys.readouterr().out
    assert re.search(
        r"WORSE tiny::qa-t0-c1 speedup: -\d+\.\d% \[-\d+\.\d%, -\d+\.\d%\] against the first baseline, of 2026-01-01, "
        r"and [+-]\d\.\d% \[[^]]*\] against the present one, of 2026-03-01",
        out,
    )


def test_a_slope_is_a_drift_and_no_step(capsys: pytest.CaptureFixture[str]) -> None:
    keep(runs("speedup", noisy([1.6 * (1 - 0.003 * n) for n in range(50)], 0.005)))

    assert main(["trend", "h"]) == 1

    out = capsys.readouterr().out
    assert re.search(
        r"WORSE tiny::qa-t0-c1 speedup: drifts: 1\.\d+x → 1\.3\d+x \(-1\d\.\d%\) over 50 runs, "
        r"0000000aaaaa to 0000031aaaaa, without a step",
        out,
    )
    assert "first bad commit" not in out


def test_points_of_a_share(capsys: pytest.CaptureFixture[str]) -> None:
    keep(runs("conditional_acceptance", [0.62] * 15 + [0.58] * 15))

    assert main(["trend", "h"]) == 1
    assert "conditional_acceptance: 62.0% → 58.0% (-4.0 points) since 000000faaaaa" in capsys.readouterr().out


def test_a_slope_may_be_below_zero(capsys: pytest.CaptureFixture[str]) -> None:
    keep(runs("acceptance_slope", [-0.01] * 15 + [-0.04] * 15))

    assert main(["trend", "h"]) == 1
    assert "acceptance_slope: -1.00 points → -4.00 points (-3.0 points)" in capsys.readouterr().out


def test_a_loss_that_is_allowed_is_told_and_passes(capsys: pytest.CaptureFixture[str]) -> None:
    keep(runs("speedup", noisy([1.6] * 20 + [1.5] * 20, 0.005)))

    assert main(["trend", "h", "--allow", "10%"]) == 0
    assert "WORSE" in capsys.readouterr().out
    assert main(["trend", "h", "--allow", "3%"]) == 1


def test_too_few_runs_are_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    keep(runs("speedup", [1.6, 1.1, 1.2]))

    assert main(["trend", "h"]) == 3
    assert "note tiny::qa-t0-c1 speedup: 3 runs cannot show a change at this error; 9 could" in capsys.readouterr().out


def test_too_few_runs_are_not_called_worse_than_the_first_baseline(capsys: pytest.CaptureFixture[str]) -> None:
    keep(runs("speedup", [1.5, 1.5], anchor=stored("speedup", 1.6)))

    assert main(["trend", "h"]) == 3
    assert "WORSE" not in capsys.readouterr().out


def test_a_note_is_told_once_for_all_that_it_holds_for(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("speedup", "ttft", "acceptance_length")
    keep([run(n, case(dict.fromkeys(names, 1.0 + n))) for n in range(2)])

    main(["trend", "h"])

    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note")]
    assert notes == ["note all 3 series: 2 runs cannot show a change at this error; 10 could"]


def test_a_note_on_some_series_names_one_and_counts_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    few = {"ttft": 0.1, "tpot": 0.02}
    keep([run(n, case({"speedup": 1.5, **(few if n >= 15 else {})})) for n in range(17)])

    main(["trend", "h"])

    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note")]
    assert notes == ["note tiny::qa-t0-c1 ttft and 1 more series: 2 runs cannot show a change at this error; 10 could"]


def test_runs_of_one_commit_blame_no_code(capsys: pytest.CaptureFixture[str]) -> None:
    values = noisy([1.6] * 15 + [1.2] * 15)
    keep([run(n, case({"speedup": value}), of=commit(7)) for n, value in enumerate(values)])

    assert main(["trend", "h"]) == 1
    said = "    between two runs of one commit, 0000007aaaaa: not the code, but the machine or what is installed\n"
    assert said in capsys.readouterr().out


def test_runs_without_a_commit_are_named_by_their_time(capsys: pytest.CaptureFixture[str]) -> None:
    values = noisy([1.6] * 15 + [1.2] * 15)
    keep([run(n, case({"speedup": value}), of="") for n, value in enumerate(values)])

    assert main(["trend", "h"]) == 1
    assert "first bad run: after 2026-01-01T14:00:00+00:00, up to 2026-01-01T15:00:00+00:00" in capsys.readouterr().out


def test_other_questions_and_broken_runs_are_left_out_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    keep(runs("speedup", [9.0] * 3, workload={"prompts": "p0", "target": "t"}))
    later = noisy([1.6] * 20)
    keep([run(10 + n, case({"speedup": value}, broken=("noise",) if n < 4 else ())) for n, value in enumerate(later)])

    assert main(["trend", "h"]) == 0

    out = capsys.readouterr().out
    assert (
        "note tiny::qa-t0-c1 speedup: 3 earlier runs asked something else (prompts, parameters or target), left" in out
    )
    assert "note tiny::qa-t0-c1 speedup: 4 runs left out, in which an environment rule did not hold" in out


def test_neighbours_that_are_alike_are_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    chance, value, values = random.Random(4), 0.0, []
    for _ in range(60):
        value = 0.8 * value + chance.gauss(0, 0.01)
        values.append(1.6 + value)
    keep(runs("speedup", values))

    main(["trend", "h"])
    assert "neighbouring runs are alike (correlation 0." in capsys.readouterr().out


def test_metrics_cases_branches_and_starts_are_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    both = {"speedup": 1.6, "ttft": 0.1}
    keep([run(n, case(both), case(both, case="other::qa"), branch="main" if n % 2 else "x") for n in range(20)])

    assert (
        main(["trend", "h", "--metric", "ttft", "--case", "other", "--branch", "main", "--since", commit(5)[:9]]) == 3
    )

    out = capsys.readouterr().out
    assert "· other::qa · cpu-x1-float32 · 8 runs, 0000005aaaaa to 0000013aaaaa" in out
    assert "speedup" not in out
    assert "tiny" not in out


def test_a_torn_line_is_a_warning_beside_the_trends(capsys: pytest.CaptureFixture[str]) -> None:
    keep(runs("speedup", noisy([1.6] * 20)))
    with Path("h/runs.jsonl").open("a") as file:
        file.write('{"schema": 1, "ver')

    assert main(["trend", "h"]) == 0
    said = "warning: h/runs.jsonl:21: is cut off, and was left out — remove it, or run that commit again\n"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere/runs.jsonl: cannot be read (No such file or directory) — give a folder that "),
        (["h", "--branch", "y"], "h/runs.jsonl: 3 runs, none of them fits — leave out --branch"),
        (["h", "--metric", "speedip"], "--metric: unknown metric 'speedip'; did you mean 'speedup'? — choose one of: "),
        (["h", "--allow", "lots"], "--allow: 'lots' is no quantity — write it like 95% or 0.95"),
        (["h", "--allow", "150%"], "--allow: '150%' is out of range — write 0% or more and less than 100%"),
        (["h", "--html", "taken/x.html"], "taken/x.html: cannot be written (File exists) — choose a writable place"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_and_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(runs("speedup", [1.6, 1.5, 1.6]))
    Path("taken").write_text("a file")

    assert main(["trend", *arguments]) == 2

    error = capsys.readouterr().err
    assert error.startswith(f"specgate: {message}")
    assert error.count("\n") == 1


def test_a_wrong_option_is_status_2_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["trend"])

    assert caught.value.code == 2
    assert capsys.readouterr().err == (
        "specgate: the following arguments are required: DIR — see python -m pytest_specgate trend --help\n"
    )


def test_the_page_holds_everything_and_no_markup_of_others(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "<script>alert(1)</script>"
    history = runs("speedup", noisy([1.6] * 20 + [1.2] * 20), anchor=stored("speedup", 1.6))
    keep([replace(one, cases=(replace(one.cases[0], case=evil),)) for one in history])

    assert main(["trend", "h", "--html", "trend.html"]) == 1

    text = Path("trend.html").read_text(encoding="utf-8")
    assert capsys.readouterr().out.endswith("page written: trend.html\n")
    assert "<h1>Trends: 1 of 1 series got worse</h1>" in text
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert text.count("<circle") == 40
    assert "http" not in text


def test_sparklines() -> None:
    assert sparkline([]) == ""
    assert sparkline([2.0, 2.0]) == "▄▄"
    assert sparkline([1.0, 2.0, 3.0]) == "▁▅█"
    assert sparkline([1.0, 2.0, 3.0], ascii_only=True) == "_=#"
    assert len(sparkline([float(n) for n in range(1000)], 32)) == 32
