"""A bad suite is one line, and the others still run."""

from __future__ import annotations

import pytest

from .conftest import FAIL, PASS, Project

BROKEN = "def test_x(:\n"
XDIST = ("-p", "no:randomly", "-n2", "--dist=loadscope")


def _bad(project: Project, name: str = "bad") -> None:
    project.suite({"metric": "spedup", "limit": ">=1.2x"}, name=name)


def test_one_line_and_the_others_run(project: Project) -> None:
    _bad(project)
    project.suite(PASS)

    result = project.run("--specgate")

    assert result.ret == 1
    result.assert_outcomes(passed=1, errors=1)
    (line,) = [line for line in result.outlines if line.startswith("suites/bad.specgate.yaml:")]
    what = "unknown metric 'spedup'; did you mean 'speedup'?"
    assert line.startswith(f"suites/bad.specgate.yaml:5:16: {what} — choose one of: ")
    result.stdout.no_fnmatch_line("*Traceback*")


def test_the_others_may_fail_and_nothing_else_is_lost(project: Project) -> None:
    _bad(project)
    project.suite(PASS, FAIL)

    result = project.run("--specgate")

    assert result.ret == 1
    result.assert_outcomes(passed=1, failed=1, errors=1)


def test_a_bad_suite_alone_is_exit_code_1(project: Project) -> None:
    project.write("suites/bad.specgate.yaml", "specgate: [\n")

    result = project.run("--specgate")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["*ERROR suites/bad.specgate.yaml*"])
    result.assert_outcomes(errors=1)


def test_collecting_alone_fails_too(project: Project) -> None:
    _bad(project)
    project.suite(PASS)

    result = project.run("--specgate", "--collect-only", "-q")

    assert result.ret != 0
    result.stdout.fnmatch_lines(["suites/demo.specgate.yaml::tiny::speedup*", "*ERROR suites/bad.specgate.yaml*"])


def test_a_missing_prompt_file_names_the_line_of_the_suite(project: Project) -> None:
    project.suite(PASS, scenarios={"qa": {"category": "qa", "prompts": "prompts/none.jsonl"}})

    result = project.run("--specgate")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["suites/demo.specgate.yaml:3:*prompts/none.jsonl*"])


# --- beside Python tests ----------------------------------------------------------------------------------------


def test_beside_suites_broken_python_files_stop_nothing_either(project: Project) -> None:
    project.write("tests/test_broken.py", BROKEN)
    project.write("tests/test_fine.py", "def test_fine(): pass\n")
    project.suite(PASS)

    result = project.run("--specgate", "tests", "suites")

    assert result.ret == 1
    result.assert_outcomes(passed=2, errors=1)


@pytest.mark.parametrize("ini", ["", "[pytest]\nspecgate = true\n"])
def test_a_run_without_suites_is_as_pytest_has_it(project: Project, ini: str) -> None:
    project.write("tests/test_broken.py", BROKEN)
    project.write("tests/test_fine.py", "def test_fine(): pass\n")
    project.write("pytest.ini", ini)
    project.suite(PASS)

    result = project.run("tests")

    assert result.ret == 2
    result.stdout.fnmatch_lines(["*Interrupted: 1 error during collection*"])


# --- stopping early ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a-first", "z-last"])
def test_x_stops_before_anything_is_measured(project: Project, name: str) -> None:
    _bad(project, name)
    project.suite(PASS)

    result = project.run("--specgate", "-x")

    assert result.ret == 1
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*stopping after 1 failures*"])


def test_maxfail_counts_bad_suites_and_failures_alike(project: Project) -> None:
    _bad(project)
    project.suite(PASS, FAIL, {"metric": "exact_match", "limit": "==100%"})

    result = project.run("--specgate", "--maxfail=2")

    assert result.ret == 1
    result.assert_outcomes(passed=1, failed=1, errors=1)


def test_maxfail_of_bad_suites_alone_measures_nothing(project: Project) -> None:
    _bad(project, "y-bad")
    _bad(project, "z-bad")
    project.suite(PASS)

    result = project.run("--specgate", "--maxfail=2")

    assert result.ret == 1
    result.assert_outcomes(errors=2)


# --- workers ----------------------------------------------------------------------------------------------------


def test_workers_run_the_others_and_tell_it_once(project: Project) -> None:
    _bad(project)
    project.suite(PASS)

    result = project.python("--specgate", *XDIST)

    assert result.ret == 1
    result.assert_outcomes(passed=1, errors=1)


@pytest.mark.parametrize("name", ["a-first", "z-last"])
def test_x_stops_workers_before_anything_is_measured(project: Project, name: str) -> None:
    _bad(project, name)
    project.suite(PASS)

    result = project.python("--specgate", *XDIST, "-x")

    assert result.ret != 0
    assert "passed" not in result.parseoutcomes()
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_a_second_suite_of_a_name_would_share_the_baseline(project: Project) -> None:
    project.suite(PASS)
    text = (project.path / "suites/demo.specgate.yaml").read_text().replace("prompts/", "../suites/prompts/")
    project.write("more/demo.specgate.yaml", text)

    result = project.run("--specgate", "more", "suites")

    assert result.ret == 1
    shown = " ".join(result.stdout.str().split())
    assert (
        "suites/demo.specgate.yaml: has the name 'demo' of more/demo.specgate.yaml, and would share its baseline"
        " — give one of them another name: 'name: ...'"
    ) in shown


def test_an_adapter_that_fails_at_its_end_costs_no_verdict(project: Project) -> None:
    project.write(
        "ending.py",
        "from pytest_specgate.engines.scripted import ScriptedEngine\n"
        "class Ending(ScriptedEngine):\n"
        "    def close(self):\n"
        "        raise RuntimeError('boom')\n",
    )
    project.suite(PASS, engines={"tiny": {"kind": "ending:Ending"}})

    result = project.python("--specgate", "-p", "no:randomly")

    assert result.ret == 1
    assert result.parseoutcomes() == {"passed": 1}
    result.stdout.fnmatch_lines(["ERROR: tiny: close() failed: RuntimeError: boom — mend the engine's adapter; *"])
