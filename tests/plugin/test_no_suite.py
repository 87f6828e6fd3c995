"""Suites that were asked for and not found are an error: a gate that was never collected never fails."""

from __future__ import annotations

from .conftest import PASS, Project


def test_lists_the_yaml_that_was_passed_over(project: Project) -> None:
    project.suite(PASS).rename(project.path / "suites/gates.yaml")
    project.write("ci.yml", "a: 1\n")

    result = project.run("--specgate")

    assert result.ret == 4
    assert result.errlines[-2] == (
        "ERROR: --specgate found no suite; passed over: ci.yml, suites/gates.yaml"
        " — name suites *.specgate.yaml, or pass a file's path on the command line"
    )


def test_says_so_where_there_is_no_yaml_at_all(project: Project) -> None:
    project.write("test_x.py", "def test_x(): pass\n")

    result = project.run("--specgate")

    assert result.ret == 4
    assert result.errlines[-2] == (
        "ERROR: --specgate found no suite and no other YAML file"
        " — name the folder that holds your *.specgate.yaml files"
    )


def test_a_folder_beside_the_suites_holds_none(project: Project) -> None:
    project.suite(PASS)

    result = project.run("--specgate", "suites/prompts")

    assert result.ret == 4
    assert result.errlines[-2].startswith("ERROR: --specgate found no suite and no other YAML file")


def test_a_bad_suite_is_a_suite(project: Project) -> None:
    project.write("bad.specgate.yaml", "specgate: 2\n")

    assert project.run("--specgate").ret == 1


def test_an_ini_switch_lets_named_tests_run_alone(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\nspecgate = true\n")
    project.write("test_x.py", "def test_x(): pass\n")

    project.run("test_x.py").assert_outcomes(passed=1)
    assert project.run().ret == 4


def test_without_the_option_suites_are_not_collected(project: Project) -> None:
    project.suite(PASS)
    project.write("test_x.py", "def test_x(): pass\n")

    project.run().assert_outcomes(passed=1)
