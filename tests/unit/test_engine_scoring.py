"""What engines say of texts: the target's logits, teacher-forced, on tiny random models and on the scripted fake."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.engines.base import EngineContext, Scorer
from pytest_specgate.engines.hf import scoring
from pytest_specgate.engines.registry import create
from pytest_specgate.errors import EngineError
from pytest_specgate.records import Arm, Capability, Message, Request, Sampling
from pytest_specgate.suite.model import EngineSpec
from tests import tiny

LOOKUP = {"method": "prompt_lookup", "num_draft_tokens": 3}
REQUESTS = [
    Request(f"p{n}", (Message("user", " ".join(tiny.WORDS[n : n + 3 + 2 * n])),), 12 + 4 * n, Sampling())
    for n in range(5)
]


def build(folder: Path, **settings: Any) -> Any:
    spec = EngineSpec(**{"target": "target", "dtype": "float64", "candidate": LOOKUP, **settings})
    engine = create(EngineContext("e", spec, folder))
    engine.start()
    return engine


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("scoring")
    tiny.pair(made)
    return made


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Any]:
    made = build(folder)
    yield made
    made.close()


def texts_of(engine: Any) -> list[tuple[int, ...]]:
    return [trace.token_ids for request in REQUESTS for trace in engine.generate([request], Arm.REFERENCE)]


def test_the_targets_own_text_is_its_choice_everywhere(engine: Any) -> None:
    assert isinstance(engine, Scorer)
    assert Capability.LOGITS in engine.capabilities
    texts = texts_of(engine)
    assert len({len(text) for text in texts}) > 1
    for width in (None, 1, 4):
        found = engine.score(REQUESTS, texts, width)
        for text, scores in zip(texts, found):
            assert scores.best_ids == text
            assert scores.regrets == (0.0,) * len(text)
            assert min(scores.margins) > 1e-6


def test_all_widths_say_the_same_up_to_rounding_also_of_a_foreign_text(engine: Any) -> None:
    texts = [tuple((7 * n + i) % tiny.ROWS for i in range(5 + 9 * n)) for n in range(5)]
    whole, single, several = (engine.score(REQUESTS, texts, width) for width in (None, 1, 4))
    for one, other, third in zip(whole, single, several):
        for name in ("best", "runner_up", "emitted"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-9)
            assert getattr(one, name) == pytest.approx(getattr(third, name), abs=1e-9)
        assert max(one.regrets) > 1


def test_logits_are_those_of_a_plain_forward(engine: Any) -> None:
    import torch

    request, text = REQUESTS[1], (9, 4, 30, 12)
    prompt = engine._encode(request, engine._started())["input_ids"][0].tolist()
    with torch.no_grad():
        rows = engine._started().model(torch.tensor([[*prompt, *text]])).logits[0, len(prompt) - 1 : -1]
    (found,) = engine.score([request], [text])
    assert found.best == pytest.approx(rows.max(-1).values.tolist())
    assert found.best_ids == tuple(rows.argmax(-1).tolist())
    assert found.runner_up == pytest.approx(rows.sort(-1).values[:, -2].tolist())
    assert found.emitted == pytest.approx([float(row[token]) for row, token in zip(rows, text)])


@pytest.mark.parametrize("kind", ["native", "transformers"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_a_request_forbids_has_a_number_in_16_bits_too(folder: Path, kind: str, dtype: str) -> None:
    made = build(folder, kind=kind, dtype=dtype)
    asked = replace(REQUESTS[0], sampling=Sampling(min_tokens=3), stop_ids=(9,))
    (found,) = made.score([asked], [(9, 4, 9)])
    made.close()
    assert found.emitted[0] == found.emitted[2] == scoring.FORBIDDEN
    assert abs(found.emitted[1]) < 100
    assert 9 not in found.best_ids


@pytest.mark.parametrize("rows", [1, 7, 60])
def test_little_memory_gives_the_same_numbers(engine: Any, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    texts = texts_of(engine)
    plenty = engine.score(REQUESTS, texts)
    monkeypatch.setattr(scoring, "MOST_BYTES", rows * 4 * tiny.ROWS)
    for one, other in zip(plenty, engine.score(REQUESTS, texts)):
        assert one.best == pytest.approx(other.best, abs=1e-9)
        assert one.best_ids == other.best_ids


def test_the_bound_holds_for_the_rows_of_logits(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted on the model itself: no forward makes more rows than the bound, a lone prompt's last one apart."""
    made: list[int] = []
    model = engine._started().model
    hook = model.register_forward_hook(lambda _, __, out: made.append(out.logits.shape[0] * out.logits.shape[1]))
    monkeypatch.setattr(scoring, "MOST_BYTES", 60 * 4 * tiny.ROWS)
    try:
        engine.score(REQUESTS, texts_of(engine))
    finally:
        hook.remove()
    assert 28 < max(made) <= 60


