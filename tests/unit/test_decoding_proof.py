"""In 16 bits a wrong lean forward is not driven, however near its scores lie; a right one is.

Each fault strikes the forward, its cache or its masks where a run uses them. Where rounding is coarse the probe of a
whole model lets most of them pass, which is why there is a proof.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pytest_specgate.decoding import proof
from pytest_specgate.decoding.cache import Block, SlotCache, Span
from pytest_specgate.decoding.lean import LeanForward
from pytest_specgate.decoding.network import Network
from pytest_specgate.decoding.rotary import Angles
from pytest_specgate.records import Outcome, Verdict
from pytest_specgate.session import Settings, SuiteSession
from tests import tiny
from tests.unit.decoding import build
from tests.unit.project import load, write

#: Large enough for a processor that packs matrices to pack these.
LARGE = {"hidden_size": 256, "intermediate_size": 256}
Patch = Callable[[pytest.MonkeyPatch], None]


def small(name: str, **changes: Any) -> Any:
    """Its attention says little beside what flows past it, so scores move little where it is wrong."""
    return build(name, initializer_range=0.01, max_position_embeddings=512, **changes)


# --- faults -----------------------------------------------------------------------------------------------------


def _sees_its_future(patch: pytest.MonkeyPatch) -> None:
    attend = LeanForward._attend

    def blind(self: LeanForward, layer: Any, hidden: Tensor, turn: Any, mask: Tensor | None, at: Any) -> Tensor:
        return attend(self, layer, hidden, turn, None if mask is None else torch.zeros_like(mask), at)

    patch.setattr(LeanForward, "_attend", blind)


def _masked_as_if_later(by: int) -> Patch:
    band = Network._band

    def strike(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(Network, "_band", lambda self, span, positions, window: band(self, span, positions + by, window))

    return strike


def _positions_move_after_a_rollback(patch: pytest.MonkeyPatch) -> None:
    call, seen = LeanForward.__call__, dict[int, int]()

    def shifted(self: LeanForward, tokens: Tensor, positions: Tensor, *rest: Any, **named: Any) -> Tensor:
        first, last = int(positions.min()), int(positions.max())
        back = 0 < first <= seen.get(id(self), -1)
        seen[id(self)] = last
        return call(self, tokens, positions + back, *rest, **named)

    patch.setattr(LeanForward, "__call__", shifted)


def _scores_the_row_before(patch: pytest.MonkeyPatch) -> None:
    call = LeanForward.__call__

    def before(self: LeanForward, tokens: Tensor, positions: Tensor, mask: Any, cache: Any, keep: int = 0) -> Tensor:
        scores = call(self, tokens, positions, mask, cache)
        kept = keep or tokens.shape[1]
        return scores[:, max(0, scores.shape[1] - kept - bool(keep)) :][:, :kept]

    patch.setattr(LeanForward, "__call__", before)


def _writes_into_another_row(patch: pytest.MonkeyPatch) -> None:
    write_block = Block.write

    def beside(self: Block, layer: int, states: Tensor) -> tuple[Tensor, Tensor]:
        return write_block(self, layer, states.roll(1, dims=0) if layer and self.index is not None else states)

    patch.setattr(Block, "write", beside)


def _never_moves_a_row(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SlotCache, "move", lambda self, source, target: None)


def _padding_strikes_a_token(patch: pytest.MonkeyPatch) -> None:
    aim = SlotCache.aim

    def early(self: SlotCache, span: Span, positions: Tensor) -> None:
        aim(self, span, positions if span.aligned else positions.clamp(max=self.capacity - 3))

    patch.setattr(SlotCache, "aim", early)


def _norms_with_another_epsilon(patch: pytest.MonkeyPatch) -> None:
    made = LeanForward.__init__

    def other(self: LeanForward, model: Any) -> None:
        made(self, model)
        self._epsilon *= 3

    patch.setattr(LeanForward, "__init__", other)


def _norms_otherwise_in_16_bits(patch: pytest.MonkeyPatch) -> None:
    norm = LeanForward._norm

    def unscaled(self: LeanForward, hidden: Tensor, weight: Tensor) -> Tensor:
        return norm(self, hidden, weight if hidden.dtype is torch.float32 else torch.ones_like(weight))

    patch.setattr(LeanForward, "_norm", unscaled)


def _wide_blocks_see_their_future(patch: pytest.MonkeyPatch) -> None:
    mask = Network._mask

    def blind(self: Network, span: Span, positions: Tensor) -> Any:
        made = mask(self, span, positions)
        return torch.zeros_like(made) if span.width > 5 and isinstance(made, Tensor) else made

    patch.setattr(Network, "_mask", blind)


def _parts_of_a_prompt_are_read_as_its_beginning(patch: pytest.MonkeyPatch) -> None:
    mask = Network._mask

    def none(self: Network, span: Span, positions: Tensor) -> Any:
        return None if span.aligned and span.width > 16 else mask(self, span, positions)

    patch.setattr(Network, "_mask", none)


def _rows_exchange_when_there_are_many(patch: pytest.MonkeyPatch) -> None:
    write_block = Block.write

    def beside(self: Block, layer: int, states: Tensor) -> tuple[Tensor, Tensor]:
        return write_block(self, layer, states.roll(1, dims=0) if len(states) > 3 else states)

    patch.setattr(Block, "write", beside)


def _positions_in_16_bits(patch: pytest.MonkeyPatch) -> None:
    made = Angles._made

    def coarse(self: Angles, positions: Tensor) -> Tensor:
        return made(self, positions.to(self._dtype).long())

    patch.setattr(Angles, "_made", coarse)


FAULTS: dict[str, Patch] = {
    "blocks see their future": _sees_its_future,
    "blocks see one token ahead": _masked_as_if_later(1),
    "blocks do not see their last token": _masked_as_if_later(-1),
    "positions are off by one after a rollback": _positions_move_after_a_rollback,
    "a prompt's scores are those of the row before": _scores_the_row_before,
    "rows of several lengths write into each other": _writes_into_another_row,
    "a row does not move": _never_moves_a_row,
    "padding is written over a token": _padding_strikes_a_token,
    "norms have another epsilon": _norms_with_another_epsilon,
    "norms scale in 32 bits alone": _norms_otherwise_in_16_bits,
    "wide blocks see their future": _wide_blocks_see_their_future,
    "parts of a prompt are read as its beginning": _parts_of_a_prompt_are_read_as_its_beginning,
    "rows exchange when there are many": _rows_exchange_when_there_are_many,
    "positions are counted in 16 bits": _positions_in_16_bits,
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("changes", [{}, LARGE])
@pytest.mark.parametrize("name", ["Llama", "Qwen2"])
def test_a_right_forward_is_driven(name: str, changes: dict[str, Any], dtype: torch.dtype) -> None:
    network = Network(build(name, **changes).to(dtype))
    assert (network.forward_name, network.doubt) == ("lean", "")


@pytest.mark.parametrize("changes", [{}, LARGE])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_one_is_not(monkeypatch: pytest.MonkeyPatch, fault: str, changes: dict[str, Any]) -> None:
    made = small("Qwen2", **changes).bfloat16()
    FAULTS[fault](monkeypatch)
    network = Network(made)
    assert network.forward_name == "modules"
    assert "from its modules' scores" in network.doubt


@pytest.mark.parametrize("fault", FAULTS)
def test_a_probe_of_the_model_alone_would_let_it_pass(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """So each fault above is one that the proof finds, and nothing else would."""
    FAULTS[fault](monkeypatch)
    monkeypatch.setattr(proof, "objection", lambda model, drive: "")
    assert Network(small("Qwen2").bfloat16()).forward_name == "lean"


def test_what_is_wrong_is_told_by_its_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    _positions_move_after_a_rollback(monkeypatch)
    doubt = Network(small("Llama").bfloat16()).doubt
    found = re.fullmatch(
        r"in float32 (.*), (rows of .* lengths?|many rows), lie (.*) from its modules' scores, and (.*) is allowed",
        doubt,
    )
    assert found is not None, doubt
    assert "after a rollback" in found[1]
    assert float(found[3]) > 100 * float(found[4])


def test_a_part_that_its_class_does_not_make_so_is_named() -> None:
    hooked, patched, exchanged = (build("Llama").bfloat16() for _ in range(3))
    hooked.model.layers[1].mlp.register_forward_hook(lambda module, given, output: output * 1.0001)
    norm = patched.model.layers[0].input_layernorm
    norm.forward = norm.forward
    exchanged.model.layers[1].input_layernorm = torch.nn.RMSNorm(32).bfloat16()
    for made, part in (
        (hooked, "model.layers.1.mlp"),
        (patched, "model.layers.0.input_layernorm"),
        (exchanged, "model.layers.1.input_layernorm"),
    ):
        assert Network(made).doubt == f"{part} is not as its class makes it"


def test_a_class_that_no_miniature_can_be_made_of_runs_through_its_modules() -> None:
    made = build("Llama").bfloat16()

    class LlamaForCausalLM(type(made)):  # type: ignore[misc]
        def __init__(self, config: Any, secret: int) -> None:
            super().__init__(config)

    made.__class__ = LlamaForCausalLM
    network = Network(made)
    assert network.forward_name == "modules"
    assert network.doubt.startswith("a miniature of it cannot be tried (TypeError: ")


def test_neither_the_model_nor_the_random_state_is_touched() -> None:
    made, plain = build("Llama").bfloat16(), build("Llama").bfloat16()
    before = torch.random.get_rng_state()
    assert proof.objection(made, lambda other: Network(other, LeanForward(other))) == ""
    assert torch.equal(torch.random.get_rng_state(), before)
    assert made.config.to_dict() == plain.config.to_dict()
    for name, weight in plain.state_dict().items():
        assert torch.equal(weight, made.state_dict()[name])


# --- engines ----------------------------------------------------------------------------------------------------

EXACT = {"metric": "greedy_exactness", "limit": "==100%"}
PROMPTS = [{"id": f"p{n}", "turns": [" ".join(tiny.WORDS[(n * 3 + j * j) % 20] for j in range(6))]} for n in range(4)]


@pytest.fixture
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECGATE_CACHE", str(tmp_path / ".cache"))


def judged(folder: Path, target: str) -> Verdict:
    candidate = {"method": "prompt_lookup", "num_draft_tokens": 3, "max_ngram": 1}
    engine = {"kind": "native", "target": target, "dtype": "bfloat16", "candidate": candidate}
    keys = {"engines": {"tiny": engine}, "measure": {"rounds": 1, "warmup": 1, "control": 128}}
    suite, case = load(write(folder, EXACT, prompts=PROMPTS, scenario={"max_tokens": 24}, **keys))
    session = SuiteSession(suite, "tiny", Settings(folder))
    verdict = session.judge(case.gates[0], case)
    session.close()
    return verdict


@pytest.mark.usefixtures("_cache")
def test_an_engine_says_why_its_target_runs_through_its_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _sees_its_future(monkeypatch)
    with caplog.at_level(logging.WARNING, "pytest_specgate"):
        verdict = judged(tmp_path, "shape://tiny-llama")
    assert verdict.outcome is not Outcome.FAIL, verdict.reason
    said = "tiny: LlamaForCausalLM runs through its own modules, which is slower: in float32 "
    assert any(message.startswith(said) for message in caplog.messages)


@pytest.mark.usefixtures("_cache")
@pytest.mark.parametrize("by", [0, -1])
def test_a_window_that_is_off_by_one_is_no_pass_in_16_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: int
) -> None:
    """Layers with windows run through modules, whose masks we make; their texts are judged under masks made apart."""
    band = Network._band

    def shorter(self: Network, span: Span, positions: Tensor, window: int | None) -> Tensor:
        return band(self, span, positions, None if window is None else window + by)

    monkeypatch.setattr(Network, "_band", shorter)
    verdict = judged(tmp_path, "shape://tiny-mistral")
    assert (verdict.outcome is Outcome.FAIL) == (by != 0), verdict.reason
