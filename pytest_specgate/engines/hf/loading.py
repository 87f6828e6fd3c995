"""Load models and tokenizers, and refuse what would run foreign code on the way."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.content import weights_hash
from pytest_specgate.engines.hf import letters, quantizing, shapes
from pytest_specgate.engines.hf.failures import translated
from pytest_specgate.engines.hf.quiet import without_progress_bars
from pytest_specgate.engines.store import locate
from pytest_specgate.errors import EngineError

#: Sampling filters that a checkpoint may bring along: how tokens are drawn is for the suite alone to say.
_FILTERS = (
    "temperature", "top_k", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model on its device; ``tokenizer`` is None where there is none, ``content`` hashes the weights."""

    model: Any
    tokenizer: Any
    content: str


def load(context: EngineContext, reference: str, dtype: Any, device: str) -> Loaded:
    """Load one model with its tokenizer, without progress bars. Raises EngineError, MissingPackage, OutOfMemory."""
    with translated(context.name, f"cannot load {reference!r}"), without_progress_bars():
        if reference.startswith(shapes.PREFIX):
            return _of_shape(context, reference, dtype, device)
        folder = locate(reference, context)
        _refuse_foreign_code(folder, reference, context)
        model = _model(folder, context, dtype, device)
        for name in _FILTERS:
            if getattr(model.generation_config, name, None) is not None:
                setattr(model.generation_config, name, None)
        return Loaded(model.eval(), _tokenizer(folder, context), weights_hash(folder))


def _of_shape(context: EngineContext, reference: str, dtype: Any, device: str) -> Loaded:
    model = shapes.made(reference, context, dtype, device).eval()
    if context.spec.quantization:
        quantizing.in_place(model, reference, context, device)
    if shapes.is_miniature(reference):
        tokenizer = letters.tokenizer()
    else:
        tokenizer = _tokenizer(locate(shapes.TOKENIZER, context), context)
    return Loaded(model, tokenizer, shapes.content(reference, context.name))


def _model(folder: Path, context: EngineContext, dtype: Any, device: str) -> Any:
    from transformers import AutoModelForCausalLM

    options: dict[str, Any] = {"dtype": dtype, "trust_remote_code": context.allow_remote_code}
    if not context.allow_pickle:
        options["use_safetensors"] = True
    if context.spec.attention != "auto":
        options["attn_implementation"] = context.spec.attention
    if context.spec.quantization:
        # A quantized model is made where it will run and cannot be moved afterwards.
        options |= {"quantization_config": quantizing.settings(context, device), "device_map": {"": device}}
        return AutoModelForCausalLM.from_pretrained(folder, **options)
    return AutoModelForCausalLM.from_pretrained(folder, **options).to(device)


def _tokenizer(folder: Path, context: EngineContext) -> Any:
    from transformers import AutoTokenizer

    if not any(folder.glob("tokenizer*")):
        return None
    return AutoTokenizer.from_pretrained(folder, trust_remote_code=context.allow_remote_code)


def _refuse_foreign_code(folder: Path, reference: str, context: EngineContext) -> None:
    """Refuse Python files of the checkpoint, and pickles: unpickling can call anything."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if "auto_map" in config and not context.allow_remote_code:
        what = f"{reference!r} brings its own Python code (auto_map in config.json), which is not run unasked"
        raise EngineError(context.name, what, "pass --specgate-trust-remote-code if you trust its authors")
    if not any(folder.glob("*.safetensors")) and not context.allow_pickle:
        what = f"{reference!r} holds no safetensors weights, and reading pickled ones can run code"
        raise EngineError(context.name, what, "convert them, or pass --specgate-allow-pickle if you trust them")


def tokenizer_hash(tokenizer: Any) -> str:
    """Return a hash of vocabulary and chat template: both decide what the target reads."""
    vocabulary = sorted(tokenizer.get_vocab().items())
    parts = {"vocab": vocabulary, "template": tokenizer.chat_template or ""}
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()[:16]
