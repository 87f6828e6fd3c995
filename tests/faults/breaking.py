"""Beyond the corpus: texts that break off or run on, each token of theirs being the target's own choice.

What is wrong with such a text is its end alone, so it takes a gate that looks at ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from pytest_specgate.decoding.stop import StopRule
from tests.faults.entry import Entry
from tests.faults.parts import Parts
from tests.faults.settings import DRAWN, PLAIN

#: Tokens after which a text breaks off, with the block that comes then: of some models no text is much longer.
BREAKS_AFTER = 3
ENDS = ("greedy_exactness", "token_accounting")


class BreaksOff(StopRule):
    """Ends a text early, as if a stop string had been found."""

    finish = "stop"

    def cut(self, output: Sequence[int], block: Sequence[int], budget: int) -> tuple[int, str]:
        kept, finish = super().cut(output, block, budget)
        return (kept, finish or self.finish) if len(output) >= BREAKS_AFTER else (kept, finish)


class BreaksOffAsByEnd(BreaksOff):
    """As above, and says that the text ended by itself."""

    finish = "eos"


class BreaksOffAsByBudget(BreaksOff):
    """As above, and says that the budget was used up."""

    finish = "length"


class LooksLate(StopRule):
    """Looks for stop strings once a round: the rest of the block that completed one stays."""

    def cut(self, output: Sequence[int], block: Sequence[int], budget: int) -> tuple[int, str]:
        kept, finish = StopRule(self.eos).cut(output, block, budget)
        stopped = not finish and self._completed([*output, *block[:kept]])
        return (kept, "stop") if stopped else (kept, finish)


class LooksNever(StopRule):
    """Knows no stop strings."""

    def cut(self, output: Sequence[int], block: Sequence[int], budget: int) -> tuple[int, str]:
        return StopRule(self.eos).cut(output, block, budget)


def _stop(kind: type[StopRule]) -> Parts:
    return Parts(stop=lambda rule: kind(rule.eos, rule.strings, rule.decode))


#: One that is never said, and words that some texts say, and some do not.
_STOPS = ("never said", "w7 ", "w21 ")
STOPPED = replace(PLAIN, name="stopped", scenario=MappingProxyType({"stop": list(_STOPS)}))
#: Enough of them that some greedy text of every model ends by one in mid-block.
OFTEN_STOPPED = replace(
    PLAIN, name="often-stopped", scenario=MappingProxyType({"stop": [f"w{word}" for word in range(11, 64, 6)]})
)
DRAWN_STOPPED = replace(
    DRAWN, name="drawn-stopped", scenario=MappingProxyType({**DRAWN.scenario, "stop": list(_STOPS)})
)

ENTRIES = (
    Entry(
        "X1",
        "a text breaks off as by a stop string where none was asked for",
        "the stop rule ends a text with the block after its third token",
        ENDS,
        _stop(BreaksOff),
    ),
    Entry(
        "X2",
        "a text breaks off as by an end of text that it does not have",
        "the stop rule does so and says that the text ended by itself",
        ENDS,
        _stop(BreaksOffAsByEnd),
    ),
    Entry(
        "X3",
        "a text breaks off as by the end of its budget",
        "the stop rule does so and says that the budget is used up",
        ENDS,
        _stop(BreaksOffAsByBudget),
    ),
    Entry(
        "X4",
        "a text breaks off as by a stop string that was asked for and does not stand there",
        "the stop rule does so where the request has stop strings",
        ENDS,
        _stop(BreaksOff),
        setting=STOPPED,
    ),
    Entry(
        "X5",
        "a drawn text breaks off as by a stop string that does not stand there",
        "the same, drawn: no other text tells how long it should be",
        ("token_accounting",),
        _stop(BreaksOff),
        setting=DRAWN_STOPPED,
    ),
    Entry(
        "X7",
        "a drawn text runs on after its stop string",
        "the stop rule knows no stop strings",
        ("token_accounting",),
        _stop(LooksNever),
        setting=DRAWN_STOPPED,
    ),
    Entry(
        "X8",
        "a text keeps the rest of the block that completed its stop string",
        "the stop rule looks for stop strings once a round",
        ("greedy_exactness",),
        _stop(LooksLate),
        setting=OFTEN_STOPPED,
    ),
)
