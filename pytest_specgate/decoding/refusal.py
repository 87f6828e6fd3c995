"""What this decoder refuses: one sentence, and what to do about it."""

from __future__ import annotations

from pytest_specgate.errors import SpecgateError


class Refusal(SpecgateError):
    """A model, a pair or a request that the decoder cannot run; all but :class:`NotFinite` before anything is timed."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what} — {hint}")
        self.what = what
        self.hint = hint


class NotFinite(Refusal):
    """Scores are no finite numbers where the ``token``-th output token of job ``job`` was chosen, or drafted.

    ``whose`` they are: the target's or the draft's.
    """

    def __init__(self, job: int, token: int, whose: str = "target") -> None:
        what = f"the {whose}'s logits at output token {token} are not finite numbers"
        super().__init__(what, f"look at the {whose}'s weights and dtype: float16 overflows at 65504")
        self.job = job
        self.whose = whose
