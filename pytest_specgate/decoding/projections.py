"""A layer's matrices, in one of two forms that compute the same: laid side by side, or packed for the processor.

Side by side, projections that read one input are one matrix. Packed, every matrix lies in the blocks in which oneDNN's
kernels read it: of few rows, which is what decoding makes, these read memory at its full speed where kernels over
plain matrices reach half of it or less, and they take activations, products and residuals along. The modules of the
model get the packed matrices in place of their own, so no weight is kept twice; but a head that is the embedding too
is, for an embedding is read by rows.

Packing is for x86 processors, in the types that they multiply: elsewhere, and for matrices that a cache holds anyway,
the plain form stays.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import silu

from pytest_specgate.decoding.product import product

#: Elements from which on a matrix is worth packing.
LEAST = 1 << 14
#: Rows of a product that the blocks are chosen for; others are as right.
_ROWS = 8
_X86 = platform.machine().lower() in {"x86_64", "amd64"}


class Packed(torch.nn.Module):  # type: ignore[misc]  # torch is not followed
    """What ``torch.nn.Linear`` computes, of a packed matrix; the plain one can be read as ``weight.to_dense()``.

    It can neither be saved nor copied nor cast: a model that is packed is for decoding and scoring alone.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS), requires_grad=False)  # noqa: SLF001
        # A bias with gaps (a view that skips) would be read as if it had none, without a word.
        self.bias = None if bias is None else bias.contiguous()

    def forward(self, x: Tensor) -> Tensor:
        """``linear(x, weight, bias)``."""
        return self._unary(x, "none")

    def activated(self, x: Tensor) -> Tensor:
        """SiLU of it."""
        return self._unary(x, "swish")

    def times(self, x: Tensor, other: Tensor) -> Tensor:
        """It, times ``other``."""
        return self._binary(x, other, "mul")

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        """It, and ``other``."""
        return self._binary(x, other, "add")

    def _unary(self, x: Tensor, what: str) -> Tensor:
        found: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, what, [], "")  # noqa: SLF001
        return found

    def _binary(self, x: Tensor, other: Tensor, what: str) -> Tensor:
        found: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, other, self.weight, self.bias, what)  # noqa: SLF001
        return found


def packable(part: Any) -> bool:
    """Whether a ``torch.nn.Linear`` can and should be packed; one that is packed already is."""
    if isinstance(part, Packed):
        return True
    weight = part.weight
    return bool(_X86 and weight.device.type == "cpu" and weight.numel() >= LEAST and _multiplied(weight.dtype))


@cache
def _multiplied(dtype: torch.dtype) -> bool:
    """Whether oneDNN and this processor multiply numbers of this type, and rightly: one small matrix is tried.

    The operations are PyTorch's own and in no promise of it, so a version without them has the plain form.
    """
    if dtype not in (torch.float32, torch.bfloat16) or not torch.backends.mkldnn.is_available():
        return False
    try:
        if dtype is torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():  # noqa: SLF001
            return False
        numbers = torch.arange(256, dtype=torch.float32).reshape(16, 16).remainder(7).to(dtype)
        with torch.inference_mode():
            tried = Packed(numbers, None)
            made: tuple[Tensor, ...] = (tried(numbers), tried.activated(numbers))
            made += (tried.times(numbers, numbers), tried.plus(numbers, numbers))
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    plain = numbers.float() @ numbers.float().T
    expected = (plain, silu(plain), plain * numbers, plain + numbers)
    return all(torch.allclose(one.float(), other, rtol=0.02) for one, other in zip(made, expected))


def packed(part: Any) -> Packed:
    """The packed form of a ``torch.nn.Linear``."""
    if isinstance(part, Packed):
        return part
    with torch.no_grad():
        return Packed(part.weight.data, part.bias)


