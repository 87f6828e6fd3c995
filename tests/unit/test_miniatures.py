"""Miniatures of many architectures: made in memory, the same every time, with drafts that agree with them in part."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.engines.base import Engine, EngineContext
from pytest_specgate.engines.hf import letters, shapes
from pytest_specgate.engines.hf.miniatures import LAYERS, MINIATURES
from pytest_specgate.engines.registry import create
from pytest_specgate.records import Arm, Message, Request, Sampling
from pytest_specgate.suite.model import EngineSpec

CONTEXT = EngineContext("e", EngineSpec(kind="native"), Path())
STATEFUL = {"tiny-mamba", "tiny-lfm2"}


def made(name: str) -> Any:
    import torch

    return shapes.made(f"shape://{name}", CONTEXT, torch.float32, "cpu")


def test_characters_are_tokens() -> None:
    tokenizer = letters.tokenizer()
    text = "Say: 'it'\n  is {so}~"
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert len(ids) == len(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.encode("é", add_special_tokens=False) == [tokenizer.unk_token_id]
    assert len(tokenizer) == letters.ROWS
    asked = [{"role": "user", "content": "Hi."}]
    told = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_dict=True)["input_ids"]
    assert tokenizer.convert_ids_to_tokens(told) == ["<bos>", "<user>", "H", "i", ".", "<assistant>"]


@pytest.mark.parametrize("name", MINIATURES)
def test_a_miniature_is_the_same_every_time_and_small(name: str) -> None:
    import torch

    before = torch.random.get_rng_state()
    one, other = made(name), made(name)
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters()))
    count = one.num_parameters()
    assert count == shapes.elements(f"shape://{name}", "e") < 200_000
    assert one.config.get_text_config().vocab_size == letters.ROWS
    assert one.config.get_text_config().num_hidden_layers == LAYERS
    assert one.generation_config.eos_token_id == letters.EOS


def test_a_miniature_is_drawn_where_the_numbers_are_the_same_and_then_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    drawn: list[torch.device] = []
    make = AutoModelForCausalLM.from_config

    def told(*given: Any, **named: Any) -> Any:
        drawn.append(torch.get_default_device())
        return make(*given, **named)

    monkeypatch.setattr(AutoModelForCausalLM, "from_config", told)
    context = EngineContext("e", EngineSpec(kind="native"), Path())
    found = [shapes.made(f"shape://{name}", context, torch.float32, "meta") for name in ("tiny-llama", "llama-150m")]
    assert [device.type for device in drawn] == ["cpu", "meta"]
    assert [one.device.type for one in found] == ["meta", "meta"]


@pytest.mark.parametrize("name", ["tiny-llama", "tiny-gpt2", "tiny-mamba"])
def test_a_draft_is_its_model_with_noise_on_its_matrices(name: str) -> None:
    import torch

    target, draft = made(name), made(f"{name}/draft")
    both = list(zip(target.parameters(), draft.parameters()))
    assert [not torch.equal(a, b) for a, b in both] == [a.ndim > 1 for a, _ in both]
    noise = [float((a - b).detach().std() / a.detach().std()) for a, b in both if a.ndim > 1]
    assert 0.03 < min(noise) <= max(noise) < 0.07


def test_each_shape_and_each_draft_has_a_hash_of_its_own() -> None:
    found = [shapes.content(f"shape://{name}{end}", "e") for name in shapes.SHAPES for end in ("", "/draft")]
    assert len(set(found)) == len(found)


def test_llamas_keep_the_hash_by_which_baselines_know_them() -> None:
    _, settings = shapes.SHAPES["llama-1b"]
    told = json.dumps({**settings, "seed": 0}, sort_keys=True)
    assert shapes.content("shape://llama-1b", "e") == hashlib.sha256(told.encode()).hexdigest()[:16]


def native(name: str, candidate: dict[str, Any], **settings: Any) -> Engine:
    spec = EngineSpec(kind="native", target=f"shape://{name}", device="cpu", candidate=candidate, **settings)
    return create(EngineContext("e", spec, Path()))


def requests(number: int = 4) -> list[Request]:
    texts = ("Hi.", "What does a draft model do?", "one two three, one two", "Say again what you said, word by word.")
    return [Request(f"p{n}", (Message("user", texts[n]),), 20, Sampling(), ignore_eos=True) for n in range(number)]


@pytest.mark.parametrize("name", [name for name in MINIATURES if name not in STATEFUL])
def test_rows_accept_different_counts_and_say_what_the_target_says(name: str) -> None:
    draft = {"method": "draft_model", "draft": f"shape://{name}/draft", "num_draft_tokens": 3}
    engine = native(name, draft, dtype="float32")
    engine.start()
    plain, drafted = (engine.generate(requests(), arm) for arm in (Arm.REFERENCE, Arm.CANDIDATE))
    engine.close()
    assert [trace.token_ids for trace in plain] == [trace.token_ids for trace in drafted]
    by_time: dict[int, list[int]] = {}
    for trace in drafted:
        assert len(set(trace.token_ids)) > 3  # no text that says one thing again and again
        for one in trace.rounds or ():
            by_time.setdefault(one.t_ns, []).append(one.accepted)
    shared = [counts for counts in by_time.values() if len(counts) > 1]
    ragged = [counts for counts in shared if len(set(counts)) > 1]
    assert len(ragged) >= len(shared) / 2
    assert {count for counts in shared for count in counts} >= {0, 1}
