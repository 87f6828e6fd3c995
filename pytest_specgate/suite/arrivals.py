"""When requests come, where a scenario says so: an open loop, in which nobody waits for another's answer.

Requests that queue behind slow ones are then part of the latency, as users feel it; a closed loop hides them.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema, field_validator

from pytest_specgate.suite.quantities import Strict, Whole

_PER = {"s": 1.0, "min": 60.0}
_RATE = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*/\s*(s|min)\s*")
_SCHEMA: dict[str, Any] = {"type": "string", "pattern": r"^\s*[0-9]*\.?[0-9]+\s*/\s*(s|min)\s*$"}
Rate = Annotated[float, WithJsonSchema(_SCHEMA)]


class LoadSpec(Strict):
    """Requests by the clock: ``rate`` a second, at random (Poisson) or evenly."""

    rate: Rate = Field(description='requests a second: "4/s", "90/min"', examples=["4/s"])
    arrival: Literal["poisson", "fixed"] = Field("poisson", description="independent users, or an even beat")
    seed: Whole = Field(0, ge=0, description="of the arrival times: both arms, and every run, have the same")

    @field_validator("rate", mode="before")
    @classmethod
    def _per_second(cls, value: object) -> float:
        if isinstance(value, float):  # parsed before
            return value
        found = _RATE.fullmatch(value) if isinstance(value, str) else None
        rate = float(found[1]) / _PER[found[2]] if found else 0.0
        if rate <= 0:
            raise ValueError(f"{value!r} is no rate — write it like 4/s or 90/min")
        return rate

    def __str__(self) -> str:
        """``4/s poisson seed=1``."""
        return f"{self.rate:g}/s {self.arrival} seed={self.seed}"
