"""Events → an answer: what each delta carried and when, how it ended, and what the server said of it besides.

The stream of chat and of text completions is read alike. Nothing is counted here, and nothing guessed: a delta is
*real* if a caller sees something of it (text, reasoning, a tool call), and what a server leaves out stays None.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pytest_specgate.engines.serving.sse import DONE, Event

_DECODER = json.JSONDecoder()
#: Longest part of a server's own words that a message quotes.
QUOTED = 300


class BadStream(Exception):
    """The stream says something that is no answer; ``what`` is for the message, ``code`` is 0 where none is told."""

    def __init__(self, what: str, code: int = 0) -> None:
        super().__init__(what)
        self.what = what
        self.code = code


class Delta(NamedTuple):
    """One event of an answer, a tuple, for there are many.

    ``total`` is the number of output tokens up to here where the server keeps telling it; ``sums`` are those, and the
    draft tokens up to here and the accepted ones among them, where its timings come with every token.
    """

    t_ns: int
    content: str = ""
    reasoning: str = ""
    tool: str = ""
    ids: tuple[int, ...] = ()
    total: int | None = None
    last: bool = False
    sums: tuple[int, int, int] | None = None
    logs: tuple[float, ...] = ()

    @property
    def real(self) -> bool:
        """Whether a token reached the caller: a role, or an empty text, is none."""
        return bool(self.content or self.reasoning or self.tool)

    @property
    def text(self) -> str:
        """Everything that it says."""
        return self.reasoning + self.content + self.tool


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. ``completion_tokens`` is the usage at its end; ``said`` merges the events' other top-level keys.

    ``cached_tokens`` are those of the prompt that were in the server's cache already, where its usage tells them;
    ``stop`` is the stop string that ended it, where the server tells; ``whole`` is whether an end was announced;
    ``prompt_ids`` are the prompt's, where the server tells them.
    """

    submit_ns: int
    deltas: tuple[Delta, ...]
    finish: str = ""
    stop: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    said: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = False
    prompt_ids: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """Reasoning, text and tool calls in the order in which they came."""
        return "".join(delta.text for delta in self.deltas)

    @property
    def logs(self) -> tuple[float, ...]:
        """The log-probabilities that the server gave."""
        return tuple(log for delta in self.deltas for log in delta.logs)

    @property
    def ids(self) -> tuple[int, ...]:
        """The token ids that the server gave."""
        return tuple(token for delta in self.deltas for token in delta.ids)


def read(submit_ns: int, events: Iterable[Event], index: int = 0) -> Answer:
    """The answer that these events are, of several the one at ``index``.

    Raises BadStream for an error event and for what is no JSON object.
    """
    reader = _Reader(submit_ns, index)
    for event in events:
        if event.data == DONE:
            reader.done = True
            break
        reader.take(event)
    return reader.answer()


@dataclass(slots=True)
class _Reader:
    submit_ns: int
    index: int = 0
    deltas: list[Delta] = field(default_factory=list)
    said: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, Any] = field(default_factory=dict)
    finish: str = ""
    stop: str | None = None
    done: bool = False
    prompt_ids: tuple[int, ...] = ()

    def take(self, event: Event) -> None:
        data = _object(event.data)
        if ("error" in data or data.get("object") == "error") and (problem := _error_of(data)):
            raise BadStream(problem, _code_of(data))
        usage, choices = data.pop("usage", None), data.pop("choices", None)
        total = None
        if isinstance(usage, dict):
            self.usage.update(usage)
            total = _count(usage.get("completion_tokens"))
        sums = _sums(data.get("timings")) if "timings" in data else None
        if total is None and sums is not None:
            total = sums[0]
        self.said.update(data)
        if "prompt_token_ids" in data:
            self.prompt_ids = self.prompt_ids or _ids(data["prompt_token_ids"])
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and choice.get("index", 0) == self.index:
                self._choose(event.t_ns, choice, total, sums)

    def _choose(self, t_ns: int, choice: dict[str, Any], total: int | None, sums: tuple[int, int, int] | None) -> None:
        finish = choice.get("finish_reason")
        if isinstance(finish, str):
            self.finish = finish
            stop = choice.get("stop_reason", choice.get("matched_stop"))
            self.stop = stop if isinstance(stop, str) else None
        if "prompt_token_ids" in choice:
            self.prompt_ids = self.prompt_ids or _ids(choice["prompt_token_ids"])
        if isinstance(meta := choice.get("meta_info"), dict):
            before = self.said.get("meta_info")
            self.said["meta_info"] = {**(before if isinstance(before, dict) else {}), **meta}
        delta = choice.get("delta")
        parts = delta if isinstance(delta, dict) else {"content": choice.get("text")}
        content, reasoning, tool = parts.get("content"), "", ""
        if not content or len(parts) > 1:  # most chunks hold a text and nothing else
            reasoning = _text(parts.get("reasoning_content")) or _text(parts.get("reasoning"))
            tool = _called(parts.get("tool_calls"))
        ids, logs = _ids(choice.get("token_ids")), _logs(choice.get("logprobs"))
        last = isinstance(finish, str)
        self.deltas.append(Delta(t_ns, _text(content), reasoning, tool, ids, total, last, sums, logs))

    def answer(self) -> Answer:
        return Answer(
            submit_ns=self.submit_ns,
            deltas=tuple(self.deltas),
            finish=self.finish,
            stop=self.stop,
            prompt_tokens=_whole(self.usage.get("prompt_tokens")),
            completion_tokens=_whole(self.usage.get("completion_tokens")),
            cached_tokens=_cached(self.usage.get("prompt_tokens_details")),
            said=self.said,
            whole=self.done or bool(self.finish),
            prompt_ids=self.prompt_ids,
        )


