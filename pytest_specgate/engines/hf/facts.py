"""What engines over transformers' models say of themselves, alike: target, versions, memory, and where they run."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import transformers

from pytest_specgate.decoding.drafters.base import Drafter
from pytest_specgate.decoding.network import Network
from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.hf import loading, machine, shapes, shaping
from pytest_specgate.engines.hf.failures import empty_caches
from pytest_specgate.engines.hf.loading import Loaded
from pytest_specgate.engines.hf.quantizing import size
from pytest_specgate.engines.hf.room import refuse_too_large
from pytest_specgate.errors import EngineError
from pytest_specgate.records import Arm, Bounds, MemoryReading
from pytest_specgate.suite.model import Candidate, EngineSpec

#: Bytes of weights from which on a model is worth looking for.
_LARGE = 1 << 26


@dataclass(frozen=True, slots=True)
class Placed:
    """A target that chats, on its device, in its dtype."""

    target: Loaded
    device: str
    dtype: Any


def load_target(context: EngineContext) -> Placed:
    """Load the suite's target where it runs, with the threads that it asks for. Raises EngineError, OutOfMemory."""
    spec = context.spec
    if not spec.target:
        raise EngineError(context.name, "no target model", "add 'target: ...' to the engine in the suite")
    if spec.threads:
        torch.set_num_threads(spec.threads)
    device = machine.device_for(context)
    dtype = machine.dtype_for(context, device)
    refuse_too_large(context, device, dtype)
    target = loading.load(context, spec.target, dtype, device)
    if target.tokenizer is None or not target.tokenizer.chat_template:
        hint = "use an instruction-tuned model, or save a chat template with its tokenizer"
        raise EngineError(context.name, "the target has no tokenizer with a chat template", hint)
    return Placed(target, device, dtype)


def is_read(spec: EngineSpec, arm: Arm) -> bool:
    """Whether an arm's text can mean anything: random weights, or tokens that were kept by lot, make none."""
    by_lot = arm is Arm.CANDIDATE and spec.candidate is not None and spec.candidate.acceptance is not None
    return not (by_lot or (spec.target or "").startswith(shapes.PREFIX))


def refuse_mixed_precision(engine: str, candidate: Candidate, target: Loaded, draft: Loaded) -> None:
    """Raise EngineError for arms in two precisions, unless the suite allows them: their ratio means nothing."""
    one, other = dtype_name(target.model.dtype), dtype_name(draft.model.dtype)
    if one != other and not candidate.allow_mixed_precision:
        what = f"target in {one} and draft in {other}: a speed-up would compare two precisions"
        raise EngineError(engine, what, "use one dtype, or set allow_mixed_precision: true")


def memory(
    device: str, target: Loaded, draft: Loaded | None, kv_cache: int | None, kv_cache_draft: int | None = None
) -> MemoryReading:
    """Weights by model and the caches; on a GPU, its peaks too. The process's own peak is left to the caller."""
    cuda = device.startswith("cuda")
    reserved = torch.cuda.max_memory_reserved(device) if cuda else None
    process = machine.process_vram(device) if cuda else None
    if process is not None and reserved is not None:
        # NVML tells what is held now, and the allocator has given some back: whenever graphs were recorded, for one.
        process += reserved - torch.cuda.memory_reserved(device)
    return MemoryReading(
        max_allocated=torch.cuda.max_memory_allocated(device) if cuda else None,
        max_reserved=reserved,
        max_process_vram=process,
        weights_target=size(target.model),
        weights_draft=size(draft.model) if draft else None,
        kv_cache=kv_cache,
        kv_cache_draft=kv_cache_draft,
    )


def forget_loading(device: str) -> None:
    """Give back to a GPU what loading held for a moment, and let its peaks begin anew: they are to be a run's."""
    if device.startswith("cuda"):
        empty_caches()
        torch.cuda.reset_peak_memory_stats(device)


