"""Texts read as a tree: each token once, in stretches, with the logits of plain forwards, whatever the class."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from pytest_specgate.engines.hf import forcing, reading, scoring
from pytest_specgate.engines.hf.reading import Readers, Voice, pieces
from pytest_specgate.engines.hf.texttree import Ids, stretches, tree_of
from tests.unit.decoding import FAMILIES, VOCABULARY, build


def some_texts(seed: int = 1, prompts: int = 3, answers: int = 4) -> list[scoring.Text]:
    """Prompts that begin alike, answers that do, one of them twice and one that is another's beginning."""
    source = random.Random(seed)

    def ids(length: int) -> tuple[int, ...]:
        return tuple(source.randrange(VOCABULARY) for _ in range(length))

    system, found = ids(4), []
    for number in range(prompts):
        prompt, begin = (*system, *ids(1 + 2 * number)), ids(2)
        found += [scoring.Text(f"p{number}", prompt, (*begin, *ids(source.randrange(1, 7)))) for _ in range(answers)]
        found += [found[-1], scoring.Text(f"p{number}", prompt, found[-1].output[:3])]
    return found


def pairs_of(texts: Sequence[scoring.Text]) -> list[Ids]:
    return [(text.prompt, text.output) for text in texts]


# --- the tree ---


def test_what_texts_begin_with_alike_stands_once() -> None:
    tree = tree_of([((1, 2), (3, 4)), ((1, 2), (3, 5)), ((1, 7), (8,)), ((1, 2), (3, 4))])

    assert tree.tokens == (1, 2, 3, 7)
    assert tree.parents == (-1, 0, 1, 0)
    assert tree.depths == (0, 1, 2, 1)
    assert tree.ends == (4, 3, 3, 4)
    assert tree.before == ((1, 2), (1, 2), (0, 3)[1:], (1, 2))


@pytest.mark.parametrize("seed", range(5))
def test_every_token_is_scored_after_what_precedes_it(seed: int) -> None:
    texts = some_texts(seed)
    tree = tree_of(pairs_of(texts))
    for text, before in zip(texts, tree.before):
        whole = (*text.prompt, *text.output)
        for at, node in enumerate(before):
            assert [tree.tokens[n] for n in (*tree.way(node), node)] == list(whole[: len(text.prompt) + at])


@pytest.mark.parametrize(("width", "rows"), [(1, 1), (3, 2), (7, 100), (1000, 5), (1000, 1000)])
def test_stretches_read_each_node_once_and_keep_both_bounds(width: int, rows: int) -> None:
    texts = some_texts()
    tree = tree_of(pairs_of(texts))
    found = list(stretches(tree, width, rows))

    assert [node for one in found for node in range(one.begin, one.end)] == list(range(len(tree.tokens)))
    assert max(one.end - one.begin for one in found) <= width
    assert max(len(one.scored) for one in found) <= rows
    scored = Counter((use.text, use.at + place) for one in found for use in one.uses for place in range(len(use.rows)))
    assert scored == Counter((number, at) for number, text in enumerate(texts) for at in range(len(text.output)))
    for one in found:
        ancestors = {a for node in range(one.begin, one.end) for a in tree.way(node) if a < one.begin}
        assert ancestors <= set(one.way)


# --- reading ---


def plain(model: Any, text: scoring.Text) -> torch.Tensor:
    with torch.no_grad():
        rows = model(torch.tensor([[*text.prompt, *text.output]])).logits[0]
    return rows[len(text.prompt) - 1 : -1]


@pytest.mark.parametrize("width", [3, 16, 500])
@pytest.mark.parametrize("name", FAMILIES)
def test_logits_are_those_of_plain_forwards(monkeypatch: pytest.MonkeyPatch, name: str, width: int) -> None:
    monkeypatch.setattr(reading, "WIDTH", {"cpu": width})
    model, texts = build(name), some_texts()
    assert Readers().anatomy(model) is not None
    found: dict[int, list[torch.Tensor]] = {}
    with torch.inference_mode():
        for piece in pieces(Readers(), [Voice(model)], texts, 1000):
            assert piece.at == sum(map(len, found.get(piece.text, ())))
            found.setdefault(piece.text, []).append(piece.logits[0])
    for number, text in enumerate(texts):
        torch.testing.assert_close(torch.cat(found[number]), plain(model, text), rtol=0, atol=2e-5)


def test_a_prompt_is_read_once_for_all_its_answers() -> None:
    model, texts, read = build("Llama"), some_texts(), list[int]()
    readers = Readers()
    assert readers.anatomy(model) is not None
    hook = model.register_forward_hook(
        lambda _, __, kept, ___: read.append(kept["input_ids"].numel()), with_kwargs=True
    )
    try:
        with torch.inference_mode():
            list(pieces(readers, [Voice(model)], texts, 1000))
    finally:
        hook.remove()
    distinct = {
        (*text.prompt, *text.output)[:end] for text in texts for end in range(1, len(text.prompt + text.output))
    }
    assert sum(read) == len(distinct)


def test_two_models_are_read_side_by_side() -> None:
    one, other, texts = build("Llama"), build("Qwen2"), some_texts()
    with torch.inference_mode():
        found = list(pieces(Readers(), [Voice(one), Voice(other)], texts, 1000))
    for piece in found:
        for model, logits in zip((one, other), piece.logits):
            rows = plain(model, texts[piece.text])[piece.at : piece.at + len(logits)]
            torch.testing.assert_close(logits, rows, rtol=0, atol=2e-5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_logits_that_are_no_numbers_agree_with_none(bad: float) -> None:
    model = build("Llama")
    with torch.no_grad():
        model.lm_head.weight[5] = bad
    assert Readers().anatomy(model) is None


def test_a_class_that_cannot_be_read_so_is_read_text_by_text() -> None:
    """Its layers hold a state that does not go back by length."""
    from transformers import MambaConfig, MambaForCausalLM

    model = MambaForCausalLM(MambaConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=4))
    texts = some_texts(prompts=2, answers=2)
    assert Readers().anatomy(model.eval()) is None
    with torch.inference_mode():
        for piece in pieces(Readers(), [Voice(model)], texts, 1000):
            torch.testing.assert_close(piece.logits[0], plain(model, texts[piece.text]), rtol=0, atol=2e-5)


def test_a_class_whose_logits_differ_so_is_read_text_by_text() -> None:
    model = build("Llama")

    def by_the_crowd(_: Any, given: dict[str, Any], output: Any) -> Any:
        output.logits = output.logits + given["input_ids"].shape[1]
        return output

    model.register_forward_hook(lambda module, _, given, output: by_the_crowd(module, given, output), with_kwargs=True)
    assert Readers().anatomy(model) is None


def test_what_is_known_of_a_model_is_found_out_once() -> None:
    model, calls = build("Llama"), list[int]()
    model.register_forward_hook(lambda *_: calls.append(1))
    readers = Readers()
    first = readers.anatomy(model)
    made = len(calls)
    assert made > 0
    assert readers.anatomy(model) is first
    assert len(calls) == made


def test_little_room_for_logits_reads_long_texts_in_blocks() -> None:
    from transformers import MambaConfig, MambaForCausalLM

    model = MambaForCausalLM(MambaConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=4))
    text = scoring.Text("p", (1, 2, 3), tuple(range(9)))
    with torch.inference_mode():
        found = list(forcing.whole(model.eval(), [text])[0])
        blocks = [piece.logits[0] for piece in pieces(Readers(), [Voice(model)], [text], 100)]
    torch.testing.assert_close(torch.cat(blocks), torch.stack(found))
