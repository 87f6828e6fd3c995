"""A request as a job for specgate's own decoder, and what became of it as a trace."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_specgate.decoding.job import Generation, Job
from pytest_specgate.decoding.meter import PHASES, Totals
from pytest_specgate.decoding.stop import StopRule
from pytest_specgate.engines.base import seed_of
from pytest_specgate.engines.hf.loading import Loaded
from pytest_specgate.engines.hf.shaping import Speaker, ends, processors, stop_strings
from pytest_specgate.records import Arm, Request, Spent, Trace


def job(request: Request, prompt: tuple[int, ...], speaker: Speaker, choice: int = 0) -> Job:
    """What the decoder is asked for, of the answers to a request by its place.

    Random numbers depend on the sampling's seed, the prompt's name and that place alone.

    Raises EngineError for what the target cannot know.
    """
    target = speaker.target

    def decode(ids: Sequence[int]) -> str:
        return str(target.tokenizer.decode(ids, skip_special_tokens=True))

    eos = frozenset(ends(request, speaker))
    return Job(
        prompt=prompt,
        max_tokens=request.max_tokens,
        stop=StopRule(eos, stop_strings(request, speaker), decode),
        greedy=request.sampling.greedy,
        processors=processors(request, speaker),
        seed=seed_of(request, choice),
        logprobs=request.logprobs,
        cancel_after=request.cancel_after,
    )


def each_answer(request: Request, prompt: tuple[int, ...], speaker: Speaker) -> list[tuple[Request, Job]]:
    """The request once for each answer that it asks for, with that one's job. Raises EngineError."""
    return [(request, job(request, prompt, speaker, choice)) for choice in range(request.n)]


def trace(request: Request, asked: Job, made: Generation, arm: Arm, target: Loaded) -> Trace:
    """The trace of one request; what its loop spent is left to :func:`spent`."""
    return Trace(
        prompt=request.prompt,
        arm=arm,
        token_ids=made.tokens,
        text=target.tokenizer.decode(made.tokens, skip_special_tokens=True),
        prompt_tokens=len(asked.prompt),
        submit_ns=made.submit_ns,
        chunks=made.chunks,
        finish=made.finish,
        rounds=made.rounds if arm is Arm.CANDIDATE else None,
        prefill_tokens=1,
        usage_tokens=1 + sum(r.emitted for r in made.rounds),
        max_tokens=request.max_tokens,
        eos_ids=tuple(sorted(asked.stop.eos)),
        logprobs=made.logprobs,
    )


def spent(totals: Totals, tokens: int, bytes_per_token: tuple[int, int]) -> Spent:
    """What the loop counted, with the caches' part of a text of so many tokens: the target's and the drafter's."""
    ns = {f"{phase}_ns": count for phase, count in zip(PHASES, totals.ns)}
    target, draft = (each * tokens for each in bytes_per_token)
    return Spent(totals.rounds, totals.rows, totals.slots, **ns, cache_bytes=target + draft, draft_cache_bytes=draft)
