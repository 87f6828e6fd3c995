"""Every way in which transformers can draft, in one table: method → the arguments of ``generate``.

The draft length is fixed here: transformers' default schedule changes it from round to round, and its
confidence threshold cuts drafts short, so neither speed nor acceptance would mean the same twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_specgate.decoding.drafters.early_exit import shallow
from pytest_specgate.engines.hf.vocabulary import fit, same
from pytest_specgate.errors import EngineError
from pytest_specgate.suite.model import Candidate, Method

#: Option of ``draft_model``: copy from the text first, and ask the model where there is nothing to copy.
LOOKUP_FIRST = "lookup_first"
#: What the engine itself passes to ``generate``; an option of that name would change what is measured.
_TAKEN = frozenset(
    {"do_sample", "temperature", "top_k", "top_p", "max_new_tokens", "max_length", "eos_token_id", "streamer"}
    | {"pad_token_id", "stop_strings", "tokenizer", "use_cache", "return_dict_in_generate", "input_ids"}
    | {"assistant_model", "assistant_tokenizer", "custom_generate", "num_beams", "num_return_sequences"}
    | {"min_p", "repetition_penalty", "sequence_bias", "bad_words_ids", "min_new_tokens"}
)


@dataclass(frozen=True, slots=True)
class Parts:
    """What a method may need: the tokenizers and the draft, None where there is none."""

    engine: str
    model: Any
    tokenizer: Any
    draft: Any = None
    draft_tokenizer: Any = None


@dataclass(frozen=True, slots=True)
class Plan:
    """How to speculate: keyword arguments of ``generate``, and the longest draft of a round."""

    arguments: Mapping[str, Any]
    draft_tokens: int


def plan(candidate: Candidate, parts: Parts) -> Plan:
    """Prepare the candidate arm. Raises EngineError for what cannot work."""
    if taken := sorted(_TAKEN & set(candidate.options)):
        what = f"candidate option {', '.join(taken)} is set by the engine itself"
        raise EngineError(parts.engine, what, "remove it; scenario and candidate keys say the same")
    if getattr(parts.model, "_is_stateful", False):
        what = f"{type(parts.model).__name__} has a recurrent state, whose cache cannot be rolled back"
        raise EngineError(parts.engine, what, "use a model of attention layers")
    if candidate.options.get(LOOKUP_FIRST):
        what = f"transformers drafts in one way at a time, and knows no {LOOKUP_FIRST}"
        raise EngineError(parts.engine, what, "use kind: native, or remove the option")
    made = METHODS[candidate.method](candidate, parts)
    return Plan({**made.arguments, **candidate.options}, made.draft_tokens)


def _draft_model(candidate: Candidate, parts: Parts) -> Plan:
    if not same(parts.tokenizer, parts.draft_tokenizer):
        what = "draft and target have different vocabularies"
        raise EngineError(parts.engine, what, "use method: universal, or a draft that shares the tokenizer")
    if parts.draft_tokenizer is None and _vocabulary(parts.draft) != _vocabulary(parts.model):
        what = f"the draft scores {_vocabulary(parts.draft)} tokens and the target {_vocabulary(parts.model)}"
        raise EngineError(parts.engine, what, "save the draft's tokenizer beside it, so that they can be compared")
    fit(parts.draft, _vocabulary(parts.model))
    _fix_length(parts.draft.generation_config, candidate)
    return Plan({"assistant_model": parts.draft}, candidate.num_draft_tokens)


def _universal(candidate: Candidate, parts: Parts) -> Plan:
    if parts.draft_tokenizer is None:
        what = "method universal needs the draft's own tokenizer"
        raise EngineError(parts.engine, what, "save it beside the draft")
    if _vocabulary(parts.draft) == _vocabulary(parts.model):
        what = "draft and target score equally many tokens, which transformers takes for one vocabulary"
        raise EngineError(parts.engine, what, "use method: draft_model, or pad the draft's embeddings by a row")
    _fix_length(parts.draft.generation_config, candidate)
    tokenizers = {"tokenizer": parts.tokenizer, "assistant_tokenizer": parts.draft_tokenizer}
    return Plan({"assistant_model": parts.draft, **tokenizers}, candidate.num_draft_tokens)


def _prompt_lookup(candidate: Candidate, parts: Parts) -> Plan:
    del parts  # needs neither model nor tokenizer
    length = candidate.num_draft_tokens
    return Plan({"prompt_lookup_num_tokens": length, "max_matching_ngram_size": candidate.max_ngram}, length)


def _early_exit(candidate: Candidate, parts: Parts) -> Plan:
    layers = parts.model.config.get_text_config().num_hidden_layers
    if candidate.exit_layer is None or candidate.exit_layer >= layers:
        what = f"exit_layer {candidate.exit_layer} is not below the target's {layers} layers"
        raise EngineError(parts.engine, what, f"choose 1 to {layers - 1}")
    if not _stops(parts.model, candidate.exit_layer):
        what = f"{type(parts.model).__name__} runs all its layers, so none can be left early"
        raise EngineError(parts.engine, what, "choose another method")
    # The exit drafts with the target's own generation config, so the length is fixed there.
    _fix_length(parts.model.generation_config, candidate)
    return Plan({"assistant_early_exit": candidate.exit_layer}, candidate.num_draft_tokens)


def _stops(model: Any, layers: int) -> bool:
    """Whether the class's forward stops where its configuration says; some run on, into a cache that has no more."""
    import torch

    token = torch.zeros((1, 1), dtype=torch.long, device=model.device)
    try:
        with torch.inference_mode(), shallow(model, layers):
            out = model(input_ids=token, use_cache=True)
    except IndexError:
        return False
    cache = getattr(out, "cache", None) or out.past_key_values
    return len([layer for layer in cache.layers if _holds(layer)]) <= layers