@dataclass(frozen=True, slots=True)
class PackedLayer:
    """The matrices of a layer, each packed."""

    query: Packed
    key: Packed
    value: Packed
    out: Packed
    gate: Packed
    up: Packed
    down: Packed

    def projected(self, x: Tensor) -> Tensor:
        """Queries, keys and values of ``[rows, width, size]``, side by side."""
        return torch.cat((self.query(x), self.key(x), self.value(x)), dim=-1)

    def attended(self, found: Tensor, hidden: Tensor) -> Tensor:
        """``hidden`` with what attention found added; it may be overwritten."""
        return self.out.plus(found, hidden)

    def fed(self, x: Tensor, hidden: Tensor) -> Tensor:
        """``hidden`` with what the gated network makes of ``x`` added; it may be overwritten."""
        return self.down.plus(self.up.times(x, self.gate.activated(x)), hidden)


_Matrix = tuple[Tensor, Tensor | None]


@dataclass(frozen=True, slots=True)
class PlainLayer:
    """The matrices of a layer with their biases: ``into`` are query, key and value, ``wide`` gate and up projection."""

    into: _Matrix
    out: _Matrix
    wide: _Matrix
    down: _Matrix

    def projected(self, x: Tensor) -> Tensor:
        """As of :class:`PackedLayer`."""
        return product(x, *self.into)

    def attended(self, found: Tensor, hidden: Tensor) -> Tensor:
        """As of :class:`PackedLayer`."""
        hidden += product(found, *self.out)
        return hidden

    def fed(self, x: Tensor, hidden: Tensor) -> Tensor:
        """As of :class:`PackedLayer`."""
        gate, up = product(x, *self.wide).chunk(2, dim=-1)
        hidden += product(silu(gate).mul_(up), *self.down)
        return hidden


Projections = PackedLayer | PlainLayer


def parts(block: Any) -> dict[str, Any]:
    """The modules of a layer's matrices, by their names in :class:`PackedLayer`."""
    attention, mlp = block.self_attn, block.mlp
    return {
        "query": attention.q_proj,
        "key": attention.k_proj,
        "value": attention.v_proj,
        "out": attention.o_proj,
        "gate": mlp.gate_proj,
        "up": mlp.up_proj,
        "down": mlp.down_proj,
    }


def projections(block: Any) -> Projections:
    """The matrices of a layer in the form that fits; its modules share them from now on."""
    found = parts(block)
    if all(map(packable, found.values())):
        made = {name: packed(part) for name, part in found.items()}
        attention, mlp = block.self_attn, block.mlp
        attention.q_proj, attention.k_proj, attention.v_proj = made["query"], made["key"], made["value"]
        attention.o_proj = made["out"]
        mlp.gate_proj, mlp.up_proj, mlp.down_proj = made["gate"], made["up"], made["down"]
        return PackedLayer(**made)
    out, down = found["out"], found["down"]
    return PlainLayer(
        into=_side_by_side(found["query"], found["key"], found["value"]),
        out=(out.weight, out.bias),
        wide=_side_by_side(found["gate"], found["up"]),
        down=(down.weight, down.bias),
    )


def _side_by_side(*modules: Any) -> _Matrix:
    """One matrix (and bias) of several; the modules' own become views of it, so no weight is kept twice."""
    weight = torch.cat([module.weight.data for module in modules])
    start = 0
    for module in modules:
        end = start + len(module.weight)
        module.weight.data = weight[start:end]
        start = end
    biased = modules[0].bias is not None
    return weight, torch.cat([module.bias.data for module in modules]) if biased else None


class Head:
    """The scores of every token; ``copied`` bytes of its matrix lie packed beside the embedding's."""

    def __init__(self, model: Any) -> None:
        head = model.lm_head
        tied = head.weight is model.get_input_embeddings().weight
        self._packed = packed(head) if packable(head) else None
        if self._packed is not None and not tied:
            model.lm_head = self._packed
        # The plain matrix is kept where it is read: packed beside it, an untied one would lie in memory twice.
        self._matrix: _Matrix | None = (head.weight, head.bias) if self._packed is None else None
        self.copied = head.weight.numel() * head.weight.element_size() if self._packed is not None and tied else 0

    def __call__(self, hidden: Tensor) -> Tensor:
        """Scores of ``[..., size]``."""
        if self._matrix is not None:
            return product(hidden, *self._matrix)
        assert self._packed is not None  # noqa: S101 - one of the two is there
        found: Tensor = self._packed(hidden)
        return found
