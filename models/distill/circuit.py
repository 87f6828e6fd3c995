"""Looking back, built in: a new draft begins with heads that find where the text said this before.

An answer repeats names, passages and its own sentences, and a small model learns only late to look back and copy. The
two steps are known, so they are written into the first weights: every token has a random code of its own; in the first
layer a head attends to the place before and notes that token's code; in the second, heads look for a note that is the
present token's code, and put forward the token that stands there. Training is free to change all of it.

Residual dimensions: a constant, content, ``CODE`` for the code, ``CODE`` for the note, which tokens leave empty.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

CODE = 16
CONSTANT, CODED = 0.5, 0.5
"""Lengths of constant and code where content has length one."""
PULLS = (32.0, 12.0, 8.0, 8.0, 6.0, 4.0)
"""How strongly the rotary planes, fastest first, pull the first layer's head towards the place before."""
SEEKERS = 2
SHARPNESS = 35.0
"""Attention score of a note that is the present token's code."""
GAIN = 3.0
"""Length of what is put forward, as a share of a token's content."""
SPREAD = 0.75
"""How far directions in which tokens differ little are stretched in it: 0 not at all, 1 till all differ alike."""
COMMON = 4096


def rank_for(hidden: int) -> int:
    """Dimensions of content that there is room for."""
    return hidden - 1 - 2 * CODE


def rows_of(content: Tensor) -> Tensor:
    """Embeddings [vocabulary, rank + 1 + 2 * CODE] of content [vocabulary, rank], which is brought to length one."""
    codes = torch.randn(len(content), CODE, generator=torch.Generator().manual_seed(0))
    unit, codes = (part / part.norm(dim=-1, keepdim=True) for part in (content, codes))
    return torch.cat([torch.full_like(unit[:, :1], CONSTANT), unit, codes * CODED, torch.zeros_like(codes)], 1)


@torch.no_grad()
def build_in(draft: LlamaForCausalLM) -> None:
    """Write the heads into a draft whose embeddings are ``rows_of``."""
    content = draft.get_input_embeddings().weight[:, 1 : -2 * CODE]
    # Behind a norm, content has about this length: without and with a note beside it.
    seen = [draft.config.hidden_size**0.5 / (1 + CONSTANT**2 + CODED**2 + note) ** 0.5 for note in (0, CODED**2)]
    _note_the_token_before(draft, CONSTANT * seen[0], 1 / seen[0])
    _seek(draft, CODED * seen[1], _spread_out(content) * (GAIN / seen[1]) ** 0.5)
    # What serves looking back says nothing about what comes next.
    draft.model.norm.weight[0] = 0.0
    draft.model.norm.weight[-2 * CODE :] = 0.0


def _note_the_token_before(draft: LlamaForCausalLM, constant: float, scale: float) -> None:
    attention, width = draft.model.layers[0].self_attn, draft.config.head_dim
    _clear(attention, slice(0, width))
    half, base = width // 2, draft.config.rope_parameters["rope_theta"]
    for plane, pull in enumerate(PULLS):
        angle, size = torch.tensor(base ** (-plane / half)), (pull * width**0.5) ** 0.5 / constant
        attention.q_proj.weight[plane, 0] = size
        attention.k_proj.weight[plane, 0] = size * angle.cos()
        attention.k_proj.weight[plane + half, 0] = size * angle.sin()
    attention.v_proj.weight[:CODE, -2 * CODE : -CODE] = torch.eye(CODE)
    attention.o_proj.weight[-CODE:, :CODE] = torch.eye(CODE) * scale


def _seek(draft: LlamaForCausalLM, code: float, said: Tensor) -> None:
    attention, width = draft.model.layers[1].self_attn, draft.config.head_dim
    half, size = width // 2, (SHARPNESS * width**0.5) ** 0.5 / code
    # The slow rotary planes, whose angle hardly changes over a text.
    planes = [*range(half - CODE // 2, half), *range(width - CODE // 2, width)]
    for head in range(SEEKERS):
        first = head * width
        _clear(attention, slice(first, first + width))
        for i, plane in enumerate(planes):
            attention.q_proj.weight[first + plane, i - 2 * CODE] = size
            attention.k_proj.weight[first + plane, i - CODE] = size
        part = said[:, (torch.arange(width) + first) % said.shape[1]]
        attention.v_proj.weight[first : first + width, 1 : -2 * CODE] = part.T / part.norm(dim=0)[:, None]
        attention.o_proj.weight[1 : -2 * CODE, first : first + width] = part * part.norm(dim=0)


def _spread_out(content: Tensor) -> Tensor:
    """Directions [rank, rank], the longer the less tokens differ in them, turned so that any few of them tell tokens.

    Projecting a common token's content on all and going back gives something of length one.
    """
    values, directions = torch.linalg.eigh(content.T @ content / len(content))
    turn = torch.linalg.qr(torch.randn(values.shape * 2, generator=torch.Generator().manual_seed(0))).Q
    spread = directions * values ** (-SPREAD / 2) @ turn
    # A vocabulary is in the order of frequency.
    length = (content[:COMMON] @ spread @ spread.T).norm(dim=-1).mean()
    return spread / length**0.5


def _clear(attention: torch.nn.Module, head: slice) -> None:
    for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
        projection.weight[head] = 0.0
    attention.o_proj.weight[:, head] = 0.0
