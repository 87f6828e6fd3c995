"""What a suite says of two servers: where they are, what they serve, and how they are asked.

The keys stand under ``server`` of an engine of ``kind: openai``. A server is there already, or has a command that
starts it. The key of an API is never among them: the suite names the environment variable that holds it.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, WithJsonSchema, field_validator, model_validator

from pytest_specgate import masking, units
from pytest_specgate.suite.quantities import Flag, Seconds, Strict, Whole

#: The longest silence of a server that is waited for.
SILENCE_SECONDS = 120.0
#: The longest start of a server that is waited for.
READY_SECONDS = 120.0
#: What stands for a free port in commands and addresses.
PORT = "${port}"
_OF_A_COMMAND = frozenset({"env", "health", "ready_timeout"})

_NUMBER = {"type": "integer"}
#: Text; whole numbers may be written without quotes.
Argument = Annotated[str, Field(min_length=1), WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1}, _NUMBER]})]
Value = Annotated[str, WithJsonSchema({"anyOf": [{"type": "string"}, _NUMBER]})]
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

DialectName = Literal["auto", "vllm", "sglang", "llamacpp", "tgi", "trtllm", "plain"]


class ArmServer(Strict):
    """Where one arm's server answers, or how it is started."""

    url: str | None = Field(
        None,
        description="address of the server, with or without /v1 at its end; beside a command where that picks the port",
        examples=["http://127.0.0.1:8000"],
    )
    model: str | None = Field(None, description="name of the model on this server where it differs")
    command: tuple[Argument, ...] = Field(
        (),
        description="program and arguments that start the server, in the suite's folder and without a shell; "
        "${port} stands for a free port, pkg://PACKAGE/FILE for that file",
        examples=[["llama-server", "-m", "model.gguf", "--port", PORT]],
    )
    env: dict[str, Value] = Field(default_factory=dict, description="variables that the command gets besides ours")
    pid: Whole | None = Field(
        None,
        ge=1,
        description="process of a server at a url on this machine, below which all of it is: its memory is then known",
    )
    health: str | None = Field("/health", description="path that answers 200 once the server is up; null for none")
    ready_timeout: Seconds = Field(READY_SECONDS, description="most time from its start to its first token")

    @field_validator("url")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        return None if value is None else _checked(value)

    @field_validator("command", mode="before")
    @classmethod
    def _arguments(cls, value: object) -> object:
        if isinstance(value, str):
            raise ValueError("'command' is one text — write a list of arguments: [llama-server, -m, model.gguf]")
        return [_as_text(item) for item in value] if isinstance(value, (list, tuple)) else value

    @field_validator("env", mode="before")
    @classmethod
    def _values(cls, value: object) -> object:
        return {name: _as_text(item) for name, item in value.items()} if isinstance(value, dict) else value

    @field_validator("pid", mode="before")
    @classmethod
    def _number(cls, value: object) -> object:
        return int(value) if isinstance(value, str) and value.isdigit() else value

    @field_validator("ready_timeout", mode="before")
    @classmethod
    def _seconds(cls, value: object) -> float:
        return units.parse_seconds(value)

    @field_validator("health")
    @classmethod
    def _path(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith("/"):
            raise ValueError(f"'health' is no path: {value!r} — write it like /health")
        return value

    @model_validator(mode="after")
    def _one_way(self) -> ArmServer:
        if not self.command and self.url is None:
            raise ValueError("a server without an address — give 'url', or 'command' to have it started")
        if not self.command and (idle := sorted(_OF_A_COMMAND & self.model_fields_set)):
            raise ValueError(f"{idle[0]!r} is for a server that is started — add 'command', or remove it")
        if self.command and self.pid is not None:
            raise ValueError("'pid' is for a server at a url — remove it: what specgate starts it knows")
        if not self.command and PORT in (self.url or ""):
            raise ValueError(f"{PORT} is for a server that is started — add 'command', or write the port")
        return self


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
    together: Flag = Field(
        True, description="false where the two servers do not fit side by side: they take turns, started anew each time"
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
        if value is not None:
            masking.learn_key(value)
        return value

    @model_validator(mode="after")
    def _turns(self) -> ServerSpec:
        if not self.together and not (self.reference.command and self.candidate.command):
            raise ValueError("'together: false' needs servers that specgate starts — give both arms a 'command'")
        return self

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


_SAMPLING = (
    *("temperature", "top_p", "top_k", "min_p", "seed", "repetition_penalty", "repeat_penalty", "frequency_penalty"),
    *("presence_penalty", "logit_bias", "min_tokens", "bad_words"),
)
_WHERE = {
    "model": "use 'model'",
    "messages": "prompts come from the scenario",
    "prompt": "prompts come from the scenario",
    "stream": "remove it: answers are always streamed",
    "stream_options": "remove it: answers are always streamed",
    "n": "remove it: one answer is one generation",
    **dict.fromkeys(_SAMPLING, "use the scenario's 'sampling'"),
    "max_tokens": "use the scenario's 'max_tokens'",
    "stop": "use the scenario's 'stop'",
    "ignore_eos": "use the scenario's 'ignore_eos'",
}
_OURS = frozenset(_WHERE)


def _as_text(value: object) -> object:
    """A whole number as it was written, for YAML here knows one way to write it."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _checked(url: str) -> str:
    """The address without ``/v1`` and slashes at its end. Raises ValueError with what to write."""
    hint = "write it like http://127.0.0.1:8000"
    try:
        parts = urlsplit(url.replace(PORT, "1"))
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
