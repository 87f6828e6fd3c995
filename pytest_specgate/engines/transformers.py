"""The ``transformers`` engine: both arms through ``generate``, rounds watched from its candidate generator.

transformers speculates on one request at a time. Times start when the tokenised prompt is handed to ``generate`` and
are read when accepted tokens are on the host. Output ids include the end-of-sequence token where one was emitted.
"""

from __future__ import annotations

import platform
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.threads import tame_spinning
from pytest_specgate.errors import EngineError
from pytest_specgate.records import Arm, Capability, MemoryReading, Place, Request, Trace


class TransformersEngine:
    """The engine protocol over Hugging Face transformers."""

    capabilities: frozenset[Capability] = frozenset({Capability.ROUNDS, Capability.SEEDS})

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._target: Any = None
        self._draft: Any = None
        self._device = ""
        self._candidate_arguments: dict[str, Any] = {}

    # --- life ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Load target and draft; refuse pairs that cannot work, before anything is timed."""
        tame_spinning()
        import torch

        from pytest_specgate.engines.hf import loading, rounds

        spec = self._context.spec
        if not spec.target:
            raise EngineError(self._context.name, "no target model", "add 'target: ...' to the engine in the suite")
        if spec.threads:
            torch.set_num_threads(spec.threads)
        self._device = loading.device_for(self._context)
        dtype = loading.dtype_for(self._context, self._device)
        self._target = loading.load(self._context, spec.target, dtype, self._device)
        if self._target.tokenizer is None or not self._target.tokenizer.chat_template:
            hint = "use an instruction-tuned model, or save a chat template with its tokenizer"
            raise EngineError(self._context.name, "the target has no tokenizer with a chat template", hint)
        rounds.check_hook(self._target.model, self._context.name)
        if Arm.CANDIDATE in self._context.arms:
            self._start_candidate(dtype)

    def _start_candidate(self, dtype: Any) -> None:
        from pytest_specgate.engines.hf import loading, methods

        candidate = self._context.spec.candidate
        if candidate is None:
            raise EngineError(self._context.name, "no candidate", "add 'candidate: {method: ...}' to the engine in the suite")
        if candidate.draft:
            draft_dtype = self._draft_dtype(dtype)
            self._draft = loading.load(self._context, candidate.draft, draft_dtype, self._device)
            self._refuse_mixed_precision(candidate.allow_mixed_precision)
        parts = methods.Parts(
            self._context.name,
            self._target.model,
            self._target.tokenizer,
            self._draft.model if self._draft else None,
            self._draft.tokenizer if self._draft else None,
        )
        self._candidate_arguments = methods.arguments(candidate, parts)

    def _draft_dtype(self, dtype: Any) -> Any:
        import torch

        candidate = self._context.spec.candidate
        name = candidate.dtype if candidate else None
        if name is None:
            return dtype
        chosen = getattr(torch, name, None)
        if not isinstance(chosen, torch.dtype):
            raise EngineError(self._context.name, f"unknown dtype {name!r} of the draft", "use float32, bfloat16 or float16")
        return chosen

    def _refuse_mixed_precision(self, allowed: bool) -> None:
        target, draft = self._target.model.dtype, self._draft.model.dtype
        if target != draft and not allowed:
            what = f"target in {_short(target)} and draft in {_short(draft)}: a speed-up would compare two precisions"
            raise EngineError(self._context.name, what, "use one dtype, or set candidate: {allow_mixed_precision: true}")

    def check(self, concurrency: int, greedy: bool) -> None:
        """transformers refuses a batch with an assistant, for every method."""
        if concurrency > 1:
            what = f"concurrency {concurrency}: assisted generation in transformers runs one request at a time"
            raise EngineError(self._context.name, what, "use concurrency: [1], or an engine that batches")

    def close(self) -> None:
        """Drop both models."""
        from pytest_specgate.engines.hf.loading import _empty_caches

        if self._target is not None:
            self._target = self._draft = None
            self._candidate_arguments = {}
            _empty_caches()

    # --- work ---------------------------------------------------------------------------------------------------

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        """One trace per request, one after the other."""
        from pytest_specgate.engines.hf.loading import translated

        traces = []
        for request in requests:
            with translated(self._context.name, f"{request.prompt}: {arm.value} arm failed"):
                traces.append(self._generate(request, arm))
        return traces

    def _generate(self, request: Request, arm: Arm) -> Trace:
        import torch

        from pytest_specgate.engines.hf.generation import run

        inputs = self._encode(request)
        torch.manual_seed(zlib.crc32(f"{request.sampling.seed}:{request.prompt}".encode()))
        extra = self._candidate_arguments if arm is Arm.CANDIDATE else {}
        return run(self._target, inputs, request, arm, extra)

    def _encode(self, request: Request) -> Any:
        tokenizer = self._target.tokenizer
        messages = [{"role": m.role, "content": m.content} for m in request.messages]
        inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        window = getattr(self._target.model.config.get_text_config(), "max_position_embeddings", None)
        length = inputs["input_ids"].shape[1]
        if window is not None and length + request.max_tokens > window:
            what = f"{request.prompt}: {length} prompt tokens and {request.max_tokens} to generate exceed the window of {window}"
            raise EngineError(self._context.name, what, "lower max_tokens or shorten the prompt")
        return inputs.to(self._target.model.device)

    # --- facts --------------------------------------------------------------------------------------------------

    def memory(self, arms: Sequence[Arm]) -> MemoryReading:
        """Weights by model; allocator peaks on a GPU. The caller adds what the operating system knows."""
        import torch

        cuda = self._device.startswith("cuda")
        return MemoryReading(
            max_allocated=torch.cuda.max_memory_allocated() if cuda else None,
            max_reserved=torch.cuda.max_memory_reserved() if cuda else None,
            weights_target=self._target.model.get_memory_footprint(),
            weights_draft=self._draft.model.get_memory_footprint() if self._draft else None,
        )

    def place(self) -> Place:
        """The GPU's or CPU's model name, how many of it, and the target's dtype."""
        import torch

        from pytest_specgate.engines.hf.machine import cpu_cores, cpu_model

        dtype = _short(self._target.model.dtype)
        if self._device.startswith("cuda"):
            return Place(torch.cuda.get_device_name(), 1, dtype)
        return Place(cpu_model(), cpu_cores(), dtype)

    def workload(self) -> Mapping[str, str]:
        """Content of the target's weights and of its tokenizer."""
        from pytest_specgate.engines.hf.loading import tokenizer_hash

        return {"target": self._target.content, "tokenizer": tokenizer_hash(self._target.tokenizer)}

    def subject(self) -> Mapping[str, str]:
        """Versions, draft, method and its parameters."""
        import torch
        import transformers

        candidate = self._context.spec.candidate
        facts = {
            "engine": "transformers",
            "transformers": transformers.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "device": self._device,
            "threads": str(torch.get_num_threads()),
            "attention": str(self._target.model.config._attn_implementation),  # noqa: SLF001 - no public name for it
        }
        if torch.version.cuda:
            facts["cuda"] = torch.version.cuda
        if candidate:
            facts["method"] = candidate.method.value
            facts["k"] = str(candidate.num_draft_tokens)
        if self._draft:
            facts["draft"] = self._draft.content
        return facts


def _short(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
