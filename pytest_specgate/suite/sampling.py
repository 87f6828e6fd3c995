"""How a scenario's tokens are chosen: temperature, filters, penalties, biases, and what may not be said.

Names and ranges are those of OpenAI's API and of vLLM. What acts on what, and in which order, stands in
``decoding/processors.py``.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from pytest_specgate.records import Bias, Sampling
from pytest_specgate.suite.quantities import Name, Real, Strict, Whole

TokenId = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,8})$")]
Added = Annotated[Real, Field(ge=-100, le=100)]
Word = Annotated[str, Field(min_length=1)]


class SamplingSpec(Strict):
    """How tokens are drawn."""

    temperature: Real = Field(0.0, ge=0, le=10)
    top_k: Whole = Field(0, ge=0)
    top_p: Real = Field(1.0, gt=0, le=1)
    min_p: Real = Field(0.0, ge=0, le=1, description="keep tokens at least so many times as probable as the best one")
    repetition_penalty: Real | None = Field(
        None,
        gt=0,
        le=10,
        description="divides the scores of what prompt and output hold; default: the checkpoint's own; 1 is off",
    )
    frequency_penalty: Real = Field(
        0.0, ge=-2, le=2, description="subtracted for every time that the output holds a token"
    )
    presence_penalty: Real = Field(
        0.0, ge=-2, le=2, description="subtracted once from the tokens that the output holds"
    )
    logit_bias: dict[TokenId, Added] = Field(
        default_factory=dict, description='added to scores, by token id in quotes: {"1234": -100}'
    )
    min_tokens: Whole = Field(0, ge=0, description="no end-of-text token before so many tokens")
    bad_words: tuple[Word, ...] = Field((), description="texts that may not be completed")
    seed: Whole = Field(0, ge=0)
    name: Name | None = None

    @field_validator("logit_bias", mode="before")
    @classmethod
    def _token_ids(cls, value: object) -> object:
        for key in value if isinstance(value, dict) else ():
            if not (str(key).isascii() and str(key).isdecimal() and str(int(key)) == key and len(key) < 10):
                raise ValueError(f'{key!r} is no token id — write it in digits and quotes, such as "1234": -100')
        return value

    @property
    def value(self) -> Sampling:
        """As requests carry it."""
        biases = sorted((int(token), value) for token, value in self.logit_bias.items())
        return Sampling(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            seed=self.seed,
            name=self.name or "",
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            frequency_penalty=self.frequency_penalty,
            presence_penalty=self.presence_penalty,
            logit_bias=tuple(Bias(token, value) for token, value in biases),
            min_tokens=self.min_tokens,
            bad_words=self.bad_words,
        )
