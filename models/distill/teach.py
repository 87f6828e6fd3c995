"""The target's own opinion of every token of the self-play data: its 16 likeliest next tokens, one forward per batch.

Soft labels say far more per token than the one that was drawn, so a small corpus goes further. Written as one ``.npz``
beside the corpus: flat arrays over all positions, row offsets, and which positions belong to the answer.

    python models/distill/teach.py --target DIR --out soft.npz self.jsonl [...]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from corpus import Record, bundled_ngrams, read, without_overlap
from transformers import AutoModelForCausalLM, AutoTokenizer

TOP = 16
BATCH_TOKENS = 4096


def batches(records: list[Record]) -> list[list[int]]:
    """Indices grouped by similar length, so that padding is little and a batch's logits stay below half a gigabyte."""
    order = sorted(range(len(records)), key=lambda i: len(records[i].prompt) + len(records[i].answer))
    groups: list[list[int]] = [[]]
    for index in order:
        length = len(records[index].prompt) + len(records[index].answer)
        if groups[-1] and length * (len(groups[-1]) + 1) > BATCH_TOKENS:
            groups.append([])
        groups[-1].append(index)
    return groups


@torch.inference_mode()
def opinions(model, rows: list[tuple[int, ...]]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Per row: top token ids [n, 16] and their log probabilities [n, 16] for the token after each position."""
    width = max(map(len, rows))
    ids = torch.tensor([list(row) + [0] * (width - len(row)) for row in rows], device=model.device)
    hidden = model.model(input_ids=ids).last_hidden_state
    results = []
    for row, states in zip(rows, hidden):
        logits = model.lm_head(states[: len(row)]).float()
        top = torch.topk(logits, TOP, dim=-1)
        log_probs = top.values - torch.logsumexp(logits, dim=-1, keepdim=True)
        results.append((top.indices.to("cpu", torch.int32).numpy().astype(np.uint16), log_probs.half().cpu().numpy()))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--suites", type=Path, default=Path(__file__).parents[2] / "suites" / "prompts")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("corpus", type=Path, nargs="+")
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.target)
    records, dropped = without_overlap(read(args.corpus), bundled_ngrams(args.suites), tokenizer.decode)
    print(f"{len(records)} records, {dropped} dropped for sharing an 8-gram with a bundled prompt", flush=True)
    model = AutoModelForCausalLM.from_pretrained(args.target, dtype=torch.bfloat16).to(args.device).eval()
    taught: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    started, groups = time.monotonic(), batches(records)
    for number, group in enumerate(groups, start=1):
        rows = [records[i].prompt + records[i].answer for i in group]
        taught.update(zip(group, opinions(model, rows)))
        if number % 20 == 0:
            print(f"batch {number} of {len(groups)}, {time.monotonic() - started:.0f} s", flush=True)
    np.savez(
        args.out,
        tokens=np.concatenate([np.array(r.prompt + r.answer, dtype=np.uint16) for r in records]),
        lengths=np.array([len(r.prompt) + len(r.answer) for r in records], dtype=np.int32),
        prompt_lengths=np.array([len(r.prompt) for r in records], dtype=np.int32),
        greedy=np.array([r.greedy for r in records]),
        top_ids=np.concatenate([taught[i][0] for i in range(len(records))]),
        top_log_probs=np.concatenate([taught[i][1] for i in range(len(records))]),
        dropped=np.array(dropped),
    )


if __name__ == "__main__":
    main()
