"""What a suite, or one of its engines, requires of the machine; elsewhere it is skipped with the reason."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from pytest_specgate import units
from pytest_specgate.suite.quantities import Bytes, Packages, Strict


class Requires(Strict):
    """What a machine must have; where it has not, what asks for it is skipped with the reason."""

    device: Literal["cpu", "cuda", "mps"] | None = None
    memory: Bytes | None = Field(None, description='free memory of the device (of the host on a CPU), e.g. "40 GiB"')
    package: Packages = Field((), description="importable package, or a list of them")
    command: Packages = Field((), description="program on PATH, or a list of them")

    @field_validator("memory", mode="before")
    @classmethod
    def _memory(cls, value: object) -> int | None:
        return None if value is None else units.parse_bytes(value)

    @field_validator("package", "command", mode="before")
    @classmethod
    def _one_or_more(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value
