"""Data for distillation: the target invents user turns and answers them, in batches.

The target gets its own chat template up to the user header and a few opening words, samples the rest of the turn, then
answers it, greedily or sampled. Every finished batch is appended to the output as JSON lines (``prompt`` and ``answer``
token ids, ``greedy``), so an interrupted run goes on where it stopped.

    python models/distill/selfplay.py --target DIR --out selfplay.jsonl --answer-tokens 1000000
"""

from __future__ import annotations

import argparse
import json
import random
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from openings import OPENINGS
from transformers import AutoModelForCausalLM, AutoTokenizer

USER_TURN_TOKENS = 96


@dataclass(frozen=True)
class Batch:
    """What one call of ``generate`` is asked for."""

    greedy: bool
    temperature: float
    answer_tokens: int


def template_parts(tokenizer) -> tuple[list[int], list[int]]:
    """Token ids before the user's words, and between them and the answer."""
    marker = "SPLITHERE"
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": marker}], tokenize=False, add_generation_prompt=True
    )
    before, after = text.split(marker)
    return tokenizer.encode(before, add_special_tokens=False), tokenizer.encode(after, add_special_tokens=False)


@torch.inference_mode()
def generate(model, rows: list[list[int]], pad: int, batch: Batch, limit: int) -> list[list[int]]:
    """New token ids for each row, up to and including end of turn."""
    width = max(map(len, rows))
    ids = torch.tensor([[pad] * (width - len(row)) + row for row in rows], device=model.device)
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], device=model.device)
    options = (
        {"do_sample": False}
        if batch.greedy
        else {"do_sample": True, "temperature": batch.temperature, "top_k": 0, "top_p": 1.0}
    )
    out = model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=limit, pad_token_id=pad, **options)[
        :, width:
    ]
    return [cut_at(row, model.generation_config.eos_token_id) for row in out.tolist()]


def cut_at(row: list[int], eos: int | list[int]) -> list[int]:
    """The row up to and including its first end-of-turn token."""
    ends = {eos} if isinstance(eos, int) else set(eos)
    for position, token in enumerate(row):
        if token in ends:
            return row[: position + 1]
    return row


def invent_turns(model, tokenizer, size: int, rng: random.Random) -> list[list[int]]:
    """User turns, template included, that the target made up from an opening each; endless ones are dropped."""
    before, after = template_parts(tokenizer)
    starts = [before + tokenizer.encode(rng.choice(OPENINGS), add_special_tokens=False) for _ in range(size)]
    turns = generate(model, starts, tokenizer.eos_token_id, Batch(False, 0.85, 0), USER_TURN_TOKENS)
    eos = tokenizer.eos_token_id
    return [start + turn[:-1] + after for start, turn in zip(starts, turns) if turn[-1] == eos and len(turn) > 1]


def answer(model, tokenizer, prompts: list[list[int]], batch: Batch) -> list[dict]:
    """One record per prompt."""
    replies = generate(model, prompts, tokenizer.eos_token_id, batch, batch.answer_tokens)
    return [{"prompt": p, "answer": a, "greedy": batch.greedy} for p, a in zip(prompts, replies) if a]


def tokens_in(path: Path) -> int:
    """Answer tokens already written; 0 for a file that is not there."""
    if not path.exists():
        return 0
    return sum(len(json.loads(line)["answer"]) for line in path.read_text().splitlines() if line.endswith("}"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, required=True, help="directory of the target model and its tokenizer")
    parser.add_argument("--out", type=Path, required=True, help="JSON lines file to append to")
    parser.add_argument("--answer-tokens", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(args.target)
    model = AutoModelForCausalLM.from_pretrained(args.target, dtype=torch.bfloat16).to(args.device).eval()
    done, started = tokens_in(args.out), time.monotonic()
    rng = random.Random(f"{args.seed}:{done}")
    torch.manual_seed(rng.randrange(2**31))
    first = done
    while done < args.answer_tokens:
        batch = Batch(rng.random() < 0.5, 0.8, rng.choice((96, 160, 224)))
        records = answer(model, tokenizer, invent_turns(model, tokenizer, args.batch, rng), batch)
        with args.out.open("a") as out:
            out.writelines(json.dumps(record) + "\n" for record in records)
        done += sum(len(record["answer"]) for record in records)
        rate = (done - first) / (time.monotonic() - started)
        print(f"{done} of {args.answer_tokens} answer tokens, {rate:.0f}/s", flush=True)


if __name__ == "__main__":
    main()
