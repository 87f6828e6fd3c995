"""Scatter within groups, of any size, with spikes."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_specgate.stats.scatter import within


@pytest.mark.parametrize("size", [2, 3, 4, 8, 16])
def test_it_is_right_for_groups_of_any_size_whatever_their_means(size: int) -> None:
    random = np.random.default_rng(size)
    groups = random.normal(0, 0.03, (4000, size)) + random.normal(0, 1, (4000, 1))
    assert within(groups.tolist()) == pytest.approx(0.03, rel=0.05)


def test_spikes_hardly_move_it() -> None:
    random = np.random.default_rng(0)
    groups = random.normal(0, 0.03, (400, 8))
    spiked = groups + 0.7 * (random.random((400, 8)) < 0.05)
    assert within(spiked.tolist()) == pytest.approx(within(groups.tolist()), rel=0.2)


def test_single_values_have_none() -> None:
    assert within([[1.0], [2.0]]) is None
    assert within([]) is None
    assert within([[1.0, 1.0], [5.0]]) == 0.0