def _holds(layer: Any) -> bool:
    """Whether a layer of a cache has been written: keys and values, or the states of one without attention."""
    states = (getattr(layer, "is_conv_states_initialized", {}), getattr(layer, "is_recurrent_states_initialized", {}))
    flags = [value for known in states for value in (known.values() if isinstance(known, dict) else [known])]
    return bool(getattr(layer, "is_initialized", False)) or any(flags)


def _mtp(candidate: Candidate, parts: Parts) -> Plan:
    _needs(parts, "use_mtp", "multi-token prediction")
    layers = getattr(parts.model.config.get_text_config(), "num_mtp_layers", None)
    if not layers:
        what = "the target has no layers for multi-token prediction"
        raise EngineError(parts.engine, what, "use a checkpoint that holds them, or choose another method")
    return Plan({"use_mtp": True}, _whole_block(candidate, parts, int(layers)))


def _dflash(candidate: Candidate, parts: Parts) -> Plan:
    _needs(parts, "speculation_type", "DFlash")
    block = getattr(parts.draft.config, "block_size", None)
    if not block:
        what = f"{type(parts.draft).__name__} is no DFlash draft"
        raise EngineError(parts.engine, what, "use a draft that was trained for DFlash")
    arguments = {"assistant_model": parts.draft, "speculation_type": "dflash"}
    return Plan(arguments, _whole_block(candidate, parts, int(block)))


METHODS: Mapping[Method, Callable[[Candidate, Parts], Plan]] = {
    Method.DRAFT_MODEL: _draft_model,
    Method.UNIVERSAL: _universal,
    Method.PROMPT_LOOKUP: _prompt_lookup,
    Method.EARLY_EXIT: _early_exit,
    Method.MTP: _mtp,
    Method.DFLASH: _dflash,
}


def _fix_length(config: Any, candidate: Candidate) -> None:
    config.num_assistant_tokens = candidate.num_draft_tokens
    config.num_assistant_tokens_schedule = "constant"
    config.assistant_confidence_threshold = 0.0


def _vocabulary(model: Any) -> int:
    return int(model.config.get_text_config().vocab_size)


def _whole_block(candidate: Candidate, parts: Parts, length: int) -> int:
    """Return the length that the checkpoint dictates; another one that was asked for would not be obeyed."""
    if "num_draft_tokens" in candidate.model_fields_set and candidate.num_draft_tokens != length:
        what = f"num_draft_tokens {candidate.num_draft_tokens}: this checkpoint drafts {length} a round"
        raise EngineError(parts.engine, what, f"write {length}, or leave it out")
    return length


def _needs(parts: Parts, setting: str, name: str) -> None:
    import transformers

    if not hasattr(transformers.GenerationConfig(), setting):
        what = f"transformers {transformers.__version__} cannot draft by {name}"
        raise EngineError(parts.engine, what, "install a newer transformers, or choose another method")
