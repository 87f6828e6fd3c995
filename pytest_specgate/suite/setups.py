"""What a suite says of an engine: its target, how the candidate arm drafts, and where both run."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from pydantic import Field, field_validator, model_validator

from pytest_specgate.suite.quantities import Flag, Name, Real, Strict, Whole
from pytest_specgate.suite.requiring import Requires
from pytest_specgate.suite.servers import ServerSpec


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
    draft: str | None = Field(None, description="draft model: Hub id, local directory, GGUF file or pkg:// reference")
    num_draft_tokens: Whole = Field(
        4, ge=1, le=128, description="tokens drafted per round, kept constant unless a setting below says otherwise"
    )
    min_confidence: Real | None = Field(
        None,
        gt=0,
        lt=1,
        description="kind native, draft_model and early_exit: a draft ends where the draft model holds it less likely "
        "than this that all of it is kept; num_draft_tokens is then the most",
        examples=[0.2],
    )
    min_acceptance: Real | None = Field(
        None,
        gt=0,
        le=1,
        description="kind native: a request of whose last 16 tested tokens a smaller share was kept drafts nothing for "
        "16 rounds",
        examples=[0.3],
    )
    drafts_per_match: Whole | None = Field(
        None,
        ge=1,
        le=128,
        description="kind native, prompt_lookup: tokens drafted for each one that agrees with the text's end, up to "
        "num_draft_tokens; default: always num_draft_tokens",
        examples=[2],
    )
    min_match: Whole | None = Field(
        None,
        ge=1,
        le=128,
        description="kind native, prompt_lookup: nothing is copied where fewer tokens agree with the text's end",
        examples=[2],
    )
    max_ngram: Whole = Field(3, ge=1, le=16, description="prompt_lookup: longest n-gram that is looked up")
    exit_layer: Whole | None = Field(None, ge=1, description="early_exit: layer after which the draft is read")
    acceptance: Real | None = Field(
        None,
        ge=0,
        le=1,
        description="synthetic: share of tested draft tokens that is kept, right or not; judge speed and memory alone",
    )
    dtype: str | None = Field(None, description="dtype of the draft where it differs from the target's")
    allow_mixed_precision: Flag = Field(False, description="permit a draft in another precision than the target")
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
        self._shortened()
        if self.draft and not needs_draft and self.method is not Method.SYNTHETIC:
            raise ValueError(
                f"method {self.method.value} takes no draft model — remove 'draft' or use method: draft_model"
            )
        if self.dtype and not self.draft:
            raise ValueError(f"method {self.method.value} has no draft of a dtype of its own — remove 'dtype'")
        if self.method is Method.EARLY_EXIT and self.exit_layer is None:
            raise ValueError("method early_exit needs 'exit_layer' — give the layer at which the draft is read")
        return self

    def _forced(self) -> None:
        if self.method is Method.SYNTHETIC and self.acceptance is None:
            raise ValueError("method synthetic forces an acceptance — add 'acceptance: 0.7'")
        if self.acceptance is not None and self.method is not Method.SYNTHETIC:
            raise ValueError(
                f"method {self.method.value} is accepted as the target finds — "
                "remove 'acceptance' or use method: synthetic"
            )

    def _shortened(self) -> None:
        """Settings of the draft's length that this method has no use for."""
        if self.min_confidence is not None and self.method not in (Method.DRAFT_MODEL, Method.EARLY_EXIT):
            raise ValueError(
                f"method {self.method.value} is never unsure — "
                "remove 'min_confidence' or use method: draft_model or early_exit"
            )
        copies = self.method is Method.PROMPT_LOOKUP or self.options.get("lookup_first")
        for name in ("drafts_per_match", "min_match"):
            if getattr(self, name) is not None and not copies:
                raise ValueError(
                    f"method {self.method.value} copies nothing — remove '{name}' or use method: prompt_lookup"
                )


