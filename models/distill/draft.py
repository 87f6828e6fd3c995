"""The draft itself: a small Llama with the target's vocabulary; made new, saved."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path

import torch
from circuit import build_in, rank_for, rows_of
from transformers import LlamaConfig, LlamaForCausalLM


@dataclass(frozen=True)
class Shape:
    """The sizes that a new draft is made in."""

    hidden: int = 128
    layers: int = 2
    heads: int = 4
    intermediate: int = 1536


def new_draft(target: LlamaForCausalLM, shape: Shape) -> LlamaForCausalLM:
    """A small Llama with the target's vocabulary, rotary base and special tokens.

    Its embeddings hold the best approximation of the target's that there is room for, and it looks back (see
    ``circuit``); the rest is random.
    """
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
    rank = rank_for(shape.hidden)
    left, values, _ = torch.svd_lowrank(embeddings - embeddings.mean(0), q=rank, niter=4)
    rows = rows_of(left * values)
    draft.get_input_embeddings().weight.data.copy_(rows)
    build_in(draft)
    return draft


def save(draft: LlamaForCausalLM, out: Path) -> None:
    """Half precision, loadable by plain transformers."""
    half = copy.deepcopy(draft).half()
    half.config.dtype = "float16"
    half.save_pretrained(out)
