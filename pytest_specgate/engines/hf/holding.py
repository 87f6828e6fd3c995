"""An engine that holds target and draft in this process: where they are, and what they think of texts.

Its ways to generate are its own. Importing this module loads no torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_specgate.chances import Chances
from pytest_specgate.engines.base import EngineContext
from pytest_specgate.errors import EngineError
from pytest_specgate.logits import Scores
from pytest_specgate.records import Place, Request

if TYPE_CHECKING:
    from pytest_specgate.engines.hf.loading import Loaded
    from pytest_specgate.engines.hf.reading import Readers
    from pytest_specgate.engines.hf.scoring import Blocks


class HoldsModels(ABC):
    """The part of such an engine that scores texts and tells what it holds."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._name = context.name
        self._device = ""
        self._target: Loaded | None = None
        self._draft: Loaded | None = None
        self._readers: Readers | None = None

    @abstractmethod
    def _prompt_ids(self, request: Request, target: Loaded) -> tuple[int, ...]:
        """The prompt as the target reads it. Raises EngineError where it exceeds the window."""

    def _refuse_processed(self, target: Loaded, *, drawn: bool) -> None:  # noqa: B027 - most leave nothing out
        """Raise EngineError where scores would leave out what the engine does to the target's logits."""

    def _blocks(self) -> Blocks | None:
        """Another forward than transformers' modules that texts are to be scored by; None where there is none."""
        return None

    # --- texts -------------------------------------------------------------------------------------------

    def score(
        self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]], width: int | None = None
    ) -> list[Scores]:
        """Return the target's logits on texts, as :class:`~pytest_specgate.engines.base.Scorer` says."""
        from pytest_specgate.engines.hf import scoring, shaping
        from pytest_specgate.engines.hf.failures import translated

        target = self._started()
        self._refuse_processed(target, drawn=False)
        speaker = shaping.Speaker(self._name, target)
        with translated(self._name, "scoring failed"):
            asked = [(request, self._prompt_ids(request, target)) for request in requests]
            given = scoring.forced(asked, texts, speaker)
            return scoring.score(speaker, given, width, self._reading(), self._blocks())

    def chances(self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]]) -> list[Chances]:
        """Return what target and draft think of texts, as :class:`~pytest_specgate.engines.base.ChanceScorer` says."""
        from pytest_specgate.engines.hf import fitting, shaping
        from pytest_specgate.engines.hf.failures import translated

        target = self._started()
        self._refuse_processed(target, drawn=True)
        speaker = shaping.Speaker(self._name, target)
        draft = self._draft.model if self._draft else None
        whom = fitting.whom(target.model, draft, self._context.spec.candidate, self._reading())
        with translated(self._name, "scoring failed"):
            asked = [(request, self._prompt_ids(request, target)) for request in requests]
            return fitting.chances(whom, fitting.drawn(asked, texts, speaker), self._name)

    def encode(self, text: str) -> tuple[int, ...]:
        """Return a text's ids, nothing added."""
        return tuple(self._started().tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, special tokens left out."""
        return str(self._started().tokenizer.decode(list(ids), skip_special_tokens=True))

    def _reading(self) -> Readers:
        from pytest_specgate.engines.hf.reading import Readers

        if self._readers is None:
            self._readers = Readers()
        return self._readers

    # --- facts -------------------------------------------------------------------------------------------

    def place(self) -> Place:
        """Return the GPU's or processor's name, how many of it, and the target's dtype."""
        from pytest_specgate.engines.hf.facts import dtype_name
        from pytest_specgate.engines.hf.machine import place_of

        return place_of(self._device, dtype_name(self._started().model.dtype))

    def workload(self) -> Mapping[str, str]:
        """Return hashes of the target's weights and of its tokenizer."""
        from pytest_specgate.engines.hf import facts

        return facts.workload(self._started())

    def _started(self) -> Loaded:
        if self._target is None:
            raise EngineError(self._name, "the engine is not started", "call start() before, and not after close()")
        return self._target
