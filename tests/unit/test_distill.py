"""The draft's recipe: what self-play writes, what training makes of it, how acceptance is counted."""

from __future__ import annotations

import itertools
import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

_FOLDER = Path(__file__).parents[2] / "models" / "distill"
if not _FOLDER.is_dir():
    pytest.skip("the recipe is part of the repository, not of the package", allow_module_level=True)
# The scripts import each other as they do when run from the command line.
# ruff: noqa: E402
sys.path.insert(0, str(_FOLDER))
import circuit
import copies
import corpus as corpora
import disguise
import draft as drafts
import evaluate
import loss
import make
import script
import selfplay
import slots
import train
from corpus import Corpus, Origin
from script import Conversation, Drawn, Given, Template, Writer

sys.path.remove(str(_FOLDER))

END = 2
TEMPLATE = Template(head=(1, 5, 6), to_answer=(7, 8), to_user=(9,), end=END)
VOCABULARY = 128


def tiny(seed: int = 0, layers: int = 2) -> LlamaForCausalLM:
    """A random Llama with grouped heads; sharp enough that its choices are not ties."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        initializer_range=0.3,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=END,
        pad_token_id=END,
    )
    return LlamaForCausalLM(config).eval()


def row(tokens: list[int], origins: list[Origin] | None = None) -> Corpus:
    """One row whose labels say that each token's successor was the likeliest."""
    ids = np.zeros((len(tokens), corpora.LABELS), np.uint16)
    ids[:-1] = np.array(tokens[1:])[:, None] + np.arange(corpora.LABELS)
    log_probs = np.log(np.full(ids.shape, 1 / corpora.LABELS)).astype(np.float16)
    chosen = origins or [Origin.GREEDY] * len(tokens)
    return Corpus(
        np.array(tokens, np.uint16), np.array(chosen, np.uint8), ids, log_probs, np.array([len(tokens)], np.int32)
    )


# Corpus


def test_ngrams_are_runs_of_words_whatever_their_case_and_marks() -> None:
    assert corpora.ngrams("One, two -- THREE four", size=3) == {("one", "two", "three"), ("two", "three", "four")}


def test_every_chinese_character_counts_as_a_word() -> None:
    assert corpora.ngrams("请用Python写", size=4) == {("请", "用", "python", "写")}


def test_a_text_shorter_than_the_ngram_has_none() -> None:
    assert corpora.ngrams("one two", size=3) == set()


def test_bundled_ngrams_come_from_every_turn_and_the_system_message(tmp_path: Path) -> None:
    words = [" ".join(f"{name}{i}" for i in range(8)) for name in "abc"]
    prompt = {"id": "x", "turns": words[:2], "system": words[2]}
    (tmp_path / "x.jsonl").write_text(json.dumps(prompt) + "\n", encoding="utf-8")

    assert corpora.bundled_ngrams(tmp_path) == {tuple(text.split()) for text in words}


def test_a_row_that_shares_eight_words_with_a_bundled_prompt_is_dropped_and_one_with_seven_is_kept() -> None:
    forbidden = {tuple(f"w{i}" for i in range(8))}
    corpus = corpora.join([row([3, 10, 11, 12, 13, 14, 15, 16, 17]), row([3, 10, 11, 12, 13, 14, 15, 16])])

    kept, dropped = corpora.without_overlap(corpus, forbidden, lambda ids: " ".join(f"w{i - 10}" for i in ids))

    assert dropped == 1
    assert kept.tokens.tolist() == [3, 10, 11, 12, 13, 14, 15, 16]


def test_a_corpus_comes_back_from_disk_as_it_was_and_leaves_nothing_else(tmp_path: Path) -> None:
    first, second = row([3, 4, 5]), row([6, 7])
    first.save(tmp_path / "0000.npz")
    second.save(tmp_path / "0001.npz")

    both = corpora.load(sorted(tmp_path.iterdir()))

    assert both.tokens.tolist() == [3, 4, 5, 6, 7]
    assert both.starts.tolist() == [0, 3]
    assert both.select([1]).top_ids.tolist() == second.top_ids.tolist()


