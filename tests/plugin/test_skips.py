"""Suites that this run or this machine leaves alone: skipped, with the reason."""

from __future__ import annotations

import pytest

from .conftest import PASS, Project


@pytest.mark.parametrize(
    ("tier", "asked", "runs"),
    [
        ("smoke", "smoke", True),
        ("full", "smoke", False),
        ("full", "full", True),
        ("full", "nightly", True),
        ("nightly", "full", False),
    ],
)
def test_a_tier_takes_the_lower_ones(project: Project, tier: str, asked: str, runs: bool) -> None:
    project.suite(PASS, tier=tier)

    result = project.run(f"--specgate-tier={asked}", "-rs")

    assert result.ret == 0
    result.assert_outcomes(passed=int(runs), skipped=int(not runs))
    if not runs:
        reason = f"tier {tier} runs with --specgate-tier {tier}"
        result.stdout.fnmatch_lines([f"SKIPPED [[]1] suites/demo.specgate.yaml:*: {reason}"])


@pytest.mark.parametrize(
    ("requires", "reason"),
    [
        ({"package": "no_such_package_here"}, "requires package 'no_such_package_here', which is not installed"),
        ({"memory": "900 TiB"}, "requires * of free memory, * are there"),
    ],
)
def test_what_the_machine_lacks_is_the_reason(project: Project, requires: dict[str, str], reason: str) -> None:
    project.suite(PASS, requires=requires)

    result = project.run("--specgate", "-rs")

    assert result.ret == 0
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines([f"SKIPPED [[]1] suites/demo.specgate.yaml:*: {reason}"])


def test_collecting_asks_for_nothing(project: Project) -> None:
    project.suite(PASS, requires={"package": "no_such_package_here"})

    result = project.run("--specgate", "--collect-only", "-q")

    result.stdout.fnmatch_lines(["suites/demo.specgate.yaml::tiny::speedup[[]qa-t0-c1]"])
