"""Engines that refuse to run: where a suite expects it, its gates demand it; else it is an ERROR like any other.

A missing package and a full memory are the machine's state, and never what a suite expects.
"""

from __future__ import annotations

from dataclasses import replace

from pytest_specgate.errors import EngineError, MissingPackage, OutOfMemory, SpecgateError
from pytest_specgate.gates.context import JudgeContext, Judged
from pytest_specgate.gates.verdicts import error_verdict, verdict
from pytest_specgate.records import Check, Outcome, Verdict
from pytest_specgate.suite.cases import Gate
from pytest_specgate.suite.setups import Expect

_KEPT = "remove 'expect' from the engine in the suite, and let its gates judge it"
_OTHER = "look at what changed in the engine, or write in 'expect' what it says now"


def is_refusal(error: SpecgateError) -> bool:
    """Whether an engine that did not start said so on purpose; what it merely ran into has a cause of another's."""
    machine = isinstance(error, (MissingPackage, OutOfMemory))
    own = error.__cause__ is None or isinstance(error.__cause__, SpecgateError)
    return isinstance(error, EngineError) and own and not machine


def unmeasured(gate: Gate, case: str, error: SpecgateError, expect: Expect | None, *, at_start: bool) -> Verdict:
    """The verdict on a gate whose case could not be measured: PASS where the suite expects just that, else ERROR."""
    what, _, hint = str(error).partition(" — ")
    said = error.what if isinstance(error, EngineError) else what
    if expect is None:
        refused = said if at_start and is_refusal(error) else ""
        return replace(error_verdict(gate, case, what, hint), refused=refused)
    machine = isinstance(error, (MissingPackage, OutOfMemory))
    # Said of the engine, and not in its name or in what to do about it.
    if is_refusal(error) and expect.refused in said:
        found = error_verdict(gate, case, f"refused, as the suite expects: {said}")
        return replace(found, outcome=Outcome.PASS, refused=said)
    reason = f"expected to be refused with {expect.refused!r}, and what came is: {said}"
    return error_verdict(gate, case, reason, hint if machine else _OTHER)


def running(gate: Gate, expect: Expect, context: JudgeContext) -> Verdict:
    """The verdict on a gate whose engine runs though the suite expects that it is refused."""
    reason = f"expected to be refused with {expect.refused!r}, and it runs"
    check = Check("limit", "refused", Outcome.FAIL, reason)
    found = verdict(gate, Judged((check,), None), context)
    return replace(found, advice=_KEPT)
