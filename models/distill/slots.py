"""A batch of independent token streams over one Llama, each at its own place, for generating much text on a CPU.

``generate`` of transformers waits for the longest row of a batch, copies its whole cache at every token and runs the
prompt of every row again. Here a slot that ends is refilled at once, the cache is written in place, and the prefix
that all streams share is computed once. The module knows attention and caches; what a stream says next, and when it
ends, is its caller's business.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

#: Streams that attend together, as far as the longest of them reaches.
TOGETHER = 16
#: Steps after which streams are laid out by length anew.
SORT_EVERY = 48


class Slots:
    """``size`` streams of up to ``capacity`` tokens; ``step`` feeds one token to each."""

    def __init__(self, model: torch.nn.Module, size: int, capacity: int, prefix: list[int]) -> None:
        """``model`` is a LlamaForCausalLM without biases; ``prefix`` holds the ids that every stream starts with."""
        config = model.config
        self._heads, self._groups = config.num_key_value_heads, config.num_attention_heads // config.num_key_value_heads
        self._width, self._epsilon = config.head_dim, config.rms_norm_eps
        self._embedding, self._head = model.get_input_embeddings().weight, model.lm_head.weight
        self._final = model.model.norm.weight
        self._layers = [_Layer(layer) for layer in model.model.layers]
        self._cos, self._sin = _rotary(config, capacity, self._head)
        shape = (len(self._layers), size, self._heads, capacity, self._width)
        self._keys, self._values = self._head.new_zeros(shape), self._head.new_zeros(shape)
        self.size, self.device = size, self._head.device
        self._rows = torch.arange(size, device=self.device)
        #: Where each stream lies: its row in the cache and in ``_lengths``.
        self._place, self._steps = self._rows.clone(), 0
        self._lengths = torch.zeros(size, dtype=torch.long, device=self.device)
        for token in prefix:
            self.step(torch.full_like(self._lengths, token))
        self._prefix = len(prefix)

    def restart(self, slot: int) -> None:
        """Make a slot start over, right after the shared prefix (whose keys and values are still in place)."""
        self._lengths[self._place[slot]] = self._prefix

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        """Feed ``tokens`` [size] at each stream's place; returns logits [size, vocabulary] of what follows."""
        if self._steps % SORT_EVERY == 0:
            self._sort()
        self._steps += 1
        masks = [self._mask(lengths) for lengths in self._lengths.split(TOGETHER)]
        hidden = self._embedding[torch.empty_like(tokens).scatter_(0, self._place, tokens)]
        for number, layer in enumerate(self._layers):
            hidden = hidden + self._attend(number, layer, self._normed(hidden, layer.before_attention), masks)
            gate, up = functional.linear(self._normed(hidden, layer.before_mlp), layer.gate_up).chunk(2, dim=-1)
            hidden = hidden + functional.linear(functional.silu(gate) * up, layer.down)
        self._lengths += 1
        return functional.linear(self._normed(hidden[self._place], self._final), self._head)

    def _sort(self) -> None:
        """Lay the streams out by length, so that those that attend together are about as long."""
        order = self._lengths.argsort(stable=True)
        longest = int(self._lengths.max())
        for kept in (*self._keys, *self._values):
            kept[:, :, :longest] = kept[order, :, :longest]
        self._lengths.copy_(self._lengths[order])
        self._place.copy_(torch.empty_like(order).scatter_(0, order, self._rows)[self._place])

    def _mask(self, lengths: Tensor) -> Tensor:
        seen = torch.arange(int(lengths.max()) + 1, device=self.device) <= lengths[:, None]
        mask = torch.zeros(seen.shape, dtype=self._head.dtype, device=self.device)
        return mask.masked_fill_(~seen, float("-inf"))[:, None, None]

    def _attend(self, number: int, layer: _Layer, hidden: Tensor, masks: list[Tensor]) -> Tensor:
        """Grouped-query attention: the queries that share a key head stand as rows of one small matrix."""
        split = (self._heads * self._groups, self._heads, self._heads)
        mixed = functional.linear(hidden, layer.qkv).view(len(hidden), sum(split), self._width)
        cos, sin = self._cos[self._lengths][:, None], self._sin[self._lengths][:, None]
        turned = mixed[:, : split[0] + split[1]]
        turned = turned * cos + torch.cat([-turned[..., self._width // 2 :], turned[..., : self._width // 2]], -1) * sin
        keys, values = self._keys[number], self._values[number]
        keys[self._rows, :, self._lengths] = turned[:, split[0] :]
        values[self._rows, :, self._lengths] = mixed[:, split[0] + split[1] :]
        queries = turned[:, : split[0]].reshape(len(hidden), self._heads, self._groups, self._width)
        parts = zip(queries.split(TOGETHER), keys.split(TOGETHER), values.split(TOGETHER), masks, strict=True)
        found = torch.cat([_attention(*part) for part in parts])
        return functional.linear(found.reshape(len(hidden), -1), layer.out)

    def _normed(self, hidden: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(hidden, weight.shape, weight, self._epsilon)


def _attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    reach = mask.shape[-1]
    return functional.scaled_dot_product_attention(queries, keys[:, :, :reach], values[:, :, :reach], mask)


class _Layer:
    """The weights of one block; projections that read the same input are joined."""

    def __init__(self, block: torch.nn.Module) -> None:
        attention, mlp = block.self_attn, block.mlp
        self.qkv = torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]).detach()
        self.out = attention.o_proj.weight.detach()
        self.gate_up = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]).detach()
        self.down = mlp.down_proj.weight.detach()
        self.before_attention = block.input_layernorm.weight.detach()
        self.before_mlp = block.post_attention_layernorm.weight.detach()


def _rotary(config: object, capacity: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines [capacity, head_dim] of the default rotary embedding."""
    base, width = config.rope_parameters["rope_theta"], config.head_dim
    frequencies = base ** (-torch.arange(0, width, 2, device=like.device).float() / width)
    angles = (torch.arange(capacity, device=like.device).float()[:, None] * frequencies).repeat(1, 2)
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)
