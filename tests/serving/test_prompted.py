"""What servers say of prompts' tokens, on recorded shapes: scores, chances, and where they do not suffice.

vLLM 0.32.0: ``CompletionResponseChoice.prompt_logprobs`` of vllm/entrypoints/openai/completion/protocol.py, a list of
mappings from a token's id to ``{logprob, rank, decoded_token}``, null for the first token, minus infinity as -9999.
SGLang 0.5.23 (not tried live): ``meta_info`` of ``/generate``, python/sglang/srt/managers/tokenizer_manager.py, triples
of log-probability, id and text.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from pytest_specgate.engines.serving.dialects.sglang import SGLANG
from pytest_specgate.engines.serving.dialects.vllm import VLLM
from pytest_specgate.engines.serving.failures import Failure
from pytest_specgate.engines.serving.prompted import TOP, PromptScores, Told, chances, of_text, scores
from pytest_specgate.records import Sampling

VLLM_SAID: dict[str, Any] = {
    "id": "cmpl-1",
    "object": "text_completion",
    "model": "smol",
    "choices": [
        {
            "index": 0,
            "text": " it",
            "logprobs": None,
            "finish_reason": "length",
            "stop_reason": None,
            "token_ids": [357],
            "prompt_token_ids": [1, 9690, 198, 28],
            "prompt_logprobs": [
                None,
                {
                    "9690": {"logprob": -2.5, "rank": 3, "decoded_token": "user"},
                    "78": {"logprob": -0.5, "rank": 1, "decoded_token": "s"},
                    "11": {"logprob": -1.25, "rank": 2, "decoded_token": ","},
                },
                {
                    "198": {"logprob": -0.125, "rank": 1, "decoded_token": "\n"},
                    "28": {"logprob": -2.25, "rank": 2, "decoded_token": "."},
                },
                {
                    "28": {"logprob": -9999.0, "rank": 49000, "decoded_token": "."},
                    "504": {"logprob": -0.75, "rank": 1, "decoded_token": "The"},
                    "42": {"logprob": -0.875, "rank": 2, "decoded_token": "I"},
                },
            ],
        }
    ],
    "usage": {"prompt_tokens": 4, "total_tokens": 5, "completion_tokens": 1},
}
SGLANG_SAID: dict[str, Any] = {
    "text": " it",
    "meta_info": {
        "id": "1",
        "prompt_tokens": 4,
        "input_token_logprobs": [[None, 1, None], [-2.5, 9690, None], [-0.125, 198, None], [-9999.0, 28, None]],
        "input_top_logprobs": [
            None,
            [[-0.5, 78, None], [-1.25, 11, None]],
            [[-0.125, 198, None], [-2.25, 28, None]],
            [[-0.75, 504, None], [-0.875, 42, None]],
        ],
    },
}
BOTH = pytest.mark.parametrize(("dialect", "said"), [(VLLM, VLLM_SAID), (SGLANG, SGLANG_SAID)], ids=["vllm", "sglang"])


def how(dialect: Any) -> PromptScores:
    assert dialect.prompted is not None
    return dialect.prompted  # type: ignore[no-any-return]


@BOTH
def test_regrets_in_log_probabilities_are_regrets_in_logits(dialect: Any, said: Any) -> None:
    found = scores(of_text(how(dialect), said, 1, (9690, 198, 28)))

    assert found.regrets == (2.0, 0.0, 9998.25)
    assert found.margins[:2] == (-2.0, 2.125)
    assert found.best_ids == (78, 198, 504)


@BOTH
def test_scores_of_other_tokens_are_refused(dialect: Any, said: Any) -> None:
    with pytest.raises(Failure, match="scores other tokens than it was sent"):
        of_text(how(dialect), said, 1, (9690, 198, 29))
    with pytest.raises(Failure, match="scores other tokens than it was sent"):
        of_text(how(dialect), {"choices": []}, 1, (9690,))
    with pytest.raises(Failure, match="scores other tokens than it was sent"):
        of_text(how(dialect), said, 0, (1, 9690))  # nothing is said of the first token


@pytest.mark.parametrize("wrong", [{"x": {"logprob": -1}}, {"1": {"logprob": 10**400}}, {"1": {"logprob": "low"}}])
def test_scores_in_another_form_are_the_servers_fault(wrong: Any) -> None:
    (choice,) = VLLM_SAID["choices"]
    said = {"choices": [{**choice, "prompt_logprobs": [None, wrong, wrong, wrong]}]}

    with pytest.raises(Failure):
        of_text(how(VLLM), said, 1, (9690, 198, 28))


@pytest.mark.parametrize("own", [[5], [[-2.5], [-1, 2, None]], [[-2.5, 9690, None], 7], [[10**400, 1, None]] * 2])
def test_tuples_of_another_form_are_the_servers_fault(own: Any) -> None:
    said = {
        "meta_info": {"input_token_logprobs": own, "input_top_logprobs": [[[-0.5]], [[-0.5, 78, None]]][: len(own)]}
    }

    with pytest.raises(Failure, match="tells the scores of a prompt in a form that nobody knows — check 'dialect'"):
        of_text(how(SGLANG), said, 0, (9690, 198))


@pytest.mark.parametrize("score", [800.0, -800.0])
def test_a_most_likely_token_of_impossible_odds_is_refused(score: float) -> None:
    with pytest.raises(Failure, match="as the log-probability of its most likely token"):
        chances([Told(1, score, ((1, score), (2, score - 1)))], Sampling(1.0))


def test_a_rare_token_stands_in_the_middle_of_all_that_were_not_told() -> None:
    """Draws from the very distribution that is told lie at one half on average, also those beyond the list."""
    weights = [1 / (rank + 3) for rank in range(100)]
    logs = {rank + 7: math.log(weight / sum(weights)) for rank, weight in enumerate(weights)}
    mean = 0.0
    for token, log in logs.items():
        listed = {str(one): {"logprob": logs[one], "rank": one - 6} for one in [*list(logs)[:TOP], token]}
        said = {"choices": [{"prompt_token_ids": [1, token], "prompt_logprobs": [None, listed]}]}
        found = chances(of_text(how(VLLM), said, 1, (token,)), Sampling(1.0))
        mean += math.exp(log) * (found.above[0] + found.chance[0] / 2)

    assert math.isclose(mean, 0.5, abs_tol=1e-9)


def test_what_is_asked() -> None:
    assert how(VLLM).ask((1, 2), 5, "smol")["prompt_logprobs"] == 5
    body = how(SGLANG).ask((1, 2), 5, "smol")
    assert (body["input_ids"], body["return_logprob"], body["logprob_start_len"]) == ([1, 2], True, 0)


def told(token: int, *odds: float) -> Told:
    """A token of a row of which these chances are told, ids from 0; untold ones have the rest."""
    top = tuple((i, math.log(chance)) for i, chance in enumerate(odds))
    return Told(token, dict(top).get(token, math.log(0.001)), top)


def test_chances_are_those_of_the_request() -> None:
    plain = chances([told(1, 0.5, 0.3, 0.2)], Sampling(1.0))
    assert (plain.chance[0], plain.above[0], plain.highest[0]) == pytest.approx((0.3, 0.5, 0.5))
    cold = chances([told(1, 0.5, 0.3, 0.2)], Sampling(0.5))
    assert cold.chance[0] == pytest.approx(0.09 / 0.38)
    cut = chances([told(1, 0.5, 0.3, 0.1)], Sampling(1.0, top_k=2))
    assert (cut.chance[0], cut.highest[0]) == pytest.approx((0.375, 0.625))
    assert chances([told(2, 0.5, 0.3, 0.1)], Sampling(1.0, top_k=2)).outside == (0,)
    assert chances([told(2, 0.5, 0.3, 0.1)], Sampling(1.0, top_p=0.7)).outside == (0,)
    assert chances([told(1, 0.6, 0.05, 0.02)], Sampling(1.0, top_k=3, min_p=0.5)).outside == (0,)


def test_a_token_that_is_not_listed_stands_in_the_middle_of_those() -> None:
    found = chances([told(9, 0.5, 0.3)], Sampling(1.0))
    assert found.chance[0] == pytest.approx(0.001)
    assert found.above[0] + found.chance[0] / 2 == pytest.approx(0.9)


@pytest.mark.parametrize(
    "sampling", [Sampling(0.9), Sampling(1.5), Sampling(1.0, top_k=3), Sampling(1.0, top_p=0.9)], ids=str
)
def test_where_too_little_is_told_nothing_is_said(sampling: Sampling) -> None:
    with pytest.raises(Failure, match="tells too few log-probabilities to judge drawn tokens"):
        chances([told(0, 0.5, 0.3)], sampling)
