"""Self-play records on disk, and the promise that no bundled prompt was trained on.

A record is one JSON line: ``prompt`` and ``answer`` token ids and ``greedy``. Nothing here needs torch.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

NGRAM_WORDS = 8


@dataclass(frozen=True)
class Record:
    """One conversation that the target had with itself, as token ids."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    greedy: bool


def read(paths: Iterable[Path]) -> Iterator[Record]:
    """Every whole record of the files (``.jsonl`` or ``.jsonl.gz``); a line that a kill cut off is passed over."""
    for path in paths:
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                if line.endswith("}\n"):
                    data = json.loads(line)
                    yield Record(tuple(data["prompt"]), tuple(data["answer"]), bool(data["greedy"]))


def ngrams(text: str, size: int = NGRAM_WORDS) -> set[tuple[str, ...]]:
    """All runs of ``size`` words, lower case; each CJK character counts as a word."""
    words = re.findall(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+", text.lower())
    return {tuple(words[i : i + size]) for i in range(len(words) - size + 1)}


def bundled_ngrams(folder: Path) -> set[tuple[str, ...]]:
    """The n-grams of every turn of every prompt file in the folder."""
    found: set[tuple[str, ...]] = set()
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            for turn in json.loads(line)["turns"]:
                found |= ngrams(turn)
    return found


def without_overlap(
    records: Iterable[Record], forbidden: set[tuple[str, ...]], decode: Callable[[tuple[int, ...]], str]
) -> tuple[list[Record], int]:
    """Records whose prompt shares no n-gram with ``forbidden``, and how many were dropped."""
    kept, dropped = [], 0
    for record in records:
        if ngrams(decode(record.prompt)) & forbidden:
            dropped += 1
        else:
            kept.append(record)
    return kept, dropped
