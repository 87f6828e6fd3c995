"""The memory pass: each arm in a child process of its own, so that its peak is its own.

Peaks of two interleaved arms cannot be told apart (a process's peak resident memory never falls, and reserved device
memory is the process's), so the arms are never resident together here. The child loads one arm, generates for the
case's longest prompts, and prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.errors import EngineError
from pytest_specgate.measure.dialogue import Dialogue
from pytest_specgate.records import Arm, MemoryReading, Request
from pytest_specgate.suite.cases import Case

#: Requests that a pass runs: the longest prompts, because they set the peak.
LONGEST = 2
TIMEOUT_SECONDS = 1800
MARK = "specgate-memory "


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
    order = json.dumps({"context": encode_context(context), "requests": asked, "concurrency": concurrency})
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-m", "pytest_specgate.measure.memory_child"]
    try:
        child = subprocess.run(  # noqa: S603 - our own module
            command, input=order, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        what = f"the memory pass of the {arm.value} arm did not finish in {TIMEOUT_SECONDS} s"
        raise EngineError(
            context.name, what, "measure fewer or shorter prompts, or set measure: {memory: false}"
        ) from None
    for line in child.stdout.splitlines():
        if line.startswith(MARK):
            return MemoryReading(**json.loads(line[len(MARK) :]))
    said = child.stderr.strip().splitlines()
    why = said[-1] if said else f"exit status {child.returncode}"
    if child.returncode == -9:
        why = "it was killed, most likely for want of memory"
    raise EngineError(
        context.name, f"the memory pass of the {arm.value} arm failed: {why}", "run the engine alone to see why"
    )


def encode_context(context: EngineContext) -> dict[str, Any]:
    """The context as JSON can carry it."""
    return {
        "name": context.name,
        "spec": context.spec.model_dump(mode="json", exclude_defaults=True),
        "folder": str(context.folder),
        "device": context.device,
        "allow_remote_code": context.allow_remote_code,
        "allow_pickle": context.allow_pickle,
        "arms": [arm.value for arm in context.arms],
    }
