"""What the prompts of a measured case were asked, for passes that ask again after the timed rounds."""

from __future__ import annotations

from pytest_specgate.measure.dialogue import Dialogue, turn_name
from pytest_specgate.records import Measurement, Request
from pytest_specgate.suite.cases import Case


def declared(case: Case) -> float | None:
    """How far a lossy candidate may be from the target; None where it is declared exact, by saying nothing."""
    candidate = case.engine_spec.candidate
    return candidate.lossy.max_tv if candidate and candidate.lossy else None


def requests_of(case: Case, measurement: Measurement) -> dict[str, Request]:
    """What each prompt was asked, with the answers that its later turns carried."""
    dialogue = Dialogue(case)
    for pair in measurement.pairs:
        dialogue.remember(pair.reference)
    turns = [(c, turn) for c in case.scenario.conversations for turn in range(len(c.turns))]
    return {turn_name(c, turn): dialogue.request(c, turn) for c, turn in turns}
