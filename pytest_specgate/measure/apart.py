"""A round of two arms that are never up together: a fresh start of one on all prompts, then of the other.

What a start decides (memory layout, tuning, clocks) is then part of each round, so a round is one observation and not
as many as it has prompts; which arm begins alternates by round. Warming up belongs to every start.
"""

from __future__ import annotations

from collections.abc import Callable

from pytest_specgate.engines.base import Alternating, Engine
from pytest_specgate.measure.asking import ask
from pytest_specgate.measure.dialogue import Dialogue
from pytest_specgate.measure.schedule import arms_in, order, slots, turns
from pytest_specgate.records import Arm, Pair, Trace
from pytest_specgate.suite.prompts import Conversation

#: (who talks, the answer, the number of its run where requests waited).
Asked = tuple[Conversation, Trace, int | None]


def started_by(engine: Engine) -> Alternating | None:
    """What starts this engine's arms one at a time, or None where both are up."""
    return engine if isinstance(engine, Alternating) and engine.apart else None


def apart_round(engine: Engine, dialogue: Dialogue, number: int, begin: Callable[[Arm], None]) -> list[Pair]:
    """Every turn of every conversation once by each arm; ``begin`` starts an arm anew and warms it up.

    The first round begins with the reference arm, whose answers later turns carry.
    """
    in_order = order(0, number)
    found: dict[Arm, list[Asked]] = {}
    for arm in arms_in(in_order):
        begin(arm)
        found[arm] = _all_prompts(engine, dialogue, arm, number)
    pairs = zip(found[Arm.REFERENCE], found[Arm.CANDIDATE])
    return [
        Pair(reference.prompt, conversation.id, number, in_order, reference, candidate, run)
        for (conversation, reference, run), (_, candidate, _) in pairs
    ]


def _all_prompts(engine: Engine, dialogue: Dialogue, arm: Arm, number: int) -> list[Asked]:
    found: list[Asked] = []
    waiting = slots(dialogue.case, engine.capabilities)
    for run, (turn, talking) in enumerate(turns(dialogue.case, engine.capabilities)):
        traces = ask(engine, dialogue.case.engine, dialogue.requests(talking, turn, number), arm, waiting)
        if arm is Arm.REFERENCE:
            for trace in traces:
                dialogue.remember(trace)
        found += [(who, trace, run if waiting else None) for who, trace in zip(talking, traces)]
    return found
