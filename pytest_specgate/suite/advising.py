"""What a suite says of adopting speculation: the least that is worth it, and the price of an hour."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema, field_validator

from pytest_specgate import units
from pytest_specgate.metrics import Unit
from pytest_specgate.suite.quantities import Strict

_PRICE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*/\s*h\s*")


def parse_price(value: object) -> float:
    """``"2.50/h"`` → 2.5. Raises ValueError, whose text is ``what — what to do``."""
    found = _PRICE.fullmatch(value) if isinstance(value, str) and len(value) <= 40 else None
    if found is None or float(found[1]) <= 0:
        raise ValueError(f"{value!r} is no price of an hour above zero — write it like 2.50/h")
    return float(found[1])


def _share(example: str) -> Any:
    pattern = {"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*%\s*$"}
    return WithJsonSchema({"anyOf": [pattern, {"type": "number", "minimum": 0}], "examples": [example]})


Price = Annotated[
    float, WithJsonSchema({"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*/\s*h\s*$", "examples": ["2.50/h"]})
]
Times = Annotated[
    float,
    WithJsonSchema(
        {"anyOf": [{"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*x\s*$"}, {"type": "number", "minimum": 0}]}
    ),
]


class AdviceSpec(Strict):
    """When speculation is worth adopting; the defaults suit a service that is to become cheaper, not only different."""

    min_speedup: Times = Field(1.05, description='least speedup that is worth its keep, e.g. "1.1x"')
    max_memory_rise: Annotated[float, _share("25%")] = Field(
        0.25, description="most that the peak memory may lie above the reference arm's"
    )
    max_ttft_rise: Annotated[float, _share("25%")] = Field(
        0.25, description="most that the time to the first token may lie above the reference arm's"
    )
    max_batch_loss: Annotated[float, _share("25%")] = Field(
        0.25, description="most of the requests that fit at once (max_batch) that the draft may cost"
    )
    min_gain: Annotated[float, _share("5%")] = Field(
        0.05, description="least gain that another draft length must promise to be recommended"
    )
    price: Price | None = Field(
        None, description='price of an hour of one GPU (or machine), e.g. "2.50/h", in any currency'
    )

    @field_validator("min_speedup", mode="before")
    @classmethod
    def _times(cls, value: object) -> float:
        return units.parse_quantity(value, Unit.RATIO)

    @field_validator("max_memory_rise", "max_ttft_rise", "max_batch_loss", "min_gain", mode="before")
    @classmethod
    def _shares(cls, value: object) -> float:
        share = units.parse_quantity(value, Unit.FRACTION)
        if not 0 <= share <= 10:
            raise ValueError(f"{value!r} is out of range, which is 0 to 1000% — write it like 25%")
        return share

    @field_validator("price", mode="before")
    @classmethod
    def _price(cls, value: object) -> float | None:
        return None if value is None else parse_price(value)
