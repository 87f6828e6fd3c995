"""A recorder for a CPU that forgets as much as a CUDA graph does: operations on fixed tensors, numbers as they were.

Every operation that PyTorch dispatches is noted with the tensors it read, and replayed on the same memory; whatever
Python decided in between is as it was when it was recorded. To read a tensor's value into Python is refused, as a
capturing stream refuses it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

_READS = {"aten::_local_scalar_dense", "aten::is_nonzero", "aten::nonzero", "aten::equal"}


class Tape(TorchDispatchMode):
    """What ran while it was entered."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function._schema.name
        if name in _READS:
            raise RuntimeError(f"{name} while recording")
        out = function(*args, **(kwargs or {}))
        self.steps.append((function, args, kwargs or {}, out))
        return out

    def replay(self) -> dict[int, Tensor]:
        """Run it again; what each recorded result is now, by the recorded tensor's id."""
        now: dict[int, Tensor] = {}

        def current(one: Any) -> Any:
            return now.get(id(one), one) if isinstance(one, Tensor) else one

        for function, args, kwargs, out in self.steps:
            made = function(*tree_map(current, args), **tree_map(current, kwargs))
            now |= {id(old): new for old, new in zip(tree_leaves(out), tree_leaves(made)) if isinstance(old, Tensor)}
        return now


def record(run: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """A :data:`~pytest_specgate.decoding.recorded.Recorder`."""
    with Tape() as tape:
        result = run()

    def replay() -> Tensor:
        with torch.inference_mode():
            return tape.replay()[id(result)]

    return replay
