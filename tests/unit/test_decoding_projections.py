"""Packed matrices: the same products, the model's own weights, and what is kept twice is told."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from pytest_specgate.decoding import projections as projections_module
from pytest_specgate.decoding.cache import Span
from pytest_specgate.decoding.network import Network
from pytest_specgate.decoding.projections import LEAST, Packed, PackedLayer, packable, packed, projections
from pytest_specgate.decoding.refusal import Refusal
from tests.unit.decoding import build

#: Large enough that every matrix is packed where the processor can.
LARGE: dict[str, Any] = {"hidden_size": 256, "intermediate_size": 128, "num_key_value_heads": 2, "head_dim": 64}
DTYPES = [torch.float32, torch.bfloat16]


def matrix(dtype: torch.dtype, biased: bool = False) -> torch.nn.Linear:
    source = torch.Generator().manual_seed(8)
    made = torch.nn.Linear(256, 192, bias=biased)
    with torch.no_grad():
        for part in made.parameters():
            part.copy_(torch.randn(part.shape, generator=source) / 16)
    return made.to(dtype)


def needs_packing(dtype: torch.dtype) -> None:
    if not packable(matrix(dtype)):
        pytest.skip(f"nothing is packed here in {dtype}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (3, 4), (2, 60)])
def test_a_packed_product_is_the_product(dtype: torch.dtype, biased: bool, shape: tuple[int, int]) -> None:
    needs_packing(dtype)
    plain, source = matrix(dtype, biased), torch.Generator().manual_seed(9)
    x, other = (torch.randn(*shape, size, generator=source).to(dtype) for size in (256, 192))
    with torch.inference_mode():
        made = packed(plain)
        exact = torch.nn.functional.linear(x.double(), plain.weight.double(), plain.bias.double() if biased else None)
        found = {
            "plain": (made(x), exact),
            "activated": (made.activated(x), torch.nn.functional.silu(exact)),
            "times": (made.times(x, other), exact * other.double()),
            "plus": (made.plus(x, other), exact + other.double()),
        }
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 3e-2}[dtype]
    for ours, right in found.values():
        torch.testing.assert_close(ours.double(), right, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_bias_with_gaps_is_read_as_it_is(dtype: torch.dtype) -> None:
    needs_packing(dtype)
    plain, source = matrix(dtype), torch.Generator().manual_seed(10)
    bias, x = torch.randn(384, generator=source).to(dtype)[::2], torch.randn(1, 3, 256, generator=source).to(dtype)
    assert not bias.is_contiguous()
    with torch.inference_mode():
        exact = torch.nn.functional.linear(x.double(), plain.weight.double(), bias.double())
        found = Packed(plain.weight.data, bias)(x)
    torch.testing.assert_close(found.double(), exact, rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_packing_loses_nothing(dtype: torch.dtype) -> None:
    needs_packing(dtype)
    plain = matrix(dtype)
    made = packed(plain)
    assert torch.equal(made.weight.to_dense(), plain.weight)
    assert packed(made) is made


def test_what_is_small_or_of_another_type_stays_as_it_is() -> None:
    assert not packable(matrix(torch.float64))
    assert not packable(torch.nn.Linear(LEAST // 64, 63))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tied", [False, True])
def test_a_packed_model_scores_ragged_blocks_as_its_modules_did(dtype: torch.dtype, tied: bool) -> None:
    needs_packing(dtype)
    made = build("Llama", **LARGE, vocab_size=96, initializer_range=0.05, tie_word_embeddings=tied).to(dtype)
    texts = torch.randint(96, (3, 20), generator=torch.Generator().manual_seed(4))
    lengths, width = (5, 9, 2), 4
    with torch.inference_mode():
        own = made(input_ids=texts, use_cache=False).logits
        network = Network(made)
        again = made(input_ids=texts, use_cache=False).logits
        network.reserve(3, 32)
        for slot, length in enumerate(lengths):
            network.prefill(texts[slot, :length].tolist(), slot)
        block = torch.stack([texts[slot, length : length + width] for slot, length in enumerate(lengths)])
        scores = network.forward(block, Span(lengths, width))

    assert isinstance(projections(made.model.layers[0]), PackedLayer)
    tolerance = {torch.float32: 1e-4, torch.bfloat16: 5e-2}[dtype] * float(own.abs().max())
    torch.testing.assert_close(again, own, rtol=0, atol=tolerance)
    for slot, length in enumerate(lengths):
        torch.testing.assert_close(scores[slot], own[slot, length : length + width], rtol=0, atol=tolerance)
    # An embedding is read by rows, so a head that shares it is the one matrix that lies there twice.
    assert network.copied_bytes == (96 * 256 * dtype.itemsize if tied else 0)
    assert isinstance(made.lm_head, Packed) != tied


def test_a_model_that_was_packed_once_is_driven_again_and_keeps_its_size() -> None:
    needs_packing(torch.float32)
    made = build("Llama", **LARGE).float()
    count = made.num_parameters()
    for _ in range(2):
        assert Network(made).forward_name == "lean"
    assert made.num_parameters() == count
    gate = made.model.layers[0].mlp.gate_proj
    assert isinstance(gate, Packed)
    assert projections(made.model.layers[0]).gate is gate  # type: ignore[union-attr]


def test_a_head_of_its_own_lies_in_memory_once() -> None:
    needs_packing(torch.float32)
    made = build("Llama", **LARGE, vocab_size=512, tie_word_embeddings=False).float()
    plain = weakref.ref(made.lm_head.weight)
    network = Network(made)
    assert network.forward_name == "lean"
    assert network.copied_bytes == 0
    assert plain() is None


@pytest.fixture
def _afresh() -> Iterator[None]:
    """What this processor can is found out anew, before and after."""
    projections_module._multiplied.cache_clear()
    yield
    projections_module._multiplied.cache_clear()


@pytest.mark.usefixtures("_afresh")
@pytest.mark.parametrize("broken", ["raises", "is wrong"])
def test_without_the_operations_the_plain_form_stays(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def reorder(weight: torch.Tensor, rows: int) -> torch.Tensor:
        if broken == "raises":
            raise RuntimeError("could not create a primitive")
        return reordered(weight * 2, rows)

    needs_packing(torch.float32)
    reordered = torch.ops.mkldnn._reorder_linear_weight
    projections_module._multiplied.cache_clear()
    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", reorder)
    assert not packable(matrix(torch.float32))


def test_a_packed_matrix_that_is_another_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_packing(torch.float32)
    wrong = staticmethod(lambda weight, rows: reordered(weight * 1.5, rows))
    reordered = torch.ops.mkldnn._reorder_linear_weight
    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", wrong)
    with pytest.raises(Refusal, match="its matrices give other scores once they are packed for this processor"):
        Network(build("Llama", **LARGE).float())
