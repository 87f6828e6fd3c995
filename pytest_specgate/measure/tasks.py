"""The task pass: whether each arm's answers stand the scenario's own check.

Numbers, patterns and JSON are compared here; code is run elsewhere, and only where a person allowed it. An answer that
holds nothing to compare is wrong, and so said; a check that cannot be made is an error.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

from pytest_specgate.errors import EngineError, MissingPackage, SpecgateError
from pytest_specgate.measure.dialogue import turn_name
from pytest_specgate.measure.sandbox import run_tests
from pytest_specgate.metrics import Family
from pytest_specgate.records import Arm, Graded, Measurement
from pytest_specgate.suite.cases import Case
from pytest_specgate.suite.tasks import CheckSpec

#: (whether the answer stands, what was found in it).
Found = tuple[bool, str]
#: A pattern is looked for in so many characters at most: some patterns take forever on more.
LONGEST = 20_000
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_FENCE = re.compile(r"```[ \t]*(\w*)[^\n]*\n(.*?)(?:```|\Z)", re.DOTALL)


def with_grades(case: Case, measurement: Measurement, *, allow_code: bool) -> tuple[Measurement, SpecgateError | None]:
    """The measurement with its answers graded, if a gate asks for it; as it was, with the error, where that failed."""
    if not any(gate.spec.info.family is Family.TASK for gate in case.gates):
        return measurement, None
    try:
        return replace(measurement, graded=grades(case, measurement, allow_code=allow_code)), None
    except SpecgateError as error:
        return measurement, error


def grades(case: Case, measurement: Measurement, *, allow_code: bool) -> tuple[Graded, ...]:
    """Both arms' answers to the last turn of every prompt. Raises EngineError where nothing can be checked."""
    check = case.scenario.spec.check
    if check is None:
        hint = "write check: {number: {}} into it, and an 'answer' into each of its prompts"
        raise EngineError(case.engine, f"scenario {case.scenario.name!r} has no check of its answers", hint)
    if check.kind == "python_tests" and not allow_code:
        hint = "pass --specgate-allow-code if this machine may run it"
        raise EngineError(case.engine, "python_tests runs code that a model wrote, which is not done unasked", hint)
    right = {turn_name(c, len(c.turns) - 1): c.answer or c.reference for c in case.scenario.conversations}
    if missing := [name for name, answer in right.items() if not answer and not _has_own(check)]:
        what = f"prompt {missing[0]!r} has neither 'answer' nor 'reference' to check against"
        raise EngineError(case.engine, what, "add one to the prompt file")
    checked = lru_cache(maxsize=None)(lambda text, answer: _checked(check, text, answer, case))
    return tuple(
        Graded(pair.prompt, pair.cluster, pair.round, arm, *checked(trace.text, right[pair.prompt]))
        for pair in measurement.pairs
        if pair.prompt in right
        for arm, trace in ((Arm.REFERENCE, pair.reference), (Arm.CANDIDATE, pair.candidate))
    )


def _has_own(check: CheckSpec) -> bool:
    return check.json_schema is not None and check.json_schema.definition is not None


def _checked(check: CheckSpec, text: str, answer: str, case: Case) -> Found:
    try:
        return _CHECKS[check.kind](check, text, answer)
    except ImportError as error:
        hint = "python -m pip install 'pytest-specgate[tasks]'"
        raise MissingPackage(case.engine, "checks by JSON Schema need package 'jsonschema'", hint) from error
    except (ValueError, re.error) as error:
        what = f"{answer[:60]!r} is no answer that a check by {check.kind} can use ({error})"
        raise EngineError(case.engine, what, "correct it in the prompt file") from error


def _number(check: CheckSpec, text: str, answer: str) -> Found:
    assert check.number is not None  # noqa: S101 - chosen by its kind
    wanted = float(answer.replace(",", ""))
    found = _NUMBER.findall(unicodedata.normalize("NFKC", text))
    if not found:
        return False, "no number"
    said = float(found[-1].replace(",", ""))
    return math.isclose(said, wanted, rel_tol=1e-9, abs_tol=check.number.tolerance), found[-1]


def _regex(check: CheckSpec, text: str, answer: str) -> Found:
    del check
    found = re.search(answer, text[:LONGEST])
    return found is not None, found[0][:60] if found else "no match"


def _json(check: CheckSpec, text: str, answer: str) -> Found:
    from jsonschema import Draft202012Validator, SchemaError

    assert check.json_schema is not None  # noqa: S101 - chosen by its kind
    schema = json.loads(answer) if answer else check.json_schema.definition
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ValueError(error.message) from error
    try:
        said = json.loads(_block(text, "json"))
    except ValueError as error:
        return False, f"no JSON: {error}"[:60]
    problem = next(iter(Draft202012Validator(schema).iter_errors(said)), None)
    return problem is None, problem.message[:60] if problem else "valid"


def _tests(check: CheckSpec, text: str, answer: str) -> Found:
    assert check.python_tests is not None  # noqa: S101 - chosen by its kind
    return run_tests(_block(text, "python"), answer, check.python_tests.timeout)


def _block(text: str, language: str) -> str:
    """What stands in code blocks of the language, or of none; the whole text where there is no block."""
    blocks = [body for name, body in _FENCE.findall(text) if name.lower() in {"", language, language[:2]}]
    return "\n".join(blocks) if blocks else text


_CHECKS: Mapping[str, Callable[[CheckSpec, str, str], Found]] = {
    "number": _number,
    "regex": _regex,
    "json_schema": _json,
    "python_tests": _tests,
}
