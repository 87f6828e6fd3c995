"""What torch and transformers raise, as one line of ours."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_specgate.errors import EngineError, OutOfMemory, SpecgateError

_LONGEST = 300


@contextmanager
def translated(engine: str, doing: str) -> Iterator[None]:
    """Turn what is raised inside into an EngineError that names its cause, or into OutOfMemory.

    ``doing`` says what failed. After OutOfMemory the allocator's caches are empty, and the engine can be
    used again.
    """
    try:
        yield
    except SpecgateError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        if _is_out_of_memory(error, text):
            # The traceback's frames hold the tensors that filled the memory.
            error.__traceback__ = None
            empty_caches()
            hint = "shorten the prompts, use a smaller dtype, or free memory"
            raise OutOfMemory(engine, f"{doing}: out of memory", hint) from error
        what = f"{doing} ({type(error).__name__}: {text[:_LONGEST]})"
        raise EngineError(engine, what, "see the cause with --full-trace") from error


def _is_out_of_memory(error: Exception, text: str) -> bool:
    """Torch has a class of its own for GPUs only; its CPU allocator raises a plain RuntimeError."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return "can't allocate memory" in text or "not enough memory" in text


def empty_caches() -> None:
    """Give back to the device what nothing uses any more."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
