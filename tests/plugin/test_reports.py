"""What other tools read: JUnit and the JSON report, also of a run that was broken off."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

from pytest_specgate.plugin.options import REPORT_ENDINGS
from pytest_specgate.report import document

from .conftest import ERROR, FAIL, PASS, UNDECIDED, Project


def _junit(path: Path) -> dict[str, ET.Element]:
    return {case.attrib["name"].partition("[")[0]: case for case in ET.parse(path).iter("testcase")}  # noqa: S314


def test_junit_knows_all_four_verdicts(project: Project) -> None:
    project.suite(PASS, FAIL, UNDECIDED, ERROR)

    project.run("--specgate", "--junitxml=junit.xml")

    cases = _junit(project.path / "junit.xml")
    kinds = {name: [child.tag for child in case if child.tag != "properties"] for name, case in cases.items()}
    assert kinds == {
        "speedup": [],
        "conditional_acceptance": ["failure"],
        "decode_speedup": ["skipped"],
        "vram_ratio": ["error"],
    }
    assert {case.attrib["classname"] for case in cases.values()} == {"suites.demo.specgate.yaml.tiny"}


def test_junit_shows_the_reason_and_line_of_an_undecided_gate(project: Project) -> None:
    project.suite(PASS, UNDECIDED)

    project.run("--specgate", "--junitxml=junit.xml")

    skipped = _junit(project.path / "junit.xml")["decode_speedup"].find("skipped")
    assert skipped is not None
    assert "straddles the limit >=1.5x" in skipped.attrib["message"]
    assert f"{project.path}/suites/demo.specgate.yaml:6: " in str(skipped.text)


def test_junit_properties_hold_the_numbers_once(project: Project) -> None:
    project.suite(PASS)

    project.run("--specgate", "--junitxml=junit.xml")

    properties = [p.attrib for p in _junit(project.path / "junit.xml")["speedup"].iter("property")]
    names = [p["name"] for p in properties]
    values = {p["name"]: p["value"] for p in properties}
    assert len(names) == len(set(names))
    assert values["specgate.outcome"] == "PASS"
    assert 1.4 < float(values["specgate.value"]) < 1.6


def test_the_report_holds_verdicts_and_measurements(project: Project) -> None:
    project.suite(PASS, FAIL)

    result = project.run("--specgate-report=out.json", "--specgate-report=sub/again.json")

    assert result.ret == 1
    report = document.read(project.path / "out.json")
    assert [verdict.outcome.value for verdict in report.verdicts] == ["PASS", "FAIL"]
    assert [one.case for one in report.measurements["suites/demo.specgate.yaml"]] == ["tiny::qa-t0-c1"]
    assert report.exit_status == 1
    assert (project.path / "sub/again.json").is_file()


def test_the_report_knows_all_checks_that_shared_the_budget(project: Project) -> None:
    project.suite(PASS, FAIL, name="asked")
    project.suite(PASS, UNDECIDED, name="beside")

    project.run("--specgate", "suites/asked.specgate.yaml", "-k", "speedup", "--specgate-report=r.json")

    report = document.read(project.path / "r.json")
    assert set(report.measurements) == {"suites/asked.specgate.yaml"}
    assert set(report.checks) == {"suites/asked.specgate.yaml", "suites/beside.specgate.yaml"}
    assert all(count > 0 for count in report.checks.values())


def test_every_form_tells_the_same_counts(project: Project) -> None:
    project.suite(PASS, FAIL, UNDECIDED, ERROR)

    result = project.run(*(f"--specgate-report=out{ending}" for ending in REPORT_ENDINGS))

    assert result.ret == 1
    report = document.read(project.path / "out.json")
    assert sorted(v.outcome.value for v in report.verdicts) == ["ERROR", "FAIL", "INCONCLUSIVE", "PASS"]
    said = "Speculation gates: 1 failed, 1 could not be measured, 1 undecided, 1 passed"
    assert f"<h1>{said}</h1>" in (project.path / "out.html").read_text(encoding="utf-8")
    assert (project.path / "out.md").read_text(encoding="utf-8").startswith(f"## {said}\n")
    result.stdout.fnmatch_lines(["report written: out.html", "report written: out.json", "report written: out.md"])


def test_a_loss_is_told_with_its_baseline_and_what_it_is_made_of(project: Project) -> None:
    gate = {"metric": "decode_speedup", "max_drop": "5%"}
    project.suite(gate, measure={"rounds": 4})
    project.run("--specgate-update")
    slower = {"tiny": {"kind": "scripted", "options": {"speedup": 1.2}}}
    project.suite(gate, measure={"rounds": 4}, engines=slower)

    result = project.run("--specgate-report=out.json", "--specgate-report=out.html", "--specgate-report=out.md")

    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "  since: speedup 1.5??x → 1.2??x (-??.?%): *loop overhead * ms → * ms per round explains -*",
            "  since: baseline of *; changed since: *",
        ]
    )
    (met,) = document.read(project.path / "out.json").baselines["suites/demo.specgate.yaml"]
    assert met.case == "tiny::qa-t0-c1"
    assert 1.4 < met.values["decode_speedup"] < 1.6
    for name in ("out.html", "out.md"):
        text = (project.path / name).read_text(encoding="utf-8")
        assert f"baseline of {met.recorded}; changed since: nothing in the subject".casefold() in text.casefold()
        assert re.search(r"peedup 1\.\d+x → 1\.\d+x \(-\d", text)
        assert re.search(r"loop overhead [\d.]+ ms → [\d.]+ ms per round explains -\d", text)


def test_an_update_compares_with_nothing(project: Project) -> None:
    project.suite({"metric": "speedup", "max_drop": "5%"})
    project.run("--specgate-update")

    project.run("--specgate-update", "--specgate-report=out.json")

    assert document.read(project.path / "out.json").baselines == {}


def test_an_interrupt_leaves_a_report_of_what_was_done(project: Project) -> None:
    engines = {"tiny": {"kind": "scripted"}, "late": {"kind": "scripted", "options": {"fault": "interrupt"}}}
    project.suite(PASS, engines=engines)

    result = project.python("--specgate-report=out.json", "-p", "no:randomly")

    assert result.ret == 2
    report = document.read(project.path / "out.json")
    assert [verdict.case for verdict in report.verdicts] == ["tiny::qa-t0-c1"]
    assert report.exit_status == 2


def test_a_report_that_cannot_be_written_fails_the_run(project: Project) -> None:
    project.suite(PASS)
    a_file_appears = "(config.rootpath / 'taken').write_text('a file where a folder must go')"
    project.write("conftest.py", f"def pytest_specgate_verdict(config, verdict): {a_file_appears}\n")

    result = project.run("--specgate-report=taken/out.json")

    assert result.ret == 1
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["ERROR: *taken/out.json: *"])


def test_collecting_alone_writes_no_report(project: Project) -> None:
    project.suite(PASS)

    project.run("--specgate-report=out.json", "--collect-only")

    assert not (project.path / "out.json").exists()


def test_hooks_see_machine_verdicts_and_report(project: Project) -> None:
    project.suite(PASS, FAIL)
    project.write(
        "conftest.py",
        "seen = []\n"
        "def pytest_specgate_machine_info(config, info): info['runner'] = 'r7'\n"
        "def pytest_specgate_verdict(config, verdict): seen.append(verdict.outcome.value)\n"
        "def pytest_specgate_report(config, report): seen.append(len(report.verdicts))\n"
        "def pytest_unconfigure(config): open('seen.txt', 'w').write(repr(seen))\n",
    )

    project.run("--specgate-report=out.json")

    assert (project.path / "seen.txt").read_text() == "['PASS', 'FAIL', 2]"
    assert json.loads((project.path / "out.json").read_text())["machine"]["runner"] == "r7"


def test_hooks_may_stand_in_a_run_without_gates(project: Project) -> None:
    project.write("conftest.py", "def pytest_specgate_verdict(config, verdict): pass\n")
    project.write("test_x.py", "def test_x(): pass\n")

    project.run().assert_outcomes(passed=1)
