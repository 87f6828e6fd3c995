"""Task checks: what an answer is held against, code in a process of its own, and the two arms compared."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.errors import EngineError
from pytest_specgate.gates import task
from pytest_specgate.gates.context import JudgeContext
from pytest_specgate.measure.sandbox import run_tests
from pytest_specgate.measure.tasks import _CHECKS, with_grades
from pytest_specgate.records import Arm, Graded, Outcome, Place, Samples
from pytest_specgate.session import SuiteSession
from pytest_specgate.settings import Settings
from pytest_specgate.suite.tasks import CheckSpec
from tests.unit.project import load, write

GATE = {"metric": "task_score", "max_drop": "2%"}


def check(kind: str, text: str, answer: str = "", **settings: Any) -> tuple[bool, str]:
    return _CHECKS[kind](CheckSpec.model_validate({kind: settings}), text, answer)


@pytest.mark.parametrize(
    ("text", "answer", "solved"),
    [
        ("So the total is 1,234.", "1234", True),
        ("First 3, then 4: the answer is 7.", "7", True),
        ("the answer is 7, not 8", "7", False),
        ("答えは\uff14\uff12です。", "42", True),  # full-width digits
        ("It is -3.50 euros", "-3.5", True),
        ("none at all", "7", False),
        ("about 3.14159", "3.14", False),
    ],
)
def test_the_last_number_counts(text: str, answer: str, solved: bool) -> None:
    assert check("number", text, answer)[0] is solved


def test_a_tolerance_is_absolute() -> None:
    assert check("number", "about 3.14159", "3.14", tolerance=0.01)[0]


def test_a_pattern_is_found_anywhere() -> None:
    assert check("regex", "The capital is Paris, of course", r"\bParis\b") == (True, "Paris")
    assert check("regex", "Lyon", "Paris") == (False, "no match")


def test_json_is_taken_from_a_block_or_the_whole_and_held_against_the_schema() -> None:
    pytest.importorskip("jsonschema")
    schema = {"type": "object", "required": ["name"], "properties": {"age": {"type": "integer"}}}
    assert check("json_schema", 'Here:\n```json\n{"name": "x", "age": 3}\n```\n', schema=schema) == (True, "valid")
    assert check("json_schema", '{"age": 3}', schema=schema) == (False, "'name' is a required property")
    assert check("json_schema", '{"name": 1', schema=schema)[1].startswith("no JSON: ")
    assert check("json_schema", "[1]", '{"type": "array"}', schema=schema)[0]  # the prompt's own goes first


# --- code -----------------------------------------------------------------------------------------------------------

GOOD = "Sure:\n```python\ndef twice(n):\n    return 2 * n\n```\nThat is it."
TESTS = "assert twice(4) == 8"


def test_code_of_a_block_is_run_with_the_tests() -> None:
    assert check("python_tests", GOOD, TESTS) == (True, "passed")
    solved, said = check("python_tests", GOOD.replace("2 *", "3 *"), TESTS)
    assert (solved, said) == (False, "AssertionError")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys; sys.exit(0)", "ended with status 0 before the tests' end"),
        ("while True: pass", "not done after 1 s"),
        ("x = bytearray(4 << 30)", "MemoryError"),
        ("open('big', 'wb').write(bytes(8 << 20))", ""),
    ],
)
def test_code_cannot_leave_early_hang_or_fill_the_machine(code: str, said: str) -> None:
    solved, found = run_tests(code, TESTS, 1.0 if "while" in code else 20.0)
    assert not solved
    assert found == said or not said


def test_what_code_started_is_ended_with_it(tmp_path: Path) -> None:
    note = tmp_path / "note"
    code = f"import subprocess\nsubprocess.Popen(['sh', '-c', 'sleep 2; echo > {note}'])\ndef twice(n): return 2 * n"
    assert run_tests(code, TESTS, 20.0) == (True, "passed")
    import time

    time.sleep(2.5)
    assert not note.exists()


def test_code_sees_no_environment_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hush")
    assert run_tests("import os\nassert 'SECRET_TOKEN' not in os.environ", "", 20.0)[0]


# --- on a case ------------------------------------------------------------------------------------------------------


def session_of(folder: Path, scenario: dict[str, Any], prompts: list[dict[str, Any]], **settings: Any) -> Any:
    suite, case = load(write(folder, GATE, prompts=prompts, scenario=scenario))
    return SuiteSession(suite, "tiny", Settings(folder, **settings)), case


def test_both_arms_are_graded_and_compared(tmp_path: Path) -> None:
    said = {0: "zebra", 1: "token|draft|model"}
    prompts = [{"id": f"q{n}", "turns": [f"Say {n}"], "answer": said[n % 2]} for n in range(8)]
    session, case = session_of(tmp_path, {"check": {"regex": {}}}, prompts)
    verdict = session.judge(case.gates[0], case)
    assert verdict.outcome is Outcome.PASS
    assert verdict.reason == "task score: 50.0% solved against the reference arm's 50.0% of 8 prompts: 0 lost, 0 won"
    assert "check" in session.case(case).measurement.workload


@pytest.mark.parametrize(
    ("scenario", "answer", "text"),
    [
        ({}, None, "tiny: scenario 'qa' has no check of its answers"),
        ({"check": {"number": {}}}, None, "tiny: prompt 'q0' has neither 'answer' nor 'reference' to check against"),
        ({"check": {"number": {}}}, "many", "tiny: 'many' is no answer that a check by number can use"),
        ({"check": {"regex": {}}}, "(", "tiny: '(' is no answer that a check by regex can use"),
        ({"check": {"python_tests": {}}}, "pass", "tiny: python_tests runs code that a model wrote, which is not done"),
    ],
)
def test_what_cannot_be_checked_is_an_error(
    tmp_path: Path, scenario: dict[str, Any], answer: str | None, text: str
) -> None:
    prompt: dict[str, Any] = {"id": "q0", "turns": ["Say it"]}
    session, case = session_of(tmp_path, scenario, [prompt if answer is None else {**prompt, "answer": answer}])
    verdict = session.judge(case.gates[0], case)
    assert verdict.outcome is Outcome.ERROR
    assert verdict.reason.startswith(text)


def test_code_runs_where_a_person_allowed_it(tmp_path: Path) -> None:
    prompts = [{"id": "q0", "turns": ["Write it"], "answer": "pass"}]
    session, case = session_of(tmp_path, {"check": {"python_tests": {"timeout": "20 s"}}}, prompts, allow_code=True)
    verdict = session.judge(case.gates[0], case)
    assert verdict.outcome is Outcome.INCONCLUSIVE, verdict.reason  # graded, and words are no Python
    _, error = with_grades(case, session.case(case).measurement, allow_code=False)
    assert isinstance(error, EngineError)
    assert {one.solved for one in session.case(case).measurement.graded} == {False}


# --- judged ---------------------------------------------------------------------------------------------------------


def graded(reference: str, candidate: str) -> tuple[Graded, ...]:
    """One prompt per character, ``+`` where solved."""
    return tuple(
        Graded(f"p{n}", f"p{n}", 0, arm, mark == "+", "")
        for arm, marks in ((Arm.REFERENCE, reference), (Arm.CANDIDATE, candidate))
        for n, mark in enumerate(marks)
    )


def judged(tmp_path: Path, reference: str, candidate: str, max_drop: str = "0.02") -> Any:
    gate = {"metric": "task_score", "max_drop": max_drop}
    suite, case = load(write(tmp_path, gate, scenario={"check": {"number": {}}}))
    context = JudgeContext(suite.shown, case.id, "e", 0.01, Place("cpu", 1, "float32"), datetime.date(2026, 11, 30))
    samples = Samples(case.id, True, (), graded=graded(reference, candidate))
    return task.judge(case.gates[0], samples, None, context).checks[0]


def test_equal_answers_pass_one_lost_is_undecided_and_many_fail(tmp_path: Path) -> None:
    assert judged(tmp_path, "+" * 30 + "-" * 10, "+" * 30 + "-" * 10).outcome is Outcome.PASS
    assert judged(tmp_path, "+" * 40, "-" + "+" * 39).outcome is Outcome.INCONCLUSIVE
    assert judged(tmp_path, "+" * 40, "-" * 12 + "+" * 28).outcome is Outcome.FAIL
    assert judged(tmp_path, "+" * 200, "-" + "+" * 199).outcome is Outcome.PASS
    assert judged(tmp_path, "-" * 40, "+" * 12 + "-" * 28).outcome is Outcome.PASS


def test_where_neither_arm_solves_any_a_loss_cannot_show(tmp_path: Path) -> None:
    said = judged(tmp_path, "-" * 4, "-" * 4)
    assert said.outcome is Outcome.INCONCLUSIVE
    assert said.reason.endswith("of 4 prompts: 0 lost, 0 won: the reference arm solves none, so a loss cannot show")
    assert said.needed == "easier tasks, or a larger max_tokens"
    assert judged(tmp_path, "+---", "+---").outcome is Outcome.PASS


def test_mcnemar_is_exact(tmp_path: Path) -> None:
    """Without an allowed drop, n lost and none won fail where the sign test's p, 2^-n, is below the error rate."""
    for lost in range(1, 12):
        outcome = judged(tmp_path, "+" * 40, "-" * lost + "+" * (40 - lost), "0").outcome
        assert (outcome is Outcome.FAIL) == (0.5**lost < 0.01)


def test_a_fair_pair_fails_as_rarely_as_the_gate_says(tmp_path: Path) -> None:
    from scipy.stats import binom

    def fails(lost: int) -> bool:
        one, other = "+" * lost + "-" * (20 - lost), "-" * lost + "+" * (20 - lost)
        return judged(tmp_path, one, other, "0").outcome is Outcome.FAIL

    assert sum(binom.pmf(lost, 20, 0.5) for lost in range(21) if fails(lost)) <= 0.01
