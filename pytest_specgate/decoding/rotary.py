"""The angles by which queries and keys turn with their position, from a table where they depend on nothing else.

The table is for CPUs. Elsewhere nobody waits for these operations, and a recorded one must not read what is replaced.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

#: Kinds of scaling whose angles are the same however long a text is.
_FIXED = {"default", "linear", "llama3", "yarn"}
#: The table grows by so many positions.
_STEP = 1024


class Angles:
    """Cosine and signed sine by position, of a model's own rotary module, in the type that it computes in."""

    def __init__(self, module: Any, dtype: torch.dtype) -> None:
        self._module, self._dtype = module, dtype
        #: Whether they depend on the position alone; others are asked for by reading how long a text is.
        self.fixed = getattr(module, "rope_type", None) in _FIXED
        self._table: Tensor | None = None

    def __call__(self, positions: Tensor, end: int) -> tuple[Tensor, Tensor]:
        """Both for ``positions [rows, width]`` below ``end``, each ``[rows, width, 1, head size]``.

        The first half of the sine has its sign turned: ``x * cosine + rolled x * sine`` turns x, rolled by half of its
        size.
        """
        if self.fixed and positions.device.type == "cpu":
            found = self._reaching(end, positions.device).index_select(0, positions.reshape(-1))
            found = found.view(*positions.shape, 1, -1)
        else:
            found = self._made(positions)
        cosine, sine = found.chunk(2, dim=-1)
        return cosine, sine

    def _reaching(self, end: int, device: torch.device) -> Tensor:
        table = self._table
        if table is None or len(table) < end or table.device != device:
            rows = -(-end // _STEP) * _STEP
            table = self._table = self._made(torch.arange(rows, device=device)[None])[0, :, 0]
        return table

    def _made(self, positions: Tensor) -> Tensor:
        like = torch.empty(0, dtype=self._dtype, device=positions.device)
        cosine, sine = self._module(like, position_ids=positions)
        half = sine.shape[-1] // 2
        return torch.cat((cosine, -sine[..., :half], sine[..., half:]), dim=-1)[:, :, None]
