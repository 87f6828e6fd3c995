"""One fault of the public corpus, and how it is rebuilt."""

from __future__ import annotations

from dataclasses import dataclass

from tests.faults.parts import OWN, Parts
from tests.faults.settings import PLAIN, Setting


@dataclass(frozen=True, slots=True)
class Entry:
    """``broken`` says in one line what is; ``gates`` are those of which one at least has to turn red.

    ``right`` is the decoder without the fault, by ``right_name`` for the baselines that entries share.
    ``wrong_setting`` is what the faulty side is asked where that differs; ``rule`` is the environment rule that catches
    it; gates of ``green`` have to stay so. An entry without ``gates`` is no fault, and no gate may turn red. ``pardon``
    is the setting that says so of a decoder which is red by right: there, it is green; of an ``updated`` one so is the
    next build after an update. ``note`` says what the miniature leaves out.
    """

    id: str
    title: str
    broken: str
    gates: tuple[str, ...]
    wrong: Parts
    setting: Setting = PLAIN
    right: Parts = OWN
    right_name: str = "own"
    wrong_setting: Setting | None = None
    rule: str = ""
    green: tuple[str, ...] = ()
    pardon: Setting | None = None
    updated: bool = False
    note: str = ""
