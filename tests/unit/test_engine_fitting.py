"""What target and draft think of drawn texts: chances against those of plain forwards, on tiny models."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from pytest_specgate.chances import Chances
from pytest_specgate.decoding.processors import BadWords, MinP, MinTokens, Temperature, TopK, TopP
from pytest_specgate.engines.base import ChanceScorer, EngineContext
from pytest_specgate.engines.hf import fitting, scoring
from pytest_specgate.engines.registry import create
from pytest_specgate.errors import EngineError
from pytest_specgate.records import Arm, Message, Request, Sampling
from pytest_specgate.suite.model import EngineSpec
from tests import tiny
from tests.unit.drawing import Table, table

DRAWN = Sampling(temperature=1.3, top_k=20, top_p=0.9, seed=4)
REQUESTS = [
    Request(f"p{n}", (Message("user", " ".join(tiny.WORDS[n : n + 3 + 2 * n])),), 12 + 4 * n, DRAWN) for n in range(4)
]
NAN = math.nan
DRAFT = {"method": "draft_model", "draft": "draft", "num_draft_tokens": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("fitting")
    tiny.pair(made)
    return made


def build(folder: Path, **settings: Any) -> Any:
    spec = EngineSpec(**{"kind": "native", "target": "target", "dtype": "float64", "candidate": DRAFT, **settings})
    engine = create(EngineContext("e", spec, folder))
    engine.start()
    return engine


@pytest.fixture(scope="module", params=["native", "transformers"])
def engine(folder: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    made = build(folder, kind=request.param)
    yield made
    made.close()


def texts_of(engine: Any) -> list[tuple[int, ...]]:
    return [trace.token_ids for request in REQUESTS for trace in engine.generate([request], Arm.REFERENCE)]


def by_hand(model: Any, prompt: list[int], text: tuple[int, ...]) -> torch.Tensor:
    """Chances ``[tokens, vocabulary]`` from one plain forward and transformers' own processors."""
    warpers = [TemperatureLogitsWarper(1.3), TopKLogitsWarper(20), TopPLogitsWarper(0.9)]
    with torch.no_grad():
        rows = model(torch.tensor([[*prompt, *text]])).logits[0, len(prompt) - 1 : -1]
    return LogitsProcessorList(warpers)(torch.tensor([[0]]), rows).softmax(-1)


def test_chances_are_those_of_plain_forwards(engine: Any) -> None:
    assert isinstance(engine, ChanceScorer)
    texts = texts_of(engine)
    for request, text, found in zip(REQUESTS, texts, engine.chances(REQUESTS, texts)):
        prompt = list(engine._prompt_ids(request, engine._started()))
        p, q = (by_hand(loaded.model, prompt, text) for loaded in (engine._target, engine._draft))
        own = [float(row[token]) for row, token in zip(p, text)]
        assert found.chance == pytest.approx(own)
        assert found.above == pytest.approx([float(row[row > chance].sum()) for row, chance in zip(p, own)])
        assert found.highest == pytest.approx(p.max(-1).values.tolist())
        assert found.draft is not None
        kept = torch.where(p > 0, (q / p).clamp(max=1), 0)
        assert found.draft.kept == pytest.approx([float(row[token]) for row, token in zip(kept, text)])
        assert found.draft.overlap == pytest.approx(torch.minimum(p, q).sum(-1).tolist())
        assert found.draft.square == pytest.approx((p * kept**2).sum(-1).tolist())
        assert found.outside == ()


def same(one: Chances, other: Chances) -> bool:
    assert one.draft is not None
    assert other.draft is not None
    columns = [(one.chance, other.chance), (one.above, other.above), (one.highest, other.highest)]
    columns += [(getattr(one.draft, name), getattr(other.draft, name)) for name in ("kept", "overlap", "square")]
    return all(a == pytest.approx(b, abs=1e-9) for a, b in columns) and one.outside == other.outside


