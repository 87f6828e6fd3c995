"""Progress bars of transformers and the Hub, switched off while an engine starts; warnings stay.

Who sets ``HF_HUB_DISABLE_PROGRESS_BARS=0`` wants them, and keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from typing import Any


@contextmanager
def without_progress_bars(*, reading_gguf: bool = False) -> Iterator[None]:
    """Draw none inside; afterwards every switch stands where it stood.

    A GGUF file's bar has a switch of its own, whose module is loaded where ``reading_gguf`` says so alone.
    """
    from huggingface_hub import constants

    if constants.HF_HUB_DISABLE_PROGRESS_BARS is False:
        yield
        return
    with ExitStack() as restored:
        for switch_off in (_transformers, _hub, *([_gguf] if reading_gguf else [])):
            restored.callback(switch_off())
        yield


def _transformers() -> Callable[[], object]:
    from transformers.utils import logging

    def undrawn(draw: Callable[..., Any], given: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return draw(*given, **{**options, "disable": True})

    return partial(logging.set_tqdm_hook, logging.set_tqdm_hook(undrawn))


def _hub() -> Callable[[], object]:
    # Its names are documented there, but not marked as exports.
    utils: Any = import_module("huggingface_hub.utils")
    if utils.are_progress_bars_disabled():
        return _nothing
    utils.disable_progress_bars()
    return partial(utils.enable_progress_bars)


def _gguf() -> Callable[[], object]:
    """Transformers draws this one with tqdm itself, past the switch that it offers."""
    from transformers import modeling_gguf_pytorch_utils as reader

    draw = getattr(reader, "tqdm", None)
    if draw is None:
        return _nothing
    reader.tqdm = partial(draw, disable=True)
    return partial(setattr, reader, "tqdm", draw)


def _nothing() -> None:
    return None
