"""Tiny targets and drafts of a seed, saved where an engine loads them from; the same seed makes the same bytes.

A draft is its target with noise on the weights. The token that ends a text is one that greedy decoding really says
in mid-text, so that ends fall inside accepted blocks.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.hf.loading import Loaded
from tests import tiny

Load = Callable[[EngineContext, str, Any, str], Loaded]

ROWS = tiny.ROWS
CONTEXT = 128
WINDOW = 12
#: How far a draft's weights are from the target's, relative to their spread.
BLUR = 0.03


def build(kind: str, seed: int) -> Any:
    """A random target of one of the kinds.

    ``llama``; ``endless``, of which no token ends a text; ``mistral`` with a window of 12 tokens; ``table``, whose next
    token depends on the last alone.
    """
    state = torch.random.get_rng_state()
    torch.manual_seed(1000 + seed)
    made = {"llama": _llama, "endless": _llama, "mistral": _mistral, "table": _table}[kind]()
    torch.random.set_rng_state(state)
    return made.double().eval()


def _shape(**more: Any) -> dict[str, Any]:
    return {
        "vocab_size": ROWS,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": CONTEXT,
        "bos_token_id": 1,
        "eos_token_id": None,
        "initializer_range": 0.4,
        **more,
    }


def _llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**_shape()))


def _mistral() -> Any:
    from transformers import MistralConfig, MistralForCausalLM

    return MistralForCausalLM(MistralConfig(**_shape(head_dim=8, sliding_window=WINDOW)))


def _table() -> Any:
    """One layer that adds nothing: what remains is a table of the next token's scores by the last token.

    Rows of the embedding are unit vectors, so a norm multiplies them by a constant, and the head is the table itself.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = _shape(hidden_size=ROWS, intermediate_size=8, num_hidden_layers=1)
    made = LlamaForCausalLM(LlamaConfig(**shape)).double()
    with torch.no_grad():
        made.model.embed_tokens.weight.copy_(torch.eye(ROWS))
        made.model.layers[0].self_attn.o_proj.weight.zero_()
        made.model.layers[0].mlp.down_proj.weight.zero_()
        # A unit vector of so many dimensions leaves the norm sqrt(ROWS) long.
        made.lm_head.weight.copy_(TABLE_SPREAD * torch.randn(ROWS, ROWS, dtype=torch.float64) / ROWS**0.5)
    return made


#: Standard deviation of the table's scores: the entropy of a next token is about 2 nats.
TABLE_SPREAD = 2.0


def saved(folder: Path, kind: str, seed: int) -> tuple[Path, Path]:
    """Folders of a target and its draft, made unless they are there."""
    home = folder / f"{kind}-{seed}"
    if not home.is_dir():
        target = build(kind, seed)
        target.generation_config.eos_token_id = _ending(target, kind)
        tiny.save(home / "target", target)
        tiny.save(home / "draft", _blurred(target, kind, seed))
    return home / "target", home / "draft"


def loaded_once(load: Load) -> Load:
    """The loader of engines, which reads a folder's files once and hands out copies: what one run does to a model stays
    with it.
    """
    kept: dict[tuple[str, Any, str], Loaded] = {}

    def loaded(context: EngineContext, reference: str, dtype: Any, device: str) -> Loaded:
        key = reference, dtype, device
        if key not in kept:
            kept[key] = load(context, reference, dtype, device)
        return replace(kept[key], model=copy.deepcopy(kept[key].model))

    return loaded


def _ending(target: Any, kind: str) -> int | None:
    """The token that ends a text, if any does."""
    if kind == "endless":
        return None
    return tiny.EOS if kind == "table" else _said_in_midst(target)


def _blurred(target: Any, kind: str, seed: int) -> Any:
    made = type(target)(target.config).double()
    made.load_state_dict(target.state_dict())
    made.generation_config.eos_token_id = target.generation_config.eos_token_id
    source = torch.Generator().manual_seed(2000 + seed)
    weights = [made.lm_head.weight] if kind == "table" else [w for w in made.parameters() if w.ndim > 1]
    blur = 0.6 if kind == "table" else BLUR
    with torch.no_grad():
        for weight in weights:
            weight += blur * weight.std() * torch.randn(weight.shape, generator=source, dtype=weight.dtype)
    return made.eval()


def _said_in_midst(target: Any) -> int:
    """The token that most of some greedy texts say somewhere after their fifth."""
    source = torch.Generator().manual_seed(0)
    prompts = torch.randint(len(tiny.SPECIAL), ROWS, (16, 8), generator=source)
    with torch.inference_mode():
        out = target.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            do_sample=False,
            max_new_tokens=24,
            pad_token_id=0,
            eos_token_id=ROWS + 1,
        )
    counts: Counter[int] = Counter()
    for text in out[:, 8:].tolist():
        counts.update(set(text[5:]) - set(text[:5]) - set(range(2)))
    return counts.most_common(1)[0][0]
