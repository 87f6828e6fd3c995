"""What servers told, as reports show it: rows of both arms, room for requests, memory over several GPUs."""

from __future__ import annotations

import pytest

from pytest_specgate.metrics import Unit
from pytest_specgate.records import Arm, MemoryReading, Samples, Served
from pytest_specgate.report.html.plots import memory as memory_plot
from pytest_specgate.report.numbers import Estimate, arms
from pytest_specgate.report.outline import CaseView
from pytest_specgate.report.served import quantities, room_for_requests

GIB = 2**30


def samples(**scalars: float) -> Samples:
    return Samples("e::s", True, (), scalars)


def view(concurrency: int, back: float | None, engine: str = "e") -> CaseView:
    told = samples() if back is None else samples(preemptions=back)
    return CaseView("s.yaml", engine, f"qa-t0-c{concurrency}", (), None, told)


def test_only_what_was_told_is_a_row() -> None:
    told = {Arm.CANDIDATE: MemoryReading(served=Served(weights=2 * GIB, kv_cache_usage=(0.5, 0.25)))}

    assert list(quantities(samples(), {})) == []
    assert list(quantities(samples(reference_prefix_cache_hit_rate=0.5), told)) == [
        ("weights, as the server says", Unit.BYTES, (None, 2 * GIB)),
        ("cache pool taken, fullest", Unit.FRACTION, (None, 0.5)),
        ("prompt tokens cached already", Unit.FRACTION, (0.5, None)),
    ]


def test_both_arms_are_set_side_by_side() -> None:
    told = {
        arm: MemoryReading(served=Served(weights=weights * GIB, waiting=0))
        for arm, weights in ((Arm.REFERENCE, 2), (Arm.CANDIDATE, 3))
    }
    rows = {row.label: row for row in arms(samples(preemptions=0.0, reference_preemptions=0.0), told)}

    assert rows["weights, as the server says"].ratio == Estimate(1.5)
    assert rows["most requests seen waiting"].ratio is None
    assert rows["requests put back"].candidate == Estimate(0.0)


def test_how_full_rounds_were_is_a_row() -> None:
    rows = {row.label: row for row in arms(samples(occupancy=0.9, reference_occupancy=0.75), {})}
    assert rows["rounds filled (occupancy)"].ratio == Estimate(pytest.approx(1.2))


@pytest.mark.parametrize(
    ("back", "said"),
    [
        ({1: 0, 8: 0}, ["e::qa-t0: no request was put back for want of cache, at 8 at once neither"]),
        ({8: 3, 1: 0, 4: 0, 16: 9}, ["e::qa-t0: none up to 4, requests were put back for want of cache at 8 at once"]),
        ({4: 1, 8: 3}, ["e::qa-t0: requests were put back for want of cache at 4 at once"]),
        ({4: 1}, []),
        ({4: None, 8: 0}, []),
    ],
)
def test_up_to_how_many_requests_none_is_put_back(back: dict[int, float | None], said: list[str]) -> None:
    assert list(room_for_requests([view(n, count) for n, count in back.items()])) == said


def test_a_sum_over_gpus_says_so() -> None:
    one = MemoryReading(max_process_vram=GIB, gpus={"GPU-a": GIB})
    two = MemoryReading(max_process_vram=2 * GIB, gpus={"GPU-a": GIB, "GPU-b": GIB})

    drawn = str(memory_plot({Arm.REFERENCE: one, Arm.CANDIDATE: two}))

    assert "device peak 1 GiB, " in drawn
    assert "device peak 2 GiB on 2 GPUs, " in drawn
