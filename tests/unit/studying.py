"""What tests of studies share: the command on ``demo.specgate.yaml``, and what it kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_specgate.__main__ import main

DROP = {"metric": "speedup", "max_drop": "5%"}
ACCEPTANCE = {"metric": "conditional_acceptance", "max_drop": "0.01"}
MATCH = {"metric": "exact_match", "limit": "==100%"}
FOUR = {"rounds": 4}
PLANTS = "delay=15%, acceptance=0.05, memory=64MiB, leak=1MiB, sampler=0.1"


def study(*arguments: str, builds: int = 3) -> int:
    return main(["study", "demo.specgate.yaml", "--builds", str(builds), "--out", "out", *arguments])


def built(folder: str = "out") -> list[dict[str, Any]]:
    """The builds as they were kept, without their times."""
    lines = Path(folder, "builds.jsonl").read_text(encoding="utf-8").splitlines()
    builds = [json.loads(line) for line in lines]
    for build in builds:
        build["started"] = build["seconds"] = None
        for case in build["cases"]:
            case["seconds"] = None
    return builds


def share(rate: dict[str, int]) -> tuple[int, int]:
    return rate["hits"], rate["trials"]


def counts(path: str = "figures.json") -> dict[str, dict[str, tuple[int, int]]]:
    """Failures of trials by plant and gate."""
    kinds = json.loads(Path(path).read_text(encoding="utf-8"))["kinds"]
    return {
        kind["planted"]: {
            **{gate["gate"]: share(gate["fail"]) for gate in [kind["whole"], *kind["gates"]]},
            "naive": share(kind["naive"]),
        }
        for kind in kinds
    }
