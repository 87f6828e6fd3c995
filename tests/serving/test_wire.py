"""What servers are asked: everything that decides which token is chosen, in each software's own words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_specgate.engines.base import seed_of
from pytest_specgate.engines.serving.dialects import DIALECTS
from pytest_specgate.engines.serving.failures import Failure, Lacking
from pytest_specgate.engines.serving.wire import body
from pytest_specgate.records import Bias, Request, Sampling
from pytest_specgate.suite.servers import ServerSpec
from tests.serving.conftest import ask

URLS = {"reference": {"url": "http://127.0.0.1:1"}, "candidate": {"url": "http://127.0.0.1:2"}}
ALL = Sampling(
    temperature=0.7,
    top_k=20,
    top_p=0.9,
    seed=3,
    min_p=0.05,
    repetition_penalty=1.1,
    frequency_penalty=0.5,
    presence_penalty=-0.5,
    logit_bias=(Bias(5, -100), Bias(7, 1.5)),
    min_tokens=4,
    bad_words=("no",),
)


def asked(request: Request, dialect: str, **server: Any) -> dict[str, Any]:
    spec = ServerSpec.model_validate({"model": "smol", **URLS, **server})
    return body(request, spec, "fast", DIALECTS[dialect])


def test_a_plain_server_is_asked_in_the_protocols_own_words() -> None:
    assert asked(ask(), "plain") == {
        "model": "fast",
        "messages": [{"role": "user", "content": "Say it."}],
        "max_tokens": 64,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.0,
        "top_p": 1.0,
    }


def test_vllm_is_asked_for_ids_and_growing_usage_and_its_own_filters_are_off() -> None:
    found = asked(ask(stop=("END",), ignore_eos=True), "vllm")

    assert found["return_token_ids"] is True
    assert found["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert (found["top_k"], found["min_p"], found["stop"], found["ignore_eos"]) == (-1, 0.0, ["END"], True)


def test_every_setting_reaches_vllm() -> None:
    request = ask(sampling=ALL)
    found = asked(request, "vllm")

    assert {key: found[key] for key in found.keys() - asked(ask(), "plain").keys() | {"temperature", "top_p"}} == {
        "return_token_ids": True,
        "temperature": 0.7,
        "top_p": 0.9,
        "seed": seed_of(request),
        "top_k": 20,
        "min_p": 0.05,
        "repetition_penalty": 1.1,
        "frequency_penalty": 0.5,
        "presence_penalty": -0.5,
        "logit_bias": {"5": -100, "7": 1.5},
        "min_tokens": 4,
        "bad_words": ["no"],
    }


def test_llamacpp_has_a_name_of_its_own_for_repetition() -> None:
    found = asked(ask(sampling=Sampling(repetition_penalty=1.1)), "llamacpp")

    assert found["repeat_penalty"] == 1.1
    assert "repetition_penalty" not in found


@pytest.mark.parametrize(
    ("dialect", "request_", "name"),
    [
        ("plain", ask(sampling=Sampling(temperature=1.0, top_k=5)), "top_k"),
        ("plain", ask(ignore_eos=True), "ignore_eos"),
        ("tgi", ask(sampling=Sampling(min_p=0.1)), "min_p"),
        ("llamacpp", ask(sampling=Sampling(min_tokens=3)), "min_tokens"),
        ("sglang", ask(sampling=Sampling(bad_words=("x",))), "bad_words"),
    ],
)
def test_what_a_server_does_not_take_is_refused_not_ignored(dialect: str, request_: Request, name: str) -> None:
    with pytest.raises(Failure) as raised:
        asked(request_, dialect)

    shown = DIALECTS[dialect].shown
    assert str(raised.value) == (
        f"takes no {name!r}: it is not part of the protocol that it speaks ({shown}) — "
        f"remove {name!r} from the scenario, or name the server's software with 'dialect'"
    )


def test_an_unseeded_request_leaves_the_seed_to_the_server() -> None:
    assert "seed" not in asked(ask(sampling=Sampling(temperature=1.0, seed=None)), "vllm")


def test_equal_seeds_of_different_prompts_differ_and_both_arms_share_them() -> None:
    drawn = Sampling(temperature=1.0, seed=1)
    one, other = (asked(ask(name, sampling=drawn), "vllm")["seed"] for name in ("q1", "q2"))

    assert one != other
    assert one == asked(ask("q1", sampling=drawn), "llamacpp")["seed"]


def test_the_suites_own_keys_go_along_and_come_before_a_dialects_defaults() -> None:
    found = asked(ask(), "vllm", body={"return_token_ids": False, "chat_template_kwargs": {"enable_thinking": False}})

    assert found["return_token_ids"] is False
    assert found["chat_template_kwargs"] == {"enable_thinking": False}


def test_further_ends_and_ids_reach_who_takes_them() -> None:
    ending = replace(ask(), stop_ids=(7, 9))
    for dialect in ("vllm", "sglang", "trtllm"):
        assert asked(ending, dialect)["stop_token_ids"] == [7, 9]
    with pytest.raises(Lacking, match="takes no 'stop_ids'"):
        asked(ending, "plain")
    with pytest.raises(Lacking, match="cannot be asked by token ids"):
        asked(replace(ask(), token_ids=(1, 2)), "tgi")
    assert asked(replace(ask(), token_ids=(1, 2)), "vllm")["prompt"] == [1, 2]
