"""The scoring pass of a sampled case: what target and draft think of the texts, look by look.

Bets may be looked at whenever one likes, so texts are scored between rounds, where nothing is timed, as far as a look
needs them; what was scored before is not scored again. The candidate's are scored whole. Of the reference arm's, which
tell whether the scorer knows how this engine draws, :data:`CONTROL_TOKENS` do while nothing speaks against the
candidate: what is grossly wrong with a scorer shows in them, and a candidate that fits it speaks for it. Before
anything is called a fault, as many plain tokens stand the test as the candidate's.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from pytest_specgate.chances import Chances, DrawnText, Fit
from pytest_specgate.engines.base import ChanceScorer, Engine
from pytest_specgate.errors import EngineError, SpecgateError
from pytest_specgate.measure.outside import identified
from pytest_specgate.measure.texts import arm_seconds, declared, requests_of
from pytest_specgate.metrics import Family
from pytest_specgate.records import Capability, Measurement, Pair, Request, ScoringCost, Trace
from pytest_specgate.suite.cases import Case

#: Plain tokens that are scored in any case: within so many a gross fault shows.
CONTROL_TOKENS = 2000
#: Sums of many chances in float32 may miss one by so much.
_SLACK = 1e-4
#: A number whose logarithm can be written down.
LEAST_CHANCE = 1e-300
#: A request and the ids of an answer to it.
Asked = tuple[Request, tuple[int, ...]]
_Key = tuple[str, tuple[int, ...]]


def _unsuspicious(measurement: Measurement) -> bool:  # noqa: ARG001 - as the one that looks
    return False


@dataclass(slots=True)
class FitPass:
    """Scores the texts of one case as they come. ``error`` is what stopped it for good.

    ``suspect`` says of what was scored so far whether it would be called a fault.
    """

    engine: Engine
    case: Case
    progress: Callable[[str], None]
    suspect: Callable[[Measurement], bool] = _unsuspicious
    error: SpecgateError | None = None
    _scored: dict[_Key, Chances] = field(default_factory=dict)
    _seconds: float = 0.0
    _control_seconds: float = 0.0
    _plain: int = 0

    def into(self, measurement: Measurement) -> Measurement:
        """The measurement with the chances of its texts; as it was where none are asked for or to be had."""
        if self.error is not None or measurement.greedy or not self._asked_for():
            return measurement
        if Capability.LOGITS not in self.engine.capabilities or not isinstance(self.engine, ChanceScorer):
            return measurement
        try:
            measurement = identified(self.engine, self.case, measurement)
            self._seconds += self._score(self.engine, measurement, [pair.candidate for pair in measurement.pairs])
            found = self._controlled(self.engine, measurement, max(self._plain, _first_pairs(measurement.pairs)))
            if found.fit is not None and found.fit.plain is not None and self.suspect(found):
                found = self._controlled(self.engine, measurement, len(measurement.pairs))
        except SpecgateError as error:
            self.error = error
            return measurement
        return found

    def _asked_for(self) -> bool:
        return any(gate.spec.info.family is Family.DISTRIBUTION for gate in self.case.gates)

    def _controlled(self, scorer: ChanceScorer, measurement: Measurement, plain: int) -> Measurement:
        """The measurement with its texts, of the reference arm those of the first ``plain`` pairs."""
        self._plain = min(plain, len(measurement.pairs))
        control = [pair.reference for pair in measurement.pairs[: self._plain]]
        self._control_seconds += self._score(scorer, measurement, [*control, *_again(measurement.pairs)])
        arms = (*(pair.candidate for pair in measurement.pairs), *(pair.reference for pair in measurement.pairs))
        keys = [key for key in dict.fromkeys(_keys(arms)) if key in self._scored]
        cost = ScoringCost(self._seconds, self._control_seconds, arm_seconds(measurement))
        part = self._plain if self._plain < len(measurement.pairs) else None
        texts = tuple(DrawnText(*key, self._scored[key]) for key in keys)
        return replace(measurement, fit=Fit(texts, part, declared(self.case)), scoring=cost)

    def _score(self, scorer: ChanceScorer, measurement: Measurement, traces: Sequence[Trace]) -> float:
        """Score what is new of these; return the seconds that it took."""
        new = [key for key in dict.fromkeys(_keys(traces)) if key not in self._scored]
        if not new:
            return 0.0
        self.progress(f"{self.case.id}: scoring {len(new)} texts of {sum(len(ids) for _, ids in new)} tokens")
        started = time.monotonic()
        asked = requests_of(self.case, measurement)
        found = scorer.chances([asked[prompt] for prompt, _ in new], [ids for _, ids in new])
        _refuse_misfit(self.case.engine, new, found)
        self._scored.update(zip(new, found))
        return time.monotonic() - started


def log_chances(scorer: ChanceScorer, name: str, asked: Sequence[Asked]) -> list[tuple[float, ...]]:
    """The target's log-probabilities of each text's tokens as answer to its request, checked. Raises EngineError.

    ``name`` is the engine's. What is impossible has the logarithm of :data:`LEAST_CHANCE`.
    """
    if not asked:
        return []
    found = scorer.chances([request for request, _ in asked], [ids for _, ids in asked])
    _refuse_misfit(name, [(request.prompt, ids) for request, ids in asked], found)
    return [tuple(math.log(max(chance, LEAST_CHANCE)) for chance in one.chance) for one in found]


def _keys(traces: Sequence[Trace]) -> list[_Key]:
    return [(trace.prompt, trace.token_ids) for trace in traces if trace.token_ids]


def _first_pairs(pairs: Sequence[Pair]) -> int:
    """How many pairs hold the control: whether one more does depends on those before it alone, so it is fair."""
    tokens = 0
    for number, pair in enumerate(pairs):
        if tokens >= CONTROL_TOKENS:
            return number
        tokens += pair.reference.output_tokens
    return len(pairs)


def _again(pairs: Sequence[Pair]) -> Iterator[Trace]:
    """Texts of the reference arm that come in several rounds: how likely that is has to be known of each."""
    rounds = defaultdict[_Key, set[int]](set)
    for pair in pairs:
        key = (pair.prompt, pair.reference.token_ids)
        rounds[key].add(pair.round)
        if len(rounds[key]) > 1:
            yield pair.reference


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
