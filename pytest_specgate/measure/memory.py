"""The memory pass: each arm in a process of its own, so that its peak is its own.

Peaks of two interleaved arms cannot be told apart (a process's peak resident memory never falls, and reserved device
memory is the process's), so the arms are never resident together here. The child loads one arm, generates for the
case's longest prompts, and prints one line of JSON. Where gates ask for it, it goes on with a soak of the candidate arm
and with the search for the largest concurrency that fits.

Servers are processes of their own already, and a second one beside them would find no room: they are looked at where
they are, while they answer the same requests once more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_specgate.codec import decode, encode
from pytest_specgate.engines.base import Alternating, Crowds, Engine, EngineContext, Watches
from pytest_specgate.errors import EngineError
from pytest_specgate.measure.capacity import measure_served
from pytest_specgate.measure.child import ChildFailed, ask, encode_context
from pytest_specgate.measure.dialogue import Dialogue
from pytest_specgate.measure.schedule import blocks
from pytest_specgate.metrics import Family
from pytest_specgate.records import Arm, MemoryReading, Request
from pytest_specgate.suite.cases import Case
from pytest_specgate.suite.measuring import MeasureSpec

#: Requests that a pass runs: the longest prompts, because they set the peak.
LONGEST = 2
TIMEOUT_SECONDS = 1800
#: Families whose numbers come from this pass, and the metrics of the search.
OWN_PASS = (Family.MEMORY, Family.GROWTH)
CAPACITY = frozenset({"max_batch", "max_batch_ratio"})


def measure_memory(
    context: EngineContext, case: Case, measure: MeasureSpec, running: Engine | Watches | None = None
) -> dict[Arm, MemoryReading]:
    """Peak memory of each arm on the case's longest prompts; ``running`` is the engine that measured the case.

    Raises EngineError, with a child's last words.
    """
    if isinstance(running, Watches):
        return {arm: _watch(running, case, arm, measure) for arm in Arm}
    return {arm: _run_child(replace(context, arms=(arm,)), _order(case, arm, measure)) for arm in Arm}


def _watch(engine: Watches, case: Case, arm: Arm, measure: MeasureSpec) -> MemoryReading:
    if isinstance(engine, Alternating) and engine.apart:
        engine.begin(arm)
    reading = engine.watch([*blocks(requests_for(case), case.concurrency)], arm, _soaked(case, arm, measure))
    if not isinstance(engine, Crowds) or not CAPACITY & {gate.spec.metric for gate in case.gates}:
        return reading
    as_they_are = case.scenario.spec.prefix.kind == "shared"
    try:
        found = measure_served(engine, requests_for(case), arm, measure.capacity.most, shared=as_they_are)
    except EngineError as error:
        return replace(reading, untold={**reading.untold, "max_batch": f"{error.what} — {error.hint}"})
    return replace(reading, capacity=found)


def _soaked(case: Case, arm: Arm, measure: MeasureSpec) -> int:
    """How often the soak runs its block; 0 is none."""
    asked = arm is Arm.CANDIDATE and any(gate.spec.info.family is Family.GROWTH for gate in case.gates)
    return measure.soak if asked else 0


def _order(case: Case, arm: Arm, measure: MeasureSpec) -> dict[str, Any]:
    """What the child is to do; 0 is nothing."""
    asked = {gate.spec.metric for gate in case.gates}
    return {
        "requests": [encode(request) for request in requests_for(case)],
        "concurrency": case.concurrency,
        "soak": _soaked(case, arm, measure),
        "most": measure.capacity.most if asked & CAPACITY else 0,
        "memory": measure.capacity.memory,
    }


def requests_for(case: Case) -> list[Request]:
    """First turns of the longest conversations, at most ``LONGEST`` times the concurrency of them."""
    dialogue = Dialogue(case, "memory")
    by_length = sorted(case.scenario.conversations, key=lambda c: (-len(c.turns[0]), c.id))
    return [dialogue.request(conversation, 0) for conversation in by_length[: LONGEST * case.concurrency]]


def _run_child(context: EngineContext, order: dict[str, Any]) -> MemoryReading:
    (arm,) = context.arms
    order = {"context": encode_context(context), **order}
    try:
        return decode(MemoryReading, ask("pytest_specgate.measure.memory_child", order, TIMEOUT_SECONDS))
    except ChildFailed as error:
        what = f"the memory pass of the {arm.value} arm failed: {error}"
        raise EngineError(context.name, what, "run the engine alone to see why") from None
