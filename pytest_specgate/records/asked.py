"""What goes into an engine: arms, requests, and how their tokens are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Arm(str, Enum):
    """The target alone, or the target with speculation."""

    REFERENCE = "reference"
    CANDIDATE = "candidate"


class Capability(str, Enum):
    """What an engine declares that it can do; a gate or case that needs more is an error, not a zero."""

    ROUNDS = "rounds"
    BATCH = "batch"
    SEEDS = "seeds"
    LOGITS = "logits"
    STREAMING = "streaming"
    TOKENS = "tokens"
    ARRIVALS = "arrivals"
    CHOICES = "choices"
    LOGPROBS = "logprobs"
    CANCEL = "cancel"
    QUEUE = "queue"


@dataclass(frozen=True, slots=True)
class Bias:
    """What is added to the score of one token id."""

    token: int
    value: float


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is chosen. ``temperature == 0`` is greedy; ``top_k == 0`` and ``top_p == 1`` switch a filter off.

    What reshapes scores acts on greedy choices too. ``repetition_penalty`` divides (prompt and output; None is the
    checkpoint's own), ``frequency_penalty`` and ``presence_penalty`` subtract (output alone), ``logit_bias`` adds to
    token ids. ``min_tokens`` bars the end-of-text tokens, and no stop string, before so many tokens. ``bad_words`` are
    texts whose tokens may not be completed. ``seed`` None lets the engine draw as it likes, anew for each request.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = 0
    name: str = ""
    min_p: float = 0.0
    repetition_penalty: float | None = None
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: tuple[Bias, ...] = ()
    min_tokens: int = 0
    bad_words: tuple[str, ...] = ()

    @property
    def greedy(self) -> bool:
        """Whether the next token is the most likely one, so that equal software gives equal text."""
        return self.temperature == 0.0

    @property
    def label(self) -> str:
        """Short and unique within a scenario: its given name, else ``t0``, ``t0.7``."""
        return self.name or f"t{self.temperature:g}"


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message; ``role`` is ``system``, ``user`` or ``assistant``."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Request:
    """One generation to run. ``prompt`` names the turn (``chat-01/2``) and is the unit of pairing.

    ``token_ids`` are the whole prompt, in place of messages (:attr:`Capability.TOKENS`). ``stop_ids`` end the text as
    its end-of-text tokens do, and stay in force under ``ignore_eos``. ``after`` is when it comes, in seconds from the
    call that hands it over (:attr:`Capability.ARRIVALS`; else it is 0).

    ``n`` answers are asked for (:attr:`Capability.CHOICES`; else it is 1), each drawn anew and returned as a trace of
    its own, one after the other in this request's place. ``logprobs`` asks for :attr:`Trace.logprobs`
    (:attr:`Capability.LOGPROBS`). Once ``cancel_after`` tokens have reached the caller it goes away, while the next
    round is under way: what that makes reaches nobody, and the trace's ``finish`` is ``cancelled``
    (:attr:`Capability.CANCEL`).
    """

    prompt: str
    messages: tuple[Message, ...]
    max_tokens: int
    sampling: Sampling
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    token_ids: tuple[int, ...] | None = None
    stop_ids: tuple[int, ...] = ()
    after: float = 0.0
    n: int = 1
    logprobs: bool = False
    cancel_after: int | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """What an engine that takes token ids says of its models: what requests at the edge are made from.

    ``eos`` ends a text by itself; ``draft_tokens`` is k; windows are in tokens, None where there is no end of them (or
    no draft model); ``block`` is how many tokens its cache grows by, None where it has no such unit.
    """

    vocabulary: int
    eos: tuple[int, ...]
    draft_tokens: int
    window: int | None = None
    draft_window: int | None = None
    block: int | None = None
