"""A suite as a frozen value: what a user may write, with units parsed and defaults filled in.

These models are the single source of the YAML format: parsing, the JSON Schema that editors use, and the
reference in the documentation all come from them. They know nothing about files; positions are kept beside
them by ``suite.load``.
"""

from __future__ import annotations

import datetime as dt
import re
from enum import Enum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from pytest_specgate import units
from pytest_specgate.metrics import METRICS, Family, Metric
from pytest_specgate.suite.advising import AdviceSpec
from pytest_specgate.suite.arrivals import LoadSpec
from pytest_specgate.suite.measuring import MeasureSpec
from pytest_specgate.suite.quantities import (
    Allowance,
    Bytes,
    Flag,
    Limit,
    MetricName,
    Name,
    Packages,
    Real,
    Strict,
    Whole,
)
from pytest_specgate.suite.sampling import SamplingSpec
from pytest_specgate.suite.servers import ServerSpec
from pytest_specgate.suite.tasks import CheckSpec

FORMAT_VERSION = 1


class Tier(str, Enum):
    """How often a suite is meant to run; a run takes its tier and the lower ones."""

    SMOKE = "smoke"
    FULL = "full"
    NIGHTLY = "nightly"


class Policy(str, Enum):
    """What an undecided gate does to the build: nothing (guard), or fail it (prove)."""

    GUARD = "guard"
    PROVE = "prove"


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


class Requires(Strict):
    """What a machine must have; where it has not, the suite is skipped with the reason."""

    device: Literal["cpu", "cuda", "mps"] | None = None
    memory: Bytes | None = Field(
        None, description='free memory of the device (of the host on a CPU), e.g. "40 GiB"'
    )
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


class Method(str, Enum):
    """How the candidate arm drafts."""

    DRAFT_MODEL = "draft_model"
    PROMPT_LOOKUP = "prompt_lookup"
    EARLY_EXIT = "early_exit"
    UNIVERSAL = "universal"
    MTP = "mtp"
    DFLASH = "dflash"
    SYNTHETIC = "synthetic"


class Lossy(Strict):
    """A method that does not keep the target's distribution, and says so."""

    max_tv: Real = Field(
        gt=0,
        le=0.5,
        description="largest total variation distance from the target, as a mean over tokens",
        examples=[0.05],
    )


class Candidate(Strict):
    """The speculative arm: a drafting method and its parameters."""

    method: Method = Field(examples=["draft_model"])
    draft: str | None = Field(
        None, description="draft model: Hub id, local directory, GGUF file or pkg:// reference"
    )
    num_draft_tokens: Whole = Field(4, ge=1, le=128, description="tokens drafted per round, kept constant")
    max_ngram: Whole = Field(3, ge=1, le=16, description="prompt_lookup: longest n-gram that is looked up")
    exit_layer: Whole | None = Field(
        None, ge=1, description="early_exit: layer after which the draft is read"
    )
    acceptance: Real | None = Field(
        None,
        ge=0,
        le=1,
        description="synthetic: share of tested draft tokens that is kept, right or not; judge speed and memory alone",
    )
    dtype: str | None = Field(None, description="dtype of the draft where it differs from the target's")
    allow_mixed_precision: Flag = Field(
        False, description="permit a draft in another precision than the target"
    )
    lossy: Lossy | None = Field(
        None, description="declare a method that is not exact: gates of exactness then judge the size of its effect"
    )
    options: dict[str, object] = Field(
        default_factory=dict, description="further settings of the method, passed through"
    )

    @model_validator(mode="after")
    def _complete(self) -> Candidate:
        needs_draft = self.method in (Method.DRAFT_MODEL, Method.UNIVERSAL, Method.DFLASH)
        if needs_draft and not self.draft:
            raise ValueError(f"method {self.method.value} needs a draft model — add 'draft: PATH or Hub id'")
        self._forced()
        if self.draft and not needs_draft and self.method is not Method.SYNTHETIC:
            raise ValueError(
                f"method {self.method.value} takes no draft model — remove 'draft' or use method: draft_model"
            )
        if self.dtype and not self.draft:
            raise ValueError(f"method {self.method.value} has no draft of a dtype of its own — remove 'dtype'")
        if self.method is Method.EARLY_EXIT and self.exit_layer is None:
            raise ValueError(
                "method early_exit needs 'exit_layer' — give the layer at which the draft is read"
            )
        return self

    def _forced(self) -> None:
        if self.method is Method.SYNTHETIC and self.acceptance is None:
            raise ValueError("method synthetic forces an acceptance — add 'acceptance: 0.7'")
        if self.acceptance is not None and self.method is not Method.SYNTHETIC:
            raise ValueError(
                f"method {self.method.value} is accepted as the target finds — "
                "remove 'acceptance' or use method: synthetic"
            )


