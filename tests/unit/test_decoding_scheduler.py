"""Slots: who runs where, and what moves when a row leaves."""

from __future__ import annotations

import pytest

from pytest_specgate.decoding.job import Job
from pytest_specgate.decoding.meter import Meter
from pytest_specgate.decoding.scheduler import Scheduler


def scheduler(jobs: int, slots: int) -> Scheduler:
    made = Scheduler([Job((n,), 4) for n in range(jobs)], slots)
    while made.admit():
        pass
    return made


def running(made: Scheduler) -> list[int]:
    return [row.number for row in made.rows]


def test_jobs_enter_in_order_until_the_slots_are_taken() -> None:
    assert running(scheduler(5, 3)) == [0, 1, 2]
    assert running(scheduler(2, 3)) == [0, 1]


@pytest.mark.parametrize(
    ("ended", "moves", "left"),
    [
        ([3], [], [0, 1, 2]),
        ([1], [(3, 1)], [0, 3, 2]),
        ([0, 1], [(3, 1), (2, 0)], [2, 3]),
        ([0, 3], [(2, 0)], [2, 1]),
        ([0, 1, 2, 3], [], []),
    ],
)
def test_the_last_row_closes_a_gap(ended: list[int], moves: list[tuple[int, int]], left: list[int]) -> None:
    made = scheduler(4, 4)
    for slot in ended:
        made.rows[slot].finish = "eos"

    assert made.retire() == moves
    assert running(made) == left
    assert sorted(row.number for row in made.done) == ended


def test_a_waiting_job_takes_the_free_slot() -> None:
    made = scheduler(3, 2)
    made.rows[0].finish = "length"
    made.retire()

    assert made.busy
    row = made.admit()
    assert row is not None
    assert (row.number, running(made)) == (2, [1, 2])


def test_a_scheduler_without_slots_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="at least one slot"):
        Scheduler([], 0)


def test_the_meter_counts_by_position_and_by_row() -> None:
    meter = Meter()
    meter.begin(room=4)
    meter.count((3, 1), (2, 1))
    meter.count((2,), (0,))
    meter.count((0, 4), (0, 0))

    assert meter.drafted_at == [4, 3, 2, 1]
    assert meter.accepted_at == [2, 1, 0, 0]
    assert (meter.rounds, meter.shared, meter.ragged) == (3, 2, 1)
    assert meter.occupancy == 5 / 12


def test_the_meter_charges_all_of_the_time_to_phases() -> None:
    meter = Meter()
    begin = meter.begin()
    meter.lap("draft")
    end = meter.lap("verify")

    assert meter.ns["draft"] + meter.ns["verify"] == end - begin
    assert meter.ns["host"] == 0