def _object(text: str) -> dict[str, Any]:
    try:
        data = _parsed(text)
    except (ValueError, RecursionError):
        raise BadStream(f"an event is no JSON: {quoted(text)}") from None
    if not isinstance(data, dict):
        raise BadStream(f"an event is no JSON object: {quoted(text)}")
    return data


def _parsed(text: str) -> Any:
    """As ``json.loads``, which takes as long again to look for spaces around a chunk that has none."""
    if text[:1] == "{":
        data, end = _DECODER.raw_decode(text)
        if end == len(text):
            return data
    return json.loads(text)


def _error_of(data: Mapping[str, Any]) -> str:
    """What an error event says; empty if it is none."""
    error = data.get("error")
    if error is None and data.get("object") != "error":
        return ""
    if isinstance(error, dict):
        return quoted(str(error.get("message") or dict(error)))
    if error:
        return quoted(str(error))
    return quoted(str(data.get("message", "")))


def _code_of(data: Mapping[str, Any]) -> int:
    """The status that an error event stands for; servers can only say it here once the stream has begun."""
    error = data.get("error")
    code = (error if isinstance(error, dict) else data).get("code")
    return code if type(code) is int else 0


def message_of(raw: str) -> str:
    """The message of an OpenAI error, else the text as it is."""
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    error = data.get("error", data) if isinstance(data, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return str(message or raw)


def quoted(text: str) -> str:
    """A server's own words on one line, cut where they are long."""
    line = " ".join(text.split())
    return line if len(line) <= QUOTED else line[: QUOTED - 1] + "…"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _count(tokens: object) -> int | None:
    """A number of tokens; None where it is left out. Raises BadStream for what cannot be one."""
    if tokens is not None and _whole(tokens) is None:
        raise BadStream(f"a usage of {quoted(repr(tokens))} tokens is no number of tokens")
    return _whole(tokens)


def _sums(timings: object) -> tuple[int, int, int] | None:
    """Output tokens, drafted and accepted ones up to here; the latter are left out before anything was drafted."""
    if not isinstance(timings, dict):
        return None
    tokens = _whole(timings.get("predicted_n"))
    drafted, accepted = (_whole(timings.get(name, 0)) for name in ("draft_n", "draft_n_accepted"))
    return None if tokens is None or drafted is None or accepted is None else (tokens, drafted, accepted)


def _cached(details: object) -> int | None:
    return _whole(details.get("cached_tokens")) if isinstance(details, dict) else None


def _ids(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(value) if (len(value) == 1 and type(value[0]) is int) or {int}.issuperset(map(type, value)) else ()


def _logs(value: object) -> tuple[float, ...]:
    """Log-probabilities of an event's tokens, as chat tells them or as text completions do."""
    if not isinstance(value, dict):
        return ()
    entries = value.get("content")
    found = [one.get("logprob") for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []
    numbers = found or value.get("token_logprobs")
    try:
        return tuple(float(n) for n in numbers if isinstance(n, (int, float))) if isinstance(numbers, list) else ()
    except OverflowError:
        return ()  # a whole number of hundreds of digits


def _called(calls: object) -> str:
    """Names and arguments of tool calls, as they come in."""
    if not isinstance(calls, list):
        return ""
    functions = [call.get("function") for call in calls if isinstance(call, dict)]
    found = [f for f in functions if isinstance(f, dict)]
    return "".join(_text(f.get("name")) + _text(f.get("arguments")) for f in found)
