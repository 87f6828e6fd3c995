"""What the fake server says to one request: a script of timed pieces of an event stream, and what counters grow by.

Words are made up from the request, so equal requests get equal answers. A chunk carries as many tokens as the script
says; under speculation a chunk of n tokens is a round that kept n − 1 of ``k`` drafted ones, as vLLM's chunks are.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, zip_longest
from typing import Any

WORDS = ("the", "draft", "model", "proposes", "four", "tokens", "and", "target", "keeps", "what", "it", "would", "say")
EOS = 2
#: The id of the first word; the others follow.
FIRST = 10


@dataclass(frozen=True)
class Script:
    """How a server answers. Times in seconds; ``pattern`` is repeated until the answer's ``tokens`` are told.

    ``usage`` is ``continuous``, ``final`` or ``none``; ``k`` of 0 is a server without speculation. What can go wrong:
    ``unkept`` (a connection's second request breaks it), ``status`` (with ``retry_after``, for the first ``busy``
    requests where that is not 0), ``content_type``, ``drop_after`` chunks (the connection breaks), ``hang_after``
    chunks (silence), ``endless`` (tokens for ever), ``error_after`` chunks (an error event), ``split`` (bytes a write),
    ``comments`` (keep-alive lines before each chunk), ``lingers`` (keep-alive lines for ever after the end),
    ``wrong_every`` so many tokens (a draft's word is kept unseen), ``drips`` (headers for ever, byte by byte),
    ``claims`` so many tokens more in its usage than there are.

    Of requests beyond ``slots`` (0 is no bound) each waits for another's end, or ``beyond`` says otherwise: ``refused``
    is turned away with 429, and ``later`` too, but when it comes again it waits where nobody counts it. Of more than
    ``room`` that run one is put back. One that is ``held`` answers requests to their full length once its metrics were
    read twice since the last. What is ``tardy`` counts an answer once its metrics were read again. ``gauges`` are
    further lines of ``/metrics``; every request is put back ``preempts`` times. Where it ``caches``, a prompt is as
    many tokens as it has words, and what it begins with like an earlier one is cached. Where it gives no ``several``
    answers, it gives one.

    One that ``honours`` requests does all that they ask, and refuses prompts and budgets beyond its ``window``,
    and the setting that it ``lacks``. Any ends a text where prompt and text are ``ends`` tokens (0 is no bound).
    ``drawn`` is whether tokens are drawn where a request has a temperature: from the ``target``, from the ``draft``, or
    ``unfiltered`` (see :mod:`tests.serving.target`). ``template`` is how many tokens the chat template makes of a
    prompt; the server counts ``misread`` more of them.
    """

    tokens: int = 13
    first: float = 0.0
    gap: float = 0.0
    pattern: Sequence[int] = (1,)
    k: int = 0
    role: bool = True
    reasoning: int = 0
    empty: int = 0
    usage: str = "continuous"
    ids: bool = True
    done: bool = True
    per_request: str = ""
    words: Sequence[str] = WORDS
    status: int = 200
    retry_after: str = ""
    busy: int = 0
    unkept: bool = False
    content_type: str = "text/event-stream; charset=utf-8"
    drop_after: int | None = None
    hang_after: int | None = None
    error_after: int | None = None
    error_code: int = 500
    endless: bool = False
    claims: int = 0
    split: int = 0
    comments: bool = False
    lingers: bool = False
    drips: bool = False
    counters: bool = True
    labels: int = 1
    version: str = "0.32.0"
    gauges: str = ""
    preempts: int = 0
    slots: int = 0
    beyond: str = ""
    held: bool = False
    tardy: bool = False
    room: int = 0
    caches: bool = False
    several: bool = True
    extra: Mapping[str, Any] = field(default_factory=dict)
    wrong_every: int = 0
    drawn: str = ""
    honours: bool = False
    window: int = 0
    ends: int = 0
    lacks: str = ""
    template: int = 7
    misread: int = 0


@dataclass(frozen=True)
class Piece:
    """Bytes to send, so many seconds after the piece before; ``tokens`` that they bring."""

    after: float
    data: bytes
    tokens: int = 0


@dataclass(frozen=True)
class Reply:
    """All pieces of an answer, and the sizes of its rounds: tokens that each emitted."""

    pieces: tuple[Piece, ...]
    rounds: tuple[int, ...]
    tokens: int


def words_of(body: Mapping[str, Any]) -> list[str]:
    """The prompt's words, all messages in a row."""
    return " ".join([body.get("prompt", ""), *(m["content"] for m in body.get("messages", ()))]).split()


def reply(script: Script, body: Mapping[str, Any], cached: int | None = None) -> Reply:
    """The answer to a request's body; ``cached`` are tokens of its prompt, where the server caches."""
    if (count := int(body.get("n", 1))) > 1 and script.several:
        return _several(script, body, count)
    if body.get("logprobs"):
        plain = reply(script, {**body, "logprobs": None}, cached)
        return replace(plain, pieces=tuple(_quoting(piece, body["logprobs"]) for piece in plain.pieces))
    said, finish = _said(script, body)
    sizes = list(_sizes(script, len(said)))
    chat = "messages" in body
    pieces, done, total = [], 0, len(said)
    if script.role and chat:
        pieces.append(_opening(script, body))
    pieces += [_piece(script, 0.0, {"content": ""}, chat, (), number + 1) for number in range(script.empty)]
    for number, size in enumerate(sizes):
        tokens = said[done : done + size]
        done += size
        key = "reasoning_content" if done <= script.reasoning else "content"
        text = "".join(text for _, text in tokens)
        last = finish if number == len(sizes) - 1 else None
        after = script.first if number == 0 else script.gap
        ids = tuple(token for token, _ in tokens)
        pieces.append(_piece(script, after, {key: text}, chat, ids, done, last))
    if script.usage != "none":
        usage = _usage(script, body, total)
        if cached is not None:
            usage["usage"] |= {"prompt_tokens": len(words_of(body)), "prompt_tokens_details": {"cached_tokens": cached}}
        pieces.append(_piece_of(0.0, {**_envelope(script), "choices": [], **usage, **_metrics(script, sizes)}))
    if script.done:
        pieces.append(Piece(0.0, b"data: [DONE]\n\n"))
    return Reply(tuple(pieces), tuple(sizes[1:]), total)


def _several(script: Script, body: Mapping[str, Any], count: int) -> Reply:
    """Answers that take turns, chunk by chunk, and a usage of all of them at the end where there is one."""
    own = replace(script, done=False, usage="none" if script.usage == "final" else script.usage)
    answers = [reply(own, {**body, "n": 1, "choice": index}) for index in range(count)]
    mixed = [
        _changed(piece, {"index": index})
        for turn in zip_longest(*(one.pieces for one in answers))
        for index, piece in enumerate(turn)
        if piece is not None and b'"choices": []' not in piece.data
    ]
    total = sum(one.tokens for one in answers)
    if script.usage != "none":
        mixed.append(_piece_of(0.0, {**_envelope(script), "choices": [], **_usage(script, body, total)}))
    end = [Piece(0.0, b"data: [DONE]\n\n")] if script.done else []
    return Reply((*mixed, *end), answers[0].rounds, total)


def _quoting(piece: Piece, asked: Any) -> Piece:
    """With a log-probability for each of its tokens, as chat tells them or as text completions do."""
    if not piece.tokens:
        return piece
    ids = json.loads(piece.data[6:])["choices"][0].get("token_ids") or [0] * piece.tokens
    logs = [-0.25 * (1 + token % 5) for token in ids]
    told = {"content": [{"token": "", "logprob": log} for log in logs]} if asked is True else {"token_logprobs": logs}
    return _changed(piece, {"logprobs": told})


def _changed(piece: Piece, more: Mapping[str, Any]) -> Piece:
    """The piece with further keys of its choice."""
    if not piece.data.startswith(b"data: {"):
        return piece
    data = json.loads(piece.data[6:])
    data["choices"] = [{**choice, **more} for choice in data["choices"]]
    return _piece_of(piece.after, data, piece.tokens)


def endless(script: Script) -> Iterator[Piece]:
    """Pieces for ever."""
    for word in cycle(script.words):
        yield _piece(script, script.gap, {"content": f" {word}"}, True, (10,), 1)


def prompt_ids(script: Script, body: Mapping[str, Any]) -> tuple[int, ...]:
    """The prompt as the server reads it: ids as they come, a text by its sum."""
    prompt = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
    if isinstance(prompt, list):
        return tuple(prompt)
    # Their sum leaves the text's own number when it is divided by the number of words.
    size = len(script.words)
    return (1, 101 + zlib.crc32(prompt.encode()) % size, *(3,) * 5, *(2 * size,) * (script.template - 7))


def _said(script: Script, body: Mapping[str, Any]) -> tuple[list[tuple[int, str]], str]:
    """Tokens as (id, text), the end of text being the last unless the budget cuts it, and the finish reason."""
    budget, size = int(body["max_tokens"]), len(script.words)
    prompt = prompt_ids(script, body)
    budget = min(budget, script.ends - len(prompt)) if script.ends else budget
    if script.honours or (script.drawn and body.get("temperature")):
        from tests.serving.target import written

        ids = written(script, prompt, body)
    else:
        sure = not body.get("temperature") or body.get("top_p", 1.0) < 0.5
        start = sum(prompt) if prompt[-1] not in range(FIRST, FIRST + size) else prompt[-1] - FIRST + 1
        start = (start + (0 if sure else body.get("choice", 0))) % size
        ids = [FIRST + (start + i) % size for i in range(script.tokens - 1)]
        if script.wrong_every:
            last = script.wrong_every - 1
            ids = [FIRST + (t - FIRST + 5 * (i % (last + 1) == last)) % size for i, t in enumerate(ids)]
        ids.append(EOS)
    said = [(token, "" if token == EOS else f" {script.words[token - FIRST]}") for token in ids]
    return said[:budget], "stop" if len(said) <= budget else "length"


def _sizes(script: Script, total: int) -> Iterator[int]:
    """Tokens of each chunk, the first being the prefill's one where the pattern says so."""
    left = total
    for size in cycle(script.pattern):
        if left <= 0:
            return
        yield min(size, left)
        left -= size


def _envelope(script: Script) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "smol", **script.extra}


