"""What comes out of an engine: rounds, chunks, what was told of them, and one trace a generation."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_specgate.records.asked import Arm


@dataclass(frozen=True, slots=True)
class Round:
    """One target forward after prefill, as the engine counted it.

    ``drafted`` tokens were proposed, the target looked at ``tested`` of them and kept ``accepted``; ``emitted`` were
    appended to the output, the target's own token included; ``t_ns`` is when they were on the host. ``offered`` are the
    chances that the accept rule took each proposal to be drawn with: the declared q, empty where the engine does not
    tell or nothing was drawn.
    """

    drafted: int
    tested: int
    accepted: int
    emitted: int
    t_ns: int
    offered: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens that reached the caller at one instant."""

    t_ns: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Spent:
    """What an engine's loop did from a request's submission to its last token, counted from inside.

    The parts of its time add up to the trace's: ``prefill_ns`` reading prompts, then over all rounds ``draft_ns``
    making drafts, ``verify_ns`` in the target's forward, ``sample_ns`` choosing tokens and waiting for the device,
    ``host_ns`` the rest. ``rounds`` are target forwards after prefill, plain ones too; ``rows`` sums the requests that
    took part in each, ``slots`` those that there was room for. ``cache_bytes`` is what target and drafter held of this
    request's own tokens at its end, ``draft_cache_bytes`` the drafter's part of it.
    """

    rounds: int
    rows: int
    slots: int
    prefill_ns: int
    draft_ns: int
    verify_ns: int
    sample_ns: int
    host_ns: int
    cache_bytes: int
    draft_cache_bytes: int

    @property
    def occupancy(self) -> float | None:
        """Rows active ÷ rows there, over the rounds; None without a round."""
        return self.rows / self.slots if self.slots else None


@dataclass(frozen=True, slots=True)
class Counts:
    """Acceptance counters of one generation, the cut last round left out.

    ``rounds`` counts target forwards after prefill; ``drafts`` those of them that proposed something. Where rounds are
    not told one by one, the cut one is not left out, and what an engine's totals do not tell is None.
    """

    rounds: int | None
    drafts: int | None
    drafted: int | None
    tested: int | None
    accepted: int


@dataclass(frozen=True, slots=True)
class Told:
    """What a server told of one generation, or of the ``together`` generations that ran side by side.

    ``tokens`` counts the output where the server gives no token ids; ``counts`` are acceptance totals where it gives no
    rounds, and stand in one trace of those that ran together. ``foreign`` is how many requests of others its counters
    show meanwhile. ``cached`` are the prompt's tokens that its prefix cache held already, ``preempted`` is how often a
    request was put back for want of cache; where counters of all that ran together tell them, they stand in one trace
    and are 0 in the others. ``late`` is how many seconds after it came by the clock we sent the request, which are no
    part of its time; None where it came by none. ``window`` is how many tokens prompt and output may have together, as
    the server declares it, where a text ended for length before its budget; None else. ``notes`` are warnings.
    """

    tokens: int | None = None
    counts: Counts | None = None
    together: int = 1
    foreign: int | None = None
    notes: tuple[str, ...] = ()
    cached: int | None = None
    preempted: int | None = None
    late: float | None = None
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """One generation by one arm.

    ``rounds`` is None when the engine cannot tell rounds, and for a plain arm. ``prefill_tokens`` is the number of
    output tokens (0 or 1) that the prefill forward itself emitted. ``usage_tokens`` is the engine's own count of output
    tokens. ``finish`` is ``eos``, ``stop``, ``length`` or ``cancelled``. ``token_ids`` is empty where a server tells
    none; what it told instead stands in ``told``. ``spent`` is None where the engine does not look inside. ``logprobs``
    are what the engine says of its tokens: natural logs of their chances under the target, shaped as the request asks,
    of a greedy request as if drawn at temperature 1; None where it does not say.
    """

    prompt: str
    arm: Arm
    token_ids: tuple[int, ...]
    text: str
    prompt_tokens: int
    submit_ns: int
    chunks: tuple[Chunk, ...]
    finish: str
    rounds: tuple[Round, ...] | None = None
    prefill_tokens: int = 0
    usage_tokens: int | None = None
    max_tokens: int = 0
    eos_ids: tuple[int, ...] = ()
    spent: Spent | None = None
    told: Told | None = None
    logprobs: tuple[float, ...] | None = None

    @property
    def output_tokens(self) -> int:
        """Number of output tokens: of ids, or as the server counted them."""
        if not self.token_ids and self.told is not None:
            return self.told.tokens or 0
        return len(self.token_ids)

    @property
    def seconds(self) -> float:
        """Submission to the last token."""
        return (self.chunks[-1].t_ns - self.submit_ns) / 1e9

    @property
    def ttft_seconds(self) -> float:
        """Submission to the first output token."""
        return (self.chunks[0].t_ns - self.submit_ns) / 1e9
