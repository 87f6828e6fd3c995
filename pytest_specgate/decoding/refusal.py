"""What this decoder refuses: one sentence, and what to do about it."""

from __future__ import annotations

from pytest_specgate.errors import SpecgateError


class Refusal(SpecgateError):
    """A model, a pair or a request that the decoder cannot run; raised before anything is timed."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what} — {hint}")
        self.what = what
        self.hint = hint
