"""What the fake server's target thinks: a table of the next word, small enough to be checked by hand.

After a word comes the next one of the list, after the prompt the one that its ids add up to, and at the end of the
budgeted text its end. Others are less likely by a margin that the context decides, so some choices are near ties.
"""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from tests.serving.script import EOS, FIRST, Script, prompt_ids

Ids = Sequence[int]


def scores(script: Script, prompt: Ids, text: Ids) -> dict[int, float]:
    """Log-probabilities of all words and of the end after a prompt and the beginning of its answer."""
    size = len(script.words)
    before = text[-1] - FIRST if text and text[-1] != EOS else sum(prompt) - 1
    best = EOS if len(text) == script.tokens - 1 else FIRST + (before + 1) % size
    number = zlib.crc32(repr((list(prompt), list(text))).encode())
    margin = 0.05 + (number % 97) / 12
    raw = {FIRST + n: -margin - ((n * 7 + number) % 11) / 2 for n in range(size)} | {EOS: -margin - 9.0}
    raw[best] = 0.0
    total = math.log(math.fsum(math.exp(score) for score in raw.values()))
    return {token: score - total for token, score in raw.items()}


def choice(script: Script, prompt: Ids, text: Ids) -> int:
    """The target's first choice."""
    found = scores(script, prompt, text)
    return max(found, key=lambda token: (found[token], -token))


def draw(script: Script, prompt: Ids, text: Ids, body: Mapping[str, Any], source: random.Random) -> int:
    """A token as the request asks for it, or as a faulty server does."""
    found = scores(script, prompt, text)
    temperature = float(body.get("temperature", 1))
    if script.drawn == "draft":  # its own, flatter idea of the text
        temperature *= 3
    odds = {token: math.exp(score / temperature) for token, score in found.items()}
    if script.drawn != "unfiltered":
        odds = _nucleus(odds, float(body.get("top_p", 1)))
    tokens = sorted(odds)
    return source.choices(tokens, [odds[token] for token in tokens])[0]


def _nucleus(odds: dict[int, float], top_p: float) -> dict[int, float]:
    held, kept, total = 0.0, dict[int, float](), sum(odds.values())
    for token in sorted(odds, key=lambda one: -odds[one]):
        if held >= top_p:
            break
        kept[token] = odds[token]
        held += odds[token] / total
    return kept


def pages(script: Script) -> Mapping[str, Any]:
    """What vLLM answers besides: its tokenizer, and the log-probabilities of prompts."""
    words = list(script.words)

    def tokenize(body: Mapping[str, Any]) -> Any:
        if "messages" in body:
            ids = list(prompt_ids(script, body))
        else:
            ids = [FIRST + words.index(word) if word in words else 100 + len(word) for word in body["prompt"].split()]
        return {"tokens": list(ids), "count": len(ids), "max_model_len": 512}

    def detokenize(body: Mapping[str, Any]) -> Any:
        known = [words[token - FIRST] if 0 <= token - FIRST < len(words) else "?" for token in body["tokens"]]
        return {"prompt": "".join(f" {word}" for word in known)}

    def completions(body: Mapping[str, Any]) -> Any:
        return _prompt_logprobs(script, list(body["prompt"]), int(body["prompt_logprobs"]))

    return {"/tokenize": tokenize, "/detokenize": detokenize, "/v1/completions": completions}


def _prompt_logprobs(script: Script, ids: list[int], top: int) -> Any:
    head = script.template  # the prompt proper, as the server's own template makes it
    told: list[Any] = [None]
    for at in range(1, len(ids)):
        found = scores(script, ids[:head], ids[head:at]) if at >= head else {ids[at]: -1.0, 0: -2.0}
        ranked = sorted(found, key=lambda token: -found[token])
        kept = dict.fromkeys((ids[at], *ranked[:top]))
        told.append({str(token): {"logprob": found.get(token, -9999.0), "rank": 1} for token in kept})
    choice = {"index": 0, "text": " it", "prompt_logprobs": told, "prompt_token_ids": ids, "token_ids": [1]}
    return {"object": "text_completion", "model": "smol", "choices": [choice]}
