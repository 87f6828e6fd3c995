"""How much is measured: rounds, warm-up, time, and the passes in which each arm runs in a process of its own."""

from __future__ import annotations

from pydantic import Field, field_validator

from pytest_specgate import units
from pytest_specgate.suite.quantities import Bytes, Flag, Seconds, Strict, Whole


class CapacitySpec(Strict):
    """How the largest concurrency that fits is looked for, where a ``max_batch`` gate asks for it."""

    memory: Bytes | None = Field(
        None,
        description="on a CPU: memory that an arm's process may take, e.g. \"4 GiB\"; a GPU's own memory is its limit",
    )
    most: Whole = Field(64, ge=1, le=4096, description="no more requests at once than this are tried")

    @field_validator("memory", mode="before")
    @classmethod
    def _memory(cls, value: object) -> int | None:
        return None if value is None else units.parse_bytes(value)


class MeasureSpec(Strict):
    """How much is measured."""

    rounds: Whole = Field(
        8, ge=1, le=64, description="most times that both arms run every prompt; fewer where gates are decided early"
    )
    warmup: Whole = Field(2, ge=1, le=50, description="least number of warm-up generations per arm")
    budget: Seconds | None = Field(None, description='most time for one case, e.g. "90 s"')
    memory: Flag = Field(True, description="measure each arm's memory in a process of its own")
    costs: Flag = Field(True, description="time single forwards of draft and target, which explain a speedup")
    soak: Whole = Field(
        32,
        ge=8,
        le=10_000,
        description="blocks of requests that the slopes of memory are judged on; the first quarter settles",
    )
    control: Whole | None = Field(
        None,
        ge=128,
        le=100_000,
        description="tokens that tell greedy exactness the target's rounding; default: 2048 in 16 bits, else 256",
    )
    capacity: CapacitySpec = CapacitySpec()

    @field_validator("budget", mode="before")
    @classmethod
    def _budget(cls, value: object) -> float | None:
        return None if value is None else units.parse_seconds(value)
