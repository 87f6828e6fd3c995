"""Values in groups of unequal sizes, held end to end so that whole-array steps serve all groups at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

Groups = Sequence[Sequence[float]]
_Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Grouped:
    """``values`` of one group after another; ``sizes`` counts each group's, and none is empty."""

    values: _Vector
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, groups: Groups) -> Grouped:
        """The groups that hold any value."""
        kept = [group for group in groups if len(group)]
        sizes = np.array([len(group) for group in kept], dtype=np.int64)
        return cls(np.array(list(chain.from_iterable(kept)), dtype=float), sizes)

    @property
    def means(self) -> _Vector:
        """One mean per group."""
        return np.asarray(np.add.reduceat(self.values, self._starts) / self.sizes)

    def scatter(self) -> tuple[float, int]:
        """(standard deviation within groups, its degrees of freedom); (0, 0) where every group has one value."""
        freedom = int(self.values.size - self.sizes.size)
        if freedom < 1:
            return 0.0, 0
        centred = self.values - np.repeat(self.means, self.sizes)
        return float(np.sqrt(centred @ centred / freedom)), freedom

    @property
    def _starts(self) -> NDArray[np.int64]:
        return np.concatenate(([0], np.cumsum(self.sizes)[:-1]))
