"""What is asked of the decoder, and what comes back: one :class:`Job` in, one :class:`Generation` out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_specgate.decoding.meter import Totals
from pytest_specgate.decoding.stop import StopRule
from pytest_specgate.records import Chunk, Round

if TYPE_CHECKING:
    from pytest_specgate.decoding.processors import Processor


@dataclass(frozen=True, slots=True)
class Job:
    """One text to continue by at most ``max_tokens``.

    ``processors`` reshape the scores before a token is chosen, at every position of a block; ``greedy`` takes the best
    of what they leave, else it is drawn with random numbers that depend on ``seed`` and position alone: never on what
    else runs, nor on how the tokens fall into rounds. ``logprobs`` asks what the target gives each token, in
    logarithms of its chances under the processed scores. Once ``cancel_after`` tokens are made nobody waits for more.
    """

    prompt: tuple[int, ...]
    max_tokens: int
    stop: StopRule = field(default_factory=StopRule)
    greedy: bool = True
    processors: tuple[Processor, ...] = ()
    seed: int = 0
    logprobs: bool = False
    cancel_after: int | None = None

    def __post_init__(self) -> None:
        if not self.prompt or self.max_tokens < 1:
            raise ValueError("a job has a prompt and at least one token to make")


@dataclass(slots=True)
class Row:
    """A job in progress: ``tokens`` are its prompt and its output; the target's cache holds all but the last.

    ``submit_ns`` is when it got its slot; ``before`` and ``totals`` are the meter's then, and when the last token was
    there.
    """

    number: int
    job: Job
    tokens: list[int]
    rounds: list[Round] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    finish: str = ""
    submit_ns: int = 0
    before: Totals | None = None
    totals: Totals | None = None
    logs: list[float] = field(default_factory=list)

    @property
    def output(self) -> list[int]:
        """What was made so far."""
        return self.tokens[len(self.job.prompt) :]

    @property
    def left(self) -> int:
        """How many tokens may still be made."""
        return len(self.job.prompt) + self.job.max_tokens - len(self.tokens)

    @property
    def deserted(self) -> bool:
        """Whether the caller has gone, and only the round that is under way remains to be thrown away."""
        after = self.job.cancel_after
        return after is not None and len(self.output) >= after

    def take(self, block: Sequence[int], now_ns: int, logs: Sequence[float] = ()) -> int:
        """Append a verified block as far as the stop rule lets it; return how many tokens that was."""
        kept, self.finish = self.job.stop.cut(self.output, block, self.left)
        self.tokens.extend(block[:kept])
        self.logs.extend(logs[:kept])
        self.chunks.append(Chunk(now_ns, kept))
        return kept


@dataclass(frozen=True, slots=True)
class Generation:
    """What a job became. The first token comes from the prompt's own forward, the others from ``rounds``.

    ``finish`` is ``eos``, ``stop``, ``length`` or ``cancelled``. ``submit_ns`` is when it got its slot: as the run
    began, or when another job had left. ``spent`` is what the loop did from then to the last token; ``logprobs`` has
    one entry a token where the job asks.
    """

    tokens: tuple[int, ...]
    finish: str
    submit_ns: int
    chunks: tuple[Chunk, ...]
    rounds: tuple[Round, ...]
    spent: Totals
    logprobs: tuple[float, ...] | None = None
