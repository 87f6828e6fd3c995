"""Counting the tokens of a text with a tokenizer that a suite names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.hf.failures import translated
from pytest_specgate.engines.hf.quiet import without_progress_bars
from pytest_specgate.engines.store import locate


def token_counter(context: EngineContext, reference: str) -> Callable[[str], int]:
    """A function from a text to its number of tokens, no special ones added. Raises EngineError."""
    tokenizer = load_tokenizer(context, reference)
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False))


def load_tokenizer(context: EngineContext, reference: str) -> Any:
    """The tokenizer at a Hub id, a directory, or of a model that is named as a target is. Raises EngineError."""
    from transformers import AutoTokenizer

    with translated(context.name, f"cannot load tokenizer {reference!r}"), without_progress_bars():
        local = context.folder / reference
        folder = local if local.is_dir() else locate(reference, context)
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=context.allow_remote_code)
