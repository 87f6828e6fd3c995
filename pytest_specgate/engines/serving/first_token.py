"""The first question to a server that specgate started: one token, asked for until there is one.

A server says that it is healthy before it has loaded, compiled or captured everything that a token needs. What waiting
cannot mend (a wrong model name, a refused key) is an error at once, in the server's own words.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_specgate.engines.serving.ready import NotReady, Probe
from pytest_specgate.engines.serving.stream import message_of, quoted
from pytest_specgate.engines.serving.wire import PATHS
from pytest_specgate.errors import EngineError
from pytest_specgate.masking import MASK

#: Answers of a server that is on its way: too early, too busy, not there yet.
_WAIT = frozenset({408, 425, 429, 500, 502, 503, 504})
_KEY = "name the variable that holds the key with 'api_key_env', and check the key"


@dataclass(frozen=True, slots=True)
class Question:
    """Whom to ask for what: the engine's name in messages, model, endpoint (chat or completions) and headers."""

    engine: str
    who: str
    model: str
    endpoint: str
    headers: Mapping[str, str]

    def hide(self, text: str) -> str:
        """The text without the API's key, which servers like to quote."""
        key = self.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        return text.replace(key, MASK) if key else text

    def quoted(self, said: bytes) -> str:
        """A server's own words on one line, without the key."""
        return quoted(self.hide(message_of(said.decode("utf-8", "replace"))))

    @property
    def body(self) -> bytes:
        """The request."""
        asked: dict[str, Any] = {"model": self.model, "max_tokens": 1, "temperature": 0}
        chat = self.endpoint == "chat"
        asked |= {"messages": [{"role": "user", "content": "Hello"}]} if chat else {"prompt": "Hello"}
        return json.dumps(asked).encode()


def probe(question: Question) -> Probe:
    """What asks this question at a URL; see :data:`ready.Probe`."""
    return lambda url, seconds: _ask(question, url, seconds)


def _ask(question: Question, url: str, seconds: float) -> None:
    headers = {**question.headers, "Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}{PATHS[question.endpoint]}", question.body, headers)  # noqa: S310
    try:
        # Straight to the address: a proxy of the environment knows no loopback servers.
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(request, timeout=seconds) as answer:
            said = answer.read(1 << 20)
    except urllib.error.HTTPError as error:
        raise _refused(question, error) from None
    except (OSError, http.client.HTTPException) as error:
        raise NotReady(f"its first token did not come ({getattr(error, 'reason', None) or error})") from None
    if b'"choices"' not in said:
        raise EngineError(
            question.engine,
            f"{question.who} gave no completion: {question.quoted(said)}",
            "serve the OpenAI protocol, or correct 'url'",
        )


def _refused(question: Question, error: urllib.error.HTTPError) -> Exception:
    with error:
        said = question.quoted(error.read(1 << 16))
    if error.code in _WAIT:
        return NotReady(f"its first token was refused ({error.code}: {said})")
    what = f"{question.who} refused its first request ({error.code}: {said})"
    return EngineError(question.engine, what, _KEY if error.code in (401, 403) else "correct 'model', or the command")
