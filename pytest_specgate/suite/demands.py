"""What a suite demands of a metric: limits, allowed changes, waivers."""

from __future__ import annotations

import datetime as dt
import re
from enum import Enum
from typing import Literal

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from pytest_specgate import units
from pytest_specgate.metrics import METRICS, Family, Metric
from pytest_specgate.suite.quantities import Allowance, Chosen, Flag, Limit, MetricName, Name, Strict


class Policy(str, Enum):
    """What an undecided gate does to the build: nothing (guard), or fail it (prove)."""

    GUARD = "guard"
    PROVE = "prove"


class Waiver(Strict):
    """A failure that is known and accepted until a date."""

    reason: str = Field(min_length=3, examples=["known: https://..."])
    until: dt.date = Field(examples=["2030-01-31"], description="last day on which the failure is accepted")

    @field_validator("until", mode="before")
    @classmethod
    def _until(cls, value: object) -> dt.date:
        if isinstance(value, dt.date):
            return value
        # Strictly this form: pydantic would also take seconds since 1970.
        if isinstance(value, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value.strip()):
            try:
                return dt.date.fromisoformat(value.strip())
            except ValueError as error:
                raise ValueError(
                    f"{value!r} is no day of the calendar — write year-month-day, such as 2030-01-31"
                ) from error
        raise ValueError(f"{value!r} is no date — write year-month-day, such as 2030-01-31")


class GateSpec(Strict):
    """One metric and what is demanded of it: a limit, an allowed change from the stored baseline, or both."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": [key]} for key in ("limit", "max_drop", "max_rise")]}
    )

    metric: MetricName = Field(examples=["speedup"])
    limit: Limit | None = Field(None, description='">=1.3x", "<=6 GiB", "1.0x..1.6x"')
    max_drop: Allowance | None = Field(None, description='"5%", "0.05", "5% + 64 MiB"')
    max_rise: Allowance | None = Field(None, description="as max_drop, upwards")
    statistic: Literal["mean", "median", "p90", "p95", "p99"] = Field(
        "median", description="latency metrics: what is judged"
    )
    engines: tuple[Name, ...] = ()
    scenarios: tuple[Name, ...] = ()
    where: dict[Name, Chosen] = Field(
        default_factory=dict, description="in place of 'engines': those of the matrix with these options, by axis"
    )
    policy: Policy | None = None
    on_fail: Literal["fail", "warn"] = "fail"
    waive: Waiver | None = None
    embedding: str | None = Field(
        None, min_length=1, description="semantic_similarity: a sentence-transformers model; default: wordllama"
    )
    population: Flag = Field(False, description='judge "prompts like these" instead of "these prompts"')

    @field_validator("metric")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in METRICS:
            raise ValueError(
                f"unknown metric {value!r}{units.did_you_mean(value, METRICS)} — choose one of: {', '.join(METRICS)}"
            )
        return value

    @field_validator("limit", "max_drop", "max_rise", mode="before")
    @classmethod
    def _parse(cls, value: object, info: ValidationInfo) -> object:
        metric = METRICS.get(info.data.get("metric", ""))
        if value is None or metric is None:  # an unknown metric has been told already, and its unit with it
            return None
        parse = units.parse_limit if info.field_name == "limit" else units.parse_allowance
        return parse(value, metric.unit)

    @model_validator(mode="after")
    def _demands_something(self) -> GateSpec:
        if self.limit is None and self.max_drop is None and self.max_rise is None:
            raise ValueError("a gate without a demand — give limit, max_drop or max_rise")
        if self.statistic != "median" and self.info.family is not Family.LATENCY:
            raise ValueError(
                f"{self.metric} has no statistic {self.statistic!r} — remove 'statistic'; it is for latency metrics"
            )
        whole = self.limit is not None and self.limit.low == self.limit.high == 1
        exact = self.info.family in (Family.EXACTNESS, Family.DISTRIBUTION, Family.REQUESTS)
        if exact and (self.compares or not whole):
            raise ValueError(
                f"{self.metric} is all or nothing, and compares with no baseline — "
                'write limit: "==100%" and neither max_drop nor max_rise'
            )
        if self.embedding and self.metric != "semantic_similarity":
            raise ValueError(f"{self.metric} embeds nothing — remove 'embedding'; it is for semantic_similarity")
        if self.info.family is Family.TASK and (self.limit is not None or self.max_rise is not None):
            raise ValueError(f"{self.metric} compares the candidate arm with the reference arm — write max_drop alone")
        if self.info.family is Family.REQUESTS and self.scenarios:
            raise ValueError(f"{self.metric} makes up its own requests — remove 'scenarios'")
        return self

    @property
    def info(self) -> Metric:
        """The metric's definition, unit and direction."""
        return METRICS[self.metric]

    @property
    def label(self) -> str:
        """``speedup``, or ``ttft.p95`` for another statistic than the median."""
        return self.metric if self.statistic == "median" else f"{self.metric}.{self.statistic}"

    @property
    def compares(self) -> bool:
        """Whether judging needs a stored baseline."""
        if self.info.family is Family.TASK:  # with the other arm of the same run
            return False
        return self.max_drop is not None or self.max_rise is not None
