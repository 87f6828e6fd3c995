"""The memory pass: each arm in a child process of its own, so that its peak is its own.

Peaks of two interleaved arms cannot be told apart (a process's peak resident memory never falls, and reserved device
memory is the process's), so the arms are never resident together here. The child loads one arm, generates for the
case's longest prompts, and prints one line of JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.errors import EngineError
from pytest_specgate.measure.child import ChildFailed, ask, encode_context
from pytest_specgate.measure.dialogue import Dialogue
from pytest_specgate.records import Arm, MemoryReading, Request
from pytest_specgate.suite.cases import Case

#: Requests that a pass runs: the longest prompts, because they set the peak.
LONGEST = 2
TIMEOUT_SECONDS = 1800


def measure_memory(context: EngineContext, case: Case) -> dict[Arm, MemoryReading]:
    """Peak memory of each arm on the case's longest prompts. Raises EngineError with the child's last words."""
    return {arm: _run_child(replace(context, arms=(arm,)), requests_for(case), case.concurrency) for arm in Arm}


def requests_for(case: Case) -> list[Request]:
    """First turns of the longest conversations, at most ``LONGEST`` times the concurrency of them."""
    dialogue = Dialogue(case)
    by_length = sorted(case.scenario.conversations, key=lambda c: (-len(c.turns[0]), c.id))
    return [dialogue.request(conversation, 0) for conversation in by_length[: LONGEST * case.concurrency]]


def _run_child(context: EngineContext, requests: Sequence[Request], concurrency: int) -> MemoryReading:
    (arm,) = context.arms
    asked = [asdict(request) for request in requests]
    order = {"context": encode_context(context), "requests": asked, "concurrency": concurrency}
    try:
        return MemoryReading(**ask("pytest_specgate.measure.memory_child", order, TIMEOUT_SECONDS))
    except ChildFailed as error:
        what = f"the memory pass of the {arm.value} arm failed: {error}"
        raise EngineError(context.name, what, "run the engine alone to see why") from None