def is_large(target: Loaded, device: str) -> bool:
    """Whether it is worth a tenth of a second and more to look for what the model leaves behind when it is dropped."""
    return device != "cpu" or size(target.model) >= _LARGE


def with_copies(read: MemoryReading, target: Network, drafter: Drafter | None) -> MemoryReading:
    """With the weights that the decoder's networks keep a second time, in a form that is read faster."""
    theirs = sum(network.copied_bytes for network in drafter.networks()) if drafter else 0
    weights = None if read.weights_draft is None else read.weights_draft + theirs
    return replace(read, weights_target=(read.weights_target or 0) + target.copied_bytes, weights_draft=weights)


def bounds(engine: str, target: Loaded, draft: Loaded | None, draft_tokens: int, block: int | None = None) -> Bounds:
    """What requests at the edge are made from. Ids beyond the tokenizer's are no part of the vocabulary.

    Raises EngineError for a tokenizer that knows more tokens than the target.
    """
    rows = int(target.model.config.get_text_config().vocab_size)
    if (tokens := len(target.tokenizer)) > rows:
        what = f"the target's tokenizer knows {tokens} tokens, and the target's vocabulary is smaller: {rows}"
        raise EngineError(engine, what, "use the tokenizer that the target was trained with")
    return Bounds(
        vocabulary=min(rows, len(target.tokenizer)),
        eos=shaping.eos_ids(target.model),
        draft_tokens=draft_tokens,
        window=_window(target),
        draft_window=_window(draft) if draft else None,
        block=block,
    )


def _window(loaded: Loaded) -> int | None:
    window = getattr(loaded.model.config.get_text_config(), "max_position_embeddings", None)
    return None if window is None else int(window)


def workload(target: Loaded) -> Mapping[str, str]:
    """Hashes of the target's weights and of its tokenizer; its own repetition penalty, where it has one."""
    found = {"target": target.content, "tokenizer": loading.tokenizer_hash(target.tokenizer)}
    penalty = shaping.own_penalty(target.model)
    return found if penalty == 1 else found | {"own_repetition_penalty": f"{penalty:g}"}


def subject(engine: str, device: str, target: Loaded, spec: EngineSpec) -> dict[str, str]:
    """Versions, threads and settings of an engine of this name."""
    facts = {
        "engine": engine,
        "transformers": transformers.__version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "device": device,
        "threads": str(torch.get_num_threads()),
        "attention": str(target.model.config._attn_implementation),  # noqa: SLF001 - no public name
    }
    if torch.version.cuda:
        facts["cuda"] = str(torch.version.cuda)
    if device.startswith("cuda") and (driver := machine.driver_version()):
        facts["driver"] = driver
    if spec.quantization:
        facts["quantization"] = _written(spec.quantization)
    return facts


def candidate(spec: EngineSpec, draft_tokens: int, draft: Loaded | None) -> dict[str, str]:
    """How the candidate arm drafts; nothing without a candidate."""
    if spec.candidate is None:
        return {}
    facts = {"method": spec.candidate.method.value, "k": str(draft_tokens)}
    if spec.candidate.acceptance is not None:
        facts["forced acceptance"] = f"{spec.candidate.acceptance:g}"
    for name in ("min_confidence", "min_acceptance", "drafts_per_match", "min_match"):
        if (value := getattr(spec.candidate, name)) is not None:
            facts[name] = f"{value:g}"
    if spec.candidate.options:
        facts["options"] = _written(spec.candidate.options)
    return facts | ({"draft": draft.content} if draft else {})


def drafting(spec: EngineSpec) -> str:
    """Which model drafts, in words."""
    if spec.candidate is None:
        return "no draft"
    return spec.candidate.draft or f"{spec.candidate.method.value}, exit_layer {spec.candidate.exit_layer}"


def dtype_name(dtype: Any) -> str:
    """``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def _written(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items())