# Conversations


def play(parts: list[Given | Drawn], choices: list[int], capacity: int = 99) -> Conversation:
    """Play until it is over, with these choices of the target wherever it has one."""
    conversation = Conversation(TEMPLATE, parts, capacity)
    for choice in choices:
        conversation.advance(choice)
        if conversation.over:
            break
    return conversation


ANSWER = Drawn(Origin.GREEDY, 3, 0.0)
TURN = Drawn(Origin.USER, 4, 0.9)


def test_given_tokens_are_said_whatever_the_target_would_say() -> None:
    conversation = play([Given((20, 21)), ANSWER], [90, 91, 30, END])

    assert conversation.tokens == [1, 5, 6, 20, 21, 30, END]
    assert conversation.origins == [Origin.GIVEN] * 5 + [Origin.GREEDY] * 2
    assert (conversation.over, conversation.kept, conversation.answers) == (True, 7, [(30,)])


def test_an_empty_opening_leaves_the_first_word_to_the_target() -> None:
    conversation = Conversation(TEMPLATE, [Given(()), TURN, ANSWER], 99)

    assert conversation.temperature == pytest.approx(0.9)
    assert conversation.advance(40) == 40


def test_an_answer_that_meets_its_limit_is_kept_but_is_no_passage() -> None:
    conversation = play([Given((20,)), ANSWER, Given((21,)), ANSWER], [0, 30, 31, 32])

    assert (conversation.over, conversation.kept, conversation.answers) == (True, 7, [])


def test_a_user_turn_that_never_ends_is_given_up_and_earlier_answers_stay() -> None:
    conversation = play([Given((20,)), ANSWER, Given((9,)), TURN, ANSWER], [0, 30, END, 0, 41, 42, 43, 44])

    assert conversation.over
    assert conversation.tokens[: conversation.kept] == [1, 5, 6, 20, 30, END]


def test_an_empty_user_turn_is_given_up() -> None:
    conversation = play([TURN, ANSWER], [END])

    assert (conversation.over, conversation.kept) == (True, 0)


def test_a_conversation_ends_at_its_capacity() -> None:
    conversation = play([Given((20, 21, 22)), ANSWER], [0] * 9, capacity=5)

    assert (conversation.over, len(conversation.tokens)) == (True, 5)


def test_passages_are_recycled_once_there_are_enough_of_fitting_length() -> None:
    writer = Writer(TEMPLATE, lambda text: [3] if text else [], random.Random(0))
    for i in range(8):
        writer.remember([60 + i] * 24)
    writer.remember([99] * 23)
    writer.remember([99] * 129)

    scripts = [writer.script() for _ in range(200)]

    said = {token for parts in scripts for part in parts if isinstance(part, Given) for token in part.ids}
    assert set(range(60, 68)) <= said
    assert 99 not in said
    assert all(isinstance(parts[-1], Drawn) and parts[-1].origin is not Origin.USER for parts in scripts)


def test_a_disguised_passage_has_other_names_and_digits_equal_ones_alike() -> None:
    words = [" the", " Anna", " Ben", " Carla", "1", "2", "3", " sat"]
    other = disguise.Disguise(lambda ids: words[ids[0]], len(words))

    seen = {other((1, 0, 4, 1, 7), random.Random(seed)) for seed in range(40)}

    assert all(ids[0] == ids[3] and ids[1] == 0 and ids[4] == 7 for ids in seen)
    assert {ids[0] for ids in seen} == {1, 2, 3}
    assert {ids[2] for ids in seen} == {4, 5, 6}


@given(st.integers(0, 2**32), st.lists(st.integers(2, 9), min_size=400, max_size=400))
def test_whatever_is_said_the_kept_part_ends_with_an_answer(seed: int, choices: list[int]) -> None:
    parts = Writer(TEMPLATE, lambda text: [3] * len(text.split()), random.Random(seed)).script()

    conversation = play(parts, choices, capacity=300)

    assert len(conversation.tokens) == len(conversation.origins)
    if conversation.kept:
        assert conversation.origins[conversation.kept - 1] in {Origin.GREEDY, Origin.SAMPLED}