class EngineSpec(Strict):
    """A set-up of target and candidate: which adapter runs it, and with what."""

    kind: str = Field(
        "transformers", description='adapter: transformers, native, openai, scripted, or "package.module:Class"'
    )
    target: str | None = Field(
        None,
        description="target model: Hub id, local directory, GGUF file, pkg:// reference, shape:// for random weights",
    )
    candidate: Candidate | None = None
    device: str = Field("auto", description="auto, cpu, cuda, cuda:1, mps")
    dtype: Literal["auto", "float32", "float16", "bfloat16", "float64"] = "auto"
    attention: str = Field("auto", description="attention implementation as transformers names it")
    quantization: dict[str, object] = Field(
        default_factory=dict, description="quantization settings as transformers takes them"
    )
    threads: Whole | None = Field(
        None, ge=1, description="CPU threads of both arms; default: all cores that the process may use"
    )
    server: ServerSpec | None = Field(None, description="kind openai: the two servers, and how they are asked")
    options: dict[str, object] = Field(
        default_factory=dict, description="keyword arguments for a user's own adapter"
    )

    @model_validator(mode="after")
    def _served(self) -> EngineSpec:
        if self.kind != "openai":
            if self.server is not None:
                raise ValueError("'server' is for servers behind HTTP — add 'kind: openai', or remove it")
            return self
        if self.server is None:
            needed = "'server: {model: ..., reference: {url: ...}, candidate: {url: ...}}'"
            raise ValueError(f"kind openai needs 'server' — add {needed}")
        if idle := sorted(self.model_fields_set - {"kind", "server"}):
            raise ValueError(f"kind openai takes no {idle[0]!r} — remove it: a server is started with its own settings")
        return self


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
    stop: tuple[str, ...] = ()
    ignore_eos: Flag = Field(
        False, description="generate past the end of text; distorts acceptance and is warned about"
    )
    check: CheckSpec | None = Field(
        None, description="how task_score checks answers; what is right is each prompt's 'answer', or 'reference'"
    )
    engines: tuple[Name, ...] = Field((), description="engines that run this scenario; default: all")

    @field_validator("prompts", mode="before")
    @classmethod
    def _prompts(cls, value: object) -> object:
        return {"file": value} if isinstance(value, str) else value

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
                f"unknown metric {value!r}{units.did_you_mean(value, METRICS)} — "
                f"choose one of: {', '.join(METRICS)}"
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
                f"{self.metric} has no statistic {self.statistic!r} — "
                "remove 'statistic'; it is for latency metrics"
            )
        whole = self.limit is not None and self.limit.low == self.limit.high == 1
        exact = self.info.family in (Family.EXACTNESS, Family.DISTRIBUTION, Family.REQUESTS)
        if exact and (self.compares or not whole):
            raise ValueError(
                f"{self.metric} is all or nothing, and compares with no baseline — "
                "write limit: \"==100%\" and neither max_drop nor max_rise"
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
    scenarios: dict[Name, ScenarioSpec] = Field(
        min_length=1, examples=["{NAME: {category: chat, prompts: FILE}}"]
    )
    measure: MeasureSpec = MeasureSpec()
    advice: AdviceSpec = AdviceSpec()
    gates: tuple[GateSpec, ...] = Field(min_length=1, examples=['[{metric: speedup, limit: ">=1.2x"}]'])

    @field_validator("specgate", mode="before")
    @classmethod
    def _format(cls, value: object) -> object:
        if value != FORMAT_VERSION or isinstance(value, (bool, float)):
            raise ValueError(f"unknown suite format — this version reads 'specgate: {FORMAT_VERSION}'")
        return value
