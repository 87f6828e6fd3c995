"""A run's numbers for trackers that people have already: MLflow, Weights & Biases, OpenTelemetry.

Each tracker is a module of its own that knows its client and nothing else, with one function ``export(run, files)``;
where it sends to is the client's own business, by its own environment variables. None is imported unless it was named.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pytest_specgate.errors import SpecgateError
from pytest_specgate.history.record import RunLine

#: Trackers by the name that the option takes: (our module, the package that it needs).
TRACKERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "mlflow": ("pytest_specgate.interop.mlflow", "mlflow"),
        "wandb": ("pytest_specgate.interop.wandb", "wandb"),
        "otel": ("pytest_specgate.interop.otel", "opentelemetry.sdk"),
    }
)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of one case."""

    suite: str
    case: str
    place: str
    metric: str
    value: float


def figures(run: RunLine) -> Iterator[Figure]:
    """Every number of the run, in base units."""
    for case in run.cases:
        for metric, value in case.values.items():
            yield Figure(case.suite, case.case, case.place.slug, metric, value)


def outcomes(run: RunLine) -> Mapping[str, int]:
    """How many gates came to what."""
    found: dict[str, int] = {}
    for case in run.cases:
        for outcome in case.outcomes.values():
            found[outcome.value] = found.get(outcome.value, 0) + 1
    return found


def tags(run: RunLine) -> dict[str, str]:
    """What a tracker files the run under; what is not known is left out."""
    source = run.source
    known = {
        "specgate.version": run.version,
        "specgate.commit": source.commit,
        "specgate.branch": source.branch,
        "specgate.link": source.link,
        "specgate.exit_status": str(run.exit_status),
    }
    return {name: value for name, value in known.items() if value}


def missing(name: str) -> str | None:
    """The package that the tracker needs and that is not installed, or None."""
    package = TRACKERS[name][1]
    try:
        found = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        found = None
    return None if found is not None else package.partition(".")[0]


def export(name: str, run: RunLine, files: Sequence[Path]) -> None:
    """Send the run, and its reports where the tracker keeps files. Raises SpecgateError with the client's words."""
    module = importlib.import_module(TRACKERS[name][0])
    try:
        module.export(run, files)
    except SpecgateError:
        raise
    except Exception as error:  # a client may raise anything, and none of it changes a verdict
        what = f"{name}: the run was not exported ({type(error).__name__}: {error})"
        raise SpecgateError(f"{what} — look at the tracker's own settings") from error
