"""Forwards of transformers' models timed one by one, in turn, the device synchronised around each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pytest_specgate.engines.base import Timed
from pytest_specgate.engines.hf.forcing import cached, keep
from pytest_specgate.suite.model import Method

Step = Callable[[], object]

#: Methods whose draft is a model's forward of one token, or none at all; what others run cannot be run alone.
TOLD = frozenset({Method.DRAFT_MODEL, Method.UNIVERSAL, Method.PROMPT_LOOKUP, Method.EARLY_EXIT})


def in_turn(target: Mapping[int, Step], draft: Step | None, repeats: int, device: Any) -> Timed:
    """Run all steps once unheard, then ``repeats`` times one after the other; no gradients are kept."""
    import torch

    steps: dict[int, Step] = dict(target) if draft is None else {**target, 0: draft}
    found: dict[int, list[float]] = {name: [] for name in steps}
    with torch.inference_mode():
        for step in steps.values():
            step()
        for _ in range(repeats):
            for name, step in steps.items():
                found[name].append(_seconds(step, device))
    drafted = tuple(found.pop(0)) if draft is not None else None
    return Timed({width: tuple(seconds) for width, seconds in found.items()}, drafted)


def _seconds(step: Step, device: Any) -> float:
    _settle(device)
    begin = time.perf_counter_ns()
    step()
    _settle(device)
    return (time.perf_counter_ns() - begin) / 1e9


def _settle(device: Any) -> None:
    import torch

    kind = str(device).partition(":")[0]
    if kind == "cuda":
        torch.cuda.synchronize(device)
    elif kind == "mps":
        torch.mps.synchronize()


def block_after(model: Any, text: Sequence[int], width: int) -> Step:
    """Read a text, and return a forward over ``width`` tokens after it that leaves the cache as it found it."""
    import torch

    with torch.inference_mode():
        known = torch.tensor([list(text)], device=model.device) % _vocabulary(model)
        out = model(input_ids=known, use_cache=True, **keep(model, 1))
        block = known[:, -1:].repeat(1, width)
    past = cached(model, out)
    (cache,) = past.values()

    def step() -> object:
        made = model(input_ids=block, use_cache=True, **past, **keep(model, width))
        cache.crop(-width)
        return made

    return step


def shallow(model: Any, layers: int, step: Step) -> Step:
    """The step with the model stopping after so many layers, as an early exit drafts."""

    def stopped() -> object:
        with _stopping(model.config.get_text_config(), layers):
            return step()

    return stopped


@contextmanager
def _stopping(config: Any, layers: int) -> Iterator[None]:
    whole, config.num_hidden_layers = config.num_hidden_layers, layers
    try:
        yield
    finally:
        config.num_hidden_layers = whole


def _vocabulary(model: Any) -> int:
    return int(model.config.get_text_config().vocab_size)
