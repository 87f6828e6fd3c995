"""Taught text on disk, and the promise that no bundled prompt was trained on.

A corpus is rows of tokens in flat arrays. For every place it holds who chose the token there and what the target thinks
comes after it: its likeliest next tokens and their log probabilities. Nothing here needs torch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from pathlib import Path

import numpy as np

LABELS = 8
NGRAM_WORDS = 8


class Origin(IntEnum):
    """Who chose a token."""

    GIVEN = 0
    """The template, an opening or a recycled passage."""
    USER = 1
    """The target, speaking as the user."""
    SAMPLED = 2
    """The target, answering at some temperature."""
    GREEDY = 3
    """The target, answering with its likeliest token."""
    COPY = 4
    """The return of an earlier run of tokens (see ``copies``)."""


@dataclass(frozen=True)
class Corpus:
    """``n`` places in ``rows`` rows; a row's places lie together, in order."""

    tokens: np.ndarray
    """uint16 [n]."""
    origins: np.ndarray
    """uint8 [n], values of ``Origin``."""
    top_ids: np.ndarray
    """uint16 [n, LABELS]: likeliest tokens after each place, best first. Unknown where a row's shared prefix is."""
    top_log_probs: np.ndarray
    """float16 [n, LABELS], natural logarithm."""
    lengths: np.ndarray
    """int32 [rows]."""

    @property
    def starts(self) -> np.ndarray:
        """Place of each row's first token, int64 [rows]."""
        return np.concatenate([[0], np.cumsum(self.lengths[:-1], dtype=np.int64)])

    def select(self, rows: Sequence[int]) -> Corpus:
        """The corpus of these rows alone, in the order given."""
        starts = self.starts
        places = [np.arange(starts[row], starts[row] + self.lengths[row]) for row in rows]
        flat = np.concatenate(places) if places else np.arange(0)
        return Corpus(
            self.tokens[flat],
            self.origins[flat],
            self.top_ids[flat],
            self.top_log_probs[flat],
            self.lengths[list(rows)],
        )

    def save(self, path: Path) -> None:
        """Write one ``.npz``; it appears whole or not at all."""
        unfinished = path.with_name(f"unfinished-{path.name}")
        np.savez(unfinished, **{field.name: getattr(self, field.name) for field in fields(self)})
        unfinished.replace(path)


def join(corpora: Iterable[Corpus]) -> Corpus:
    """Rows of all, in order."""
    parts = list(corpora)
    return Corpus(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Corpus)))


def load(paths: Iterable[Path]) -> Corpus:
    """All files as one corpus."""
    return join(Corpus(**np.load(path)) for path in paths)


def ngrams(text: str, size: int = NGRAM_WORDS) -> set[tuple[str, ...]]:
    """All runs of ``size`` words, lower case; each CJK character counts as a word."""
    words = re.findall(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+", text.lower())
    return {tuple(words[i : i + size]) for i in range(len(words) - size + 1)}


def bundled_ngrams(folder: Path) -> set[tuple[str, ...]]:
    """The n-grams of every message of every prompt file in the folder."""
    found: set[tuple[str, ...]] = set()
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            prompt = json.loads(line)
            for text in [*prompt["turns"], prompt.get("system", "")]:
                found |= ngrams(text)
    return found


def without_overlap(
    corpus: Corpus, forbidden: set[tuple[str, ...]], decode: Callable[[list[int]], str]
) -> tuple[Corpus, int]:
    """The rows that share no n-gram with ``forbidden``, be it in a question or an answer, and how many were dropped."""
    bounds = zip(corpus.starts, corpus.lengths, strict=True)
    kept = [
        row
        for row, (start, length) in enumerate(bounds)
        if not ngrams(decode(corpus.tokens[start : start + length].tolist())) & forbidden
    ]
    return corpus.select(kept), len(corpus.lengths) - len(kept)
