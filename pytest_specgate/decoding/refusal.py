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
    """The target's scores are no finite numbers where the ``token``-th output token of job ``job`` was chosen."""

    def __init__(self, job: int, token: int) -> None:
        what = f"the target's logits at output token {token} are not finite numbers"
        super().__init__(what, "look at the target's weights and dtype: float16 overflows at 65504")
        self.job = job