@pytest.mark.parametrize("rows", [1, 7, 60])
def test_little_memory_gives_the_same_numbers(engine: Any, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    texts = texts_of(engine)
    plenty = engine.chances(REQUESTS, texts)
    monkeypatch.setattr(scoring, "MOST_BYTES", rows * 4 * tiny.ROWS)
    monkeypatch.setattr(fitting, "WORK_BYTES", 3 * 4 * tiny.ROWS)
    for one, other in zip(plenty, engine.chances(REQUESTS, texts)):
        assert same(one, other)


def test_a_large_vocabulary_is_processed_in_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in the processor: 50,000 tokens by 300 positions are never held at once."""
    seen: list[int] = []

    def processor(scores: torch.Tensor, *_: Any) -> torch.Tensor:
        seen.append(scores.shape[0])
        return scores

    class Wide(Table):
        vocab_size = 50_000

        def __call__(self, input_ids: torch.Tensor, **_: Any) -> Any:
            logits = torch.zeros((1, 1, 1)).expand(*input_ids.shape, self.vocab_size)
            return type("Output", (), {"logits": logits})()

    text = fitting.Text("p", (1, 2), tuple(range(300)), (processor,))
    (found,) = fitting.chances(fitting.Asked(Wide(1)), [text], "e")
    assert max(seen) * 50_000 * 4 <= fitting.WORK_BYTES
    assert sum(seen) == 300
    assert found.chance == pytest.approx([1 / 50_000] * 300)
    assert found.draft is None


FILTERS = [(TopP(0.9),), (TopP(0.999),), (TopK(40),), (TopK(40), TopP(0.5)), (TopP(0.9), MinP(0.2)), (MinP(0.1),), ()]


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("narrow", [5000, 4300])
def test_what_filters_leave_is_the_same_without_writing_down_the_rest(filters: Any, narrow: int) -> None:
    """Of a vocabulary so large that filters are asked for the few tokens that they leave."""
    source = torch.Generator().manual_seed(3)
    rows = 12
    p, q = (torch.randn((rows, size), generator=source, dtype=torch.float64) for size in (5000, narrow))
    p *= torch.linspace(0.5, 9, rows)[:, None]  # from nearly even to nearly sure
    q *= torch.linspace(6, 2, rows)[:, None]

    class Said(Table):
        vocab_size = 5000

        def __init__(self, logits: torch.Tensor) -> None:
            super().__init__(1)
            self.logits = logits

        def __call__(self, input_ids: torch.Tensor, **_: Any) -> Any:
            return type("Output", (), {"logits": self.logits[None, : input_ids.shape[1]]})()

    output = tuple(int(row.topk(3).indices[n % 3]) for n, row in enumerate(p))
    text = fitting.Text("p", (1,), output, (Temperature(0.8), *filters))
    (found,) = fitting.chances(fitting.Asked(Said(p), draft=Said(q)), [text], "e")

    none = torch.empty(0, dtype=torch.long)
    shaped = [scores / 0.8 for scores in (p, q)]
    for processor in filters:
        shaped = [processor(scores, None, none, 0) for scores in shaped]
    whole = [torch.nn.functional.pad(scores.softmax(-1), (0, 5000 - scores.shape[1])) for scores in shaped]
    own, its = whole
    at, row = torch.tensor(output), torch.arange(rows)
    common = torch.minimum(own, its)
    kept = torch.where(own > 0, common / own, 0)
    assert found.chance == pytest.approx(own[row, at].tolist())
    assert found.highest == pytest.approx(own.amax(-1).tolist())
    assert found.above == pytest.approx((own * (own > own[row, at][:, None])).sum(-1).tolist())
    assert found.draft is not None
    assert found.draft.kept == pytest.approx(kept[row, at].tolist())
    assert found.draft.overlap == pytest.approx(common.sum(-1).tolist())
    assert found.draft.square == pytest.approx((common * kept).sum(-1).tolist())
    assert found.draft.chance == pytest.approx(its[row, at].tolist())
    assert found.draft.usual == pytest.approx((its**2).sum(-1).tolist())
    assert found.draft.usual_square == pytest.approx((its**3).sum(-1).tolist())


def test_copies_are_certain_of_what_followed_before(folder: Path) -> None:
    engine = build(folder, candidate={"method": "prompt_lookup", "num_draft_tokens": 3, "max_ngram": 2})
    text = (9, 8, 7, 9, 8, 7, 9, 30, 9, 8)
    (found,) = engine.chances(REQUESTS[:1], [text])
    assert found.draft is not None
    # After 9 came 8, after 8 came 7, then 9 again; 30 was never seen, and what followed 9 last is 30 itself.
    kept = [bool(kept) for kept in found.draft.kept]
    assert kept[4:7] == [chance > 0 for chance in found.chance[4:7]]
    assert not any(kept[7:9])
    assert found.draft.square == found.draft.overlap


def test_what_is_not_copied_for_want_of_agreement_cannot_be_kept(folder: Path) -> None:
    anything = replace(REQUESTS[0], sampling=Sampling(temperature=1.0, seed=4))
    text = (9, 8, 7, 9, 8, 7, 9, 30, 9, 8)
    found = []
    for least in (1, 2):
        candidate = {"method": "prompt_lookup", "num_draft_tokens": 3, "max_ngram": 2, "min_match": least}
        (told,) = build(folder, candidate=candidate).chances([anything], [text])
        assert told.draft is not None
        found.append([overlap > 0 for overlap in told.draft.overlap])
    # After the second 9 one token agrees; from the second 8 on two do, until 30.
    assert found[0][4:7] == [True, True, True]
    assert found[1][4:7] == [False, True, True]


def test_drafts_that_may_be_copies_are_held_to_no_models_chances(folder: Path) -> None:
    engine = build(folder, candidate={**DRAFT, "options": {"lookup_first": True}})
    text = texts_of(engine)[0]
    (found,) = engine.chances(REQUESTS[:1], [text])
    assert found.draft is None
    assert found.chance == build(folder).chances(REQUESTS[:1], [text])[0].chance


def test_an_early_exit_is_asked_at_its_layer(folder: Path) -> None:
    engine = build(folder, candidate={"method": "early_exit", "exit_layer": 2, "num_draft_tokens": 3})
    text = texts_of(engine)[0]
    (found,) = engine.chances(REQUESTS[:1], [text])
    (whole,) = build(folder, candidate={"method": "early_exit", "exit_layer": 3}).chances(REQUESTS[:1], [text])
    assert found.draft is not None
    assert whole.draft is not None
    assert found.chance == whole.chance
    assert found.draft.overlap != whole.draft.overlap
    assert engine._target.model.config.num_hidden_layers == 4


# --- what a request forbids ---


def asked(*processors: Any, output: tuple[int, ...], dtype: torch.dtype = torch.float64) -> tuple[int, ...]:
    class Rounded(Table):
        def __init__(self) -> None:
            super().__init__(1)
            self.scores = table(1).to(dtype)

    text = fitting.Text("p", (1, 5), output, processors)
    (found,) = fitting.chances(fitting.Asked(Rounded()), [text], "e")
    return found.outside


def ranked(after: int, place: int) -> int:
    """The token of this place, from 0, in the target's order after a token."""
    return int(table(1)[after].argsort(descending=True)[place])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("processor", [TopK(5), TopP(0.5), MinP(0.5)])
def test_a_token_far_outside_a_filter_is_proof(processor: Any, dtype: torch.dtype) -> None:
    shaping = (Temperature(0.7), processor)
    assert asked(*shaping, output=(ranked(5, 190),), dtype=dtype) == (0,)
    assert asked(*shaping, output=(ranked(5, 0), ranked(ranked(5, 0), 190)), dtype=dtype) == (1,)
    assert asked(*shaping, output=(ranked(5, 0),), dtype=dtype) == ()


def test_a_token_at_the_edge_of_a_filter_is_no_proof() -> None:
    gaps = table(1)[5].sort(descending=True).values.diff().abs().tolist()
    kept = next(place for place, gap in enumerate(gaps, start=1) if 0.05 < gap < 0.2)
    edge = (ranked(5, kept),)
    assert asked(TopK(kept), output=edge) == (0,)
    assert asked(TopK(kept), output=edge, dtype=torch.bfloat16) == ()


def test_rounding_of_the_best_is_doubted_too() -> None:
    """A best token of just more than top-p leaves all others out, or none: no proof, however small the others are."""
    scores = torch.full((1, 200), 14.0)
    scores[0, 3] = 20.0
    share = float(scores.double().softmax(-1)[0, 3])

    class One(Table):
        def __call__(self, input_ids: torch.Tensor, **_: Any) -> Any:
            return type("Output", (), {"logits": scores.expand(*input_ids.shape, -1).bfloat16()})()

    def outside(top_p: float) -> tuple[int, ...]:
        text = fitting.Text("p", (1,), (7,), (TopP(top_p),))
        return fitting.chances(fitting.Asked(One(1)), [text], "e")[0].outside

    assert 0.6 < share < 0.7
    assert outside(share - 0.01) == ()
    assert outside(share - 0.4) == (0,)


def test_bans_are_proof_whatever_a_token_scores() -> None:
    best = ranked(5, 0)
    assert asked(BadWords(((best,),)), Temperature(0.7), output=(best,), dtype=torch.bfloat16) == (0,)
    assert asked(MinTokens(3, (best,)), output=(best,)) == (0,)
    assert asked(MinTokens(3, (best,)), output=(7, 8, 9, ranked(9, 0))) == ()


# --- bad input ---


def test_a_text_of_foreign_ids_is_refused(engine: Any) -> None:
    with pytest.raises(EngineError) as raised:
        engine.chances(REQUESTS[:1], [(3, 64)])
    assert str(raised.value) == (
        "e: p0: the text holds token id 64, and the target scores ids up to 63 — "
        "decode with the target's own vocabulary"
    )


@pytest.mark.parametrize(("whose", "bad"), [("target", NAN), ("draft", NAN), ("target", math.inf)])
def test_bad_logits_are_refused_with_their_place(folder: Path, whose: str, bad: float) -> None:
    engine = build(folder)
    text = texts_of(engine)[0]
    model = {"target": engine._target, "draft": engine._draft}[whose].model

    def spoil(_: Any, __: Any, out: Any) -> None:
        out.logits[0, -3, 7] = bad

    hook = model.register_forward_hook(spoil)
    try:
        with pytest.raises(EngineError) as raised:
            engine.chances(REQUESTS[:1], [text])
    finally:
        hook.remove()
    assert str(raised.value) == (
        f"e: p0: the {whose}'s logits at output token {len(text) - 2} are not finite numbers — "
        f"look at the {whose}'s weights and dtype: float16 overflows at 65504"
    )


def test_a_model_may_rule_tokens_out(folder: Path) -> None:
    engine = build(folder)
    text = texts_of(engine)[0]

    def rule_out(_: Any, __: Any, out: Any) -> None:
        out.logits[..., 40:] = -math.inf

    hook = engine._target.model.register_forward_hook(rule_out)
    try:
        (found,) = engine.chances(REQUESTS[:1], [(*text[:3], 50)])
    finally:
        hook.remove()
    assert found.outside[-1] == 3


def test_a_draft_of_fewer_rows_proposes_no_others() -> None:
    class Narrow(Table):
        def __call__(self, input_ids: torch.Tensor, **_: Any) -> Any:
            return type("Output", (), {"logits": self.scores[input_ids][..., :150]})()

    class Broad(Table):
        def __call__(self, input_ids: torch.Tensor, **_: Any) -> Any:
            logits = torch.nn.functional.pad(self.scores[input_ids], (0, 9), value=-50.0)
            return type("Output", (), {"logits": logits})()

    text = fitting.Text("p", (1,), (3, 160, 4), (Temperature(1.0),))
    for draft in (Narrow(2), Broad(2)):
        (found,) = fitting.chances(fitting.Asked(Table(1), draft=draft), [text], "e")
        assert found.draft is not None
        assert all(0 <= x <= 1 for x in (*found.draft.kept, *found.draft.overlap, *found.draft.square))
    assert found.draft is not None
    (narrow,) = fitting.chances(fitting.Asked(Table(1), draft=Narrow(2)), [text], "e")
    assert narrow.draft is not None
    assert narrow.draft.kept[1] == 0.0


def test_settings_of_the_checkpoint_that_filter_draws_are_refused(folder: Path) -> None:
    engine = build(folder, kind="transformers")
    engine._target.model.generation_config.typical_p = 0.9
    with pytest.raises(EngineError) as raised:
        engine.chances(REQUESTS[:1], [(3, 4)])
    assert str(raised.value) == (
        "e: the target's generation config sets typical_p: 0.9, so its tokens are not drawn as the request says — "
        "remove typical_p from generation_config.json, or the gate"
    )


def test_penalties_reach_the_chances(folder: Path) -> None:
    engine = build(folder)
    text = texts_of(engine)[0]
    harder = replace(REQUESTS[0], sampling=replace(DRAWN, repetition_penalty=1.5, top_k=0, top_p=1.0))
    easier = replace(REQUESTS[0], sampling=replace(DRAWN, top_k=0, top_p=1.0))
    (one,), (other,) = engine.chances([harder], [text]), engine.chances([easier], [text])
    assert one.chance != other.chance
