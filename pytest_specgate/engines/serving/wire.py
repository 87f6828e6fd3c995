"""Requests as a server takes them: the OpenAI protocol, and the settings that its dialect takes beyond it.

Everything that decides which token is chosen is sent, for a server has defaults of its own, and those of the model's
files. What a server does not take is refused before it is asked: an ignored setting would be measured as if it were
honoured.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_specgate.engines.base import seed_of
from pytest_specgate.engines.serving.client import Post
from pytest_specgate.engines.serving.dialects import Dialect
from pytest_specgate.engines.serving.failures import Failure, Lacking
from pytest_specgate.records import Request, Sampling
from pytest_specgate.suite.servers import ServerSpec

#: Settings that OpenAI's protocol does not have.
_FURTHER = ("top_k", "min_p", "repetition_penalty", "min_tokens", "bad_words")
PATHS: Mapping[str, str] = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}


def post(request: Request, spec: ServerSpec, url: str, named: tuple[str, Dialect]) -> Post:
    """One request to the server at ``url``, by its model's name and its dialect. Raises Failure as :func:`encode`."""
    return Post(
        url + path(request, spec.endpoint),
        encode(request, spec, *named),
        request.n * request.max_tokens,
        spec.timeout,
        named[0],
        request.after,
        request.cancel_after,
    )


def encode(request: Request, spec: ServerSpec, model: str, dialect: Dialect) -> bytes:
    """The body of one request. Raises Failure for what this server cannot be asked."""
    return json.dumps(body(request, spec, model, dialect), ensure_ascii=False).encode()


def body(request: Request, spec: ServerSpec, model: str, dialect: Dialect) -> dict[str, Any]:
    """As :func:`encode`, before it becomes bytes."""
    options: dict[str, object] = {"include_usage": True}
    if dialect.continuous_usage:
        options["continuous_usage_stats"] = True
    return {
        **dialect.body,
        **dialect.off,
        **spec.body,
        "model": model,
        **_prompt(request, spec.endpoint, dialect),
        "max_tokens": request.max_tokens,
        "stream": True,
        "stream_options": options,
        **dict(_openai_settings(request)),
        **dict(_further_settings(request, dialect)),
        **dict(_answers(request, spec.endpoint, dialect)),
    }


def path(request: Request, endpoint: str) -> str:
    """Where a request goes: a prompt of token ids is a text completion, whatever the endpoint."""
    return PATHS["completions" if request.token_ids is not None else endpoint]


def _prompt(request: Request, endpoint: str, dialect: Dialect) -> dict[str, Any]:
    if request.token_ids is not None:
        if not dialect.takes_ids:
            raise Lacking("cannot be asked by token ids over this protocol", "use prompts of text")
        return {"prompt": list(request.token_ids)}
    if endpoint == "chat":
        return {"messages": [{"role": m.role, "content": m.content} for m in request.messages]}
    if len(request.messages) > 1:
        raise Failure(
            f"cannot be asked {request.prompt} ({len(request.messages)} messages): a text completion takes one",
            "use prompts of one turn without a system message, or endpoint: chat",
        )
    return {"prompt": request.messages[0].content}


def _openai_settings(request: Request) -> Iterator[tuple[str, object]]:
    sampling = request.sampling
    yield "temperature", sampling.temperature
    yield "top_p", sampling.top_p
    if not sampling.greedy and sampling.seed is not None:
        yield "seed", seed_of(request)
    for name in ("frequency_penalty", "presence_penalty"):
        if value := getattr(sampling, name):
            yield name, value
    if sampling.logit_bias:
        yield "logit_bias", {str(bias.token): bias.value for bias in sampling.logit_bias}
    if request.stop:
        yield "stop", list(request.stop)


def _answers(request: Request, endpoint: str, dialect: Dialect) -> Iterator[tuple[str, object]]:
    """How many answers are wanted, and whether with log-probabilities: text completions ask for a number of those."""
    wanted: dict[str, object] = {"n": request.n} if request.n > 1 else {}
    if request.logprobs:
        wanted["logprobs"] = True if path(request, endpoint) == PATHS["chat"] else 1
    for name, value in wanted.items():
        if name not in dialect.offers:
            what = f"takes no {name!r}: {dialect.shown} offers none"
            raise Lacking(what, f"remove {name!r}, or name the server's software with 'dialect'")
        yield name, value


def _further_settings(request: Request, dialect: Dialect) -> Iterator[tuple[str, object]]:
    plain, sampling = Sampling(), request.sampling
    asked = {name: getattr(sampling, name) for name in _FURTHER}
    wanted = {name: value for name, value in asked.items() if value != getattr(plain, name)}
    if request.ignore_eos:
        wanted["ignore_eos"] = True
    if request.stop_ids:
        wanted["stop_ids"] = request.stop_ids
    for name, value in wanted.items():
        if name not in dialect.keys:
            what = f"takes no {name!r}: it is not part of the protocol that it speaks ({dialect.shown})"
            hint = f"remove {name!r} from the scenario, or name the server's software with 'dialect'"
            raise Lacking(what, hint)
        yield dialect.keys[name], list(value) if isinstance(value, tuple) else value
