"""Models on the Hugging Face Hub: a snapshot in the Hub's own cache, as a local directory.

Only what is needed is fetched: weights as safetensors, settings and tokenizer; pickles and Python code are
left where they are unless a person allowed them. ``HF_HUB_OFFLINE`` is honoured.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.errors import EngineError

_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?$")
_FILES = ("*.json", "*.jinja", "*.model", "*.txt", "*.safetensors")


def looks_like_id(reference: str) -> bool:
    """Whether the reference is of the form ``org/name`` or ``org/name@revision``."""
    return bool(_ID.match(reference)) and not reference.endswith(".gguf")


def snapshot(reference: str, context: EngineContext) -> Path:
    """Return the directory of the model's files, fetched where they are not there yet. Raises EngineError."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    repository, _, revision = reference.partition("@")
    wanted = [*_FILES, *(["*.py"] if context.allow_remote_code else [])]
    try:
        folder = Path(_fetch(snapshot_download, repository, revision, wanted))
        if context.allow_pickle and not any(folder.glob("*.safetensors")):
            folder = Path(_fetch(snapshot_download, repository, revision, [*wanted, "*.bin"]))
    except (LocalEntryNotFoundError, OSError) as error:
        if isinstance(error, HfHubHTTPError) and error.response is not None:
            what = f"the Hub refuses {reference!r} ({type(error).__name__})"
            raise EngineError(context.name, what, "check the name, and log in with 'hf auth login'") from error
        what = f"{reference!r} is neither in the Hub's cache nor can the Hub be reached"
        hint = f"fetch it where there is a network: hf download {repository}"
        raise EngineError(context.name, what, hint) from error
    return folder


def _fetch(download: Callable[..., Any], repository: str, revision: str, wanted: list[str]) -> str:
    return str(download(repository, revision=revision or None, allow_patterns=wanted, ignore_patterns=["*/*"]))
