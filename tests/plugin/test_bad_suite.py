"""A bad suite is one line, and the others still run."""

from __future__ import annotations

from .conftest import PASS, Project


def test_one_line_and_the_others_run(project: Project) -> None:
    project.suite(PASS)
    project.suite({"metric": "spedup", "limit": ">=1.2x"}, name="bad")

    result = project.run("--specgate", "--continue-on-collection-errors")

    assert result.ret == 1
    result.assert_outcomes(passed=1, errors=1)
    (line,) = [line for line in result.outlines if line.startswith("suites/bad.specgate.yaml:")]
    what = "unknown metric 'spedup'; did you mean 'speedup'?"
    assert line.startswith(f"suites/bad.specgate.yaml:5:16: {what} — choose one of: ")
    result.stdout.no_fnmatch_line("*Traceback*")


def test_without_more_pytest_stops_with_its_own_exit_code(project: Project) -> None:
    project.suite(PASS)
    project.write("suites/bad.specgate.yaml", "specgate: [\n")

    result = project.run("--specgate")

    assert result.ret == 2
    result.stdout.fnmatch_lines(["*ERROR suites/bad.specgate.yaml*", "*Interrupted: 1 error during collection*"])


def test_a_missing_prompt_file_names_the_line_of_the_suite(project: Project) -> None:
    project.suite(PASS, scenarios={"qa": {"category": "qa", "prompts": "prompts/none.jsonl"}})

    result = project.run("--specgate")

    assert result.ret == 2
    result.stdout.fnmatch_lines(["suites/demo.specgate.yaml:3:*prompts/none.jsonl*"])
