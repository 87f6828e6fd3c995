"""The seams of the decoder as one value: what an entry exchanges, everything else being the decoder's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_specgate.decoding.drafters.base import Drafter
from pytest_specgate.decoding.drafters.draft_model import DraftModel
from pytest_specgate.decoding.drafters.prompt_lookup import PromptLookup
from pytest_specgate.decoding.network import Network
from pytest_specgate.decoding.processors import Processor
from pytest_specgate.decoding.stop import StopRule
from pytest_specgate.decoding.verifier import ExactVerifier, Verifier
from pytest_specgate.records import Trace
from tests.faults.clock import ORDINARY, Clock, CostModel


@dataclass(frozen=True, slots=True)
class Rig:
    """What a drafter may be built from: both networks (``draft`` is None without a draft model), k, the clock."""

    target: Network
    draft: Network | None
    k: int
    clock: Clock

    @property
    def own(self) -> Network:
        """The draft's network, where the suite names a draft."""
        assert self.draft is not None
        return self.draft


def own_drafter(rig: Rig) -> Drafter:
    """The decoder's own: the draft model, or prompt lookup where the suite names none."""
    return DraftModel(rig.draft) if rig.draft is not None else PromptLookup(3)


def _same_model(model: Any) -> Any:
    return model


def _same_stop(rule: StopRule) -> StopRule:
    return rule


def _same_processors(processors: tuple[Processor, ...]) -> tuple[Processor, ...]:
    return processors


def _same_seed(seed: int) -> int:
    return seed


def _same_trace(trace: Trace, k: int) -> Trace:
    del k
    return trace


@dataclass(frozen=True, slots=True)
class Parts:
    """One decoder. ``told`` is what the engine says of its counts; ``cost`` is what it takes.

    ``loaded`` is what becomes of the target's model once it is there, for both arms and the scorer alike;
    ``own_scores``: what the target thinks of a text is read from these parts, not from transformers' model.
    """

    target: Callable[[Any], Network] = Network
    draft: Callable[[Any], Network] = Network
    drafter: Callable[[Rig], Drafter] = own_drafter
    verifier: Callable[[], Verifier] = ExactVerifier
    stop: Callable[[StopRule], StopRule] = _same_stop
    processors: Callable[[tuple[Processor, ...]], tuple[Processor, ...]] = _same_processors
    seed: Callable[[int], int] = _same_seed
    told: Callable[[Trace, int], Trace] = _same_trace
    cost: CostModel = ORDINARY
    own_scores: bool = False
    loaded: Callable[[Any], Any] = _same_model


OWN = Parts()
