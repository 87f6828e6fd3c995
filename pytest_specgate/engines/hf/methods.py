"""Every way in which transformers can draft, in one table: method → the arguments of ``generate``.

The draft length is fixed here: transformers' default schedule changes it from round to round, and its confidence
threshold cuts drafts short, so neither speed nor acceptance would mean the same twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_specgate.errors import EngineError
from pytest_specgate.suite.model import Candidate, Method


@dataclass(frozen=True, slots=True)
class Parts:
    """What a method may need: the tokenizers and the draft, None where there is none."""

    engine: str
    model: Any
    tokenizer: Any
    draft: Any = None
    draft_tokenizer: Any = None


def arguments(candidate: Candidate, parts: Parts) -> dict[str, Any]:
    """Keyword arguments of ``generate`` for the candidate arm. Raises EngineError for what cannot work."""
    return {**METHODS[candidate.method](candidate, parts), **candidate.options}


def same_vocabulary(first: Any, second: Any) -> bool:
    """Whether two tokenizers agree on every token that both name: padding rows beyond them do not count."""
    if second is None:
        return True
    one, other = first.get_vocab(), second.get_vocab()
    return all(other.get(token, index) == index for token, index in one.items())


def _draft_model(candidate: Candidate, parts: Parts) -> dict[str, Any]:
    if not same_vocabulary(parts.tokenizer, parts.draft_tokenizer):
        what = "draft and target have different vocabularies"
        raise EngineError(parts.engine, what, "use method: universal, or a draft that shares the tokenizer")
    _fix_length(parts.draft.generation_config, candidate)
    return {"assistant_model": parts.draft}


def _universal(candidate: Candidate, parts: Parts) -> dict[str, Any]:
    if parts.draft_tokenizer is None:
        raise EngineError(parts.engine, "method universal needs the draft's own tokenizer", "save it beside the draft")
    _fix_length(parts.draft.generation_config, candidate)
    return {"assistant_model": parts.draft, "tokenizer": parts.tokenizer, "assistant_tokenizer": parts.draft_tokenizer}


def _prompt_lookup(candidate: Candidate, parts: Parts) -> dict[str, Any]:
    return {"prompt_lookup_num_tokens": candidate.num_draft_tokens, "max_matching_ngram_size": candidate.max_ngram}


def _early_exit(candidate: Candidate, parts: Parts) -> dict[str, Any]:
    layers = parts.model.config.get_text_config().num_hidden_layers
    if candidate.exit_layer is None or candidate.exit_layer >= layers:
        what = f"exit_layer {candidate.exit_layer} is not below the target's {layers} layers"
        raise EngineError(parts.engine, what, f"choose 1 to {layers - 1}")
    # The exit drafts with the target's own generation config, so the length is fixed there.
    _fix_length(parts.model.generation_config, candidate)
    return {"assistant_early_exit": candidate.exit_layer}


def _mtp(candidate: Candidate, parts: Parts) -> dict[str, Any]:
    _needs(parts, "use_mtp", "multi-token prediction")
    return {"use_mtp": True, "num_assistant_tokens": candidate.num_draft_tokens}


def _dflash(candidate: Candidate, parts: Parts) -> dict[str, Any]:
    _needs(parts, "speculation_type", "DFlash")
    _fix_length(parts.draft.generation_config, candidate)
    return {"assistant_model": parts.draft, "speculation_type": "dflash"}


METHODS: Mapping[Method, Callable[[Candidate, Parts], dict[str, Any]]] = {
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


def _needs(parts: Parts, setting: str, name: str) -> None:
    import transformers

    if not hasattr(transformers.GenerationConfig(), setting):
        what = f"transformers {transformers.__version__} cannot draft by {name}"
        raise EngineError(parts.engine, what, "install a newer transformers, or choose another method")
