"""pytest-specgate: gates for speculative decoding.

``run`` is the whole path without pytest; the rest are the values that it yields. Importing the package imports
nothing else: each name loads its module when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_specgate.errors import SpecgateError
    from pytest_specgate.records import Measurement, Outcome, Verdict
    from pytest_specgate.report.document import Report
    from pytest_specgate.runner import run

__version__ = "0.1.0"

__all__ = ["Measurement", "Outcome", "Report", "SpecgateError", "Verdict", "__version__", "run"]

_HOMES = {
    "Measurement": "pytest_specgate.records",
    "Outcome": "pytest_specgate.records",
    "Report": "pytest_specgate.report.document",
    "SpecgateError": "pytest_specgate.errors",
    "Verdict": "pytest_specgate.records",
    "run": "pytest_specgate.runner",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
