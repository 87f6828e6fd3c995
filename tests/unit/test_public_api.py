"""What the package offers: names, their types, and ``run``."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_specgate
from pytest_specgate import Outcome, SpecgateError, run
from pytest_specgate.report import document
from tests.unit.project import SPEEDUP, write

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECGATE_CACHE", str(tmp_path / ".cache"))


def test_all_is_sorted_and_complete_and_every_name_is_there() -> None:
    names = pytest_specgate.__all__
    assert names == sorted(names)
    assert set(names) == {*pytest_specgate._HOMES, "__version__"}
    assert all(getattr(pytest_specgate, name) is not None for name in names)
    assert set(names) <= set(dir(pytest_specgate))


def test_an_unknown_name_is_refused_as_pythons_own_are() -> None:
    with pytest.raises(AttributeError) as caught:
        pytest_specgate.ruin  # noqa: B018 - the look-up is the test
    assert str(caught.value) == "module 'pytest_specgate' has no attribute 'ruin'"


def test_importing_the_package_imports_nothing_else_of_it(tmp_path: Path) -> None:
    code = "import sys, json, pytest_specgate; print(json.dumps([m for m in sys.modules if 'specgate' in m]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert json.loads(done.stdout) == ["pytest_specgate"]


def test_users_code_keeps_its_types() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "tests/typing/api.py"]
    pytest.importorskip("mypy")
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout


def test_users_code_speaks_of_every_public_name() -> None:
    tree = ast.parse((ROOT / "tests/typing/api.py").read_text(encoding="utf-8"))
    words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    words |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert set(pytest_specgate.__all__) <= words


def test_the_least_engine_of_users_code_is_one_at_run_time_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its class is taken out of the file, whose other lines are written to be refused."""
    source = (ROOT / "tests/typing/api.py").read_text(encoding="utf-8")
    tree = ast.parse(source)
    kept = [node for node in tree.body if isinstance(node, ast.ImportFrom) or getattr(node, "name", "") == "Mine"]
    (tmp_path / "my_decoder.py").write_text(ast.unparse(ast.Module(kept, [])), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    path = write(tmp_path, {"metric": "exact_match", "limit": "==100%"}, engines={"mine": {"kind": "my_decoder:Mine"}})

    (verdict,) = run(path).verdicts

    assert (verdict.case, verdict.outcome) == ("mine::qa-t0-c1", Outcome.PASS)


def test_run_measures_and_judges_a_whole_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    engines = {"one": {"kind": "scripted"}, "two": {"kind": "scripted", "options": {"speedup": 1.0}}}
    path = write(tmp_path, SPEEDUP, {"metric": "exact_match", "limit": "==100%"}, engines=engines)
    report = run(path)
    assert [(v.case, v.metric, v.outcome) for v in report.verdicts] == [
        ("one::qa-t0-c1", "speedup", Outcome.PASS),
        ("one::qa-t0-c1", "exact_match", Outcome.PASS),
        ("two::qa-t0-c1", "speedup", Outcome.FAIL),
        ("two::qa-t0-c1", "exact_match", Outcome.PASS),
    ]
    assert report.exit_status == 1
    (measured,) = report.measurements.values()
    assert list(report.measurements) == ["demo.specgate.yaml"]
    assert [measurement.case for measurement in measured] == ["one::qa-t0-c1", "two::qa-t0-c1"]
    assert document.from_json(document.to_json(report), Path("r.json")) == report


@pytest.mark.parametrize(
    ("gate", "options", "keys", "status"),
    [
        (SPEEDUP, {}, {}, 0),
        ({**SPEEDUP, "on_fail": "warn"}, {"speedup": 1.0}, {}, 0),
        ({**SPEEDUP, "waive": {"reason": "known", "until": "2999-01-01"}}, {"speedup": 1.0}, {}, 0),
        ({**SPEEDUP, "waive": {"reason": "known", "until": "2020-01-01"}}, {"speedup": 1.0}, {}, 1),
        (SPEEDUP, {"fault": "crash"}, {}, 1),
        (SPEEDUP, {"fault": "start"}, {}, 1),
        ({**SPEEDUP, "max_drop": "5%"}, {}, {}, 1),
    ],
)
def test_exit_status(
    tmp_path: Path, gate: dict[str, object], options: dict[str, object], keys: dict[str, object], status: int
) -> None:
    assert run(write(tmp_path, gate, options=options), baselines=tmp_path / "none").exit_status == status


def test_gates_of_which_none_is_decided_fail_the_build(tmp_path: Path) -> None:
    undecided = {"metric": "decode_speedup", "limit": ">=1.5x"}
    report = run(write(tmp_path, undecided))
    assert [verdict.outcome for verdict in report.verdicts] == [Outcome.INCONCLUSIVE]
    assert report.exit_status == 1
    (warning,) = report.warnings
    assert warning == (
        "demo: tiny: no gate reached PASS or FAIL, so nothing was gated — "
        "act on a reason above, or raise measure.rounds"
    )


@pytest.mark.parametrize(("policy", "status"), [("guard", 0), ("prove", 1)])
def test_an_undecided_gate_fails_the_build_under_prove(tmp_path: Path, policy: str, status: int) -> None:
    path = write(tmp_path, SPEEDUP, {"metric": "decode_speedup", "limit": ">=1.5x"}, policy=policy)
    assert run(path).exit_status == status


def test_a_machine_without_what_the_suite_requires_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, requires={"package": "no_such_package"})
    with pytest.raises(SpecgateError) as caught:
        run(path)
    assert str(caught.value) == (
        "demo.specgate.yaml: requires package 'no_such_package', which is not installed — "
        "run it on a machine that has it"
    )


def test_device_and_budget_are_passed_on(tmp_path: Path) -> None:
    path = write(tmp_path, requires={"device": "cpu"})
    with pytest.raises(SpecgateError, match="requires device cpu, --specgate-device says cuda:1"):
        run(path, device="cuda:1")
    (measured,) = run(write(tmp_path), budget=1e-9).measurements.values()
    assert measured[0].warnings == ("stopped after 1 of at most 8 rounds: the time for it is used up",)