def test_a_text_of_foreign_ids_is_refused(engine: Any) -> None:
    with pytest.raises(EngineError) as raised:
        engine.score(REQUESTS[:1], [(3, 64)])
    assert str(raised.value) == (
        "e: p0: the text holds token id 64, and the target scores ids up to 63 — "
        "decode with the target's own vocabulary"
    )


@pytest.mark.parametrize("kind", ["native", "transformers"])
def test_a_vocabulary_smaller_than_the_tokenizer_s_is_told(folder: Path, kind: str) -> None:
    tiny.save(folder / "small", tiny.model(rows=40))
    engine = build(folder, kind=kind, target="small")
    words = replace(REQUESTS[0], messages=(Message("user", "keeps w30"),))
    for ask in (lambda: engine.generate([words], Arm.CANDIDATE), lambda: engine.score([words], [(3, 4)])):
        with pytest.raises(EngineError) as raised:
            ask()
        assert str(raised.value) == (
            "e: p0: the target's tokenizer makes token id 56 of it, and the target's vocabulary is smaller: "
            "ids up to 39 — use the tokenizer that the target was trained with"
        )


@pytest.mark.parametrize("kind", ["native", "transformers"])
@pytest.mark.parametrize("scorer", ["score", "chances"])
def test_a_token_that_the_tokenizer_does_not_know_is_told(folder: Path, kind: str, scorer: str) -> None:
    """More rows than tokens are usual; a text that holds one of them is not."""
    tiny.save(folder / "large", tiny.model(rows=80))
    engine = build(folder, kind=kind, target="large")
    with pytest.raises(EngineError) as raised:
        getattr(engine, scorer)(REQUESTS[:1], [(3, 70)])
    assert str(raised.value) == (
        "e: p0: the text holds token id 70, and the tokenizer's vocabulary is smaller than the target's: ids up to 63 "
        "— use the target's own tokenizer, or bar what pads its vocabulary"
    )


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_no_numbers_are_an_error(folder: Path, bad: float) -> None:
    import torch

    engine = build(folder)
    with torch.no_grad():
        engine._started().model.lm_head.weight[5] = bad
    with pytest.raises(EngineError) as raised:
        engine.score(REQUESTS[:1], [(3, 4)])
    assert str(raised.value) == (
        "e: p0: the target's logits at output token 1 are not finite numbers — "
        "look at the target's weights and dtype: float16 overflows at 65504"
    )


def test_a_checkpoint_that_rewrites_logits_cannot_be_scored(folder: Path) -> None:
    engine = build(folder)
    engine._started().model.generation_config.no_repeat_ngram_size = 3
    with pytest.raises(EngineError) as raised:
        engine.score(REQUESTS[:1], [(3, 4)])
    assert str(raised.value) == (
        "e: the target's generation config sets no_repeat_ngram_size: 3, so its choice is not the highest logit — "
        "remove no_repeat_ngram_size from generation_config.json, or the gate"
    )


# --- the scripted fake ------------------------------------------------------------------------------------------


def fake(**options: object) -> Any:
    return create(EngineContext("fake", EngineSpec(kind="scripted", options=options), Path()))


@pytest.mark.parametrize(("fault", "regret"), [("none", 0), ("diverge", 4), ("tie", 0.005), ("truncate", 4)])
def test_the_scripted_target_regrets_what_its_fault_does(fault: str, regret: float) -> None:
    engine = fake(fault=fault)
    request = replace(REQUESTS[1], max_tokens=64)
    (reference,), (candidate,) = (engine.generate([request], arm) for arm in Arm)
    kept, lost = engine.score([request] * 2, [reference.token_ids, candidate.token_ids])
    assert max(kept.regrets) <= 0.02
    assert max(lost.regrets) == pytest.approx(regret, abs=0.03) or (fault == "truncate" and max(lost.regrets) > 4)
    assert sum(found > 0.03 for found in lost.regrets) == (regret > 0.03)


def test_the_scripted_noise_belongs_to_the_width() -> None:
    engine = fake()
    text = engine.generate([REQUESTS[1]], Arm.REFERENCE)[0].token_ids
    one, again, other = (engine.score([REQUESTS[1]], [text], width)[0] for width in (1, 1, 5))
    assert one == again
    assert 0 < max(abs(a - b) for a, b in zip(one.margins, other.margins)) < 0.05


def test_a_script_may_say_that_nothing_can_be_scored() -> None:
    assert Capability.LOGITS not in fake(fault="no_logits").capabilities