# Slots and self-play, on a real if tiny model


def test_slots_say_what_transformers_says_each_at_its_own_place() -> None:
    model = tiny()
    streams = slots.Slots(model, 2, 32, prefix=[1, 5])
    streams.restart(0)
    streams.restart(1)
    fed = [[], []]
    for i, tokens in enumerate([(10, 20), (11, 21), (12, 22), (13, 23)]):
        if i == 2:
            streams.restart(1)
            fed[1] = []
        for said, token in zip(fed, tokens, strict=True):
            said.append(token)
        logits = streams.step(torch.tensor(tokens))

    with torch.inference_mode():
        expected = [model(torch.tensor([[1, 5, *said]])).logits[0, -1] for said in fed]

    torch.testing.assert_close(logits, torch.stack(expected), rtol=1e-4, atol=1e-4)


def test_slots_keep_apart_when_they_are_laid_out_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "TOGETHER", 2)
    monkeypatch.setattr(slots, "SORT_EVERY", 3)
    rng, model = random.Random(2), tiny()
    streams = slots.Slots(model, 5, 32, prefix=[1, 5])
    fed: list[list[int]] = [[] for _ in range(5)]
    for slot in range(5):
        streams.restart(slot)
    for _ in range(20):
        for slot in range(5):
            if rng.random() < 0.3:
                streams.restart(slot)
                fed[slot] = []
            fed[slot].append(rng.randrange(2, VOCABULARY))

        logits = streams.step(torch.tensor([said[-1] for said in fed]))

        with torch.inference_mode():
            expected = [model(torch.tensor([[1, 5, *said]])).logits[0, -1] for said in fed]
        torch.testing.assert_close(logits, torch.stack(expected), rtol=1e-4, atol=1e-4)
    assert len({len(said) for said in fed}) > 1


def test_an_opinion_is_greedy_at_temperature_zero_and_lists_the_likeliest_first() -> None:
    logits = torch.randn(3, VOCABULARY, generator=torch.Generator().manual_seed(1))

    thought = selfplay.opinion(logits, torch.zeros(3))

    assert thought.choices == logits.argmax(-1).tolist() == thought.ids[:, 0].tolist()
    expected = logits.log_softmax(-1).sort(descending=True).values[:, : corpora.LABELS]
    np.testing.assert_allclose(thought.log_probs, expected, atol=0.01)


def test_an_opinion_draws_by_probability() -> None:
    """Of 4,000 draws at 3 : 1 the share strays from .75 by .03 (over 4 standard errors) once in 10^5 at most."""
    torch.manual_seed(0)
    logits = torch.full((4000, VOCABULARY), -30.0)
    logits[:, 7], logits[:, 9] = torch.tensor(3.0).log(), 0.0

    choices = selfplay.opinion(logits, torch.ones(4000)).choices

    assert set(choices) == {7, 9}
    assert choices.count(7) / 4000 == pytest.approx(0.75, abs=0.03)


def test_self_play_rows_carry_the_opinion_of_what_follows_each_place() -> None:
    torch.manual_seed(0)
    writer = Writer(TEMPLATE, lambda text: [3 + len(word) % 20 for word in text.split()], random.Random(0))
    streams = slots.Slots(tiny(), 4, selfplay.CAPACITY, list(TEMPLATE.head[:-1]))

    corpus = corpora.join(itertools.islice(selfplay.Play(streams, writer, TEMPLATE), 6))

    inside = np.ones(len(corpus.tokens) - 1, bool)
    inside[corpus.starts[1:] - 1] = False
    greedy = np.flatnonzero(inside & (corpus.origins[1:] == Origin.GREEDY))
    assert len(greedy)
    assert (corpus.top_ids[greedy, 0] == corpus.tokens[greedy + 1]).all()
    assert selfplay.answer_tokens(corpus) >= len(greedy)


