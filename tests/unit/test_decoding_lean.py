"""The forward without modules: whom it fits, that it says what the modules say, and that it keeps no weight twice."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pytest_specgate.decoding import lean
from pytest_specgate.decoding.cache import SlotCache, SlotLayer, Span
from pytest_specgate.decoding.network import PREFILL_CHUNK, Network
from pytest_specgate.decoding.product import product
from pytest_specgate.decoding.refusal import Refusal
from tests.unit.decoding import FAMILIES, VOCABULARY, build
from tests.unit.tape import record

FITS = {"Llama", "Qwen2"}


@pytest.mark.parametrize("name", FAMILIES)
def test_only_classes_that_it_was_made_for_are_driven_so(name: str) -> None:
    assert (Network(build(name)).forward_name == "lean") == (name in FITS)


def test_a_mistral_without_a_window_fits() -> None:
    assert Network(build("Mistral", sliding_window=None)).forward_name == "lean"


def test_a_class_of_that_name_that_computes_something_else_does_not() -> None:
    made = build("Llama")
    made.model.norm.register_forward_hook(lambda module, given, output: output * 2)
    assert Network(made).forward_name == "modules"


def test_weights_that_are_no_numbers_are_left_to_the_run_to_tell() -> None:
    made = build("Llama")
    with torch.no_grad():
        made.lm_head.weight[3] = float("nan")
    assert Network(made).forward_name == "modules"


def test_another_activation_or_attention_does_not() -> None:
    for made in (build("Llama", hidden_act="gelu"), build("Llama", attn_implementation="eager")):
        assert Network(made).forward_name == "modules"


@pytest.mark.parametrize("changes", [{}, {"num_key_value_heads": 4}, {"attention_bias": True, "mlp_bias": True}])
def test_ragged_blocks_are_scored_as_whole_texts_are(changes: dict[str, Any]) -> None:
    made = build("Llama", **changes)
    network = Network(made)
    texts = torch.randint(VOCABULARY, (3, 20), generator=torch.Generator().manual_seed(4))
    lengths, width = (5, 9, 2), 4
    with torch.inference_mode():
        network.reserve(3, 32)
        for slot, length in enumerate(lengths):
            network.prefill(texts[slot, :length].tolist(), slot)
        block = torch.stack([texts[slot, length : length + width] for slot, length in enumerate(lengths)])
        scores = network.forward(block, Span(lengths, width))
        own = made(input_ids=texts, use_cache=False).logits

    for slot, length in enumerate(lengths):
        torch.testing.assert_close(scores[slot], own[slot, length : length + width], rtol=0, atol=1e-5)


def test_attention_may_lay_its_result_out_token_by_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """As CUDA's kernel for masks does: strides of its result by PyTorch's own account, on no device."""
    sizes = ((2, 2, 6, 8), (2, 2, 20, 8), (2, 2, 20, 8), (2, 2, 6, 20))
    found, *_ = torch.ops.aten._scaled_dot_product_efficient_attention(
        *(torch.empty(size, device="meta") for size in sizes), compute_log_sumexp=False
    )
    assert found.transpose(1, 2).is_contiguous()
    attention, plain = lean.scaled_dot_product_attention, Network(build("Llama"))

    def laid_out(*given: Any, **named: Any) -> Tensor:
        return attention(*given, **named).transpose(1, 2).contiguous().transpose(1, 2)

    monkeypatch.setattr(lean, "scaled_dot_product_attention", laid_out)
    network = Network(build("Llama"))
    assert network.forward_name == "lean"
    with torch.inference_mode():
        scores = [torch.cat([*one.forced([3, 1, 4], [1, 5, 9, 2, 6, 5], 3)]) for one in (plain, network)]
    assert torch.equal(*scores)


@pytest.mark.parametrize("memory", [False, True])
def test_a_forward_that_does_not_run_here_is_told_and_left_alone(memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: Any, **named: Any) -> Tensor:
        raise torch.OutOfMemoryError("out of memory") if memory else RuntimeError("no kernel takes this\nhere")

    monkeypatch.setattr(lean, "scaled_dot_product_attention", fails)
    if memory:
        with pytest.raises(torch.OutOfMemoryError):
            Network(build("Llama"))
    else:
        network = Network(build("Llama"))
        assert network.doubt == "its forward does not run here (no kernel takes this)"
        with pytest.raises(
            Refusal, match=r"cannot be recorded: its forward does not run here \(no kernel takes this\)"
        ):
            network.record(lambda: record)


def test_the_modules_keep_their_weights_and_nothing_is_kept_twice() -> None:
    plain, made = build("Qwen2"), build("Qwen2")
    assert Network(made).forward_name == "lean"

    attention = made.model.layers[0].self_attn
    parts = [attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]
    assert len({part.untyped_storage().data_ptr() for part in parts}) == 1
    for name, weight in plain.state_dict().items():
        assert torch.equal(weight, made.state_dict()[name])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (3, 1), (2, 3), (7, 1), (2, 4), (3, 5)])
@pytest.mark.parametrize("biased", [False, True])
def test_a_product_of_few_rows_is_the_product(dtype: torch.dtype, shape: tuple[int, int], biased: bool) -> None:
    source = torch.Generator().manual_seed(6)
    x, weight = (torch.randn(*size, generator=source).to(dtype) for size in ((*shape, 48), (80, 48)))
    bias = torch.randn(80, generator=source).to(dtype) if biased else None
    with torch.inference_mode():
        found = product(x, weight, bias)
    exact = x.double() @ weight.double().T + (bias.double() if bias is not None else 0)
    assert found.shape == (*shape, 80)
    assert found.is_contiguous()
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 0.2, torch.float64: 1e-12}[dtype]
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=tolerance)


def test_float32_on_a_cpu_is_scored_as_the_modules_score_it() -> None:
    made = build("Llama").float()
    network = Network(made)
    tokens = torch.randint(VOCABULARY, (1, 12), generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        network.reserve(1, 16)
        spans = ((0, 6), (6, 1), (7, 5))
        ours = [network.forward(tokens[:, at : at + width], Span((at,), width)) for at, width in spans]
        own = made(input_ids=tokens, use_cache=False).logits
    torch.testing.assert_close(torch.cat(ours, dim=1), own, rtol=0, atol=2e-3)


class Backwards(SlotLayer):
    """Keeps the values with their sign turned, and gives them back so."""

    def update(self, key_states: Tensor, value_states: Tensor, *given: Any, **named: Any) -> tuple[Tensor, Tensor]:
        return super().update(key_states, -value_states, *given, **named)


@pytest.mark.parametrize("kind", [SlotLayer, Backwards])
def test_a_layer_of_another_kind_keeps_its_tokens_in_its_own_way(kind: type[SlotLayer]) -> None:
    network = Network(build("Llama"))
    with torch.inference_mode():
        network.reserve(1, 16)
        own = network.prefill([3, 1, 4], 0)
        network.cache = SlotCache(2, 1, 16)
        network.cache.layers = [kind(1, 16) for _ in range(2)]
        assert torch.equal(network.prefill([3, 1, 4], 0), own) == (kind is SlotLayer)


def test_a_long_text_is_scored_as_its_modules_score_it() -> None:
    """Past what one forward of a prompt reads, and past the angles that a shorter text needed."""
    made = build("Llama", max_position_embeddings=2048).float()
    network, length = Network(made), PREFILL_CHUNK + 70
    text = torch.randint(VOCABULARY, (1, length), generator=torch.Generator().manual_seed(3))
    ids = text[0].tolist()
    with torch.inference_mode():
        own = made(input_ids=text, use_cache=False).logits[0]
        network.reserve(1, 32)
        network.prefill(ids[:8], 0)
        for start in (PREFILL_CHUNK - 3, PREFILL_CHUNK + 60):
            scores = torch.cat([*network.forced(ids[:start], ids[start : start + 7], 3)])
            torch.testing.assert_close(scores, own[start - 1 : start + 6], rtol=0, atol=2e-3)
        scores = torch.cat([*network.whole(ids[:5], ids[5:], 10_000)])
    torch.testing.assert_close(scores, own[4:-1], rtol=0, atol=2e-3)
