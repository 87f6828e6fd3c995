"""Models that say nothing, in both local engines: what is told of whom, and that nothing bad is left behind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.engines.base import Engine, EngineContext
from pytest_specgate.engines.registry import create
from pytest_specgate.errors import EngineError
from pytest_specgate.records import Arm, Message, Request, Sampling
from pytest_specgate.suite.model import EngineSpec
from tests import tiny

KINDS = ("native", "transformers")
BAD = (float("nan"), float("inf"))
METHODS: dict[str, dict[str, Any]] = {
    "prompt_lookup": {"method": "prompt_lookup", "num_draft_tokens": 3},
    "draft_model": {"method": "draft_model", "draft": "draft", "num_draft_tokens": 3},
    "both": {"method": "draft_model", "draft": "draft", "num_draft_tokens": 3, "options": {"lookup_first": True}},
    "universal": {"method": "universal", "draft": "other", "num_draft_tokens": 3},
}
OVERFLOW = "weights and dtype: float16 overflows at 65504"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target, a draft that fits it, one of another vocabulary, and targets of more and of fewer rows than tokens."""
    folder = tmp_path_factory.mktemp("models")
    tiny.pair(folder, noise=0.02)
    tiny.save(folder / "padded", tiny.model(rows=tiny.ROWS + 8))
    tiny.save(folder / "small", tiny.model(rows=40))
    shuffled = (*tiny.WORDS[10:], *tiny.WORDS[:10], "unheard")
    tiny.save(folder / "other", tiny.model(rows=tiny.ROWS + 8), tiny.tokenizer(shuffled))
    return folder


def started(folder: Path, kind: str, method: str = "prompt_lookup", target: str = "target") -> Any:
    spec = EngineSpec(kind=kind, target=target, dtype="float64", candidate=METHODS[method])
    engine = create(EngineContext("e", spec, folder))
    engine.start()
    return engine


def ask(number: int, temperature: float = 0.0, max_tokens: int = 32, *, ignore_eos: bool = True) -> Request:
    words = " ".join(tiny.WORDS[(number * 3 + j * j) % 20] for j in range(3 + number))
    said = (Message("user", words),)
    return Request(f"p{number}", said, max_tokens, Sampling(temperature), ignore_eos=ignore_eos)


def spoil(model: Any, bad: float) -> None:
    import torch

    with torch.no_grad():
        model.lm_head.weight[5] = bad


def told(engine: Engine, requests: list[Request], arm: Arm) -> str:
    """What is told of the first request that is met, wherever in its text."""
    with pytest.raises(EngineError) as raised:
        engine.generate(requests, arm)
    return re.sub(r"^e: p\d: |at output token \d+ ", "", str(raised.value))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("arm", Arm)
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(("kind", "method"), [("native", "prompt_lookup"), ("transformers", "draft_model")])
def test_a_target_whose_logits_are_no_numbers(
    models: Path, kind: str, method: str, bad: float, arm: Arm, temperature: float
) -> None:
    engine = started(models, kind, method)
    spoil(engine._started().model, bad)
    requests = [ask(n, temperature) for n in range(2 if kind == "native" else 1)]

    for _ in range(2):  # the caches that it leaves are none
        said = told(engine, requests, arm)
        assert said == f"the target's logits are not finite numbers — look at the target's {OVERFLOW}"
    assert not engine._started().model._forward_hooks


@pytest.mark.parametrize("temperatures", [(0.0, 0.0), (1.0, 1.0), (0.0, 1.0)])
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize(
    ("kind", "method", "kind_of_draft"),
    [
        ("native", "draft_model", " (draft)"),
        ("native", "both", " (draft)"),
        ("transformers", "draft_model", ""),
        ("transformers", "universal", ""),
    ],
)
def test_a_draft_whose_logits_are_no_numbers(
    models: Path, kind: str, method: str, kind_of_draft: str, bad: float, temperatures: tuple[float, float]
) -> None:
    """It would cost nothing but acceptance: the text is the target's own."""
    engine = started(models, kind, method)
    spoil(engine._draft.model, bad)
    requests = [ask(n, temperature) for n, temperature in enumerate(temperatures)]
    requests = requests if kind == "native" else requests[1:]

    for _ in range(2):
        said = told(engine, requests, Arm.CANDIDATE)
        assert said == f"the draft's logits are not finite numbers{kind_of_draft} — look at the draft's {OVERFLOW}"
    assert {trace.finish for trace in engine.generate(requests, Arm.REFERENCE)} == {"length"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_that_the_tokenizer_cannot_write(models: Path, kind: str) -> None:
    import torch

    engine = started(models, kind, target="padded")
    (first, *_) = engine.generate([ask(0, max_tokens=2)], Arm.REFERENCE)[0].token_ids
    with torch.no_grad():
        head = engine._started().model.lm_head.weight
        head[70] = 2 * head[first]

    for arm in Arm:
        assert told(engine, [ask(0)], arm) == (
            "the text holds token id 70, and the tokenizer's vocabulary is smaller than the target's: "
            "ids up to 63 — use the target's own tokenizer, or bar what pads its vocabulary"
        )


@pytest.mark.parametrize("kind", KINDS)
def test_a_sweep_needs_a_target_that_knows_its_tokenizer_s_tokens(models: Path, kind: str) -> None:
    engine = started(models, kind, target="small")

    with pytest.raises(EngineError) as raised:
        engine.bounds()

    assert str(raised.value) == (
        "e: the target's tokenizer knows 64 tokens, and the target's vocabulary is smaller: 40 — "
        "use the tokenizer that the target was trained with"
    )