def test_self_play_goes_on_after_the_files_that_are_there(tmp_path: Path) -> None:
    rows = (row([3, 4, 5, 6]) for _ in itertools.count())
    selfplay.write_files(rows, tmp_path, wanted=1)
    selfplay.write_files(rows, tmp_path, wanted=4 * selfplay.FILE_ROWS + 1)

    assert [file.name for file in sorted(tmp_path.iterdir())] == ["0000.npz", "0001.npz"]


# Copies


@pytest.mark.parametrize("seed", range(12))
def test_a_copy_is_certain_of_the_run_that_returns_and_silent_elsewhere(seed: int) -> None:
    text = np.arange(100, 400, dtype=np.uint16)

    corpus = copies.copy_row(text, 20, np.random.default_rng(seed))

    returned = corpus.tokens[corpus.origins == Origin.COPY].tolist()
    said = corpus.tokens[: -len(returned)].tolist()
    assert any(said[i : i + len(returned)] == returned for i in range(len(said)))
    known = np.flatnonzero(corpus.top_ids.any(-1))
    assert corpus.top_ids[known, 0].tolist() == returned[1:] == corpus.tokens[known + 1].tolist()
    assert np.exp(corpus.top_log_probs[known].astype(float)).tolist() == [[1.0] + [0.0] * 7] * len(known)
    assert copies.SHORTEST <= len(returned) <= 20


# The draft before it is trained


@pytest.fixture(scope="module")
def untrained() -> LlamaForCausalLM:
    """A new draft of a target with 512 tokens."""
    torch.manual_seed(0)
    target = LlamaForCausalLM(LlamaConfig(vocab_size=512, hidden_size=96, intermediate_size=8, num_hidden_layers=1))
    shape = drafts.Shape(hidden=128, layers=2, heads=4, intermediate=32)
    return drafts.new_draft(target, shape).eval()


def test_a_new_draft_attends_to_the_place_after_the_last_time_a_token_was_said(untrained: LlamaForCausalLM) -> None:
    run = torch.randperm(512, generator=torch.Generator().manual_seed(1))[:40]
    untrained.set_attn_implementation("eager")
    with torch.inference_mode():
        before, seeking = untrained.model(torch.cat([run, run])[None], output_attentions=True).attentions

    assert before[0, 0].diagonal(-1).min() > 0.9
    assert seeking[0, : circuit.SEEKERS].diagonal(-39, dim1=1, dim2=2).mean() > 0.9


def test_a_new_draft_copies(untrained: LlamaForCausalLM) -> None:
    run = torch.randperm(512, generator=torch.Generator().manual_seed(1))[:40]
    with torch.inference_mode():
        said = untrained(torch.cat([run, run])[None]).logits[0, 40:-1].argmax(-1)

    assert (said == run[1:]).float().mean() > 0.9


# Training


def test_a_batch_holds_the_places_with_an_opinion_that_count_and_weighs_them_by_who_spoke_next() -> None:
    known = row([3, 4, 5, 6], [Origin.GIVEN, Origin.GIVEN, Origin.USER, Origin.GREEDY])
    unknown = row([6, 7, 8, 9, 10], [Origin.SAMPLED] * 5)
    unknown.top_ids[:3] = 0
    batch = loss.batch_of(corpora.join([unknown, known]), labels=2)

    assert batch.inputs.tolist() == [[6, 7, 8, 9, 10], [3, 4, 5, 6, 0]]
    assert batch.mask.tolist() == [[False, False, False, True, False], [False, True, True, False, False]]
    assert batch.ids.tolist() == [[10, 11], [5, 6], [6, 7]]
    assert batch.weights.tolist() == [1.0, 0.5, 1.0]
    torch.testing.assert_close(batch.probs, torch.full((3, 2), 0.5))


def test_sharper_labels_say_more_often_what_is_likeliest() -> None:
    corpus = row([30, 20])
    corpus.top_log_probs[0, :2] = np.log([0.6, 0.2])

    probs = loss.batch_of(corpus, labels=2, sharpness=2.0).probs

    torch.testing.assert_close(probs, torch.tensor([[0.9, 0.1]]), rtol=0.01, atol=0.01)


