"""What a dialect is: how one server software is known, asked and understood beyond the OpenAI protocol.

A dialect is a value of pure functions over what the server said, so each can be tried on recorded answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pytest_specgate.engines.serving.accounting import Counted
from pytest_specgate.engines.serving.dialects.rooms import Pressure, Rooms
from pytest_specgate.engines.serving.prompted import PromptScores
from pytest_specgate.engines.serving.stream import Answer
from pytest_specgate.engines.serving.tally import Tally
from pytest_specgate.engines.serving.tokens import Retold, TokenPages
from pytest_specgate.records import Counts, Round

#: Settings beyond OpenAI's as vLLM named them first and SGLang after it, by our names.
VLLM_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "top_k": "top_k",
        "min_p": "min_p",
        "repetition_penalty": "repetition_penalty",
        "min_tokens": "min_tokens",
        "ignore_eos": "ignore_eos",
        "stop_ids": "stop_token_ids",
    }
)
#: What every server is asked about itself, once.
PAGES = (
    *("/v1/models", "/version", "/props", "/get_server_info", "/get_model_info", "/server_info", "/model_info"),
    *("/info", "/metrics", "/prometheus/metrics"),
)


@dataclass(frozen=True, slots=True)
class Probe:
    """What a server said of itself: page → JSON, or text where it is none; pages that it has not are absent."""

    pages: Mapping[str, Any]

    def object(self, page: str) -> Mapping[str, Any]:
        """A page that is a JSON object, else nothing."""
        found = self.pages.get(page)
        return found if isinstance(found, Mapping) else {}

    def text(self, page: str) -> str:
        """A page that is text, else nothing."""
        found = self.pages.get(page)
        return found if isinstance(found, str) else ""

    @property
    def models(self) -> tuple[str, ...]:
        """Names under which models are served."""
        return tuple(str(entry["id"]) for entry in self.entries if "id" in entry)

    @property
    def owners(self) -> frozenset[str]:
        """Who owns the models, as the server says: most say their own name."""
        return frozenset(str(entry.get("owned_by", "")).lower() for entry in self.entries)

    def entry(self, model: str) -> Mapping[str, Any]:
        """What is listed of the model of this name, or of the only one."""
        entries = self.entries
        return next((one for one in entries if one.get("id") == model), entries[0] if len(entries) == 1 else {})

    @property
    def entries(self) -> list[Mapping[str, Any]]:
        """What ``/v1/models`` lists."""
        data = self.object("/v1/models").get("data")
        return [entry for entry in data if isinstance(entry, Mapping)] if isinstance(data, list) else []


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What a server told of one request's speculation: whole rounds, else totals."""

    rounds: tuple[Round, ...] | None = None
    counts: Counts | None = None


def _nothing(*_: object) -> Acceptance | None:
    return None


def _cached(answer: Answer) -> int | None:
    return answer.cached_tokens


def _no_weights(_: Probe, __: str) -> Mapping[str, str]:
    return {}


def _no_facts(_: Probe) -> Mapping[str, str]:
    return {}


def _no_rooms(_: Sequence[str], __: Probe) -> Rooms:
    return Rooms()


def _no_pressure(_: Mapping[str, str]) -> Pressure:
    return Pressure()


@dataclass(frozen=True, slots=True)
class Dialect:
    """One server software.

    ``body`` are keys of every request. ``keys`` are settings beyond OpenAI's that it takes, by our names, and ``off``
    values that switch off what it or the model's files would set otherwise. ``offers`` are ``n`` and ``logprobs`` as
    far as it takes them. ``metrics`` is the page of its counters,
    empty if it has none, and ``tally`` reads it. ``acceptance`` reads one answer; ``checks_model`` is whether it
    refuses names that it does not list; ``hint`` says how the server is made to tell acceptance. ``rooms`` reads its
    log's lines (none where it is not ours) and its pages, ``pressure`` the pages ``gauges`` at one moment, and
    ``fullness`` what to do where these do not tell how full its cache is. ``cached``
    are the tokens of one answer's prompt that its prefix cache held. ``weights`` is what tells the weights of the model
    of this name from others. ``prompted`` is how it scores a text, and ``tokens`` where its tokenizer answers; ``eos``
    is its end-of-text token and ``window`` the most tokens of this model's prompt and answer, as far as it says.
    ``takes_ids`` is whether a text completion may be asked by token ids, and ``retold`` how a request is asked again
    for the ids of its answer where the stream tells none.
    """

    name: str
    shown: str
    recognises: Callable[[Probe], bool]
    version: Callable[[Probe], str]
    hint: str
    body: Mapping[str, object] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    off: Mapping[str, object] = field(default_factory=dict)
    continuous_usage: bool = False
    checks_model: bool = False
    offers: frozenset[str] = frozenset({"n", "logprobs"})
    metrics: str = ""
    tally: Callable[[str], Tally] | None = None
    acceptance: Callable[[Answer, Counted], Acceptance | None] = _nothing
    facts: Callable[[Probe], Mapping[str, str]] = _no_facts
    weights: Callable[[Probe, str], Mapping[str, str]] = _no_weights
    cached: Callable[[Answer], int | None] = _cached
    rooms: Callable[[Sequence[str], Probe], Rooms] = _no_rooms
    gauges: tuple[str, ...] = ()
    fullness: str = ""
    pressure: Callable[[Mapping[str, str]], Pressure] = _no_pressure
    prompted: PromptScores | None = None
    tokens: Callable[[str], TokenPages] | None = None
    eos: Callable[[Probe], str] = lambda _: ""
    window: Callable[[Probe, str], int | None] = lambda _, __: None
    takes_ids: bool = False
    retold: Retold | None = None


def version_page(probe: Probe) -> str:
    """What ``/version`` says."""
    return str(probe.object("/version").get("version", ""))


def arrived(counted: Counted, position: int) -> int:
    """When so many tokens had arrived."""
    so_far = 0
    for chunk in counted.chunks:
        so_far += chunk.tokens
        if so_far >= position:
            return chunk.t_ns
    return counted.chunks[-1].t_ns


def listed_window(probe: Probe, model: str) -> int | None:
    """``max_model_len`` as it is listed of this model, or of the one that it is an adapter of (``parent``)."""
    own = probe.entry(model)
    for entry in (own, probe.entry(str(own.get("parent") or model))):
        found = entry.get("max_model_len")
        if type(found) is int and found > 0:
            return found
    return None


def token_pages(model: str) -> TokenPages:
    """``/tokenize`` and ``/detokenize`` as vLLM has them."""

    def encode(text: str, special: bool) -> tuple[str, dict[str, Any]]:
        return "/tokenize", {"model": model, "prompt": text, "add_special_tokens": special}

    def templated(messages: list[dict[str, str]]) -> tuple[str, dict[str, Any]]:
        return "/tokenize", {"model": model, "messages": messages, "add_generation_prompt": True}

    return TokenPages(encode, lambda ids: ("/detokenize", {"model": model, "tokens": list(ids)}), templated)
