"""Tiny models of many architectures, by transformers' own configuration classes: settings alone, nothing is built here.

Their weights are spread wide, so that the best two scores of a token seldom tie, and there are layers enough for one to
be left early. Windows and experts are small enough to matter within a short text.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pytest_specgate.engines.hf.letters import BOS, EOS, ROWS

LAYERS = 3
_ENDS: dict[str, Any] = {"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": EOS}
_COMMON: dict[str, Any] = {
    **_ENDS,
    "vocab_size": ROWS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "initializer_range": 0.4,
    "tie_word_embeddings": False,
}
_GROUPED = {**_COMMON, "num_key_value_heads": 2}
_SIZED = {**_GROUPED, "head_dim": 8}
_MIXED = {**_SIZED, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": 12}
_GPT2 = {"vocab_size": ROWS, "n_embd": 32, "n_layer": LAYERS, "n_head": 4, "n_positions": 512}

#: Name → (configuration class, settings).
MINIATURES: Mapping[str, tuple[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "tiny-llama": ("LlamaConfig", _GROUPED),
        "tiny-qwen2": ("Qwen2Config", _GROUPED),
        "tiny-qwen3": ("Qwen3Config", _SIZED),
        "tiny-mistral": ("MistralConfig", {**_SIZED, "sliding_window": 12}),
        "tiny-gemma2": ("Gemma2Config", _MIXED),
        "tiny-gemma3": ("Gemma3TextConfig", _MIXED),
        "tiny-phi": ("PhiConfig", _GROUPED),
        "tiny-gpt-neox": ("GPTNeoXConfig", _COMMON),
        "tiny-gpt2": ("GPT2Config", {**_ENDS, **_GPT2, "initializer_range": 0.4, "tie_word_embeddings": False}),
        "tiny-olmo": ("OlmoConfig", _GROUPED),
        # The grouped matrix product that it takes by default does not know every dtype. Where two experts nearly tie,
        # rounding in 16 bits exchanges them and moves everything: these weights have few such places.
        "tiny-mixtral": (
            "MixtralConfig",
            {**_GROUPED, "intermediate_size": 32, "num_local_experts": 4, "experts_implementation": "eager"},
        ),
        "tiny-mamba": (
            "MambaConfig",
            {**_ENDS, "vocab_size": ROWS, "hidden_size": 32, "num_hidden_layers": LAYERS, "state_size": 4,
             "initializer_range": 0.4, "tie_word_embeddings": False},
        ),
        "tiny-lfm2": ("Lfm2Config", {**_GROUPED, "layer_types": ["conv", "full_attention", "conv"]}),
    }
)  # fmt: skip