def test_the_sampled_vocabulary_holds_every_label_and_its_random_part_stands_for_the_rest() -> None:
    batch = loss.batch_of(row([30, 20, 10]), labels=3)

    vocabulary = loss.vocabulary_for(batch, torch.tensor([100, 5]), VOCABULARY, 40)

    known, drawn = vocabulary.ids[: vocabulary.known].tolist(), vocabulary.ids[vocabulary.known :].tolist()
    assert known == sorted({10, 11, 12, 20, 21, 22, 5, 100})
    assert drawn
    assert not set(drawn) & set(known)
    assert vocabulary.stands_for == pytest.approx((VOCABULARY - len(known)) / len(drawn))


def test_the_loss_over_the_whole_vocabulary_is_the_plain_cross_entropy() -> None:
    draft, corpus = tiny(), row([30, 20, 10, 40])
    batch = loss.batch_of(corpus, labels=1)

    found = loss.soft_loss(draft, batch, loss.Vocabulary(torch.arange(VOCABULARY), VOCABULARY, 1.0))

    logits = draft(batch.inputs).logits[0, :-1]
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor([20, 10, 40]))
    # The loss is computed in bfloat16, which has three digits.
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)


def test_every_row_comes_once_before_any_comes_again_beside_rows_of_its_length() -> None:
    corpus = corpora.join([row([3] * n) for n in (9, 2, 9, 2, 30)])

    groups = train.batches(corpus, 20, np.random.default_rng(0))

    first = sorted(sorted(next(groups).tolist()) for _ in range(3))
    assert first == [[0, 2], [1, 3], [4]]
    assert sorted(sorted(next(groups).tolist()) for _ in range(3)) == first


def test_copies_take_the_place_of_rows() -> None:
    corpus = corpora.join([row(list(range(30, 80))) for _ in range(40)])

    batch = train.mixed(corpus, np.arange(40), 0.5, np.random.default_rng(0))

    copied = sum(
        bool((batch.origins[start : start + length] == Origin.COPY).any())
        for start, length in zip(batch.starts, batch.lengths, strict=True)
    )
    assert len(batch.lengths) == 40
    assert 10 < copied < 30


def test_the_rate_rises_stays_and_falls_to_nothing() -> None:
    settings = train.Settings(steps=100, warm_up=10, decay=0.5)

    rates = [train.rate_at(step, settings) for step in (0, 9, 50, 75, 100)]

    assert rates == pytest.approx([0.1, 1.0, 1.0, 0.5, 0.0])


SHORT = train.Settings(
    steps=60,
    batch_tokens=40,
    warm_up=5,
    copy_first=0,
    matrix_rate=0.02,
    rate=0.01,
    labels=1,
    average=0.5,
    check_every=30,
)


def test_training_learns_a_text_by_heart_and_saves_what_transformers_loads(tmp_path: Path) -> None:
    corpus = row([1, *range(30, 60)])
    torch.manual_seed(0)
    trainer = train.Trainer(tiny(), SHORT, corpus)
    before = loss.agreement(trainer.averaged, corpus)

    *_, last = train.train(trainer, corpus, corpus, SHORT, tmp_path)

    assert before < 0.5 < last
    loaded = LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    assert loss.agreement(loaded, corpus) == pytest.approx(last, abs=0.1)


def test_a_run_goes_on_from_its_checkpoint_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    corpus = row([1, *range(30, 60)])
    batch = loss.batch_of(corpus, labels=1)
    trainer, other = train.Trainer(tiny(), SHORT, corpus), train.Trainer(tiny(seed=1), SHORT, corpus)
    trainer.step(batch)
    train.keep(trainer.state(), tmp_path / "checkpoint.pt")

    other.resume(torch.load(tmp_path / "checkpoint.pt"))
    torch.manual_seed(0)
    expected = [trainer.step(batch) for _ in range(3)]
    torch.manual_seed(0)

    assert [other.step(batch) for _ in range(3)] == pytest.approx(expected)
    assert other.done == 4


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


