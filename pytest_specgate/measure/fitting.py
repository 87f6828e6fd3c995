"""The scoring pass of a sampled case: what target and draft think of both arms' texts, look by look.

Bets may be looked at whenever one likes, so texts are scored between rounds, where nothing is timed, as far as a look
needs them; what was scored before is not scored again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from pytest_specgate.chances import Chances, DrawnText, Fit
from pytest_specgate.engines.base import ChanceScorer, Engine
from pytest_specgate.errors import EngineError, SpecgateError
from pytest_specgate.measure.outside import identified
from pytest_specgate.measure.texts import declared, requests_of
from pytest_specgate.metrics import Family
from pytest_specgate.records import Capability, Measurement, Pair, Request
from pytest_specgate.suite.cases import Case

#: Sums of many chances in float32 may miss one by so much.
_SLACK = 1e-4
#: A number whose logarithm can be written down.
LEAST_CHANCE = 1e-300
#: A request and the ids of an answer to it.
Asked = tuple[Request, tuple[int, ...]]
_Key = tuple[str, tuple[int, ...]]


@dataclass(slots=True)
class FitPass:
    """Scores the texts of one case as they come. ``error`` is what stopped it for good."""

    engine: Engine
    case: Case
    progress: Callable[[str], None]
    error: SpecgateError | None = None
    _scored: dict[_Key, Chances] = field(default_factory=dict)
    _seconds: float = 0.0

    def into(self, measurement: Measurement) -> Measurement:
        """The measurement with the chances of its texts; as it was where none are asked for or to be had."""
        if self.error is not None or measurement.greedy or not self._asked_for():
            return measurement
        if Capability.LOGITS not in self.engine.capabilities or not isinstance(self.engine, ChanceScorer):
            return measurement
        started = time.monotonic()
        try:
            measurement = identified(self.engine, self.case, measurement)
            self._score(self.engine, measurement)
        except SpecgateError as error:
            self.error = error
            return measurement
        self._seconds += time.monotonic() - started
        keys = dict.fromkeys(_keys(measurement.pairs))
        texts = tuple(DrawnText(*key, self._scored[key]) for key in keys)
        return replace(measurement, fit=Fit(texts, self._seconds, declared(self.case)))

    def _asked_for(self) -> bool:
        return any(gate.spec.info.family is Family.DISTRIBUTION for gate in self.case.gates)

    def _score(self, scorer: ChanceScorer, measurement: Measurement) -> None:
        new = [key for key in dict.fromkeys(_keys(measurement.pairs)) if key not in self._scored]
        if not new:
            return
        self.progress(f"{self.case.id}: scoring {len(new)} texts of {sum(len(ids) for _, ids in new)} tokens")
        asked = requests_of(self.case, measurement)
        found = scorer.chances([asked[prompt] for prompt, _ in new], [ids for _, ids in new])
        _refuse_misfit(self.case.engine, new, found)
        self._scored.update(zip(new, found))


def log_chances(scorer: ChanceScorer, name: str, asked: Sequence[Asked]) -> list[tuple[float, ...]]:
    """The target's log-probabilities of each text's tokens as answer to its request, checked. Raises EngineError.

    ``name`` is the engine's. What is impossible has the logarithm of :data:`LEAST_CHANCE`.
    """
    if not asked:
        return []
    found = scorer.chances([request for request, _ in asked], [ids for _, ids in asked])
    _refuse_misfit(name, [(request.prompt, ids) for request, ids in asked], found)
    return [tuple(math.log(max(chance, LEAST_CHANCE)) for chance in one.chance) for one in found]


def _keys(pairs: Sequence[Pair]) -> list[_Key]:
    return [(t.prompt, t.token_ids) for pair in pairs for t in (pair.reference, pair.candidate) if t.token_ids]


def _refuse_misfit(engine: str, keys: Sequence[_Key], found: Sequence[Chances]) -> None:
    """Raise EngineError for what are no chances of these texts."""
    wrong = "" if len(found) == len(keys) else f"{len(found)} texts scored of {len(keys)}"
    for (prompt, ids), chances in zip(keys, found):
        wrong = wrong or (f"{prompt}: {said}" if (said := _misfit(len(ids), chances)) else "")
    if wrong:
        raise EngineError(engine, wrong, "look at the target's weights and dtype, or at the engine's adapter")


def _misfit(tokens: int, found: Chances) -> str:
    """What is wrong with the chances of so many tokens; empty if nothing."""
    columns = [found.chance, found.above, found.highest]
    if found.draft is not None:
        columns += [found.draft.kept, found.draft.overlap, found.draft.square]
    if {len(column) for column in columns} != {tokens}:
        return f"{min(map(len, columns))} of {tokens} tokens scored"
    for position, numbers in enumerate(zip(*columns), start=1):
        if not all(math.isfinite(x) and -_SLACK <= x <= 1 + _SLACK for x in numbers):
            return f"a chance at output token {position} is no number from 0 to 1"
        if numbers[0] + numbers[1] > 1 + _SLACK or numbers[0] > numbers[2] + _SLACK:
            return f"the chances at output token {position} contradict each other"
    return ""
