"""Closeness of two texts in meaning, by an embedding model: the cosine of their vectors, 0 to 100.

``wordllama`` comes with its weights in its package (the extra ``similarity``): static vectors of English words, their
mean. Any other name is a model of sentence-transformers, by its Hub id or its folder; nothing is fetched. What cannot
be embedded is :class:`Unscored`, never 0.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

BUNDLED = "wordllama"
_EXTRA = "python -m pip install 'pytest-specgate[similarity]'"
#: A text with a larger part of other letters is none that English vectors know.
_MOST_FOREIGN = 0.2


class Unscored(Exception):
    """Why a text score has no value here, and what to do."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what} — {hint}")
        self.what = what
        self.hint = hint


def similarity(candidate: str, reference: str, model: str) -> float:
    """100 for the same text, 0 for vectors at right angles or beyond. Raises Unscored."""
    if candidate == reference:
        return 100.0
    if not candidate.strip() or not reference.strip():
        return 0.0
    if model == BUNDLED and max(map(_foreign, (candidate, reference))) > _MOST_FOREIGN:
        hint = "name a multilingual model of sentence-transformers in the gate: embedding: NAME"
        raise Unscored("wordllama knows English, and these texts are in another script", hint)
    one, other = _vector(candidate, model), _vector(reference, model)
    length = (float(one @ one) * float(other @ other)) ** 0.5
    return min(100.0, max(0.0, 100.0 * float(one @ other) / length)) if length else 0.0


def _foreign(text: str) -> float:
    """The part of the letters that are not Latin."""
    letters = [character for character in text if character.isalpha()]
    return sum("LATIN" not in unicodedata.name(letter, "") for letter in letters) / max(1, len(letters))


@lru_cache(maxsize=4096)
def _vector(text: str, model: str) -> Any:
    return _embedder(model)(text)


@lru_cache(maxsize=2)
def _embedder(model: str) -> Callable[[str], Any]:
    """What turns a text into a vector of float64. Raises Unscored."""
    try:
        return _bundled() if model == BUNDLED else _sentence_transformer(model)
    except ImportError as error:
        package = "wordllama" if model == BUNDLED else "sentence-transformers"
        hint = _EXTRA if model == BUNDLED else "python -m pip install sentence-transformers"
        raise Unscored(f"package {package!r} is not installed ({error})", hint) from error
    except (OSError, ValueError) as error:
        said = " ".join(str(error).split())[:200]
        raise Unscored(f"embedding model {model!r} cannot be loaded ({said})", "name a folder that holds it") from error


def _bundled() -> Callable[[str], Any]:
    import numpy as np
    import wordllama

    # It looks for the tokenizer that it ships in a folder of another name; taken for its cache, its own folder has it.
    words = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    return lambda text: np.asarray(words.embed([text]), dtype=np.float64)[0]


def _sentence_transformer(model: str) -> Callable[[str], Any]:
    import numpy as np
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(model, local_files_only=True, device="cpu")
    return lambda text: np.asarray(encoder.encode(text, show_progress_bar=False), dtype=np.float64)
