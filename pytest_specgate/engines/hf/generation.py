"""One call of ``generate``, turned into a trace."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from pytest_specgate.engines.hf.loading import Loaded
from pytest_specgate.engines.hf.rounds import RoundLog, watched
from pytest_specgate.engines.hf.streamer import ChunkClock
from pytest_specgate.records import Arm, Request, Trace


def run(target: Loaded, inputs: Any, request: Request, arm: Arm, extra: dict[str, Any]) -> Trace:
    """Generate for one tokenised prompt. ``extra`` are the candidate arm's arguments, empty for the plain arm."""
    import torch

    clock = ChunkClock()
    eos = () if request.ignore_eos else _eos_ids(target.model)
    arguments = {**_sampling(request), **_stopping(request, target, eos), **extra}
    watching = watched(target.model) if extra else contextlib.nullcontext(RoundLog())
    synchronise(target.model.device)
    with watching as log, torch.inference_mode():
        submit = time.perf_counter_ns()
        output = target.model.generate(**inputs, **arguments, streamer=clock, use_cache=True)
    prompt_tokens = inputs["input_ids"].shape[1]
    ids = tuple(output[0, prompt_tokens:].tolist())
    return Trace(
        prompt=request.prompt,
        arm=arm,
        token_ids=ids,
        text=target.tokenizer.decode(ids, skip_special_tokens=True),
        prompt_tokens=prompt_tokens,
        submit_ns=submit,
        chunks=tuple(clock.chunks),
        finish=_finish(ids, request.max_tokens, eos),
        rounds=tuple(log.rounds) if extra else None,
        max_tokens=request.max_tokens,
        eos_ids=eos,
    )


def synchronise(device: Any) -> None:
    """Wait until the device has done all that was asked of it, so that a clock read means something."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _eos_ids(model: Any) -> tuple[int, ...]:
    eos = model.generation_config.eos_token_id
    if eos is None:
        return ()
    return (eos,) if isinstance(eos, int) else tuple(eos)


def _sampling(request: Request) -> dict[str, Any]:
    sampling = request.sampling
    if sampling.greedy:
        # The model's own generation config may carry sampling parameters; unset, they warn about nothing.
        return {"do_sample": False, "temperature": None, "top_k": None, "top_p": None}
    return {"do_sample": True, "temperature": sampling.temperature, "top_k": sampling.top_k, "top_p": sampling.top_p}


def _stopping(request: Request, target: Loaded, eos: tuple[int, ...]) -> dict[str, Any]:
    pad = target.tokenizer.pad_token_id
    if pad is None:
        pad = eos[0] if eos else 0
    arguments: dict[str, Any] = {"max_new_tokens": request.max_tokens, "pad_token_id": pad}
    if request.ignore_eos:
        arguments["eos_token_id"] = None
    if request.stop:
        arguments |= {"stop_strings": list(request.stop), "tokenizer": target.tokenizer}
    return arguments


def _finish(ids: tuple[int, ...], max_tokens: int, eos: tuple[int, ...]) -> str:
    if ids and ids[-1] in eos:
        return "eos"
    return "length" if len(ids) >= max_tokens else "stop"
