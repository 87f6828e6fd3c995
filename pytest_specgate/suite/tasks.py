"""A scenario's own check of its answers: which kind, and its settings; what is right stands with each prompt."""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator

from pytest_specgate import units
from pytest_specgate.suite.quantities import Real, Seconds, Strict

KINDS = ("number", "regex", "json_schema", "python_tests")


class NumberCheck(Strict):
    """The last number of the answer is the prompt's, up to ``tolerance``."""

    tolerance: Real = Field(0.0, ge=0)


class RegexCheck(Strict):
    """The prompt's regular expression is found in the answer."""


class SchemaCheck(Strict):
    """The answer is JSON (in a code block or not) that the schema takes, the prompt's own where it has one."""

    definition: dict[str, object] | None = Field(None, alias="schema", description="JSON Schema, draft 2020-12")


class TestsCheck(Strict):
    """The answer's Python code passes the prompt's test code; runs only with --specgate-allow-code."""

    timeout: Seconds = Field(10.0, description='time for one answer, e.g. "10 s"')

    @field_validator("timeout", mode="before")
    @classmethod
    def _timeout(cls, value: object) -> float:
        return units.parse_seconds(value)


class CheckSpec(Strict):
    """Exactly one kind of check."""

    number: NumberCheck | None = None
    regex: RegexCheck | None = None
    json_schema: SchemaCheck | None = None
    python_tests: TestsCheck | None = None

    @model_validator(mode="after")
    def _one(self) -> CheckSpec:
        if len([kind for kind in KINDS if getattr(self, kind) is not None]) != 1:
            kinds = ", ".join(KINDS)
            raise ValueError(f"a check of no kind or of several — write one of: {kinds}, such as 'number: {{}}'")
        return self

    @property
    def kind(self) -> str:
        """Which of :data:`KINDS`."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)
