"""How much memory judging drawn tokens takes: the peak of resident memory by the number of tokens, at a vocabulary.

Each number of tokens is scored in a process of its own (target and draft teacher-forced, at a temperature, no filter:
all words have a chance), on a random Llama whose vocabulary is that of a large model and whose layers are tiny, so that
rows of logits are what counts.

python benchmarks/fitting_memory.py [--vocabulary 151936] [--tokens 512 1024 2048 4096]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys

import torch

from pytest_specgate.decoding.processors import Temperature
from pytest_specgate.engines.hf import fitting

LENGTH = 128


def peak() -> int:
    """The most that was resident, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def model(vocabulary: int) -> torch.nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        bos_token_id=None,
        eos_token_id=None,
    )
    return LlamaForCausalLM(config).bfloat16().eval()


def measure(vocabulary: int, tokens: int) -> None:
    """Print how much one scoring call adds to what was resident once both models were there and had been used."""
    torch.set_num_threads(1)
    source = torch.Generator().manual_seed(1)
    asked = fitting.Asked(model(vocabulary), draft=model(vocabulary))
    shape = (Temperature(0.7),)
    texts = [
        fitting.Text(f"p{n}", (1, 2, 3), tuple(torch.randint(vocabulary, (LENGTH,), generator=source).tolist()), shape)
        for n in range(max(1, tokens // LENGTH))
    ]
    fitting.chances(asked, [fitting.Text("p", (1, 2, 3), (4, 5), shape)], "benchmark")
    before = peak()
    fitting.chances(asked, texts, "benchmark")
    added, rows = (peak() - before) / 2**20, tokens * vocabulary * 4 / 2**20
    print(f"{vocabulary} words, {tokens} tokens: {added:.0f} MiB more at the peak (all rows: {rows:.0f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=int, default=151_936)
    parser.add_argument("--tokens", type=int, nargs="+", default=[512, 1024, 2048, 4096])
    parser.add_argument("--alone", action="store_true", help="measure in this process")
    options = parser.parse_args()
    for tokens in options.tokens:
        if options.alone:
            measure(options.vocabulary, tokens)
        else:
            given = ["--vocabulary", str(options.vocabulary), "--tokens", str(tokens), "--alone"]
            subprocess.run([sys.executable, __file__, *given], check=True)


if __name__ == "__main__":
    main()
