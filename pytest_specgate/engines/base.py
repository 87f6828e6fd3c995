"""The seam between specgate and whatever generates tokens.

An engine is an adapter for one set-up: the target alone (reference arm) and with speculation (candidate
arm). One small class makes a user's own decoder gateable: name it ``"my_package.decoder:Mine"`` in a suite,
or register it in the entry-point group ``specgate.engines``.
"""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from pytest_specgate.chances import Chances
from pytest_specgate.logits import Scores
from pytest_specgate.records import Arm, Bounds, Capability, MemoryReading, Place, Request, Trace
from pytest_specgate.suite.model import EngineSpec

#: How the ``device`` of an engine's subject begins where its decoders are servers: their hosts follow, joined by ``+``.
SERVER_DEVICE = "server "


@dataclass(frozen=True, slots=True)
class EngineContext:
    """What an engine is built from.

    ``name`` is the engine's key in the suite, for messages; ``folder`` is where relative model paths start;
    ``device`` overrides the suite's where it is not None; ``allow_remote_code`` and ``allow_pickle`` are what
    a person said on the command line. ``arms`` are those to prepare: a memory pass prepares one, so that a
    reference arm does not load the draft. ``scorer`` is what scores a server's texts, None for the server itself.
    """

    name: str
    spec: EngineSpec
    folder: Path
    device: str | None = None
    allow_remote_code: bool = False
    allow_pickle: bool = False
    arms: tuple[Arm, ...] = (Arm.REFERENCE, Arm.CANDIDATE)
    scorer: EngineSpec | None = None


@runtime_checkable
class Engine(Protocol):
    """Generates for both arms. Built from an :class:`EngineContext`; building is cheap, ``start`` loads."""

    capabilities: frozenset[Capability]

    def start(self) -> None:
        """Load what both arms need; called once. Raises EngineError."""

    def check(self, concurrency: int, greedy: bool) -> None:
        """Raise EngineError if this engine cannot run such a case, before anything is timed."""

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        """Run all requests at once, as many as the case's concurrency: one trace each, in order, n for one with ``n``.

        Raises EngineError, OutOfMemory; after either the engine can still be used.
        """

    def memory(self, arms: Sequence[Arm]) -> MemoryReading:
        """Return what the engine itself knows of the memory that this process used so far for these arms."""

    def place(self) -> Place:
        """Return device, count and dtype."""

    def workload(self) -> Mapping[str, str]:
        """Return content hashes of the target model and tokenizer."""

    def subject(self) -> Mapping[str, str]:
        """Return versions, flags, draft: what is being judged."""

    def close(self) -> None:
        """Free everything; may be called twice."""


@runtime_checkable
class Queues(Protocol):
    """What an engine with :attr:`Capability.QUEUE` can do besides: have requests wait for the place of others."""

    def serve(self, requests: Sequence[Request], arm: Arm, slots: int) -> list[Trace]:
        """Run all requests, ``slots`` at once: one trace each, in order, as :meth:`Engine.generate` returns them.

        They enter in order, the next one as soon as one that runs has ended; it is submitted then, so that waiting is
        no part of its times. Raises EngineError, OutOfMemory; after either the engine can still be used.
        """


@runtime_checkable
class Alternating(Protocol):
    """What an engine has besides whose arms may be too large to be up together."""

    apart: bool

    def begin(self, arm: Arm) -> None:
        """Where the arms are apart: have this one alone up, started anew. Raises EngineError."""


@runtime_checkable
class Watches(Protocol):
    """What an engine can do whose arms are processes beside ours, servers among them: look at them where they are."""

    def watch(self, blocks: Sequence[Sequence[Request]], arm: Arm, soak: int = 0) -> MemoryReading:
        """Run the blocks one after the other, untimed, and tell the arm's memory and how full it was meanwhile.

        Then run the first one ``soak`` times, and tell what is held after each. What cannot be looked at is None, and
        ``untold`` says why. Raises EngineError where the requests fail.
        """


