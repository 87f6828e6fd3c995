"""Tiny random models that behave like a target and its draft: built in a second, exact in float64.

The draft is the target with noise on its weights, so it agrees with the target often and not always. The tokenizer
knows one token per word of a small vocabulary; random weights make the text nonsense, which does not matter here.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

WORDS = (
    *("a", "the", "model", "draft", "token", "keeps", "says", "what", "it", "would", "next", "and", "round"),
    *("is", "of", "in", "to", "be", "or", "not"),
)
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
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = [*special, *words, *(f"w{n}" for n in range(ROWS - len(special) - len(words)))]
    unknown, begin, end = special[:3]
    inner = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token=unknown))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token=begin, eos_token=end, unk_token=unknown, pad_token=end
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


def gguf(path: Path, made: Any) -> Path:
    """The model as a GGUF file in float32, with a byte-pair tokenizer of two merges."""
    import torch
    from gguf import GGUFWriter

    config, heads = made.config, {"q": made.config.num_attention_heads, "k": made.config.num_key_value_heads}
    writer = GGUFWriter(str(path), "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    letters = ("i", "n", "o", "r")
    more = (f"w{n}" for n in range(ROWS - len(SPECIAL) - len(WORDS) - len(letters)))
    writer.add_token_list([*SPECIAL, *WORDS, *more, *letters])
    writer.add_token_merges(["i n", "o r"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(EOS)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)
    for name, weight in made.state_dict().items():
        rows = weight.detach().to(torch.float32)
        part = name.removesuffix("_proj.weight")[-1]
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            # llama.cpp interleaves the two halves of every rotated head.
            split = rows.reshape(heads[part], 2, rows.shape[0] // heads[part] // 2, rows.shape[1])
            rows = split.swapaxes(1, 2).reshape(rows.shape)
        writer.add_tensor(_gguf_name(name), rows.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _gguf_name(name: str) -> str:
    for ours, theirs in (
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("model.layers", "blk"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
        ("post_attention_layernorm", "ffn_norm"),
        ("input_layernorm", "attn_norm"),
    ):
        name = name.replace(ours, theirs)
    return name
