"""What a person chose for a run, whether by pytest's options, a command's arguments or a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pytest_specgate.measure.budget import TimeBudget


def _silent(_: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Settings:
    """What a person chose. ``update_only`` is ``new``, ``failed`` or None; ``time`` is for all cases of the run.

    ``update_sessions`` is how many processes record a baseline, the first being this one; ``accept_loss`` lets an
    update store a loss that its gates do not allow.
    """

    baselines: Path
    update: bool = False
    update_only: str | None = None
    update_sessions: int = 1
    accept_loss: bool = False
    device: str | None = None
    time: TimeBudget | None = None
    strict: bool = False
    allow_remote_code: bool = False
    allow_pickle: bool = False
    allow_code: bool = False
    progress: Callable[[str], None] = _silent
