"""Whether the models fit into the memory that is free, told from their files before anything is loaded."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.hf import shapes
from pytest_specgate.engines.hf.machine import draft_dtype_for
from pytest_specgate.engines.store import locate
from pytest_specgate.errors import OutOfMemory
from pytest_specgate.metrics import Unit
from pytest_specgate.records import Arm
from pytest_specgate.units import format_value

#: A header longer than this is none: safetensors' own bound.
_LONGEST_HEADER = 100_000_000


def refuse_too_large(context: EngineContext, device: str, dtype: Any) -> None:
    """Raise OutOfMemory where target and draft together are larger than what the device has free.

    Quantized models, and files that are not safetensors, are left to the loader: their size in memory is not theirs on
    disk.
    """
    free = _free(device)
    if free is None or context.spec.quantization:
        return
    dtypes = {"target": dtype, "draft": draft_dtype_for(context, dtype)}
    sizes = {role: _size(model, context, dtypes[role]) for role, model in _models(context).items()}
    if sum(sizes.values()) <= free:
        return
    parts = " and ".join(f"{role} ({format_value(size, Unit.BYTES)})" for role, size in sizes.items())
    what = f"{parts} do not fit into the {format_value(free, Unit.BYTES)} that {device} has free"
    raise OutOfMemory(context.name, what, "use a smaller dtype or model, quantization, or another device")


def _models(context: EngineContext) -> Mapping[str, str]:
    """The models that the arms need, by role."""
    spec, found = context.spec, dict[str, str]()
    if spec.target:
        found["target"] = spec.target
    if Arm.CANDIDATE in context.arms and spec.candidate is not None and spec.candidate.draft:
        found["draft"] = spec.candidate.draft
    return found


def _size(model: str, context: EngineContext, dtype: Any) -> int:
    if model.startswith(shapes.PREFIX):
        return int(shapes.elements(model, context.name) * dtype.itemsize)
    return weights(locate(model, context), dtype.itemsize)


def weights(folder: Path, itemsize: int) -> int:
    """Bytes of all tensors of a folder's safetensors files at this width."""
    return itemsize * sum(_elements(file) for file in sorted(folder.glob("*.safetensors")))


def _elements(file: Path) -> int:
    """Numbers in one file: its header is a length of eight bytes, and JSON of that length."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length > _LONGEST_HEADER:
            return 0  # the loader tells what is wrong with it
        try:
            header: dict[str, Any] = json.loads(stream.read(length))
        except ValueError:
            return 0
    return sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")


def _free(device: str) -> int | None:
    """Bytes that the device has free; None where it does not tell."""
    if device == "cpu":
        return int(psutil.virtual_memory().available)
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.mem_get_info(device)[0])
    return None
