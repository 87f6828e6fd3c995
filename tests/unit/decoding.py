"""Tiny random models of many architectures in float64, where equal means equal, and what to compare with.

The draft is the target with noise on its weights: it agrees with the target often and not always.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pytest_specgate.decoding.job import Job
from tests import tiny

VOCABULARY = 48
CONTEXT = 96
#: Texts that every family continues; their lengths differ, and one is a single token.
LENGTHS = (3, 9, 1, 14, 7, 2, 5, 11, 4, 8, 6, 13, 10, 2, 12, 3)
OUTPUT = 14

_SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": CONTEXT,
    "initializer_range": 0.4,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
_GROUPED = {**_SHAPE, "num_key_value_heads": 2}
_GPT2 = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": CONTEXT}
_MIXED = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 6, "head_dim": 8}
#: Tied, a small random Gemma says its last word again and again.
_MIXED |= {"tie_word_embeddings": False}
#: Model class → its settings.
FAMILIES: dict[str, dict[str, Any]] = {
    "Llama": _GROUPED,
    "Qwen2": _GROUPED,
    "Qwen3": {**_GROUPED, "head_dim": 8},
    "Mistral": {**_GROUPED, "head_dim": 8, "sliding_window": 6},
    "Gemma2": {**_GROUPED, **_MIXED},
    "Gemma3": {**_GROUPED, **_MIXED},
    "Phi": _GROUPED,
    "GPTNeoX": _SHAPE,
    "GPT2": {**_GPT2, "initializer_range": 0.4, "bos_token_id": None, "eos_token_id": None},
    "Olmo": _GROUPED,
    # The grouped matrix product that it takes by default knows no float64.
    "Mixtral": {**_GROUPED, "num_local_experts": 4, "experts_implementation": "eager"},
}
_NAMES = {"GPT2": ("GPT2LMHeadModel", "GPT2Config"), "Gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig")}


@dataclass(frozen=True, slots=True)
class Family:
    """A target, its draft, and what the target's own ``generate`` makes of every prompt."""

    target: Any
    draft: Any
    prompts: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]

    def jobs(self, which: Sequence[int], budgets: Sequence[int], **settings: Any) -> list[Job]:
        return [Job(self.prompts[n], budget, **settings) for n, budget in zip(which, budgets)]


def build(name: str, **changes: Any) -> Any:
    """A random model of the family with a fixed seed."""
    import torch
    import transformers

    model_name, config_name = _NAMES.get(name, (f"{name}ForCausalLM", f"{name}Config"))
    config = getattr(transformers, config_name)(**{**FAMILIES.get(name, _SHAPE), **changes})
    state = torch.random.get_rng_state()
    torch.manual_seed(3)
    made = getattr(transformers, model_name)(config).double().eval()
    torch.random.set_rng_state(state)
    made.generation_config.pad_token_id = 0
    return made


@cache
def family(name: str) -> Family:
    import torch

    target = build(name)
    source = torch.Generator().manual_seed(5)
    prompts = tuple(tuple(torch.randint(VOCABULARY, (n,), generator=source).tolist()) for n in LENGTHS)
    return Family(target, tiny.blurred(target), prompts, tuple(own_words(target, p, OUTPUT) for p in prompts))


def own_words(model: Any, prompt: Sequence[int], length: int) -> tuple[int, ...]:
    """The model's own ``generate(do_sample=False)``."""
    import torch

    ids = torch.tensor([list(prompt)])
    made = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=length)
    return tuple(made[0, len(prompt) :].tolist())
