"""Matrix products of many rows in float32, by oneDNN where MKL takes half the processor's width.

MKL uses no 512-bit instructions on AMD's processors: 100 against 230 GFlop/s on one AMD EPYC, from 16 rows on. Texts
are read in hundreds of rows, so reading takes half the time; the model and its weights stay as they are, and so does
what arms run. The sums are the same numbers, added up in another order.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

#: From so many rows on; fewer are as fast either way.
LEAST = 16


class ManyRows(TorchFunctionMode):  # type: ignore[misc]  # torch is not followed
    """While it is entered, ``torch.nn.functional.linear`` of many rows is taken so."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Pass everything else on."""
        del types
        if func is torch.nn.functional.linear and not kwargs and _fits(*args[:2]):
            return _product(*args)
        return func(*args, **(kwargs or {}))


def fast(model: Any) -> AbstractContextManager[Any]:
    """What to enter while the model reads many rows at once."""
    suits = torch.device(model.device).type == "cpu" and model.dtype is torch.float32
    return ManyRows() if suits and _worthwhile() else nullcontext()


def _fits(x: Tensor, weight: Tensor) -> bool:
    plain = type(weight) in (Tensor, torch.nn.Parameter) and weight.layout is torch.strided and weight.is_contiguous()
    return plain and x.dtype is weight.dtype is torch.float32 and x.numel() >= LEAST * x.shape[-1]


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    # An operation of PyTorch's own, in no promise of it: _worthwhile tries it first. It reads a bias with gaps wrongly.
    bias = None if bias is None else bias.contiguous()
    found: Tensor = torch.ops.mkldnn._linear_pointwise(x.contiguous(), weight, bias, "none", [], "")  # noqa: SLF001
    return found


@cache
def _worthwhile() -> bool:
    """Whether this is such a processor, and oneDNN multiplies rightly on it."""
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available() and _amd()):
        return False
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    x, weight = (torch.arange(rows * 24, dtype=torch.float32).reshape(rows, 24) % 7 for rows in (LEAST, 40))
    try:
        with torch.inference_mode():
            tried = _product(x, weight, weight[:, 0])
    except (AttributeError, NotImplementedError, RuntimeError, TypeError):
        return False
    return bool(torch.equal(tried, x @ weight.T + weight[:, 0]))


def _amd() -> bool:
    info = Path("/proc/cpuinfo")
    told = info.read_text(encoding="utf-8", errors="replace") if info.is_file() else platform.processor()
    return "AuthenticAMD" in told
