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

from tests.serving.script import EOS, FIRST, WORDS, Script, prompt_ids

Ids = Sequence[int]


def scores(script: Script, prompt: Ids, text: Ids) -> dict[int, float]:
    """Log-probabilities of all words and of the end after a prompt and the beginning of its answer."""
    size, ids = len(script.words), [*prompt, *text]
    before = ids[-1] - FIRST if ids[-1] in range(FIRST, FIRST + size) else sum(ids) - 1
    # What the server's own template made begins with 1, so that it is known where the text begins.
    ended = ids[0] == 1 and len(ids) == script.template + script.tokens - 1
    best = EOS if ended else FIRST + (before + 1) % size
    number = zlib.crc32(repr(ids).encode())
    margin = 0.05 + (number % 97) / 12
    raw = {FIRST + n: -margin - ((n * 7 + number) % 11) / 2 for n in range(size)} | {EOS: -margin - 9.0}
    raw[best] = 0.0
    total = math.log(math.fsum(math.exp(score) for score in raw.values()))
    return {token: score - total for token, score in raw.items()}


def choice(script: Script, prompt: Ids, text: Ids) -> int:
    """The target's first choice."""
    found = scores(script, prompt, text)
    return max(found, key=lambda token: (found[token], -token))


def written(script: Script, prompt: Ids, body: Mapping[str, Any]) -> list[int]:
    """The answer's ids, as the request asks for them: drawn, or greedy where it has no temperature."""
    # As servers do: without a seed each answer is another one.
    seed = f"{body['seed']}:{body.get('choice', 0)}:{list(prompt)}" if "seed" in body else None
    source = random.Random(seed)
    ids, ends = list[int](), {*body.get("stop_token_ids", ())} | (set() if body.get("ignore_eos") else {EOS})
    for _ in range(int(body["max_tokens"])):
        found = _shaped(scores(script, prompt, ids), prompt, ids, body, ends)
        ids.append(_one(script, found, body, source))
        text = "".join(f" {script.words[token - FIRST]}" for token in ids if token != EOS)
        if ids[-1] in ends or any(stop in text for stop in body.get("stop", ())):
            break
    return ids


def _shaped(
    found: dict[int, float], prompt: Ids, ids: Ids, body: Mapping[str, Any], ends: set[int]
) -> dict[int, float]:
    """Scores after biases, penalties and bans."""
    shaped = {token: score + float(body.get("logit_bias", {}).get(str(token), 0)) for token, score in found.items()}
    penalty = float(body.get("repetition_penalty") or 1)
    for token in {*prompt, *ids} & shaped.keys():
        shaped[token] = shaped[token] * penalty if shaped[token] < 0 else shaped[token] / penalty
    present, often = (float(body.get(f"{name}_penalty", 0)) for name in ("presence", "frequency"))
    for token in set(ids) & shaped.keys():
        shaped[token] -= present + ids.count(token) * often
    banned = [FIRST + WORDS.index(word) for word in body.get("bad_words", ()) if word in WORDS]
    early = ends if len(ids) < int(body.get("min_tokens", 0)) else set()
    return {token: score for token, score in shaped.items() if token not in early and token not in banned}


def _one(script: Script, found: dict[int, float], body: Mapping[str, Any], source: random.Random) -> int:
    """A token of these scores, as the request wants it drawn, or as a faulty server does."""
    temperature, best = float(body.get("temperature", 1)), max(found.values())
    if not temperature:
        return max(found, key=lambda token: (found[token], -token))
    if script.drawn == "draft":  # its own, flatter idea of the text
        temperature *= 3
    odds = {token: math.exp((score - best) / temperature) for token, score in found.items()}
    top_k, min_p = int(body.get("top_k", 0)), float(body.get("min_p", 0))
    kept = sorted(odds, key=lambda token: -odds[token])[: top_k if top_k > 0 else None]
    odds = {token: odds[token] for token in kept if odds[token] >= min_p}
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
            # Of words that it does not know it takes the one at their length.
            said = body["prompt"].split()
            ids = [FIRST + (words.index(word) if word in words else len(word) % len(words)) for word in said]
        return {"tokens": list(ids), "count": len(ids), "max_model_len": 512}

    def detokenize(body: Mapping[str, Any]) -> Any:
        known = [words[token - FIRST] if 0 <= token - FIRST < len(words) else "?" for token in body["tokens"]]
        return {"prompt": "".join(f" {word}" for word in known)}

    def completions(body: Mapping[str, Any]) -> Any:
        return _prompt_logprobs(script, list(body["prompt"]), int(body["prompt_logprobs"]))

    return {"/tokenize": tokenize, "/detokenize": detokenize, "/v1/completions": completions}


def _prompt_logprobs(script: Script, ids: list[int], top: int) -> Any:
    told: list[Any] = [None]
    for at in range(1, len(ids)):
        found = scores(script, ids[:at], ())
        ranked = sorted(found, key=lambda token: -found[token])
        kept = dict.fromkeys((ids[at], *ranked[:top]))
        told.append({str(token): {"logprob": found.get(token, -9999.0), "rank": 1} for token in kept})
    choice = {"index": 0, "text": " it", "prompt_logprobs": told, "prompt_token_ids": ids, "token_ids": [1]}
    return {"object": "text_completion", "model": "smol", "choices": [choice]}
