"""How good a draft is: greedy conditional acceptance per category of the bundled prompts, and what a forward costs.

The target answers every turn of every prompt once, greedily; the answers are kept in ``--answers`` for further drafts.
A draft then speculates against these texts. As long as its tokens are right its context is the text itself, so what it
would have drafted can be read off one forward over the whole text: the runs of places where its first choice is the
text's token.

    python models/distill/evaluate.py --draft models/smollm2-draft --k 4
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch
from target import folder_of
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

PROMPTS = Path(__file__).parents[2] / "suites" / "prompts"
BATCH = 8
#: The others' first messages once more, and a few characters for models of random weights.
LEFT_OUT = {"crowd", "letters"}


@dataclass(frozen=True)
class Answer:
    """Token ids of one turn: everything before the answer, and the target's own greedy answer."""

    category: str
    prompt: tuple[int, ...]
    answer: tuple[int, ...]


@dataclass(frozen=True)
class Count:
    """Drafted tokens that the target looked at, and those it took."""

    accepted: int = 0
    tested: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.accepted + other.accepted, self.tested + other.tested)

    def __str__(self) -> str:
        share = f"{self.accepted / self.tested:.3f}" if self.tested else "-"
        return f"{share} ({self.accepted} of {self.tested})"


def speculate(right: Sequence[bool], k: int) -> Count:
    """Play rounds of ``k`` drafted tokens over a text; ``right`` says of each of its tokens whether the draft has it.

    A round tests tokens up to the first wrong one; the target's token then stands in its place and the next round
    begins behind it. Tokens drafted beyond the end of the text are not tested.
    """
    count, place = Count(), 0
    while place < len(right):
        drafted = right[place : place + k]
        accepted = next((i for i, good in enumerate(drafted) if not good), len(drafted))
        count += Count(accepted, min(accepted + 1, len(drafted)))
        place += accepted + 1
    return count


@dataclass
class Talk:
    """A bundled prompt and the conversation so far."""

    category: str
    messages: list[dict[str, str]]
    turns: list[str]


def talks(folder: Path, limit: int) -> list[Talk]:
    """The first ``limit`` prompts of every category, nothing said yet."""
    found = []
    for file in sorted(folder.glob("*.jsonl")):
        if file.stem in LEFT_OUT:
            continue
        for line in file.read_text(encoding="utf-8").splitlines()[:limit]:
            prompt = json.loads(line)
            system = [{"role": "system", "content": prompt["system"]}] if "system" in prompt else []
            found.append(Talk(file.stem, system, list(prompt["turns"])))
    return found


@torch.inference_mode()
def reply(model: PreTrainedModel, prompts: list[list[int]], limit: int) -> list[tuple[int, ...]]:
    """Greedy answers of at most ``limit`` tokens, end mark included."""
    end, width = model.generation_config.eos_token_id, max(map(len, prompts))
    ids = torch.tensor([[end] * (width - len(row)) + row for row in prompts])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in prompts])
    options = {"do_sample": False, "max_new_tokens": limit, "pad_token_id": end}
    out = model.generate(input_ids=ids, attention_mask=mask, **options)[:, width:].tolist()
    return [tuple(row[: row.index(end) + 1]) if end in row else tuple(row) for row in out]


def answer_all(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, open_talks: list[Talk], limit: int
) -> Iterable[Answer]:
    """Answer turn after turn, talks of similar length together, until all have been answered."""
    while open_talks:
        rows = []
        for talk in open_talks:
            talk.messages.append({"role": "user", "content": talk.turns.pop(0)})
            encoded = tokenizer.apply_chat_template(talk.messages, add_generation_prompt=True, return_dict=True)
            rows.append((talk, list(encoded["input_ids"])))
        rows.sort(key=lambda row: len(row[1]))
        for start in range(0, len(rows), BATCH):
            group = rows[start : start + BATCH]
            replies = reply(model, [ids for _, ids in group], limit)
            for (talk, ids), answer in zip(group, replies, strict=True):
                text = tokenizer.decode(answer, skip_special_tokens=True)
                talk.messages.append({"role": "assistant", "content": text})
                yield Answer(talk.category, tuple(ids), answer)
            print(f"answered {start + len(group)} of {len(rows)}", flush=True)
        open_talks = [talk for talk in open_talks if talk.turns]


def answers(file: Path | None, make: Callable[[], Iterable[Answer]]) -> list[Answer]:
    """The answers kept in ``file``; made, and kept there, if there is none."""
    if file is not None and file.exists():
        lines = file.read_text(encoding="utf-8").splitlines()
        data = map(json.loads, lines)
        return [Answer(item["category"], tuple(item["prompt"]), tuple(item["answer"])) for item in data]
    made = list(make())
    if file is not None:
        file.write_text("".join(json.dumps(asdict(answer)) + "\n" for answer in made), encoding="utf-8")
    return made


@torch.inference_mode()
def right_tokens(draft: PreTrainedModel, answer: Answer) -> list[bool]:
    """Whether the draft's first choice is the answer's token, for each of its tokens."""
    ids = torch.tensor([answer.prompt + answer.answer])
    logits = draft(input_ids=ids, logits_to_keep=len(answer.answer) + 1).logits[0, :-1]
    return (logits.argmax(-1) == ids[0, len(answer.prompt) :]).tolist()


@torch.inference_mode()
def forward_seconds(models: Sequence[PreTrainedModel], context: int = 128, repeats: int = 40) -> list[float]:
    """Median time of a cached forward of one token, for each model; the models take turns."""
    ids, token = torch.arange(10, 10 + context)[None], torch.tensor([[42]])
    caches = [model(input_ids=ids, use_cache=True).past_key_values for model in models]
    times: list[list[float]] = [[] for _ in models]
    for _ in range(repeats):
        for model, cache, spent in zip(models, caches, times, strict=True):
            start = time.perf_counter()
            model(input_ids=token, past_key_values=cache, use_cache=True)
            spent.append(time.perf_counter() - start)
            cache.crop(-1)
    return [median(spent) for spent in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draft", type=Path, required=True)
    parser.add_argument("--target", type=Path, help="directory of the target; that of the wheel if not given")
    parser.add_argument("--prompts", type=Path, default=PROMPTS)
    parser.add_argument("--answers", type=Path, help="keep the target's answers here, or take them from here")
    parser.add_argument("--limit", type=int, default=99, help="prompts per category")
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--max-tokens", type=int, default=96, help="longest answer")
    parser.add_argument("--dtype", default="float32")
    args = parser.parse_args()
    folder = folder_of(args.target)
    target, draft = (
        AutoModelForCausalLM.from_pretrained(path, dtype=args.dtype).eval() for path in (folder, args.draft)
    )
    tokenizer = AutoTokenizer.from_pretrained(folder)
    asked = talks(args.prompts, args.limit)
    texts = answers(args.answers, lambda: answer_all(target, tokenizer, asked, args.max_tokens))
    counts: dict[str, Count] = {}
    for text in texts:
        count = speculate(right_tokens(draft, text), args.k)
        counts[text.category] = counts.get(text.category, Count()) + count
    for category, count in sorted(counts.items()):
        print(f"{category:15} {count}")
    print(f"{'all':15} {sum(counts.values(), Count())}")
    slow, fast = forward_seconds((target, draft))
    print(f"forward of one token, {args.dtype}, {torch.get_num_threads()} threads: ", end="")
    print(f"target {slow * 1e3:.2f} ms, draft {fast * 1e3:.2f} ms, 1/{slow / fast:.1f}")


if __name__ == "__main__":
    main()