def _usage(script: Script, body: Mapping[str, Any], total: int) -> dict[str, Any]:
    read = len(prompt_ids(script, body)) + script.misread
    told = total + script.claims
    return {"usage": {"prompt_tokens": read, "total_tokens": read + told, "completion_tokens": told}}


def _opening(script: Script, body: Mapping[str, Any]) -> Piece:
    """The chunk that says who speaks, and which prompt was read where ids are told."""
    choice = {"index": 0, "logprobs": None, "finish_reason": None, "delta": {"role": "assistant", "content": ""}}
    read = {"prompt_token_ids": list(prompt_ids(script, body))} if script.ids else {}
    usage = _usage(script, body, 0) if script.usage == "continuous" else {}
    return _piece_of(0.0, {**_envelope(script), "choices": [choice], **read, **usage})


def _metrics(script: Script, sizes: Sequence[int]) -> dict[str, Any]:
    """vLLM's per-request metrics: one entry a round."""
    if not script.per_request:
        return {}
    accepted = [size - 1 for size in sizes[1:]]
    told: dict[str, Any] = {
        "num_spec_steps": len(accepted),
        "num_accepted_draft_tokens": sum(accepted),
        "num_draft_tokens": script.k * len(accepted),
        "num_spec_tokens": script.k,
        "acceptance_histogram": [accepted.count(n) for n in range(script.k + 1)],
    }
    if script.per_request == "detailed":
        told |= {"per_step_accepted": accepted, "per_step_drafted": [script.k] * len(accepted)}
    return {"metrics": {"time_to_first_token_ms": 1.0, "speculative_decoding": told}}


def _piece(
    script: Script,
    after: float,
    delta: Mapping[str, str],
    chat: bool,
    ids: tuple[int, ...],
    done: int,
    finish: str | None = None,
) -> Piece:
    choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": finish}
    choice |= {"delta": dict(delta)} if chat else {"text": delta.get("content", "")}
    if script.ids:
        choice["token_ids"] = list(ids) or None
    usage = {"usage": {"prompt_tokens": 7, "completion_tokens": done}} if script.usage == "continuous" else {}
    return _piece_of(after, {**_envelope(script), "choices": [choice], **usage}, len(ids))


def _piece_of(after: float, data: Mapping[str, Any], tokens: int = 0) -> Piece:
    return Piece(after, b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n", tokens)
