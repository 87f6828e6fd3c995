"""MLflow: a run with a metric for each case and number, tags for the commit, and the reports as artifacts.

Where to: MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME, as for any MLflow client.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pytest_specgate.history.record import RunLine
from pytest_specgate.interop import figures, outcomes, tags

_REFUSED = re.compile(r"[^\w./ -]+")  # what no version of MLflow takes in a metric's name


def export(run: RunLine, files: Sequence[Path]) -> None:
    """Log the run as one MLflow run."""
    import mlflow

    name = run.source.commit[:12] or run.created
    metrics = {_name(f"{one.case}/{one.metric}"): one.value for one in figures(run)}
    metrics |= {f"gates/{outcome}": float(count) for outcome, count in outcomes(run).items()}
    with mlflow.start_run(run_name=name, tags=tags(run)):
        mlflow.log_metrics(metrics)
        for path in files:
            mlflow.log_artifact(str(path))


def _name(text: str) -> str:
    return _REFUSED.sub(".", text)