@runtime_checkable
class Crowds(Protocol):
    """What an engine can do whose arms take any number of requests, and let wait what does not fit."""

    def crowd(self, requests: Sequence[Request], arm: Arm) -> float | None:
        """Run them all at once and to their full length, untimed; tokens per second of all together.

        None where some of them waited, or were put back. Raises TurnedAway where some were refused as too many, and
        EngineError where they fail, or where that cannot be told.
        """


@runtime_checkable
class Occupies(Protocol):
    """What an engine can do whose device, as its subject has it, is not all of this machine that it takes."""

    def occupies(self) -> frozenset[str]:
        """Further devices that nobody else may time anything on meanwhile, as ``cuda:0``."""


@runtime_checkable
class Foresees(Protocol):
    """What an engine can do that knows beforehand which requests it cannot run."""

    def refuse(self, requests: Sequence[Request]) -> None:
        """Raise EngineError for the first of them that cannot be run, before anything is timed."""


@runtime_checkable
class Drains(Protocol):
    """What an engine can do that keeps memory for later requests: give it back."""

    def drain(self) -> None:
        """Let go of caches and buffers; the next call makes them anew."""


@runtime_checkable
class Scorer(Protocol):
    """What an engine with :attr:`Capability.LOGITS` can do besides: say what its target thinks of a text."""

    def score(
        self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]], width: int | None = None
    ) -> list[Scores]:
        """Return the target's logits on each text, as answer to the request at the same place, in order.

        The texts (none is empty) are teacher-forced through the target alone. ``width`` is how many output tokens
        one forward reads, a text at a time on its cache: 1 is as plain decoding reads, k+1 as verification does.
        None leaves it to the engine, which batches for speed. Raises EngineError, OutOfMemory.
        """


@runtime_checkable
class ChanceScorer(Protocol):
    """What an engine with :attr:`Capability.LOGITS` may do besides: say what target and draft think of drawn texts."""

    def chances(self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]]) -> list[Chances]:
        """Return the chances of each text's tokens, as drawn for the request at the same place, in order.

        The texts (none is empty) are teacher-forced; chances are those after all that the request does to them:
        temperature, filters, penalties. Raises EngineError, OutOfMemory.
        """


@runtime_checkable
class FromOutside(Protocol):
    """What an engine has besides that is a scorer and not the decoder itself: a server's texts are scored elsewhere.

    Its scorer reads texts whole, and its arithmetic need not be that which chose the tokens. ``shapes`` is whether
    scores follow what a request does to them: penalties, biases, bans.
    """

    shapes: bool

    def identify(self, requests: Sequence[Request], traces: Sequence[Trace]) -> list[Trace]:
        """The traces with their token ids, where a server told texts alone.

        Raises EngineError where what was emitted cannot be known.
        """


@runtime_checkable
class Tokenized(Protocol):
    """What an engine with :attr:`Capability.TOKENS` can do besides: take prompts as ids, and say what bounds them."""

    def bounds(self) -> Bounds:
        """Return vocabulary, windows and draft length. Raises EngineError where the engine is not started."""

    def encode(self, text: str) -> tuple[int, ...]:
        """Return a text's ids, nothing added."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, special tokens left out."""


def seed_of(request: Request, choice: int = 0) -> int:
    """The seed of an answer's random numbers, made its own by the prompt's name and, of several answers, its place.

    It is new each time where none is given.
    """
    if request.sampling.seed is None:
        return secrets.randbits(32)
    of_several = f":{choice}" if choice else ""
    return zlib.crc32(f"{request.sampling.seed}:{request.prompt}{of_several}".encode())


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds of forwards that ran in turn: of the target by width, and of the draft, None where it takes none."""

    target: Mapping[int, tuple[float, ...]]
    draft: tuple[float, ...] | None


@runtime_checkable
class ForwardTimer(Protocol):
    """What an engine can do besides: run single forwards, so that each part of a round is known by itself."""

    def time_forwards(
        self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]], widths: Sequence[int], repeats: int
    ) -> Timed | None:
        """Time forwards after the requests' prompts and the beginnings of their answers, all read as one batch.

        In each repetition the target reads as many tokens a request as each of ``widths`` says, and the draft reads
        one, as the candidate arm does; the device is synchronised around each, and the context does not grow. Returns
        None where the method's parts cannot be run alone. Raises EngineError, OutOfMemory.
        """
