"""What the prompts of a measured case were asked, for passes that ask again after the timed rounds."""

from __future__ import annotations

from pytest_specgate.measure.dialogue import Dialogue, turn_name
from pytest_specgate.records import Measurement, Request
from pytest_specgate.suite.cases import Case


def requests_of(case: Case, measurement: Measurement) -> dict[str, Request]:
    """What each prompt was asked, with the answers that its later turns carried."""
    dialogue = Dialogue(case)
    for pair in measurement.pairs:
        dialogue.remember(pair.reference)
    turns = [(c, turn) for c in case.scenario.conversations for turn in range(len(c.turns))]
    return {turn_name(c, turn): dialogue.request(c, turn) for c, turn in turns}
