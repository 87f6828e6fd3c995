"""A suite as a frozen value: what a user may write, with units parsed and defaults filled in.

These models are the single source of the YAML format: parsing, the JSON Schema that editors use, and the
reference in the documentation all come from them. They know nothing about files; positions are kept beside
them by ``suite.load``.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from pytest_specgate.suite.advising import AdviceSpec
from pytest_specgate.suite.arrivals import LoadSpec
from pytest_specgate.suite.demands import GateSpec, Policy, Waiver
from pytest_specgate.suite.matrix import MatrixSpec
from pytest_specgate.suite.measuring import MeasureSpec
from pytest_specgate.suite.prefixes import PrefixSpec
from pytest_specgate.suite.quantities import Chosen, Flag, Name, Strict, Verbatim, Whole
from pytest_specgate.suite.requiring import Requires
from pytest_specgate.suite.sampling import SamplingSpec
from pytest_specgate.suite.setups import Candidate, EngineSpec, Expect, Lossy, Method
from pytest_specgate.suite.tasks import CheckSpec

FORMAT_VERSION = 1

__all__ = [
    "FORMAT_VERSION",
    "AdviceSpec",
    "Candidate",
    "Category",
    "CheckSpec",
    "EngineSpec",
    "Expect",
    "GateSpec",
    "LoadSpec",
    "Lossy",
    "MatrixSpec",
    "MeasureSpec",
    "Method",
    "Policy",
    "PrefixSpec",
    "Prompts",
    "Requires",
    "SamplingSpec",
    "ScenarioSpec",
    "Strict",
    "SuiteSpec",
    "Tier",
    "Waiver",
]


class Tier(str, Enum):
    """How often a suite is meant to run; a run takes its tier and the lower ones."""

    SMOKE = "smoke"
    FULL = "full"
    NIGHTLY = "nightly"


class Category(str, Enum):
    """The kind of task that a scenario stands for."""

    CHAT = "chat"
    QA = "qa"
    SUMMARIZATION = "summarization"
    CODE = "code"
    LONG_FORM = "long-form"
    MATH = "math"
    RAG = "rag"
    TRANSLATION = "translation"


class Prompts(Strict):
    """Which prompts of a file: all, the first ``limit``, or those named."""

    file: str = Field(min_length=1, examples=["prompts/chat.jsonl"])
    limit: Whole | None = Field(None, ge=1)
    only: tuple[str, ...] = ()


class ScenarioSpec(Strict):
    """Prompts and generation parameters at one or more sampling settings and concurrencies."""

    category: Category = Field(examples=["chat"])
    prompts: Prompts = Field(examples=["prompts/chat.jsonl"])
    max_tokens: Whole = Field(64, ge=1)
    sampling: tuple[SamplingSpec, ...] = Field((SamplingSpec(),), min_length=1)
    concurrency: tuple[Annotated[Whole, Field(ge=1)], ...] = Field((1,), min_length=1)
    load: LoadSpec | None = Field(
        None, description="requests by the clock instead of so many at once; servers only (kind openai)"
    )
    prefix: PrefixSpec = Field(
        PrefixSpec(), description="how requests begin: as_is, cold (each in its own way) or shared (all alike)"
    )
    stop: tuple[Verbatim, ...] = ()
    ignore_eos: Flag = Field(
        False, description="generate past the end of text; distorts acceptance and is warned about"
    )
    check: CheckSpec | None = Field(
        None, description="how task_score checks answers; what is right is each prompt's 'answer', or 'reference'"
    )
    engines: tuple[Name, ...] = Field((), description="engines that run this scenario; default: all")
    where: dict[Name, Chosen] = Field(
        default_factory=dict, description="in place of 'engines': those of the matrix with these options, by axis"
    )

    @field_validator("prompts", mode="before")
    @classmethod
    def _prompts(cls, value: object) -> object:
        return {"file": value} if isinstance(value, str) else value

    @field_validator("prefix", mode="before")
    @classmethod
    def _prefix(cls, value: object) -> object:
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_loop(self) -> ScenarioSpec:
        if self.load is not None and "concurrency" in self.model_fields_set:
            raise ValueError("a scenario with 'load' and 'concurrency' — keep one: by the clock, or so many at once")
        return self

    @model_validator(mode="after")
    def _room_for_the_least(self) -> ScenarioSpec:
        least = max(sampling.min_tokens for sampling in self.sampling)
        if least > self.max_tokens:
            raise ValueError(f"min_tokens {least} is above max_tokens {self.max_tokens} — raise max_tokens")
        return self


class SuiteSpec(Strict):
    """A whole suite file."""

    specgate: Literal[1] = Field(description="version of the suite format", examples=[FORMAT_VERSION])
    extends: str | None = Field(None, description="suite file whose keys are the defaults of this one")
    name: Name | None = Field(None, description="default: the file's name without its endings")
    description: str = ""
    tier: Tier = Tier.SMOKE
    requires: Requires = Requires()
    policy: Policy = Policy.GUARD
    engines: dict[Name, EngineSpec] = Field(min_length=1, examples=["{NAME: {target: MODEL}}"])
    matrix: MatrixSpec | None = Field(None, description="further engines, one for every combination of options")
    scenarios: dict[Name, ScenarioSpec] = Field(min_length=1, examples=["{NAME: {category: chat, prompts: FILE}}"])
    measure: MeasureSpec = MeasureSpec()
    advice: AdviceSpec = AdviceSpec()
    gates: tuple[GateSpec, ...] = Field(min_length=1, examples=['[{metric: speedup, limit: ">=1.2x"}]'])

    def scorer_of(self, engine: str) -> EngineSpec | None:
        """The engine that scores this one's texts; None where the suite names none."""
        scorer = self.engines[engine].scorer
        if scorer is None:
            return None
        return scorer.spec() if scorer.engine is None else self.engines[scorer.engine]

    @field_validator("specgate", mode="before")
    @classmethod
    def _format(cls, value: object) -> object:
        if value != FORMAT_VERSION or isinstance(value, (bool, float)):
            raise ValueError(f"unknown suite format — this version reads 'specgate: {FORMAT_VERSION}'")
        return value
