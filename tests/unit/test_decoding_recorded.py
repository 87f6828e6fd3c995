"""Forwards recorded and replayed: the same texts, nothing recorded in a run, and what cannot be recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from pytest_specgate.decoding.drafters.draft_model import DraftModel
from pytest_specgate.decoding.drafters.early_exit import EarlyExit
from pytest_specgate.decoding.job import Generation
from pytest_specgate.decoding.loop import Decoder
from pytest_specgate.decoding.network import Network
from pytest_specgate.decoding.recorded import MOST, Recorder
from pytest_specgate.decoding.refusal import Refusal
from tests.unit.decoding import OUTPUT, build, family
from tests.unit.tape import record

WHICH = (0, 3, 1, 6, 9, 2, 5)
BUDGETS = (OUTPUT, 5, OUTPUT, 9, OUTPUT, 3, OUTPUT)


class Counted:
    """A recorder that counts."""

    def __init__(self, recorder: Recorder = record) -> None:
        self.recorded = 0
        self._recorder = recorder

    def __call__(self, run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        self.recorded += 1
        return self._recorder(run)


def networks(recorder: Recorder, name: str = "Llama") -> tuple[Network, Network]:
    made = family(name)
    pair = Network(made.target), Network(made.draft)
    for network in pair:
        network.record(lambda: recorder)
    return pair


def said(decoder: Decoder, slots: int) -> list[tuple[int, ...]]:
    return [made.tokens for made in runs(decoder, slots)]


def runs(decoder: Decoder, slots: int) -> list[Generation]:
    return decoder.run(family("Llama").jobs(WHICH, BUDGETS), slots)


def expected() -> list[tuple[int, ...]]:
    return [family("Llama").outputs[n][:budget] for n, budget in zip(WHICH, BUDGETS)]


def replayed(network: Network) -> int:
    assert network.recordings is not None
    return network.recordings.replayed


@pytest.mark.parametrize("slots", [1, 3, 4, 7])
def test_replayed_rounds_say_what_generate_says(slots: int) -> None:
    target, draft = networks(record)
    decoder = Decoder(target, DraftModel(draft), 3)

    first = said(decoder, slots)
    before = replayed(target)
    second = said(decoder, slots)

    assert first == second == expected()
    assert before == 0, "the first run has nothing to replay"
    assert replayed(target) > 5
    assert replayed(draft) > 5
    assert target.recordings is not None
    assert not target.recordings.refused


def test_nothing_is_recorded_while_rows_live() -> None:
    recorder = Counted()
    target, _ = networks(recorder)
    decoder = Decoder(target)
    runs(decoder, 3)
    assert recorder.recorded == 0, "shapes are wanted now, and recorded before the next run"
    runs(decoder, 3)
    made = recorder.recorded
    assert made > 0
    runs(decoder, 3)
    assert recorder.recorded == made, "a warm-up of the same work records all of it"


def test_an_early_exit_has_recordings_of_its_own() -> None:
    network = Network(build("Llama", num_hidden_layers=3))
    network.record(lambda: record)
    decoder = Decoder(network, EarlyExit(network, 1), 3)
    first, second, third = (runs(decoder, 3) for _ in range(3))
    assert replayed(network) > 0
    for made in (second, third):
        assert [one.tokens for one in made] == [one.tokens for one in first]
        assert counted(made) == counted(first), "a draft by all layers would be accepted whole"


def counted(made: Sequence[Generation]) -> list[list[tuple[int, int]]]:
    return [[(r.drafted, r.accepted) for r in one.rounds] for one in made]


def test_memory_that_ran_out_is_tried_again_once_caches_are_given_back() -> None:
    full = [True]

    def recorder(run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        if full[0]:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return record(run)

    target, _ = networks(recorder)
    decoder = Decoder(target)
    for _ in range(2):
        assert said(decoder, 3) == expected()
    assert target.recordings is not None
    assert target.recordings.refused == "there is no memory to record forwards in"
    full[0] = False
    decoder.forget()
    for _ in range(3):
        assert said(decoder, 3) == expected()
    assert not target.recordings.refused
    assert replayed(target) > 0


def test_a_larger_cache_throws_recordings_away() -> None:
    target, _ = networks(record)
    decoder = Decoder(target)
    for slots in (2, 2, 5, 5):
        assert said(decoder, slots) == expected()
    decoder.forget()
    assert said(decoder, 3) == expected()


def _deaf(run: Callable[[], Tensor]) -> Callable[[], Tensor]:
    result = run().clone()
    return lambda: result


def _failing(run: Callable[[], Tensor]) -> Callable[[], Tensor]:
    raise RuntimeError("operation not permitted when stream is capturing")


@pytest.mark.parametrize(
    ("recorder", "why"),
    [
        (_deaf, "a replay's scores are not the forward's own"),
        (_failing, "recording failed: operation not permitted when stream is capturing"),
    ],
)
def test_what_does_not_replay_is_not_used(recorder: Recorder, why: str) -> None:
    target, _ = networks(recorder)
    decoder = Decoder(target)
    for _ in range(3):
        assert said(decoder, 3) == expected()
    assert target.recordings is not None
    assert target.recordings.refused == why
    assert replayed(target) == 0


def test_the_stand_in_forgets_what_a_graph_forgets() -> None:
    given = torch.ones(2)
    number = [1.0]
    replay = record(lambda: given * number[0] + 1)
    given.fill_(3)
    number[0] = 5.0
    assert replay().tolist() == [4.0, 4.0], "tensors are read anew, numbers are not"
    with pytest.raises(RuntimeError, match="while recording"):
        record(lambda: given * float(given[0]))


def test_a_class_with_modules_of_its_own_is_refused() -> None:
    with pytest.raises(Refusal) as caught:
        Network(build("GPT2")).record(lambda: record)
    assert str(caught.value) == (
        "forwards of GPT2LMHeadModel cannot be recorded — remove 'graphs' or use a model of one of these classes: "
        "LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, windows apart"
    )


def test_recordings_are_bounded() -> None:
    target, _ = networks(record)
    assert target.recordings is not None
    target.recordings._lacked.update(_shapes())
    with torch.inference_mode():
        target.reserve(8, 512)
        target.prefill(family("Llama").prompts[0], 0)
        target.reserve(8, 512)
    assert len(target.recordings) <= MOST


def _shapes() -> dict[Any, int]:
    from pytest_specgate.decoding.recorded import Shape

    return {Shape(rows, width, 256, 2): 1 for rows in range(1, 9) for width in range(1, 10 + MOST // 8)}
