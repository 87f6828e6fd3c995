"""What an engine over servers says of texts: their token ids, scores and chances, and prompts as ids."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from pytest_specgate.chances import Chances
from pytest_specgate.engines.serving.failures import Failure
from pytest_specgate.engines.serving.outside import Outside
from pytest_specgate.errors import EngineError
from pytest_specgate.logits import Scores
from pytest_specgate.records import Arm, Bounds, Request, Trace

if TYPE_CHECKING:
    from pytest_specgate.engines.serving.tokens import Tokens

#: Tokens that a server drafts at once as far as it does not tell: what requests at the edge are made for.
LIKELY_DRAFT = 4


class ServedTexts(ABC):
    """The part of the engine that judges texts, on an :class:`Outside`; whose servers they are is the engine's part."""

    _outside: Outside | None
    _name: str

    @abstractmethod
    def _server(self, arm: Arm) -> Any:
        """The arm's server, running."""

    @abstractmethod
    def _telling(self, arm: Arm, url: str) -> AbstractContextManager[None]:
        """Tell what fails meanwhile in the engine's name, with the server's."""

    def identify(self, requests: Sequence[Request], traces: Sequence[Trace]) -> list[Trace]:
        """Return the traces with their token ids. Raises EngineError where they cannot be known."""
        with self._about_texts(traces[0].arm if traces else Arm.REFERENCE) as outside:
            return outside.identify(requests, traces)

    def score(
        self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]], width: int | None = None
    ) -> list[Scores]:
        """Return what the scorer that the suite names thinks of texts, or the reference server. Raises EngineError."""
        if width is not None:
            raise EngineError(self._name, "a server's forwards have the width that it likes", "score texts whole")
        with self._about_texts() as outside:
            return outside.score(requests, texts)

    def chances(self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]]) -> list[Chances]:
        """Return the same of drawn texts. Raises EngineError."""
        with self._about_texts() as outside:
            return outside.chances(requests, texts)

    @property
    def shapes(self) -> bool:
        """Whether scores follow what a request does to them."""
        return self._outside is not None and self._outside.shapes

    def bounds(self) -> Bounds:
        """Return what the reference server says of its window; vocabulary and end of text are seldom told."""
        server = self._server(Arm.REFERENCE)
        window = server.dialect.window(server.probe, server.model)
        return Bounds(vocabulary=0, eos=(), draft_tokens=LIKELY_DRAFT, window=window)

    def encode(self, text: str) -> tuple[int, ...]:
        """Return a text's ids, nothing added. Raises EngineError."""
        with self._about_texts() as outside:
            return _tokens(outside).encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids. Raises EngineError."""
        with self._about_texts() as outside:
            return _tokens(outside).decode(ids)

    @contextmanager
    def _about_texts(self, arm: Arm = Arm.REFERENCE) -> Iterator[Outside]:
        if self._outside is None:
            raise EngineError(self._name, "the engine is not started", "call start() before, and not after close()")
        with self._telling(arm, self._server(arm).url):
            yield self._outside


def _tokens(outside: Outside) -> Tokens:
    tokens = outside.tokens()
    if tokens is None:
        raise Failure("tells nothing of its tokens", "name the servers' 'tokenizer' in the suite")
    return tokens
