"""The ``transformers`` engine: both arms through ``generate``, rounds watched from its candidate generator.

transformers speculates on one request at a time. A request's random numbers are seeded by its sampling seed
and its prompt's name, so every prompt draws its own and a rerun draws the same. Importing this module loads
no torch.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_specgate.engines.base import EngineContext, Timed, seed_of
from pytest_specgate.engines.hf.holding import HoldsModels
from pytest_specgate.engines.threads import tame_spinning
from pytest_specgate.errors import EngineError
from pytest_specgate.records import Arm, Bounds, Capability, MemoryReading, Request, Trace
from pytest_specgate.suite.model import Method

if TYPE_CHECKING:
    from pytest_specgate.engines.hf.loading import Loaded
    from pytest_specgate.engines.hf.methods import Plan

_log = logging.getLogger("pytest_specgate")


class TransformersEngine(HoldsModels):
    """The engine protocol over Hugging Face transformers."""

    capabilities: frozenset[Capability] = frozenset(
        {
            *(Capability.ROUNDS, Capability.SEEDS, Capability.STREAMING, Capability.LOGITS, Capability.TOKENS),
            *(Capability.CHOICES, Capability.LOGPROBS, Capability.CANCEL),
        }
    )

    def __init__(self, context: EngineContext) -> None:
        super().__init__(context)
        self._plan: Plan | None = None
        self._kv_cache: int | None = None
        self._pruned = False

    # --- life --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Load target and draft; refuse pairs that cannot work, before anything is timed."""
        if warning := tame_spinning():
            _log.warning("%s", warning)
        from pytest_specgate.engines.hf import facts, rounds

        placed = facts.load_target(self._context)
        self._target, self._device = placed.target, placed.device
        rounds.check_hook(self._target.model, self._name)
        if Arm.CANDIDATE in self._context.arms:
            self._start_candidate(self._target, placed.dtype)

    def _start_candidate(self, target: Loaded, dtype: Any) -> None:
        from pytest_specgate.engines.hf import facts, loading, machine, methods

        candidate = self._context.spec.candidate
        if candidate is None:
            hint = "add 'candidate: {method: ...}' to the engine in the suite"
            raise EngineError(self._name, "no candidate", hint)
        if candidate.draft:
            draft_dtype = machine.draft_dtype_for(self._context, dtype)
            draft = loading.load(self._context, candidate.draft, draft_dtype, self._device)
            self._draft = draft
            facts.refuse_mixed_precision(self._name, candidate, target, draft)
        parts = methods.Parts(
            self._name,
            target.model,
            target.tokenizer,
            self._draft.model if self._draft else None,
            self._draft.tokenizer if self._draft else None,
        )
        self._plan = methods.plan(candidate, parts)

    def check(self, concurrency: int, greedy: bool) -> None:  # noqa: ARG002 - part of the protocol
        """Refuse a batch, as transformers does for every method."""
        if concurrency > 1:
            what = f"concurrency {concurrency}: assisted generation in transformers runs one request at a time"
            raise EngineError(self._name, what, "use concurrency: [1], or another engine")

    def close(self) -> None:
        """Drop both models."""
        if self._target is None:
            return
        from pytest_specgate.engines.hf.facts import is_large
        from pytest_specgate.engines.hf.failures import empty_caches

        large = is_large(self._target, self._device)
        self._target = self._draft = self._plan = self._readers = None
        if large:
            empty_caches()

    # --- work --------------------------------------------------------------------------------------------

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        """Return one trace per request and answer, run one after the other. Raises EngineError, OutOfMemory.

        So are several answers to one request: assisted generation refuses ``num_return_sequences``.
        """
        from pytest_specgate.engines.hf.failures import translated

        traces = []
        for request in requests:
            with translated(self._name, f"{request.prompt}: {arm.value} arm failed"):
                traces += [self._generate(request, arm, choice) for choice in range(request.n)]
        return traces

    def _generate(self, request: Request, arm: Arm, choice: int) -> Trace:
        import torch

        from pytest_specgate.engines.hf import facts
        from pytest_specgate.engines.hf.generation import run
        from pytest_specgate.engines.hf.shaping import Speaker, refuse_unwritable

        target = self._started()
        if arm is Arm.CANDIDATE and self._plan is None:
            raise EngineError(self._name, "the candidate arm was not prepared", "name it in the context's arms")
        if arm is Arm.CANDIDATE:
            self._refuse_pruned_draft(request)
        inputs = self._encode(request, target)
        torch.manual_seed(seed_of(request, choice))
        extra = self._plan.arguments if self._plan and arm is Arm.CANDIDATE else {}
        speaker = Speaker(self._name, target)
        made = run(speaker, inputs, request, extra)
        if arm is Arm.CANDIDATE and not made.trace.rounds:
            what = f"{request.prompt}: transformers generated without asking for a draft"
            raise EngineError(self._name, what, "remove what switches speculation off from candidate: options")
        if facts.is_read(self._context.spec, arm):
            refuse_unwritable(request, made.trace.token_ids, speaker)
        if made.kv_cache is not None:
            self._kv_cache = max(self._kv_cache or 0, made.kv_cache)
        return made.trace

    def time_forwards(
        self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]], widths: Sequence[int], repeats: int
    ) -> Timed | None:
        """Return what each part of a round takes, as :class:`~pytest_specgate.engines.base.ForwardTimer` says."""
        from pytest_specgate.engines.hf import costs
        from pytest_specgate.engines.hf.failures import translated

        target, candidate = self._started(), self._context.spec.candidate
        if candidate is None or candidate.method not in costs.TOLD or len(requests) > 1:
            return None
        with translated(self._name, "timing forwards failed"):
            known = [*self._prompt_ids(requests[0], target), *texts[0]]
            by_width = {width: costs.block_after(target.model, known, width) for width in widths}
            draft = None if self._draft is None else costs.block_after(self._draft.model, known, 1)
            if candidate.exit_layer is not None:
                draft = costs.shallow(target.model, candidate.exit_layer, costs.block_after(target.model, known, 1))
            return costs.in_turn(by_width, draft, repeats, target.model.device)

    def _refuse_pruned_draft(self, request: Request) -> None:
        """For sampling with two vocabularies transformers cuts the draft's head down, in place and for good."""
        candidate = self._context.spec.candidate
        if candidate is None or candidate.method is not Method.UNIVERSAL:
            return
        if request.sampling.greedy and self._pruned:
            what = f"{request.prompt}: sampling has pruned the draft, which can decode greedily no more"
            raise EngineError(self._name, what, "give greedy and sampled scenarios an engine each")
        self._pruned = self._pruned or not request.sampling.greedy

    def _encode(self, request: Request, target: Loaded) -> dict[str, Any]:
        import torch

        from pytest_specgate.engines.hf.shaping import Speaker, prompt_ids

        ids = torch.tensor([prompt_ids(request, Speaker(self._name, target))], device=target.model.device)
        window = getattr(target.model.config.get_text_config(), "max_position_embeddings", None)
        length = ids.shape[1]
        if window is not None and length + request.max_tokens > window:
            asked = f"{length} prompt tokens and {request.max_tokens} to generate"
            what = f"{request.prompt}: {asked} exceed the window of {window}"
            raise EngineError(self._name, what, "lower max_tokens or shorten the prompt")
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def _prompt_ids(self, request: Request, target: Loaded) -> tuple[int, ...]:
        return tuple(self._encode(request, target)["input_ids"][0].tolist())

    def _refuse_processed(self, target: Loaded, *, drawn: bool) -> None:
        from pytest_specgate.engines.hf import scoring

        scoring.refuse_processed(target.model, self._name, drawn=drawn)

    def bounds(self) -> Bounds:
        """Return vocabulary, windows and draft length."""
        from pytest_specgate.engines.hf import facts

        return facts.bounds(self._name, self._started(), self._draft, self._plan.draft_tokens if self._plan else 0)

    # --- facts -------------------------------------------------------------------------------------------

    def memory(self, arms: Sequence[Arm]) -> MemoryReading:
        """Return weights by model and the largest key-value cache of the target; on a GPU, its peaks too.

        What the operating system knows of the process is left to the caller.
        """
        from pytest_specgate.engines.hf import facts

        draft = self._draft if Arm.CANDIDATE in arms else None
        return facts.memory(self._device, self._started(), draft, self._kv_cache)

    def subject(self) -> Mapping[str, str]:
        """Return versions, threads and settings, and the candidate: what a gate judges."""
        from pytest_specgate.engines.hf import facts

        found = facts.subject("transformers", self._device, self._started(), self._context.spec)
        if self._plan is None:
            return found
        return found | facts.candidate(self._context.spec, self._plan.draft_tokens, self._draft)
