"""Text → token ids and back, as a server cuts it: by its own pages, else by a tokenizer that the suite names.

What a server emitted is known by its ids alone. Where it told only text, the text is cut anew, and that is believed
only if it reads back as the same text and has as many tokens as the server counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.serving.failures import Failure
from pytest_specgate.records import Message, Trace

#: Sends JSON to a path of a server, and returns its answer. Raises Failure.
Ask = Callable[[str, Mapping[str, Any]], Any]
Ids = tuple[int, ...]


class Tokens(Protocol):
    """How a server cuts text."""

    @property
    def eos(self) -> Ids:
        """Ids that end a text, as far as they are known."""

    def encode(self, text: str, *, special: bool = False) -> Ids:
        """A text's ids; ``special`` adds what the server puts before a prompt. Raises Failure."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens left out. Raises Failure."""

    def templated(self, messages: Sequence[Message]) -> Ids:
        """The prompt that these messages are. Raises Failure."""


@dataclass(frozen=True, slots=True)
class TokenPages:
    """Where a server software has its tokenizer: what is sent for each question, by path, and what comes back.

    ``templated`` answers with ids, or with a text that is then encoded.
    """

    encode: Callable[[str, bool], tuple[str, dict[str, Any]]]
    decode: Callable[[Sequence[int]], tuple[str, dict[str, Any]]]
    templated: Callable[[list[dict[str, str]]], tuple[str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Retold:
    """How a request is asked again, without a stream: its body by that of the stream, and (text, ids) of the answer.

    ``read`` raises Failure where the answer is of another form. ``steady`` says how draws are made to come again.
    """

    path: str
    again: Callable[[Mapping[str, Any]], dict[str, Any]]
    read: Callable[[Any], tuple[str, list[int]]]
    steady: str = ""


@dataclass(frozen=True, slots=True)
class ServerTokens:
    """The tokenizer of the server itself; ``more`` are keys that the suite adds to every request."""

    pages: TokenPages
    ask: Ask
    end: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def eos(self) -> Ids:
        """The id of the end-of-text token that the server names."""
        return self.encode(self.end) if self.end else ()

    def encode(self, text: str, *, special: bool = False) -> Ids:
        """As the server's page says."""
        return _ids(self.ask(*self.pages.encode(text, special)))

    def decode(self, ids: Sequence[int]) -> str:
        """As the server's page says."""
        if not ids:
            return ""
        said = self.ask(*self.pages.decode(ids))
        found = [said[key] for key in ("prompt", "content", "text") if isinstance(said, Mapping) and key in said]
        if not found or not isinstance(found[0], str):
            raise Failure("detokenizes to something that is no text", "name a 'tokenizer' in the suite")
        return found[0]

    def templated(self, messages: Sequence[Message]) -> Ids:
        """The server's own template, its settings as the suite's ``body`` has them."""
        path, body = self.pages.templated([{"role": m.role, "content": m.content} for m in messages])
        settings = {key: self.more[key] for key in ("chat_template_kwargs", "chat_template") if key in self.more}
        said = self.ask(path, {**body, **settings})
        prompt = said.get("prompt") if isinstance(said, Mapping) else None
        return self.encode(prompt, special=True) if isinstance(prompt, str) else _ids(said)


class LocalTokens:
    """A tokenizer of transformers; loaded when first asked for."""

    def __init__(self, context: EngineContext, reference: str) -> None:
        self._context, self._reference, self._loaded = context, reference, None

    @property
    def eos(self) -> Ids:
        """The tokenizer's end-of-text token."""
        found = self._tokenizer().eos_token_id
        return () if found is None else (int(found),)

    def encode(self, text: str, *, special: bool = False) -> Ids:
        """The text's ids."""
        return tuple(self._tokenizer().encode(text, add_special_tokens=special))

    def decode(self, ids: Sequence[int]) -> str:
        """The ids' text, without the spaces that a tokenizer would tidy away."""
        return str(self._tokenizer().decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def templated(self, messages: Sequence[Message]) -> Ids:
        """The tokenizer's own template."""
        said = [{"role": m.role, "content": m.content} for m in messages]
        made = self._tokenizer().apply_chat_template(said, add_generation_prompt=True, return_dict=True)
        return tuple(made["input_ids"])

    def _tokenizer(self) -> Any:
        from pytest_specgate.engines.hf.tokens import load_tokenizer

        if self._loaded is None:
            self._loaded = load_tokenizer(self._context, self._reference)
        return self._loaded


def recut(trace: Trace, tokens: Tokens) -> Ids:
    """The ids of a text that a server told without them. Raises Failure where they cannot be known for sure."""
    ids, counted = tokens.encode(trace.text), trace.output_tokens
    if tokens.decode(ids) != trace.text:
        what = f"told no token ids of its answer to {trace.prompt}, and the text does not survive the tokenizer"
        raise Failure(what, _IDS)
    ids = ended(ids, trace, tokens)
    if len(ids) != counted:
        said = f"counted {counted} tokens in its answer to {trace.prompt} and told no ids"
        raise Failure(f"{said}, and its text cut anew has {len(ids)}", _IDS)
    return ids


def ended(ids: Ids, trace: Trace, tokens: Tokens) -> Ids:
    """The ids with the end of text that the server counted and has no text for, where there is one such token alone."""
    if trace.finish == "eos" and len(ids) == trace.output_tokens - 1 and len(tokens.eos) == 1:
        return (*ids, *tokens.eos)
    return ids


_IDS = "use a server that returns token ids, so that what it emitted can be scored"


def _ids(said: Any) -> Ids:
    found = said.get("tokens") if isinstance(said, Mapping) else None
    if not isinstance(found, list) or not {int}.issuperset(map(type, found)):
        raise Failure("tokenizes to something that is no list of ids", "name a 'tokenizer' in the suite")
    return tuple(found)
