"""Load models and tokenizers: device, dtype, attention, quantization, and what is refused on the way."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.store import Located, content_hash, locate
from pytest_specgate.errors import EngineError, MissingPackage, OutOfMemory, SpecgateError

_QUANTIZERS = {
    "bitsandbytes": ("BitsAndBytesConfig", "bitsandbytes"),
    "torchao": ("TorchAoConfig", "torchao"),
    "gptq": ("GPTQConfig", "gptqmodel"),
    "awq": ("AwqConfig", "gptqmodel"),
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model on its device; ``tokenizer`` is None where the directory holds none."""

    model: Any
    tokenizer: Any
    content: str


def device_for(context: EngineContext) -> str:
    """The device that was asked for, checked to be there; ``auto`` is CUDA where there is one, else the CPU."""
    import torch

    asked = context.device or context.spec.device
    if asked == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind = asked.partition(":")[0]
    here = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if kind not in here:
        raise EngineError(context.name, f"unknown device {asked!r}", "use auto, cpu, cuda, cuda:N or mps")
    if not here[kind]:
        usable = ", ".join(name for name, there in here.items() if there)
        raise EngineError(context.name, f"device {asked!r} is not available on this machine", f"available: {usable}")
    return asked


def dtype_for(context: EngineContext, device: str) -> Any:
    """``auto`` is float32 on a CPU, where right software differs from itself in bfloat16, and bfloat16 on a GPU."""
    import torch

    name = context.spec.dtype
    if name == "auto":
        name = "float32" if device == "cpu" else "bfloat16"
    return getattr(torch, name)


def load(context: EngineContext, reference: str, dtype: Any, device: str) -> Loaded:
    """Load one model with its tokenizer. Raises EngineError, MissingPackage, OutOfMemory."""
    from transformers import AutoModelForCausalLM

    place = locate(reference, context.folder, context.name)
    _refuse_code_and_pickle(place, context)
    options: dict[str, Any] = {"dtype": dtype, "trust_remote_code": context.allow_remote_code}
    if not context.allow_pickle:
        options["use_safetensors"] = True
    if context.spec.attention != "auto":
        options["attn_implementation"] = context.spec.attention
    if context.spec.quantization:
        options["quantization_config"] = _quantization(context)
    with translated(context.name, f"cannot load {reference!r}"):
        model = AutoModelForCausalLM.from_pretrained(place.reference, **options)
        model = model if context.spec.quantization else model.to(device)
        tokenizer = _tokenizer(place, context)
    return Loaded(model.eval(), tokenizer, _content(place, model))


def _tokenizer(place: Located, context: EngineContext) -> Any:
    from transformers import AutoTokenizer

    if place.local and not list(Path(place.reference).glob("tokenizer*")):
        return None
    return AutoTokenizer.from_pretrained(place.reference, trust_remote_code=context.allow_remote_code)


def _refuse_code_and_pickle(place: Located, context: EngineContext) -> None:
    if not place.local:
        return
    folder = Path(place.reference)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if "auto_map" in config and not context.allow_remote_code:
        what = f"{folder.name} brings its own Python code, which is not run"
        raise EngineError(context.name, what, "pass --specgate-trust-remote-code if you trust its authors")
    has_safe = any(folder.glob("*.safetensors"))
    has_pickle = any(folder.glob("*.bin")) or any(folder.glob("*.pt"))
    if has_pickle and not has_safe and not context.allow_pickle:
        what = f"{folder.name} holds pickle weights only, and loading those can run code"
        raise EngineError(context.name, what, "convert them to safetensors, or pass --specgate-allow-pickle")


def _quantization(context: EngineContext) -> Any:
    import transformers

    settings: dict[str, Any] = dict(context.spec.quantization)
    method = str(settings.pop("method", ""))
    if method not in _QUANTIZERS:
        raise EngineError(context.name, f"unknown quantization method {method!r}", f"choose one of {', '.join(_QUANTIZERS)}")
    class_name, package = _QUANTIZERS[method]
    try:
        return getattr(transformers, class_name)(**settings)
    except (ImportError, ValueError) as error:
        raise MissingPackage(context.name, f"{method} is not usable here ({error})", f"python -m pip install {package}") from error


def _content(place: Located, model: Any) -> str:
    """Hash of the weight files; of the commit for a Hub model, which names its content as well."""
    if not place.local:
        return str(getattr(model.config, "_commit_hash", None) or place.reference)
    digest = hashlib.sha256()
    for file in sorted(Path(place.reference).glob("*.safetensors")) or sorted(Path(place.reference).glob("*.bin")):
        digest.update(content_hash(file).encode())
    return digest.hexdigest()[:16]


def tokenizer_hash(tokenizer: Any) -> str:
    """Hash of vocabulary and chat template: both decide what the target reads."""
    parts: Mapping[str, Any] = {"vocab": sorted(tokenizer.get_vocab().items()), "template": tokenizer.chat_template or ""}
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()[:16]


class translated:  # noqa: N801 - reads as a verb in a with statement
    """Whatever torch or transformers raise inside becomes one EngineError line, or OutOfMemory."""

    def __init__(self, engine: str, doing: str) -> None:
        self._engine, self._doing = engine, doing

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or not isinstance(error, Exception) or isinstance(error, SpecgateError):
            return
        text = " ".join(str(error).split())
        if _is_out_of_memory(error, text):
            _empty_caches()
            hint = "shorten the prompts, lower the concurrency, or use a smaller dtype"
            raise OutOfMemory(self._engine, f"{self._doing}: out of memory", hint) from error
        hint = "see the cause with --full-trace"
        raise EngineError(self._engine, f"{self._doing} ({type(error).__name__}: {text[:300]})", hint) from error


def _is_out_of_memory(error: Exception, text: str) -> bool:
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in text


def _empty_caches() -> None:
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
