"""The forward of Llama-like classes in few operations: same weights, same arithmetic, a fraction of the host's work.

A module call, a decorator and an intermediate tensor cost microseconds each, and a small model makes thousands a token:
on a CPU that was 13 of 48 ms per token for SmolLM2-135M in float32. Here matrices lie as the processor reads them best,
queries and keys turn together by angles from a table, and heads that share keys are attended to as more queries. A
class is driven so only after both forwards have agreed on a probe, and in 16 bits, where a probe tells little, after
:mod:`~pytest_specgate.decoding.proof`; any other one runs through its own modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding, rms_norm, scaled_dot_product_attention

from pytest_specgate.decoding import proof
from pytest_specgate.decoding.anatomy import Anatomy
from pytest_specgate.decoding.cache import Apart, Block, SlotCache, Span
from pytest_specgate.decoding.projections import Head, Packed, Projections, parts, projections
from pytest_specgate.decoding.refusal import Refusal
from pytest_specgate.decoding.rotary import Angles

#: Classes that are driven so.
CLASSES = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM")
#: How far scores of the two forwards may lie apart, relative to their size: rounding in another order, which for the
#: bundled target is .016 in bfloat16 and .0015 in float16. A class that lies further apart runs through its modules.
_AGREEMENT = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 5e-2}
_PROBE = 6
#: Types in which two right forwards lie so far apart that a wrong one is lost among their roundings.
ROUGH = (torch.bfloat16, torch.float16)


Write = Block | Apart


@dataclass(frozen=True, slots=True)
class _Layer:
    """One layer: its matrices, and the scales of the norms before attention and before the gated network."""

    matrices: Projections
    before: Tensor
    between: Tensor


class LeanForward:
    """The forward of one model; use :func:`lean`, which knows whom it fits."""

    def __init__(self, model: Any) -> None:
        config = model.config
        self._model, self._config = model, config
        self._heads, self._shared = config.num_attention_heads, config.num_key_value_heads
        self._each = self._heads // self._shared
        self._epsilon = float(config.rms_norm_eps)
        self._layers = [_layer(block) for block in model.model.layers]
        self._head = Head(model)
        first = model.model.layers[0].self_attn
        self._size, self._scale = int(first.head_dim), float(first.scaling)
        self._angles = Angles(model.model.rotary_emb, model.dtype)

    @property
    def copied_bytes(self) -> int:
        """Weights that are kept a second time, beyond the model's own."""
        return self._head.copied

    @property
    def recordable(self) -> bool:
        """Whether a forward reads nothing from its device on the way."""
        return self._angles.fixed

    @property
    def layers(self) -> int:
        """How many layers a forward runs through now."""
        return int(self._config.num_hidden_layers)

    @property
    def device(self) -> Any:
        """Where the model runs."""
        return self._model.device

    @property
    def dtype(self) -> torch.dtype:
        """What the model computes in."""
        dtype: torch.dtype = self._model.dtype
        return dtype

    def __call__(
        self,
        tokens: Tensor,
        positions: Tensor,
        mask: Tensor | None,
        cache: SlotCache,
        keep: int = 0,
        layers: int | None = None,
    ) -> Tensor:
        """Return scores of ``tokens [rows, width]``; the cache is aimed, ``mask`` is ``[rows, 1, width, length]``.

        ``keep`` asks for the last so many positions alone, 0 for all; ``layers`` for the first so many layers.
        """
        base = self._model.model
        hidden: Tensor = embedding(tokens, base.embed_tokens.weight)
        turn = self._angles(positions, cache.capacity + tokens.shape[1] + 1)
        if mask is not None:
            mask = mask.repeat(1, 1, self._each, 1)
        block = cache.block(hidden, self._shared, self._size)
        # Read anew each time: an early exit lowers the number.
        for number, layer in enumerate(self._layers[: layers or self.layers]):
            hidden = self._attend(layer, hidden, turn, mask, (block, number))
            hidden = layer.matrices.fed(self._norm(hidden, layer.between), hidden)
        return self._head(self._norm(hidden[:, -keep:], base.norm.weight))

    def _norm(self, hidden: Tensor, weight: Tensor) -> Tensor:
        """As these classes do it: in float32 whatever the dtype, and scaled in the dtype."""
        if hidden.dtype is torch.float32:
            return rms_norm(hidden, hidden.shape[-1:], weight, self._epsilon)
        return rms_norm(hidden.float(), hidden.shape[-1:], None, self._epsilon).to(hidden.dtype).mul_(weight)

    def _attend(
        self, layer: _Layer, hidden: Tensor, turn: tuple[Tensor, Tensor], mask: Tensor | None, at: tuple[Write, int]
    ) -> Tensor:
        """``hidden`` with what the layer's attention finds added; it may be overwritten."""
        rows, width, _ = hidden.shape
        block, number = at
        made = layer.matrices.projected(self._norm(hidden, layer.before)).view(rows, width, -1, self._size)
        turned = made[:, :, : self._heads + self._shared]
        rolled = turned.roll(self._size // 2, dims=-1)
        turned.mul_(turn[0]).addcmul_(rolled, turn[1])
        keys, values = block.write(number, made[:, :, self._heads :])
        queries = made[:, :, : self._heads].transpose(1, 2)
        if mask is None and width > 1:
            found = scaled_dot_product_attention(
                queries, keys, values, is_causal=True, scale=self._scale, enable_gqa=self._each > 1
            )
        else:
            packed = queries.reshape(rows, self._shared, self._each * width, self._size)
            found = scaled_dot_product_attention(packed, keys, values, attn_mask=mask, scale=self._scale)
            # A GPU's kernels for masks lay their result out token by token, so no view of it need exist.
            found = found.reshape(rows, self._heads, width, self._size)
        return layer.matrices.attended(found.transpose(1, 2).reshape(rows, width, -1), hidden)


@dataclass(frozen=True, slots=True)
class Admission:
    """A model's lean forward, None where it has none; ``doubt`` is what spoke against that of a class that fits."""

    forward: LeanForward | None = None
    doubt: str = ""


def lean(model: Any, anatomy: Anatomy, drive: Callable[[Any], proof.Driven]) -> Admission:
    """Return the lean forward of a model that it fits; its projections are laid side by side.

    ``drive`` drives a model by a forward that nobody has asked about yet.
    """
    if anatomy.name not in CLASSES or any(anatomy.windows) or not _plain(model):
        return Admission()
    with torch.inference_mode():
        own = _own_scores(model)  # before any of its matrices is packed
        if not own.isfinite().all():  # the run says so of the weights; nothing can be compared here
            return Admission()
        if model.dtype in ROUGH and (doubt := proof.objection(model, drive)):
            return Admission(doubt=doubt)
        made = LeanForward(model)
        doubt = _doubt(made, model, own)
        if not doubt:
            return Admission(made)
        if not agree(_own_scores(model), own):
            what = f"{anatomy.name}: its matrices give other scores once they are packed for this processor"
            raise Refusal(what, "use kind: transformers, and report this with the processor's name")
        return Admission(doubt=doubt)


def _doubt(made: LeanForward, model: Any, own: Tensor) -> str:
    """What the probe says against the forward; empty for nothing. Memory that runs out is no doubt."""
    try:
        same = agree(_probed(made, model), own)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:  # a kernel of some device that takes none of it
        return f"its forward does not run here ({str(error).splitlines()[0][:200]})"
    return "" if same else "its scores lie further apart from its modules' than rounding moves them"


def _plain(model: Any) -> bool:
    """Whether all is as the class has it: projections that are matrices, SiLU, attention that takes our masks fast."""
    attention = getattr(model.config, "_attn_implementation", "")
    matrices = [model.lm_head, *(part for block in model.model.layers for part in parts(block).values())]
    plain = all(type(part) in (torch.nn.Linear, Packed) and not part._forward_hooks for part in matrices)  # noqa: SLF001 - no public way
    # Quantized weights are tensors of classes of their own, which know how to multiply and not how to lie side by side.
    plain = plain and all(type(part.weight.data) is Tensor for part in matrices)
    return plain and attention == "sdpa" and model.config.hidden_act == "silu"


def _layer(block: Any) -> _Layer:
    return _Layer(projections(block), block.input_layernorm.weight, block.post_attention_layernorm.weight)


def _probe(model: Any) -> Tensor:
    vocabulary = model.config.vocab_size
    return ((torch.arange(_PROBE, device=model.device) + 1) * (vocabulary // 7))[None] % vocabulary


def _own_scores(model: Any) -> Tensor:
    """What the model's own modules make of the probe."""
    scores: Tensor = model(input_ids=_probe(model), use_cache=False).logits
    return scores


def _probed(made: LeanForward, model: Any) -> Tensor:
    """The probe's scores, read as a prompt, a block after it, and a last token."""
    device, tokens = model.device, _probe(model)
    cache = SlotCache(model.config.num_hidden_layers, 1, _PROBE)
    ours = []
    for start, end in ((0, _PROBE - 3), (_PROBE - 3, _PROBE - 1), (_PROBE - 1, _PROBE)):
        span = Span((start,), end - start)
        positions = span.positions(device)
        cache.aim(span, positions)
        mask = None
        if start and span.width > 1:
            hidden = torch.arange(end, device=device) > positions[:, :, None]
            lowest = torch.finfo(model.dtype).min
            mask = torch.zeros(hidden.shape, dtype=model.dtype, device=device).masked_fill_(hidden, lowest)[:, None]
        ours.append(made(tokens[:, start:end], positions, mask, cache))
    return torch.cat(ours, dim=1)


def agree(scores: Tensor, own: Tensor, limits: Mapping[torch.dtype, float] = _AGREEMENT) -> bool:
    """Whether scores differ from others, relative to their size, by no more than what is allowed in their dtype."""
    wide = torch.promote_types(own.dtype, torch.float32)
    apart = scores.to(wide) - own.to(wide)
    return bool(apart.norm() <= limits.get(own.dtype, 0.0) * own.to(wide).norm())
