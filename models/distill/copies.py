"""Rows made without the target: a run of tokens comes a second time, and only its return is to be foreseen.

An answer often repeats what stands before it: names, passages, its own last sentence. Self-play alone teaches a small
model to look back only slowly or never. Where a run means nothing, looking back is all there is to learn, and the
skill carries over to text: it costs no forward of the target.
"""

from __future__ import annotations

import numpy as np
from corpus import LABELS, Corpus, Origin

SHORTEST = 8


def copy_row(tokens: np.ndarray, longest: int, rng: np.random.Generator) -> Corpus:
    """Some text, a run of at most ``longest`` tokens, other text, the run again; labels are certain of its return.

    The run is text, or text in disorder, or any tokens; ``tokens`` is the text to cut from.
    """
    run = _cut(tokens, int(rng.integers(SHORTEST, longest + 1)), rng)
    kind = rng.integers(3)
    if kind == 1:
        run = rng.permutation(run)
    elif kind == 2:
        run = rng.choice(tokens, len(run))
    before = _cut(tokens, int(rng.integers(1, 2 * longest)), rng)
    between = _cut(tokens, int(rng.integers(0, longest)), rng)
    row = np.concatenate([before, run, between, run]).astype(np.uint16)
    # The run's first token comes unforeseen: who could know that it returns now?
    known = slice(len(row) - len(run), len(row) - 1)
    ids = np.zeros((len(row), LABELS), np.uint16)
    log_probs = np.full(ids.shape, -np.inf, np.float16)
    ids[known, 0] = row[known.start + 1 :]
    log_probs[known, 0] = 0.0
    origins = np.full(len(row), Origin.GIVEN, np.uint8)
    origins[known.start :] = Origin.COPY
    return Corpus(row, origins, ids, log_probs, np.array([len(row)], np.int32))


def _cut(tokens: np.ndarray, length: int, rng: np.random.Generator) -> np.ndarray:
    start = rng.integers(0, max(len(tokens) - length, 0) + 1)
    return tokens[start : start + length]
