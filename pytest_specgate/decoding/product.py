"""Matrix products of few rows, which are what decoding makes: one row a token, a handful in a verify.

Such a product reads all weights for little work, so it should take as long as reading them. In float32 MKL's kernels
for ``x @ W.T`` take twice that from two rows on, and half as much again for one; asked for ``W @ x.T`` they do not
(measured on an AMD EPYC: 30 layers of SmolLM2-135M 55 against 28 ms for three rows, 27 against 20 for one that is
doubled). The sums are the same numbers, added up in another order. 16-bit kernels read at full speed either way.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear

#: Up to so many rows the product is taken the other way round; from there on it makes no difference.
FEW = 7
_MKL = torch.backends.mkl.is_available()


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``linear(x, weight, bias)`` of ``[..., size]``; contiguous."""
    rows = x.numel() // x.shape[-1]
    if rows > FEW or not _MKL or x.dtype is not torch.float32 or x.device.type != "cpu":
        return linear(x, weight, bias)
    flat = x.reshape(rows, -1)
    columns = torch.cat((flat, flat)) if rows == 1 else flat
    found = torch.mm(weight, columns.t()).t()[:rows].contiguous().view(*x.shape[:-1], -1)
    return found if bias is None else found.add_(bias)
