"""What a dialect is: how one server software is known, asked and understood beyond the OpenAI protocol.

A dialect is a value of pure functions over what the server said, so each can be tried on recorded answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pytest_specgate.engines.serving.accounting import Counted
from pytest_specgate.engines.serving.stream import Answer
from pytest_specgate.engines.serving.tally import Tally
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
PAGES = ("/v1/models", "/version", "/props", "/get_server_info", "/info", "/metrics", "/prometheus/metrics")


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
        return tuple(str(entry["id"]) for entry in self._entries if "id" in entry)

    @property
    def owners(self) -> frozenset[str]:
        """Who owns the models, as the server says: most say their own name."""
        return frozenset(str(entry.get("owned_by", "")).lower() for entry in self._entries)

    @property
    def _entries(self) -> list[Mapping[str, Any]]:
        data = self.object("/v1/models").get("data")
        return [entry for entry in data if isinstance(entry, Mapping)] if isinstance(data, list) else []


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What a server told of one request's speculation: whole rounds, else totals."""

    rounds: tuple[Round, ...] | None = None
    counts: Counts | None = None


def _nothing(*_: object) -> Acceptance | None:
    return None


def _no_facts(_: Probe) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Dialect:
    """One server software.

    ``body`` are keys of every request. ``keys`` are settings beyond OpenAI's that it takes, by our names, and ``off``
    values that switch off what it or the model's files would set otherwise. ``metrics`` is the page of its counters,
    empty if it has none, and ``tally`` reads it. ``acceptance`` reads one answer; ``checks_model`` is whether it
    refuses names that it does not list; ``hint`` says how the server is made to tell acceptance.
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
    metrics: str = ""
    tally: Callable[[str], Tally] | None = None
    acceptance: Callable[[Answer, Counted], Acceptance | None] = _nothing
    facts: Callable[[Probe], Mapping[str, str]] = _no_facts


def version_page(probe: Probe) -> str:
    """What ``/version`` says."""
    return str(probe.object("/version").get("version", ""))
