"""Tiny random models that behave like a target and its draft: built in a second, exact in float64.

The draft is the target with noise on its weights, so it agrees with the target often and not always. The tokenizer
knows one token per word of a small vocabulary; random weights make the text nonsense, which does not matter here.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

WORDS = tuple("a the model draft token keeps says what it would next and round is of in to be or not".split())
SPECIAL = ("<unk>", "<bos>", "<eos>", "<user>", "<assistant>", "<system>")
TEMPLATE = (
    "<bos>{% for m in messages %} <{{ m.role }}> {{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %} <assistant>{% endif %}"
)
#: Rows of the embeddings; more than there are tokens, as in most checkpoints.
ROWS = 64
EOS = SPECIAL.index("<eos>")


def tokenizer(words: tuple[str, ...] = WORDS, special: tuple[str, ...] = SPECIAL) -> Any:
    """A word-level tokenizer with a chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = [*special, *words, *(f"w{n}" for n in range(ROWS - len(special) - len(words)))]
    inner = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.decoder = decoders.Fuse()
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<bos>", eos_token="<eos>", unk_token="<unk>", pad_token="<eos>"
    )
    made.chat_template = TEMPLATE
    return made


def model(rows: int = ROWS, layers: int = 4, eos: int | None = EOS, **settings: Any) -> Any:
    """A random Llama with a fixed seed; its scores are spread wide so that greedy ties cannot happen."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=rows,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=1,
        eos_token_id=eos,
        initializer_range=0.4,
        **settings,
    )
    state = torch.random.get_rng_state()
    torch.manual_seed(7)
    made = LlamaForCausalLM(config).double()
    torch.random.set_rng_state(state)
    made.generation_config.eos_token_id = eos
    return made.eval()


def blurred(target: Any, noise: float = 0.05) -> Any:
    """A draft: the target with seeded noise on every weight, relative to the weight's own spread."""
    import torch

    made = type(target)(target.config).double()
    made.load_state_dict(target.state_dict())
    made.generation_config.eos_token_id = target.generation_config.eos_token_id
    source = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for weight in made.parameters():
            if weight.ndim > 1:
                weight += noise * weight.std() * torch.randn(weight.shape, generator=source, dtype=weight.dtype)
    return made.eval()


def save(folder: Path, made: Any, words: Any = None) -> Path:
    """Save a model, and a tokenizer unless ``words`` is False; the folder is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    made.save_pretrained(folder)
    if words is not False:
        (words or tokenizer()).save_pretrained(folder)
    return folder


def pair(folder: Path, noise: float = 0.05) -> tuple[Path, Path]:
    """Directories of a target and of a draft that agrees with it in part."""
    target = model()
    return save(folder / "target", target), save(folder / "draft", blurred(target, noise))
