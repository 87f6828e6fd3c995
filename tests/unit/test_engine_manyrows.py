"""Products of many rows by another library: the same numbers, where they are taken so, and nothing else changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from pytest_specgate.engines.hf import manyrows
from pytest_specgate.engines.hf.manyrows import LEAST, ManyRows, fast
from tests.unit.decoding import build


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of every product that is taken so."""
    rows = list[int]()

    def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        rows.append(x.numel() // x.shape[-1])
        return x.double().matmul(weight.double().T).add(0 if bias is None else bias.double()).float()

    monkeypatch.setattr(manyrows, "_product", product)
    return rows


@pytest.fixture
def _afresh() -> Iterator[None]:
    """What this processor can is found out anew, before and after."""
    manyrows._worthwhile.cache_clear()
    yield
    manyrows._worthwhile.cache_clear()


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("bias", [None, numbers(40), numbers(40, 3)[:, 1]])
@pytest.mark.parametrize("shape", [(LEAST, 24), (1, 100, 24), (5, 17, 24)])
def test_it_is_the_product(shape: tuple[int, ...], bias: Tensor | None) -> None:
    x, weight = numbers(*shape), numbers(40, 24)
    with torch.inference_mode():
        plain = linear(x, weight, bias)
        with ManyRows() if manyrows._worthwhile() else fast(build("Llama")):
            found = linear(x, weight, bias)
            apart = linear(x.transpose(0, -1).contiguous().transpose(0, -1), weight, bias)
    torch.testing.assert_close(found, plain, rtol=0, atol=1e-4)
    torch.testing.assert_close(apart, plain, rtol=0, atol=1e-4)


def test_it_is_tried_where_it_pays() -> None:
    """Or nothing here would notice that the operation is gone."""
    if not manyrows._amd() or torch.backends.cpu.get_cpu_capability() != "AVX512":
        pytest.skip("another processor")
    if not torch.backends.mkl.is_available() or not torch.backends.mkldnn.is_available():
        pytest.skip("a build without MKL or oneDNN")
    assert manyrows._worthwhile()


def test_few_rows_other_types_and_other_tensors_go_the_usual_way(taken: list[int]) -> None:
    weight = numbers(40, 24)
    with torch.inference_mode(), ManyRows():
        linear(numbers(LEAST - 1, 24), weight)
        linear(numbers(LEAST, 24).double(), weight.double())
        linear(numbers(LEAST, 24), numbers(24, 40).T)
        linear(numbers(LEAST, 24).bfloat16(), weight.bfloat16())
        assert taken == []
        linear(numbers(3, LEAST, 24), weight)
    linear(numbers(LEAST, 24), weight)
    assert taken == [3 * LEAST]


def test_models_of_another_type_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manyrows, "_worthwhile", lambda: True)
    made = build("Llama")
    assert not isinstance(fast(made), ManyRows)
    assert isinstance(fast(made.float()), ManyRows)


def test_a_model_s_scores_are_its_own(taken: list[int]) -> None:
    made, text = build("Qwen2").float(), torch.arange(40)[None]
    with torch.inference_mode():
        plain = made(input_ids=text, use_cache=False).logits
        with ManyRows():
            found = made(input_ids=text, use_cache=False).logits
    assert len(taken) == 2 * 7 + 1
    torch.testing.assert_close(found, plain, rtol=0, atol=1e-3)


@pytest.mark.usefixtures("_afresh")
@pytest.mark.parametrize("broken", ["is missing", "is wrong"])
def test_an_operation_that_is_missing_or_wrong_is_not_used(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def product(x: Tensor, weight: Tensor, bias: Any = None) -> Tensor:
        if broken == "is missing":
            raise AttributeError("no such operation")
        return linear(x, weight, bias) + 1

    monkeypatch.setattr(manyrows, "_amd", lambda: True)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    monkeypatch.setattr(manyrows, "_product", product)
    assert not manyrows._worthwhile()


@pytest.mark.usefixtures("_afresh")
@pytest.mark.parametrize("other", ["processor", "width"])
def test_on_other_processors_nothing_changes(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manyrows, "_amd", lambda: other != "processor")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2" if other == "width" else "AVX512")
    assert not manyrows._worthwhile()
