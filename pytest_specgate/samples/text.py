"""Closeness of two texts on a scale of 0 to 100, right for scripts without spaces too.

With their defaults, identical Chinese scores 0 in rouge-score and near 0 in BLEU: neither finds words. Here each
character of a script that is written without spaces is a word. chrF works on characters anyway. sacrebleu's own
tokenizers for such scripts need dictionaries or downloads; its "char" one needs neither.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

#: Han, kana and Hangul, then Thai, Lao, Myanmar and Khmer. Hangul is written with spaces, but its words are glued to
#: their particles, so that whole words hardly ever match.
_UNSPACED = (
    r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003ffff\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff"
)
#: Vowel signs and accents that stand beside their letter: Indic scripts, Hebrew, Arabic, combining Latin accents.
_MARKS = r"\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0980-\u0dff"
_WORD = re.compile(rf"[{_UNSPACED}]|(?:[^\W{_UNSPACED}]|[{_MARKS}])+")
_ANY_UNSPACED = re.compile(f"[{_UNSPACED}]")


def words(text: str) -> list[str]:
    """Lower-case words; every character of an unspaced script is one."""
    return _WORD.findall(text.lower())


class _Tokenizer:
    """The shape that rouge-score asks of a tokenizer."""

    def tokenize(self, text: str) -> list[str]:
        return words(text)


@lru_cache(maxsize=1)
def _rouge() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], tokenizer=_Tokenizer())


@lru_cache(maxsize=2)
def _bleu(tokenize: str) -> Any:
    from sacrebleu.metrics import BLEU

    return BLEU(tokenize=tokenize, effective_order=True)


@lru_cache(maxsize=1)
def _chrf() -> Any:
    from sacrebleu.metrics import CHRF

    return CHRF()


def _same_or(score: Callable[[str, str], float]) -> Callable[[str, str], float]:
    def scored(candidate: str, reference: str) -> float:
        if candidate == reference:
            return 100.0
        if not candidate.strip() or not reference.strip():
            return 0.0
        return min(100.0, max(0.0, score(candidate, reference)))

    return scored


def _bleu_score(candidate: str, reference: str) -> float:
    tokenize = "char" if _ANY_UNSPACED.search(candidate + reference) else "13a"
    return float(_bleu(tokenize).sentence_score(candidate, [reference]).score)


def _chrf_score(candidate: str, reference: str) -> float:
    return float(_chrf().sentence_score(candidate, [reference]).score)


def _rouge_score(candidate: str, reference: str) -> float:
    return float(_rouge().score(reference, candidate)["rougeL"].fmeasure) * 100


#: Each takes (candidate text, reference text).
SCORES: Mapping[str, Callable[[str, str], float]] = {
    "chrf": _same_or(_chrf_score),
    "bleu": _same_or(_bleu_score),
    "rouge_l": _same_or(_rouge_score),
}
