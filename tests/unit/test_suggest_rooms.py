"""The room that proposed limits leave, by simulation: what further runs of the same code exceed, and how often."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_specgate.stats.proportions import exact_limits
from pytest_specgate.study.suggest import rooms

SETS = 4000


@pytest.mark.parametrize("runs", [3, 5, 10])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_further_runs_exceed_it_as_often_as_promised(runs: int, alpha: float) -> None:
    rng = np.random.default_rng(runs)
    below_limit = below_change = 0
    for known in rng.normal(size=(SETS, runs)):
        room, change = rooms(known.tolist(), alpha)
        baseline, later = rng.normal(size=2)
        below_limit += later < known.mean() - room
        below_change += later - baseline < -change

    for exceeded in (below_limit, below_change):
        low, high = exact_limits(exceeded, SETS, 0.999)
        assert low <= alpha <= high


def test_more_runs_leave_less_room() -> None:
    values = [1.0, 2.0, 3.0]

    assert rooms(values * 4, 0.01) < rooms(values * 2, 0.01) < rooms(values, 0.01)
