"""A suite's ``quantization`` as the settings object that transformers takes; a package that is missing is named.

torchao is asked for by its bits (``{method: torchao, bits: 8}``): its settings are classes, which YAML cannot write.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.errors import EngineError, MissingPackage

#: Quantization method → its settings class in transformers, and the package that does the work.
_QUANTIZERS = {
    "bitsandbytes": ("BitsAndBytesConfig", "bitsandbytes"),
    "torchao": ("TorchAoConfig", "torchao"),
    "quanto": ("QuantoConfig", "optimum-quanto"),
    "hqq": ("HqqConfig", "hqq"),
    "gptq": ("GPTQConfig", "gptqmodel"),
    "awq": ("AwqConfig", "gptqmodel"),
    "fp8": ("FineGrainedFP8Config", "accelerate"),
}
#: Weights in so many bits, by torchao's own names.
_TORCHAO = {8: "Int8WeightOnlyConfig", 4: "Int4WeightOnlyConfig"}


def settings(context: EngineContext, device: str) -> Any:
    """The settings object. Raises EngineError, MissingPackage."""
    import transformers

    given: dict[str, Any] = dict(context.spec.quantization)
    method = str(given.pop("method", ""))
    if method not in _QUANTIZERS:
        hint = f"write method: one of {', '.join(_QUANTIZERS)}"
        raise EngineError(context.name, f"unknown quantization method {method!r}", hint)
    class_name, package = _QUANTIZERS[method]
    made: Callable[..., Any] = getattr(transformers, class_name)
    try:
        return made(_weight_only(context, given, device)) if method == "torchao" else made(**given)
    except ImportError as error:
        raise _missing(context, method, package) from error
    except (TypeError, ValueError) as error:
        what = f"quantization settings do not suit {method} ({error})"
        raise EngineError(context.name, what, f"see {class_name} of transformers") from error


def _weight_only(context: EngineContext, given: dict[str, Any], device: str) -> Any:
    bits = given.pop("bits", None)
    if bits not in _TORCHAO:
        raise EngineError(context.name, f"torchao quantizes to no {bits!r} bits", "write bits: 8 or bits: 4")
    if bits == 4 and device == "cpu":
        raise EngineError(context.name, "torchao quantizes to 4 bits on a GPU alone", "write bits: 8 on a CPU")
    if importlib.util.find_spec("torchao") is None:
        raise _missing(context, "torchao", "torchao")
    import torchao.quantization

    return getattr(torchao.quantization, _TORCHAO[bits])(**given)


def in_place(model: Any, reference: str, context: EngineContext, device: str) -> None:
    """Quantize a model that was made and not read, by torchao: its matrices but the head, as for a checkpoint.

    Raises EngineError for another method, MissingPackage.
    """
    given: dict[str, Any] = dict(context.spec.quantization)
    if given.pop("method", "") != "torchao":
        what = f"{reference!r} has random weights, which only torchao quantizes"
        raise EngineError(context.name, what, "write quantization: {method: torchao, bits: 8}, or use a checkpoint")
    config = _weight_only(context, given, device)
    import torch
    from torchao.quantization import quantize_

    head = model.get_output_embeddings()
    quantize_(model, config, filter_fn=lambda part, _: isinstance(part, torch.nn.Linear) and part is not head)


def _missing(context: EngineContext, method: str, package: str) -> MissingPackage:
    what = f"quantization by {method} needs package {package!r}"
    return MissingPackage(context.name, what, f"python -m pip install {package}")


def size(model: Any) -> int:
    """Bytes of the model's weights and buffers as they are stored; a quantized tensor holds several inside."""
    return sum(_stored(tensor) for tensor in (*model.parameters(), *model.buffers()))


def _stored(tensor: Any) -> int:
    if hasattr(tensor, "__tensor_flatten__"):
        return sum(_stored(getattr(tensor, name)) for name in tensor.__tensor_flatten__()[0])
    return int(tensor.numel() * tensor.element_size())
