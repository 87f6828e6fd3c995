"""How a candidate drafts, as a suite would write it; arms are named by it."""

from __future__ import annotations

from dataclasses import dataclass, fields

from pytest_specgate.decoding.drafters.base import Drafter
from pytest_specgate.decoding.drafters.composed import Composed
from pytest_specgate.decoding.drafters.draft_model import DraftModel
from pytest_specgate.decoding.drafters.prompt_lookup import PromptLookup
from pytest_specgate.decoding.length import Length, Paying
from pytest_specgate.decoding.network import Network


@dataclass(frozen=True, slots=True)
class Setting:
    """``num_draft_tokens`` k, and the settings of a draft's length that differ from the default.

    ``how`` is ``draft``, ``lookup``, or ``both``: the draft model proposes where nothing can be copied.
    """

    how: str
    k: int
    min_confidence: float = 0.0
    min_acceptance: float = 0.0
    max_ngram: int = 3
    drafts_per_match: int | None = None
    min_match: int = 1

    def __str__(self) -> str:
        """What is not as it is by default."""
        told = [f"{one.name} {getattr(self, one.name):g}" for one in fields(self)[2:] if self._unusual(one.name)]
        return ", ".join([{"both": "lookup, else draft"}.get(self.how, self.how), f"k={self.k}", *told])

    @property
    def constant(self) -> bool:
        """Whether every draft has k tokens."""
        return self == Setting(self.how, self.k)

    def _unusual(self, name: str) -> bool:
        return getattr(self, name) != getattr(Setting(self.how, self.k), name)

    def drafter(self, small: Network) -> Drafter:
        """What proposes, with the ``small`` network if it takes one."""
        lookup = PromptLookup(self.max_ngram, per_match=self.drafts_per_match, least=self.min_match)
        if self.how == "lookup":
            return lookup
        draft = DraftModel(small, self.min_confidence)
        return Composed(lookup, draft) if self.how == "both" else draft

    def length(self) -> Length | None:
        """What else bounds a draft."""
        return Paying(self.k, self.min_acceptance) if self.min_acceptance else None
