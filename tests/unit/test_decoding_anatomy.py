"""Which models the loop can drive, and what it says of the others."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_specgate.decoding.anatomy import examine
from pytest_specgate.decoding.refusal import Refusal
from tests.unit.decoding import CONTEXT, FAMILIES, VOCABULARY, build

ROLLBACK = "whose cache cannot be rolled back — use a model of attention layers alone"


@pytest.mark.parametrize("name", FAMILIES)
def test_attention_models_are_fit(name: str) -> None:
    anatomy = examine(build(name))

    assert (anatomy.context, anatomy.vocabulary) == (CONTEXT, VOCABULARY)
    assert anatomy.windows == {"Mistral": (6, 6), "Gemma2": (6, None), "Gemma3": (6, None)}.get(name, (None, None))
    assert bool(anatomy.kinds) == (name in {"Gemma2", "Gemma3"})


def model(name: str, **settings: Any) -> Any:
    import transformers

    size = {"vocab_size": 32, "hidden_size": 32, "num_hidden_layers": 2}
    return getattr(transformers, name)(getattr(transformers, settings.pop("config"))(**{**size, **settings}))


ATTENTION = {"intermediate_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
REFUSED = {
    "recurrent": (
        lambda: model("MambaForCausalLM", config="MambaConfig", state_size=4),
        f"MambaForCausalLM has a recurrent state, {ROLLBACK}",
    ),
    "hybrid": (
        lambda: model(
            "Lfm2ForCausalLM", config="Lfm2Config", **ATTENTION, layer_types=["conv", "full_attention"], pad_token_id=0
        ),
        f"Lfm2ForCausalLM has a layer of kind LinearAttentionLayer, {ROLLBACK}",
    ),
    "positions in the mask": (
        lambda: model("BloomForCausalLM", config="BloomConfig", n_head=4),
        (
            "BloomForCausalLM takes no positions, so rows of a batch cannot stand at different ones — "
            "use a model with rotary or learned positions, or kind: transformers"
        ),
    ),
    "encoder": (
        lambda: model("T5ForConditionalGeneration", config="T5Config", d_model=32, d_ff=32, d_kv=8, num_heads=4),
        "T5ForConditionalGeneration has an encoder, which this decoder does not run — use a causal language model",
    ),
    "chunks": (
        lambda: model(
            "Llama4ForCausalLM",
            config="Llama4TextConfig",
            **ATTENTION,
            intermediate_size_mlp=32,
            head_dim=8,
            num_local_experts=2,
            pad_token_id=0,
            layer_types=["chunked_attention", "chunked_attention"],
        ),
        "Llama4ForCausalLM has layers of chunked_attention — use a model of full or sliding attention",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_other_models_are_refused_by_name(what: str) -> None:
    make, text = REFUSED[what]
    with pytest.raises(Refusal) as raised:
        examine(make())
    assert str(raised.value) == text


def test_an_attention_without_a_mask_is_refused() -> None:
    made = build("Llama")
    made.config._attn_implementation = "flash_attention_2"
    with pytest.raises(Refusal) as raised:
        examine(made)
    assert str(raised.value) == ("attention 'flash_attention_2' takes no mask per row — set attention: sdpa or eager")


def test_positions_that_turn_by_the_longest_row_are_refused() -> None:
    made = build("Llama")
    factors = [1.0] * 4
    made.config.rope_parameters = {"rope_type": "longrope", "short_factor": factors, "long_factor": factors}
    with pytest.raises(Refusal) as raised:
        examine(made)
    assert str(raised.value) == (
        "LlamaForCausalLM turns every row's positions by the longest of the batch (longrope), so rows change one "
        "another — use another model, or kind: transformers"
    )
