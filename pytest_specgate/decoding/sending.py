"""Numbers of the host as tensors of a device, without waiting for it.

A plain copy to a GPU waits until the GPU has done all that it was given before: several times a round, the host would
stand still and then the GPU. From pinned memory a copy is queued like anything else, and PyTorch keeps that memory
until the copy is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Numbers = Sequence[float] | Sequence[Sequence[float]]


def sent(numbers: Numbers, device: Any, dtype: torch.dtype = torch.long) -> Tensor:
    """``torch.tensor(numbers)`` on the device, there once the device comes to what is given to it next."""
    if torch.device(device).type != "cuda":
        return torch.tensor(numbers, dtype=dtype, device=device)
    return torch.tensor(numbers, dtype=dtype, pin_memory=True).to(device, non_blocking=True)
