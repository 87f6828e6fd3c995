"""Every error that pytest-specgate raises on purpose, in one tree, factored out so that no import loops.

    SpecgateError
    ├── LocatedError            something in a file is wrong: path, line, column, what, hint
    │   ├── SuiteError          a suite file
    │   ├── PromptError         a prompt file
    │   └── BaselineError       a baseline file
    ├── EngineError             an engine cannot start, or cannot do what the case asks for
    │   ├── Unsupported         a request asks for what the engine cannot do at all
    │   ├── Ended               a server that the engine runs in ended by itself
    │   ├── TurnedAway          a server refuses requests because it is busy
    │   ├── MissingPackage      a package that the engine needs is not installed
    │   └── OutOfMemory         the device or the host ran out of memory
    ├── InvalidTrace            an engine's own counters contradict themselves
    └── StoreError              a report or baseline could not be read or written as a whole

Every text reads ``where: what — what to do``; the class says who is at fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class SpecgateError(Exception):
    """Base of all deliberate errors; its text is one line that a user can act on."""


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a text file; ``line`` and ``column`` count from 1, and 0 means "the file as a whole"."""

    path: Path
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """``path:line:column``, shortened to what is known."""
        parts = [str(self.path)]
        if self.line:
            parts.append(str(self.line))
            if self.column:
                parts.append(str(self.column))
        return ":".join(parts)


class LocatedError(SpecgateError):
    """A mistake at a place in a file: ``path:line:column: what — hint``."""

    def __init__(self, location: Location, what: str, hint: str) -> None:
        super().__init__(f"{location}: {what} — {hint}")
        self.location = location
        self.what = what
        self.hint = hint


class SuiteError(LocatedError):
    """A suite file that cannot be understood as it stands."""


class PromptError(LocatedError):
    """A prompt file that cannot be understood as it stands."""


class BaselineError(LocatedError):
    """A baseline file that is broken, of another schema version, or does not hold what is asked of it."""


class OutdatedBaseline(BaselineError):
    """A baseline file of an older schema: nothing in it can be compared with, and an update replaces it."""


class EngineError(SpecgateError):
    """An engine cannot start, or cannot do what the case asks for."""

    def __init__(self, engine: str, what: str, hint: str) -> None:
        super().__init__(f"{engine}: {what} — {hint}")
        self.engine = engine
        self.what = what
        self.hint = hint


class Unsupported(EngineError):
    """A request asks for what this engine cannot do at all, whatever the model: refused rather than ignored."""


class Ended(EngineError):
    """A server that the engine runs in ended by itself; the text has its last words."""


class TurnedAway(EngineError):
    """A server refuses requests because it is busy (429, 503), after every wait that it asked for."""


class MissingPackage(EngineError):
    """A package that the engine needs is not installed; the hint is the command that installs it."""


class OutOfMemory(EngineError):
    """The device or the host ran out of memory during a case; the next case starts clean."""


class AlreadyStored(SpecgateError):
    """A case that an update of what is missing need not measure."""


class InvalidTrace(SpecgateError):
    """A trace that breaks an identity of :func:`pytest_specgate.identities.trace_problems`."""


class StoreError(SpecgateError):
    """A file of ours (report, baseline) could not be read or written as a whole."""
