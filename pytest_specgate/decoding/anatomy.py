"""What the loop must know of a model's class: its cache layers, its window, and how its forward is called.

A model is fit when all its layers keep keys and values per token and nothing else, when positions can be given row by
row, and when attention takes a mask made by us. Recurrent, convolutional and hybrid layers hold a state that cannot go
back by length, so models that have any are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from pytest_specgate.decoding.refusal import Refusal

#: Layers whose mask is made here, as configurations name them.
_KINDS = {"full_attention", "sliding_attention"}
_ATTENTION = ("sdpa", "eager")
#: The argument that takes the cache: its name from transformers 5.24 on, and before.
_CACHE_NAMES = ("cache", "past_key_values")


@dataclass(frozen=True, slots=True)
class Anatomy:
    """A model that the loop can drive.

    ``windows`` has one entry per layer: how many tokens back it sees, None for all. ``kinds`` names the layers as the
    model's masks are keyed, and is empty where one mask serves all. ``context`` is the longest text in tokens, None
    where the model sets no bound. ``cache_name`` is the forward's keyword for the cache.
    """

    name: str
    windows: tuple[int | None, ...]
    kinds: tuple[str, ...]
    context: int | None
    vocabulary: int
    cache_name: str


def examine(model: Any) -> Anatomy:
    """Return what the loop must know. Raises Refusal for a model whose cache it cannot roll back, by name."""
    name, config = type(model).__name__, model.config.get_text_config(decoder=True)
    taken = signature(model.forward).parameters
    cache_name = next((word for word in _CACHE_NAMES if word in taken), None)
    if model.config.is_encoder_decoder:
        raise Refusal(f"{name} has an encoder, which this decoder does not run", "use a causal language model")
    if cache_name is None or getattr(model, "_is_stateful", False):
        raise _rollback(name, "a recurrent state")
    if "position_ids" not in taken or getattr(config, "alibi", False):
        what = f"{name} takes no positions, so rows of a batch cannot stand at different ones"
        raise Refusal(what, "use a model with rotary or learned positions, or kind: transformers")
    attention = str(getattr(config, "_attn_implementation", "eager"))
    if attention not in _ATTENTION:
        what = f"attention {attention!r} takes no mask per row"
        raise Refusal(what, f"set attention: {' or '.join(_ATTENTION)}")
    if "longrope" in _turning(config):
        what = f"{name} turns every row's positions by the longest of the batch (longrope), so rows change one another"
        raise Refusal(what, "use another model, or kind: transformers")
    windows = tuple(_window(name, layer) for layer in DynamicCache(config=config).layers)
    kinds = tuple(getattr(config, "layer_types", None) or ())
    if unknown := set(kinds) - _KINDS:
        raise Refusal(f"{name} has layers of {', '.join(sorted(unknown))}", "use a model of full or sliding attention")
    if len(set(windows)) > 1 and len(kinds) != len(windows):
        what = f"{name} mixes attention windows and does not name its layers"
        raise Refusal(what, "use a newer transformers, or kind: transformers")
    return Anatomy(
        name=name,
        windows=windows or (None,) * config.num_hidden_layers,
        kinds=kinds if len(set(kinds)) > 1 else (),
        context=getattr(config, "max_position_embeddings", None),
        vocabulary=int(config.vocab_size),
        cache_name=cache_name,
    )


def _turning(config: Any) -> set[str]:
    """The kinds of rotary scaling that the configuration names, for all layers or by kind of layer."""
    given = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    several = [given, *(one for one in given.values() if isinstance(one, Mapping))]
    return {str(one.get("rope_type", one.get("type", ""))) for one in several}


def _window(name: str, layer: Any) -> int | None:
    if type(layer) is DynamicLayer:
        return None
    if type(layer) is DynamicSlidingWindowLayer:
        return int(layer.sliding_window)
    raise _rollback(name, f"a layer of kind {type(layer).__name__}")


def _rollback(name: str, why: str) -> Refusal:
    return Refusal(f"{name} has {why}, whose cache cannot be rolled back", "use a model of attention layers alone")
