"""Weights & Biases: a run with every number in its history and summary, and the commit in its configuration.

Where to: WANDB_PROJECT (default: specgate), WANDB_ENTITY, WANDB_MODE, as for any client. Reports stay here: a page or a
JSON file may hold prompts and texts, which leave a machine only where somebody sends them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pytest_specgate.history.record import RunLine
from pytest_specgate.interop import figures, outcomes, tags


def export(run: RunLine, files: Sequence[Path]) -> None:  # noqa: ARG001 - every tracker is asked alike
    """Log the run as one W&B run."""
    import wandb

    project = os.environ.get("WANDB_PROJECT", "specgate")
    started = wandb.init(project=project, name=run.source.commit[:12] or None, config=tags(run), job_type="specgate")
    try:
        numbers = {f"{one.case}/{one.metric}": one.value for one in figures(run)}
        started.log({**numbers, **{f"gates/{outcome}": count for outcome, count in outcomes(run).items()}})
    finally:
        started.finish(exit_code=run.exit_status)
