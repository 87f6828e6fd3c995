"""``request_honouring`` in a run: its own case, judged by nothing else, on an engine that ignores what it is asked."""

from __future__ import annotations

import json

from tests.plugin.conftest import PASS, Project

GATE = {"metric": "request_honouring", "limit": "==100%"}


def test_a_sweep_is_a_case_of_its_own_and_stands_in_every_report(project: Project) -> None:
    project.suite(PASS, GATE)
    reports = [f"--specgate-report=out.{ending}" for ending in ("json", "html", "md")]
    result = project.run(*reports, "suites")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "suites/demo.specgate.yaml:*: request_honouring on tiny::requests-t0-c1: requests: * are not honoured: *",
            "*note: bias/barred, reference and candidate arm: output token * a bias of -100 [[]max_tokens=*",
            "*note: not asked: prompt lengths, windows, an empty prompt: the engine takes no token ids",
        ]
    )
    report = json.loads((project.path / "out.json").read_text(encoding="utf-8"))
    (measured,) = report["measurements"].values()
    (sweep,) = [one["sweep"] for one in measured if one["sweep"]]
    names = [probe["name"] for probe in sweep["probes"]]
    assert {"plain/1", "budget/1", "least/1", "unseeded/1"} <= {*names}
    assert len(sweep["replies"]) == 2 * len(names)
    for ending in ("md", "html"):
        assert "are not honoured" in (project.path / f"out.{ending}").read_text(encoding="utf-8")
    assert not any("requests-t0" in json.dumps(advice) for advice in report["advice"])


def test_nothing_of_a_sweep_is_stored(project: Project) -> None:
    project.suite(PASS, GATE)
    project.run("--specgate-update", "suites")
    (stored,) = (project.path / "baselines").rglob("*.json")
    assert "requests-t0-c1" not in stored.read_text(encoding="utf-8")


def test_the_plan_says_that_its_requests_are_made_up(project: Project) -> None:
    project.suite(PASS, GATE)
    project.run("--specgate-plan", "suites").stdout.fnmatch_lines(["tiny::requests-t0-c1 *made up*"])


def test_it_takes_no_scenarios(project: Project) -> None:
    project.suite({**GATE, "scenarios": ["qa"]})
    result = project.run("--specgate", "suites")
    result.stdout.fnmatch_lines(["*request_honouring makes up its own requests — remove 'scenarios'*"])
