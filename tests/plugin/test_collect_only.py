"""What is collected, under which ids and markers."""

from __future__ import annotations

from .conftest import FAIL, PASS, Project

ENGINES = {
    "tiny+draft": {"kind": "scripted", "candidate": {"method": "draft_model", "draft": "d"}},
    "other": {"kind": "scripted"},
}
SCENARIOS = {
    "short": {"category": "qa", "prompts": "prompts/p.jsonl", "concurrency": [1, 4]},
    "story": {"category": "long-form", "prompts": "prompts/p.jsonl", "sampling": [{}, {"temperature": 0.7}]},
}


def test_ids_name_suite_engine_gate_and_case(project: Project) -> None:
    project.suite(PASS, {**FAIL, "scenarios": ["short"], "engines": ["other"]}, engines=ENGINES, scenarios=SCENARIOS)

    result = project.run("--specgate", "--collect-only", "-q", "suites")

    assert result.ret == 0
    assert [line for line in result.outlines if "::" in line] == [
        "suites/demo.specgate.yaml::tiny+draft::speedup[short-t0-c1]",
        "suites/demo.specgate.yaml::tiny+draft::speedup[short-t0-c4]",
        "suites/demo.specgate.yaml::tiny+draft::speedup[story-t0-c1]",
        "suites/demo.specgate.yaml::tiny+draft::speedup[story-t0.7-c1]",
        "suites/demo.specgate.yaml::other::speedup[short-t0-c1]",
        "suites/demo.specgate.yaml::other::conditional_acceptance[short-t0-c1]",
        "suites/demo.specgate.yaml::other::speedup[short-t0-c4]",
        "suites/demo.specgate.yaml::other::conditional_acceptance[short-t0-c4]",
        "suites/demo.specgate.yaml::other::speedup[story-t0-c1]",
        "suites/demo.specgate.yaml::other::speedup[story-t0.7-c1]",
    ]


def test_an_id_selects_its_test(project: Project) -> None:
    project.suite(PASS, FAIL)

    result = project.run("--specgate", "suites/demo.specgate.yaml::tiny::speedup[qa-t0-c1]")

    result.assert_outcomes(passed=1)


def test_any_yaml_named_on_the_command_line_is_a_suite(project: Project) -> None:
    named = project.suite(PASS).rename(project.path / "suites/gates.yaml")

    project.run("--specgate", str(named)).assert_outcomes(passed=1)


def test_both_yaml_endings_are_suites(project: Project) -> None:
    project.suite(PASS, name="one").rename(project.path / "suites/two.specgate.yml")

    project.run("--specgate").assert_outcomes(passed=1)


def test_failures_point_at_the_line_of_the_gate(project: Project) -> None:
    project.suite(PASS, FAIL)

    result = project.run("--specgate", "--specgate-tier=smoke", "-v", "suites")

    # specgate, engines, scenarios, "gates:", then the gates from line 5.
    result.stdout.fnmatch_lines(["suites/demo.specgate.yaml:6:5: conditional_acceptance on tiny::qa-t0-c1: *"])


def test_markers_are_registered(project: Project) -> None:
    project.suite(PASS)

    result = project.run("--specgate", "--strict-markers", "--markers")

    result.stdout.fnmatch_lines(
        [
            "@pytest.mark.specgate: a gate of a suite",
            "@pytest.mark.speedup: a gate on this metric",
            "@pytest.mark.long_form: a gate on prompts of this category",
            "@pytest.mark.nightly: a gate of a suite of this tier",
        ]
    )