def test_one_command_plays_trains_and_evaluates_with_seeds_that_differ(tmp_path: Path) -> None:
    given = ["--work", str(tmp_path), "--out", str(tmp_path / "draft"), "--seed", "7"]
    args = make.arguments([*given, "--players", "3", "--answer-tokens", "1000"])

    [held], players, [training], [evaluation] = make.stages(args)

    assert [command[0] for command in (held, *players, training, evaluation)] == [
        *["selfplay.py"] * 4,
        "train.py",
        "evaluate.py",
    ]
    assert [option(command, "--seed") for command in (held, *players)] == ["7", "8", "9", "10"]
    assert [option(command, "--answer-tokens") for command in players] == ["334", "333", "333"]
    folders = [option(command, "--out") for command in players]
    first = training.index("--corpus") + 1
    assert training[first : first + 3] == folders
    assert len({*folders, option(held, "--out")}) == 4
    assert option(training, "--held-out") == option(held, "--out")
    assert option(evaluation, "--draft") == option(training, "--out")


def test_a_stage_that_fails_ends_its_companions_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "waits.py").write_text("import time\ntime.sleep(600)\n")
    (tmp_path / "fails.py").write_text("raise SystemExit(3)\n")
    monkeypatch.setattr(make, "HERE", tmp_path)

    with pytest.raises(SystemExit, match="exit code 3"):
        make.run([["waits.py"], ["fails.py"]])


# Acceptance


@pytest.mark.parametrize(
    ("right", "k", "accepted", "tested"),
    [
        ("", 4, 0, 0),
        ("1111", 4, 4, 4),
        ("11111", 4, 4, 4),
        ("0000", 4, 0, 4),
        ("1101", 4, 3, 4),
        ("1010", 1, 2, 2),
        ("110", 4, 2, 3),
        ("11", 4, 2, 2),
    ],
)
def test_rounds_test_up_to_the_first_wrong_token(right: str, k: int, accepted: int, tested: int) -> None:
    assert evaluate.speculate([flag == "1" for flag in right], k) == evaluate.Count(accepted, tested)


def test_reading_acceptance_off_one_forward_is_speculating() -> None:
    """The shortcut against rounds that really draft token by token from what has been accepted."""
    draft, k = tiny(), 3
    prompt, text = [1, 30, 31], []
    with torch.inference_mode():
        while len(text) < 30:
            said = int(draft(torch.tensor([[*prompt, *text]])).logits[0, -1].argmax())
            text.append(said if len(text) % 3 else (said + 1) % VOCABULARY)
        expected, place = evaluate.Count(), 0
        while place < len(text):
            drafted: list[int] = []
            for _ in range(min(k, len(text) - place)):
                context = [*prompt, *text[:place], *drafted]
                drafted.append(int(draft(torch.tensor([context])).logits[0, -1].argmax()))
            agreed = [a == b for a, b in zip(drafted, text[place:], strict=False)]
            accepted = len(list(itertools.takewhile(bool, agreed)))
            expected += evaluate.Count(accepted, min(accepted + 1, len(drafted)))
            place += accepted + 1

    right = evaluate.right_tokens(draft, evaluate.Answer("any", tuple(prompt), tuple(text)))

    assert evaluate.speculate(right, k) == expected
    assert 0 < expected.accepted < expected.tested


def test_kept_answers_are_read_again_and_not_made_again(tmp_path: Path) -> None:
    made = [evaluate.Answer("qa", (1, 2), (3,))]
    file = tmp_path / "answers.jsonl"

    assert evaluate.answers(file, lambda: made) == made
    assert evaluate.answers(file, lambda: pytest.fail("made again")) == made


def test_a_count_without_tests_has_no_share() -> None:
    assert str(evaluate.Count()) == "- (0 of 0)"
    assert str(evaluate.Count(1, 4)) == "0.250 (1 of 4)"


def test_the_bundled_draft_was_trained_on_no_bundled_prompt() -> None:
    """Openings, requests and follow-ups are all of the training text that people wrote."""
    bundled = corpora.bundled_ngrams(evaluate.PROMPTS)

    assert bundled
    assert not any(corpora.ngrams(text) & bundled for text in (*script.OPENINGS, *script.REQUESTS, *script.FOLLOW_UPS))