#: Settings of a candidate that change the draft's length from round to round.
_LENGTHS = ("min_confidence", "min_acceptance", "drafts_per_match", "min_match")


class ScorerSpec(Strict):
    """What scores a server's texts in specgate's own process: another engine of the suite, or one described here.

    ``candidate`` is what drafts, for the chances of drafts alone; a server's text is teacher-forced through the target.
    """

    engine: Name | None = Field(None, description="an engine of this suite with the same target", examples=["local"])
    kind: Literal["native", "transformers"] = "transformers"
    target: str | None = Field(
        None, description="the servers' own target: Hub id, local directory, GGUF file or pkg://"
    )
    candidate: Candidate | None = Field(None, description="how the candidate server drafts; for distribution_fit")
    device: str = "auto"
    dtype: Literal["auto", "float32", "float16", "bfloat16", "float64"] = "auto"
    attention: str = "auto"
    threads: Whole | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _one_of_two(self) -> ScorerSpec:
        if (self.engine is None) == (self.target is None):
            raise ValueError("a scorer is an engine of this suite, or has a 'target' — give one of the two")
        if self.engine is not None and (idle := sorted(self.model_fields_set - {"engine"})):
            raise ValueError(f"the scorer takes {idle[0]!r} from engine {self.engine!r} — remove it here")
        return self

    def spec(self) -> EngineSpec:
        """The engine that scores, as if the suite had it."""
        return EngineSpec(**self.model_dump(exclude={"engine", "kind"}, exclude_unset=True), kind=self.kind)


class Expect(Strict):
    """What is known of an engine beforehand: that it is refused, which its gates then demand."""

    refused: str = Field(
        min_length=3,
        description="part of what the refusal says; another refusal fails the gates, and so does an engine that runs",
        examples=["cannot be rolled back"],
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
    graphs: bool = Field(
        False, description="kind native on a GPU: record forwards as CUDA graphs, by shape, and replay them"
    )
    server: ServerSpec | None = Field(None, description="kind openai: the two servers, and how they are asked")
    scorer: ScorerSpec | None = Field(
        None, description="kind openai: what scores the servers' texts, by name or described; else the server itself"
    )
    options: dict[str, object] = Field(default_factory=dict, description="keyword arguments for a user's own adapter")
    requires: Requires = Field(
        Requires(), description="what the machine must have for this engine; elsewhere its gates are skipped"
    )
    expect: Expect | None = Field(None, description="that the engine is refused, and with which reason")

    @field_validator("scorer", mode="before")
    @classmethod
    def _by_name(cls, value: object) -> object:
        return {"engine": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _recorded(self) -> EngineSpec:
        if self.graphs and self.kind != "native":
            raise ValueError(f"kind {self.kind} records no graphs — remove 'graphs' or write kind: native")
        return self

    @model_validator(mode="after")
    def _constant(self) -> EngineSpec:
        if self.candidate is None or self.kind == "native" or ":" in self.kind:
            return self
        if asked := [name for name in _LENGTHS if getattr(self.candidate, name) is not None]:
            raise ValueError(f"kind {self.kind} keeps drafts at one length — remove {asked[0]!r} or use kind: native")
        return self

    @model_validator(mode="after")
    def _served(self) -> EngineSpec:
        if self.kind != "openai":
            if self.server is not None:
                raise ValueError("'server' is for servers behind HTTP — add 'kind: openai', or remove it")
            if self.scorer is not None:
                raise ValueError("'scorer' judges the texts of servers — add 'kind: openai', or remove it")
            return self
        if self.server is None:
            needed = "'server: {model: ..., reference: {url: ...}, candidate: {url: ...}}'"
            raise ValueError(f"kind openai needs 'server' — add {needed}")
        if idle := sorted(self.model_fields_set - {"kind", "server", "scorer", "requires", "expect"}):
            raise ValueError(f"kind openai takes no {idle[0]!r} — remove it: a server is started with its own settings")
        return self
