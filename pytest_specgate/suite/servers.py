"""What a suite says of two servers: where they are, what they serve, and how they are asked.

The keys stand under ``server`` of an engine of ``kind: openai``. The key of an API is never among them: the suite names
the environment variable that holds it.
"""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from pytest_specgate import units
from pytest_specgate.suite.quantities import Seconds, Strict, Whole

#: The longest silence of a server that is waited for.
SILENCE_SECONDS = 120.0
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

DialectName = Literal["auto", "vllm", "sglang", "llamacpp", "tgi", "trtllm", "plain"]


class ArmServer(Strict):
    """Where one arm's server answers."""

    url: str = Field(
        description="address of the server, with or without /v1 at its end", examples=["http://127.0.0.1:8000"]
    )
    model: str | None = Field(None, description="name of the model on this server where it differs")

    @field_validator("url")
    @classmethod
    def _address(cls, value: str) -> str:
        return _checked(value)


class ServerPlace(Strict):
    """What the servers run on, where the suite says it: absolute numbers are compared within one place."""

    device: str = Field(min_length=1, examples=["NVIDIA H200"])
    count: Whole = Field(1, ge=1)
    dtype: str = Field("served", description="what the weights are stored in, e.g. bfloat16")


class ServerSpec(Strict):
    """Two servers, one without and one with speculation, and how both are asked."""

    model: str = Field(min_length=1, description="name of the model as it is served", examples=["my-org/my-model"])
    reference: ArmServer = Field(examples=["{url: 'http://127.0.0.1:8000'}"])
    candidate: ArmServer = Field(examples=["{url: 'http://127.0.0.1:8001'}"])
    dialect: DialectName = Field("auto", description="which software serves; auto asks both servers")
    endpoint: Literal["chat", "completions"] = Field(
        "chat", description="completions sends the turn's text as it is, without a chat template"
    )
    api_key_env: str | None = Field(None, description="environment variable that holds the API key")
    tokenizer: str | None = Field(
        None, description="tokenizer that counts tokens where the server does not: Hub id or local directory"
    )
    timeout: Seconds = Field(SILENCE_SECONDS, description="longest silence of a server in mid-answer")
    place: ServerPlace | None = None
    body: dict[str, object] = Field(
        default_factory=dict, description="further keys of every request, as the server's API has them"
    )

    @field_validator("api_key_env")
    @classmethod
    def _variable(cls, value: str | None) -> str | None:
        if value is not None and not _VARIABLE.fullmatch(value):
            # The value is not shown: it may be the key itself.
            raise ValueError("'api_key_env' is no variable's name — name the variable that holds the key, not the key")
        return value

    @field_validator("timeout", mode="before")
    @classmethod
    def _seconds(cls, value: object) -> float:
        return units.parse_seconds(value)

    @field_validator("body")
    @classmethod
    def _own_keys(cls, value: dict[str, object]) -> dict[str, object]:
        if taken := sorted(_OURS & value.keys()):
            raise ValueError(f"'body' sets {taken[0]!r}, which specgate sets itself — {_WHERE[taken[0]]}")
        return value


_WHERE = {
    "model": "use 'model'",
    "messages": "prompts come from the scenario",
    "prompt": "prompts come from the scenario",
    "stream": "remove it: answers are always streamed",
    "stream_options": "remove it: answers are always streamed",
    "n": "remove it: one answer is one generation",
    "temperature": "use the scenario's 'sampling'",
    "top_p": "use the scenario's 'sampling'",
    "top_k": "use the scenario's 'sampling'",
    "seed": "use the scenario's 'sampling'",
    "max_tokens": "use the scenario's 'max_tokens'",
    "stop": "use the scenario's 'stop'",
    "ignore_eos": "use the scenario's 'ignore_eos'",
}
_OURS = frozenset(_WHERE)


def _checked(url: str) -> str:
    """The address without ``/v1`` and slashes at its end. Raises ValueError with what to write."""
    hint = "write it like http://127.0.0.1:8000"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError(f"'url' is no address — {hint}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"'url' is no http address — {hint}")
    if parts.username or parts.password:
        raise ValueError("'url' holds a user's name or password — leave it out, and name the key with 'api_key_env'")
    if parts.query or parts.fragment:
        raise ValueError(f"'url' goes on after the path — {hint}")
    return url.rstrip("/").removesuffix("/v1").rstrip("/")
