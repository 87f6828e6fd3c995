"""Every way in which specgate's own decoder can draft, in one table: method → drafter.

Pairs of models that cannot work are refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_specgate.decoding.drafters.base import Drafter
from pytest_specgate.decoding.drafters.composed import Composed
from pytest_specgate.decoding.drafters.draft_model import DraftModel
from pytest_specgate.decoding.drafters.early_exit import EarlyExit
from pytest_specgate.decoding.drafters.prompt_lookup import PromptLookup
from pytest_specgate.decoding.drafters.synthetic import Filler, ForcedVerifier
from pytest_specgate.decoding.length import Constant, Length, Paying
from pytest_specgate.decoding.network import Network
from pytest_specgate.decoding.verifier import Verifier
from pytest_specgate.engines.hf.facts import refuse_mixed_precision
from pytest_specgate.engines.hf.loading import Loaded
from pytest_specgate.engines.hf.methods import LOOKUP_FIRST
from pytest_specgate.engines.hf.vocabulary import fit, same
from pytest_specgate.errors import EngineError
from pytest_specgate.suite.model import Candidate, Method


@dataclass(frozen=True, slots=True)
class Parts:
    """What a method may need: the target and the decoder's view of it, and the draft, None where there is none."""

    engine: str
    network: Network
    target: Loaded
    draft: Loaded | None = None


def drafter(candidate: Candidate, parts: Parts) -> Drafter:
    """Build what drafts. Raises EngineError for a pair, a method or an option that cannot work; Refusal for a model."""
    if candidate.method not in METHODS:
        what = f"kind native does not draft by {candidate.method.value}"
        hint = f"use one of {', '.join(method.value for method in METHODS)}, or kind: transformers"
        raise EngineError(parts.engine, what, hint)
    known = {LOOKUP_FIRST} if candidate.method is Method.DRAFT_MODEL else set()
    if unknown := sorted(set(candidate.options) - known):
        hint = f"valid: {', '.join(known)}" if known else "remove it"
        raise EngineError(parts.engine, f"unknown candidate option {', '.join(unknown)}", hint)
    return METHODS[candidate.method](candidate, parts)


def _draft_model(candidate: Candidate, parts: Parts) -> Drafter:
    draft = parts.draft
    assert draft is not None  # noqa: S101 - a suite without one is refused when it is read
    refuse_mixed_precision(parts.engine, candidate, parts.target, draft)
    if not same(parts.target.tokenizer, draft.tokenizer):
        what = "draft and target have different vocabularies"
        raise EngineError(parts.engine, what, "use a draft that shares the tokenizer, or another method")
    theirs, ours = _vocabulary(draft.model), parts.network.anatomy.vocabulary
    if draft.tokenizer is None and theirs != ours:
        what = f"the draft scores {theirs} tokens and the target {ours}"
        raise EngineError(parts.engine, what, "save the draft's tokenizer beside it, so that they can be compared")
    larger, smaller = draft.model.num_parameters(), parts.target.model.num_parameters()
    if larger > smaller:
        what = f"the draft has {larger:,} parameters and the target {smaller:,}"
        raise EngineError(parts.engine, what, "exchange the two, or use a smaller draft")
    fit(draft.model, ours)
    model = DraftModel(Network(draft.model), candidate.min_confidence or 0.0)
    return Composed(_lookup(candidate, parts), model) if candidate.options.get(LOOKUP_FIRST) else model


def _lookup(candidate: Candidate, parts: Parts) -> Drafter:
    return PromptLookup(candidate.max_ngram, parts.network.device, candidate.drafts_per_match, candidate.min_match or 1)


def _early_exit(candidate: Candidate, parts: Parts) -> Drafter:
    assert candidate.exit_layer is not None  # noqa: S101 - a suite without one is refused when it is read
    return EarlyExit(parts.network, candidate.exit_layer, candidate.min_confidence or 0.0)


def _synthetic(candidate: Candidate, parts: Parts) -> Drafter:
    return _draft_model(candidate, parts) if parts.draft else Filler(device=parts.network.device)


def verifier(candidate: Candidate) -> Verifier | None:
    """What judges drafts, None for the exact rule; a forced rate keeps tokens by lot."""
    return None if candidate.acceptance is None else ForcedVerifier(candidate.acceptance)


def length(candidate: Candidate) -> Length:
    """How long drafts are: always the same, unless a request's drafts must pay."""
    if candidate.min_acceptance is None:
        return Constant(candidate.num_draft_tokens)
    return Paying(candidate.num_draft_tokens, candidate.min_acceptance)


METHODS: Mapping[Method, Callable[[Candidate, Parts], Drafter]] = {
    Method.DRAFT_MODEL: _draft_model,
    Method.PROMPT_LOOKUP: _lookup,
    Method.EARLY_EXIT: _early_exit,
    Method.SYNTHETIC: _synthetic,
}


def _vocabulary(model: Any) -> int:
    return int(model.config.get_text_config().vocab_size)
