"""The draft itself: a small Llama with the target's vocabulary; made new, grown from an earlier one, saved."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM


@dataclass(frozen=True)
class Shape:
    """The sizes that a new draft is made in."""

    hidden: int = 160
    layers: int = 3
    heads: int = 5
    intermediate: int = 768


def new_draft(target: LlamaForCausalLM, shape: Shape) -> LlamaForCausalLM:
    """A small Llama with the target's vocabulary, rotary base and special tokens, embeddings by SVD."""
    config = LlamaConfig(
        vocab_size=target.config.vocab_size,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        intermediate_size=shape.intermediate,
        max_position_embeddings=target.config.max_position_embeddings,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        bos_token_id=target.config.bos_token_id,
        eos_token_id=target.config.eos_token_id,
        pad_token_id=target.config.pad_token_id,
        rope_parameters=target.config.rope_parameters,
    )
    draft = LlamaForCausalLM(config).float()
    embeddings = target.get_input_embeddings().weight.float()
    left, values, _ = torch.svd_lowrank(embeddings - embeddings.mean(0), q=shape.hidden, niter=4)
    start = left * values
    draft.get_input_embeddings().weight.data.copy_(start * (0.05 / start.std()))
    return draft


def grown(start: Path, layers: int) -> LlamaForCausalLM:
    """An earlier draft, with blocks added on top until it has ``layers``; a new block begins by passing all through."""
    old = LlamaForCausalLM.from_pretrained(start, dtype=torch.float32)
    config = copy.deepcopy(old.config)
    config.num_hidden_layers = max(layers, config.num_hidden_layers)
    config.layer_types = None
    draft = LlamaForCausalLM(config).float()
    draft.load_state_dict(old.state_dict(), strict=False)
    for block in draft.model.layers[old.config.num_hidden_layers :]:
        torch.nn.init.zeros_(block.self_attn.o_proj.weight)
        torch.nn.init.zeros_(block.mlp.down_proj.weight)
    return draft


def save(draft: LlamaForCausalLM, out: Path) -> None:
    """Half precision, loadable by plain transformers."""
    half = copy.deepcopy(draft).half()
    half.config.dtype = "float16"
    half.save_pretrained(out)
