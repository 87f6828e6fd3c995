"""What the prompts of a measured case were asked, for passes that ask again after the timed rounds."""

from __future__ import annotations

from pytest_specgate.measure.dialogue import Dialogue, turn_name
from pytest_specgate.records import Arm, Measurement, Request
from pytest_specgate.suite.cases import Case


def declared(case: Case) -> float | None:
    """How far a lossy candidate may be from the target; None where it is declared exact, by saying nothing."""
    candidate = case.engine_spec.candidate
    return candidate.lossy.max_tv if candidate and candidate.lossy else None


def arm_seconds(measurement: Measurement, arm: Arm = Arm.CANDIDATE) -> float:
    """How long an arm ran in all: requests that ran side by side count once."""
    traces = (pair.candidate if arm is Arm.CANDIDATE else pair.reference for pair in measurement.pairs)
    total, until = 0, -1
    for begin, end in sorted((trace.submit_ns, trace.chunks[-1].t_ns) for trace in traces if trace.chunks):
        total += max(0, end - max(begin, until))
        until = max(until, end)
    return total / 1e9


def requests_of(case: Case, measurement: Measurement) -> dict[str, Request]:
    """What each prompt was asked, with the answers that its later turns carried."""
    dialogue = Dialogue(case)
    for pair in measurement.pairs:
        dialogue.remember(pair.reference)
    turns = [(c, turn) for c in case.scenario.conversations for turn in range(len(c.turns))]
    return {turn_name(c, turn): dialogue.request(c, turn) for c, turn in turns}
