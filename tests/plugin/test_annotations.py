"""GitHub's workflow commands: on the gate's own line, and never of a model's making."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_specgate.records import Outcome, Verdict
from pytest_specgate.report.annotations import MOST, defused, from_workspace, github

from .conftest import ERROR, FAIL, PASS, UNDECIDED, Project


def commands(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if line.startswith("::")]


@pytest.fixture
def on_github(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.path))
    return project


def test_every_gate_that_does_not_plainly_pass_is_marked(on_github: Project) -> None:
    on_github.suite(PASS, FAIL, UNDECIDED, ERROR, {**FAIL, "metric": "acceptance_rate", "on_fail": "warn"})

    found = commands(on_github.run("--specgate"))

    assert [line.partition("::")[2].partition("::")[0] for line in found] == [
        "error file=suites/demo.specgate.yaml,line=6,col=5,title=FAIL conditional_acceptance[tiny%3A%3Aqa-t0-c1]",
        "error file=suites/demo.specgate.yaml,line=8,col=5,title=ERROR vram_ratio[tiny%3A%3Aqa-t0-c1]",
        "warning file=suites/demo.specgate.yaml,line=9,col=5,title=FAIL (warn) acceptance_rate[tiny%3A%3Aqa-t0-c1]",
        "warning file=suites/demo.specgate.yaml,line=7,col=5,title=INCONCLUSIVE decode_speedup[tiny%3A%3Aqa-t0-c1]",
    ]
    assert found[0].endswith("is below the limit >=90%25 — " + found[0].rpartition(" — ")[2])
    assert "62.4%25" in found[0]


def test_a_bad_suite_is_marked_where_it_is_wrong(on_github: Project) -> None:
    on_github.suite({"metric": "spedup", "limit": ">=1x"})

    (line,) = commands(on_github.run("--specgate"))

    assert line.startswith(
        "::error file=suites/demo.specgate.yaml,line=5,col=16,title=suite::unknown metric 'spedup'; "
    )


def test_paths_start_from_the_workspace(on_github: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(on_github.path.parent))
    on_github.suite(FAIL)

    (line,) = commands(on_github.run("--specgate"))

    assert line.startswith(f"::error file={on_github.path.name}/suites/demo.specgate.yaml,line=5,")


def test_elsewhere_nothing_is_marked_unless_asked_for(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    project.suite(FAIL)

    assert not commands(project.run("--specgate"))
    assert len(commands(project.run("--specgate-annotations=github"))) == 1
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert not commands(project.run("--specgate-annotations=none"))


def test_an_unknown_ci_is_a_usage_error(project: Project) -> None:
    project.suite(PASS)

    result = project.run("--specgate-annotations=gitlub")

    assert result.ret == 4
    result.stderr.fnmatch_lines(
        ["ERROR: --specgate-annotations: unknown value 'gitlub'; did you mean 'github'? — choose one of: github, none"]
    )


def verdict(number: int, outcome: Outcome = Outcome.FAIL, reason: str = "worse") -> Verdict:
    return Verdict("speedup", "speedup", f"e::c{number}", outcome, reason, location=f"s.yaml:{number}:3")


def test_the_last_mark_says_how_many_more_there_are() -> None:
    found = list(github([verdict(number) for number in range(1, 16)]))

    assert len(found) == MOST
    assert found[-1] == "::error title=specgate::6 more; see the job's summary"


def test_hostile_text_stays_text() -> None:
    (line,) = github([verdict(1, reason="50%\n::add-path::/evil\r::error::x\x1b[31m\u202e")])

    assert "\n" not in line
    assert line.endswith("::50%25 ::add-path::/evil\\r::error::x\\x1b[31m\\u202e")
    assert line.startswith("::error file=s.yaml,line=1,col=3,title=FAIL speedup[e%3A%3Ac1]::")


def test_commands_of_the_old_form_are_defused_in_what_pytest_prints(on_github: Project) -> None:
    waived = {**FAIL, "waive": {"reason": "##[add-path]/evil", "until": "2999-01-01"}}
    on_github.suite(PASS, waived)

    result = on_github.run("--specgate", "-rA")

    assert "##[" not in result.stdout.str()
    assert "# #[add-path]/evil" in result.stdout.str()
    assert defused("a ##[x]") == "a # #[x]"


def test_a_path_outside_the_workspace_stays_as_it_is(tmp_path: Path) -> None:
    shown = from_workspace(tmp_path / "a", str(tmp_path / "b"))

    assert shown("s.yaml") == "s.yaml"
