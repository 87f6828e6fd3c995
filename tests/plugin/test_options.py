"""Options: what each wrong value is told, which ones switch the gates on, and what an ini file may say."""

from __future__ import annotations

import pytest

from .conftest import PASS, UNDECIDED, Project


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (
            "--specgate-tier=ful",
            "--specgate-tier: unknown value 'ful'; did you mean 'full'? — choose one of: smoke, full, nightly",
        ),
        ("--specgate-update-only=old", "--specgate-update-only: unknown value 'old' — choose one of: new, failed"),
        (
            "--specgate-budget=soon",
            "--specgate-budget: 'soon' is no time above zero — write seconds, such as 90, or a unit, such as 2min",
        ),
        (
            "--specgate-budget=0",
            "--specgate-budget: '0' is no time above zero — write seconds, such as 90, or a unit, such as 2min",
        ),
        (
            "--specgate-report=out.txt",
            "--specgate-report: 'out.txt' has no ending that names a format — end it in one of: .html, .json, .md",
        ),
        ("--specgate-baselines=pytest.ini", "--specgate-baselines: 'pytest.ini' is no folder — name a folder"),
    ],
)
def test_a_wrong_value_lists_the_valid_ones(project: Project, argument: str, message: str) -> None:
    project.suite(PASS)
    project.write("pytest.ini", "[pytest]\n")

    result = project.run(argument)

    assert result.ret == 4
    assert f"ERROR: {message}" in result.errlines


def test_a_report_that_cannot_be_written_is_told_before_anything_is_measured(project: Project) -> None:
    project.suite(PASS)
    project.write("taken", "a file where a folder is wanted\n")

    result = project.run("--specgate", "--specgate-report=taken/out.json")

    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --specgate-report: *taken/out.json cannot be written — choose a file in a *"])


@pytest.mark.parametrize(
    "argument",
    [
        "--specgate",
        "--specgate-strict",
        "--specgate-tier=smoke",
        "--specgate-budget=60",
        "--specgate-budget=2min",
        "--specgate-update",
        "--specgate-update-only=new",
        "--specgate-report=out.json",
        "--specgate-baselines=elsewhere",
        "--specgate-device=cpu",
        "--specgate-trust-remote-code",
        "--specgate-allow-pickle",
        "--specgate-allow-code",
    ],
)
def test_every_option_switches_the_gates_on(project: Project, argument: str) -> None:
    project.suite(PASS)

    project.run(argument, "suites").assert_outcomes(passed=1)


def test_the_ini_file_gives_defaults(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\nspecgate_strict = true\nspecgate_tier = full\nspecgate_baselines = stored\n")
    project.suite(PASS, UNDECIDED, tier="full")

    result = project.run("--specgate-update")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["specgate: tier full, baselines stored"])
    assert (project.path / "stored").is_dir()


def test_warnings_of_suites_of_higher_tiers_are_left_out(project: Project) -> None:
    scenarios = {"qa": {"category": "qa", "prompts": "prompts/p.jsonl", "ignore_eos": True}}
    project.suite(PASS, tier="full", scenarios=scenarios)
    warning = "warning: *ignores the end of text*"

    project.run("--specgate").stdout.no_fnmatch_line(warning)
    project.run("--specgate", "--specgate-tier=full").stdout.fnmatch_lines([warning])


def test_the_command_line_wins_over_the_ini_file(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\nspecgate_tier = full\n")
    project.suite(PASS, tier="full")

    project.run("--specgate-tier=smoke").assert_outcomes(skipped=1)


def test_an_ini_value_alone_switches_nothing_on(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\nspecgate_tier = full\n")
    project.write("test_x.py", "def test_x(): pass\n")
    project.suite(PASS)

    project.run().assert_outcomes(passed=1)


@pytest.mark.parametrize("name", ["update", "update_only", "trust_remote_code", "allow_pickle"])
def test_what_a_person_must_say_anew_has_no_ini_twin(project: Project, name: str) -> None:
    project.write("pytest.ini", f"[pytest]\nspecgate_{name} = true\n")
    project.suite(PASS)

    result = project.run("--specgate", "--strict-config")

    assert result.ret == 4
    result.stderr.fnmatch_lines([f"*Unknown config option: specgate_{name}*"])


def test_help_follows_the_house_rule(project: Project) -> None:
    from pytest_specgate.plugin.options import TABLE

    for option in TABLE:
        assert option.help[0].isupper(), option
        assert not option.help.endswith("."), option
    project.run("--help").stdout.fnmatch_lines(["gates for speculative decoding:", "  --specgate *"])
