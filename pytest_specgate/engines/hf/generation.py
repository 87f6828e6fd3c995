"""One call of ``generate``, turned into a trace.

Time starts when the tokenised prompt is handed over, with the device idle: tokenisation is not measured.
Output ids leave out the prompt and keep the end-of-sequence token where one was emitted; the text leaves
out special tokens. transformers tests stop strings between rounds only, so an accepted block may run past
one: that is told as it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from pytest_specgate.engines.hf import shaping
from pytest_specgate.engines.hf.loading import Loaded
from pytest_specgate.engines.hf.rounds import RoundLog, watched
from pytest_specgate.engines.hf.shaping import Speaker
from pytest_specgate.engines.hf.streamer import ChunkClock
from pytest_specgate.errors import EngineError
from pytest_specgate.records import Arm, Request, Round, Trace


@dataclass(frozen=True, slots=True)
class Generated:
    """A trace, and the bytes that the target's key-value cache held at its end (None where not known)."""

    trace: Trace
    kv_cache: int | None


def run(speaker: Speaker, inputs: Any, request: Request, extra: Mapping[str, Any]) -> Generated:
    """Generate for one tokenised prompt; ``extra`` is empty for the plain arm, else how to speculate."""
    import torch

    target, clock = speaker.target, ChunkClock(request.cancel_after)
    eos = shaping.ends(request, speaker)
    arguments = {**shaping.arguments(request, speaker), **_stopping(request, target, eos), **extra}
    criteria = [clock.deserted()] if request.cancel_after is not None else []
    if strings := shaping.stop_strings(request, speaker):
        criteria.append(_in_output(strings, target.tokenizer, inputs["input_ids"].shape[1]))
    if criteria:
        arguments["stopping_criteria"] = criteria
    config = target.model.config.get_text_config()
    layers = getattr(config, "num_hidden_layers", None)
    watching = watched(target.model) if extra else nullcontext(RoundLog())
    _wait_for(target.model.device)
    with watching as log, torch.inference_mode():
        submit = time.perf_counter_ns()
        peaks = _watched(target.model, extra.get("assistant_model"))
        try:
            told = {"return_dict_in_generate": True, "output_scores": request.logprobs}
            output = target.model.generate(**inputs, **arguments, **told, streamer=clock, use_cache=True)
        except RuntimeError:
            if target.model.device.type == "cpu":  # a draw among them failed; a GPU can be asked nothing after that
                _refuse_bad(peaks, speaker, request)
            raise
        finally:
            if layers != getattr(config, "num_hidden_layers", None):  # an early exit that broke off leaves fewer
                config.num_hidden_layers = layers
            for each in peaks:
                each.hook.remove()
        _refuse_bad(peaks, speaker, request)
    prompt_tokens = inputs["input_ids"].shape[1]
    made = tuple(output.sequences[0, prompt_tokens:].tolist())
    ids, left = made[: len(made) - clock.unheard], clock.unheard > 0
    rounds: tuple[Round, ...] | None = None
    if extra:
        rounds = log.rounds()[:-1] if left else log.rounds()
    ended = _stopped(strings, target.tokenizer, ids, rounds[-1].emitted if rounds else 1)
    trace = Trace(
        prompt=request.prompt,
        arm=Arm.CANDIDATE if extra else Arm.REFERENCE,
        token_ids=ids,
        text=target.tokenizer.decode(ids, skip_special_tokens=True),
        prompt_tokens=prompt_tokens,
        submit_ns=submit,
        chunks=tuple(clock.chunks),
        finish="cancelled" if left else "stop" if ended else _finish(ids, request.max_tokens, eos),
        rounds=rounds,
        usage_tokens=sum(r.emitted for r in rounds) if rounds else None,
        max_tokens=request.max_tokens,
        eos_ids=eos,
        logprobs=_logprobs(output.scores, made)[: len(ids)] if request.logprobs else None,
    )
    return Generated(trace, _cache_bytes(output))


class _Peaks:
    """The highest logit of each position that a model reads, left on its device until nothing is timed any more."""

    def __init__(self, whose: str, model: Any) -> None:
        self.whose = whose
        self.hook = model.register_forward_hook(self)
        self._found: list[Any] = []

    def __call__(self, _module: Any, _inputs: Any, output: Any) -> None:
        """After a forward."""
        if (logits := getattr(output, "logits", None)) is not None:  # some drafts tell none
            self._found.append(logits.amax(dim=-1).flatten())

    def finite(self) -> bool:
        """Whether all are finite numbers: a NaN is the highest of all."""
        import torch

        return not self._found or bool(torch.cat(self._found).isfinite().all())


def _watched(target: Any, draft: Any) -> list[_Peaks]:
    """The target, and the draft if there is one: what is wrong with the first is told first."""
    return [_Peaks(whose, model) for whose, model in (("target", target), ("draft", draft)) if model is not None]


def _refuse_bad(peaks: Sequence[_Peaks], speaker: Speaker, request: Request) -> None:
    """Raise EngineError where logits are no finite numbers."""
    for each in peaks:
        if not each.finite():
            what = f"{request.prompt}: the {each.whose}'s logits are not finite numbers"
            hint = f"look at the {each.whose}'s weights and dtype: float16 overflows at 65504"
            raise EngineError(speaker.engine, what, hint)


def _wait_for(device: Any) -> None:
    """Let the device finish all that it was asked for, so that a clock read means something."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _stopping(request: Request, target: Loaded, eos: tuple[int, ...]) -> dict[str, Any]:
    pad = target.tokenizer.pad_token_id
    if pad is None:
        pad = eos[0] if eos else 0
    arguments: dict[str, Any] = {"max_new_tokens": request.max_tokens, "pad_token_id": pad}
    # None would be filled in from the model's own settings: past the end of the vocabulary is no token.
    arguments["eos_token_id"] = list(eos) or [target.model.config.get_text_config().vocab_size]
    return arguments


def _in_output(strings: Sequence[str], tokenizer: Any, prompt_tokens: int) -> Callable[..., Any]:
    """Transformers' own criterion for stop strings, of what was generated.

    Asked for by ``stop_strings`` it also finds one that begins in the prompt, and a draft's own generation fails.
    """
    from transformers import StopStringCriteria

    found = StopStringCriteria(tokenizer, list(strings))

    def over(input_ids: Any, scores: Any, **more: Any) -> Any:
        return found(input_ids[:, prompt_tokens:], scores, **more)

    return over


def _stopped(strings: Sequence[str], tokenizer: Any, ids: tuple[int, ...], last: int) -> bool:
    """Whether a stop string came with the last round, whatever came with it: the round's rest stays in the text."""
    if not strings:
        return False
    text, before = (tokenizer.decode(each, skip_special_tokens=True) for each in (ids, ids[: len(ids) - last]))
    return any(string in text for string in strings) and not any(string in before for string in strings)


def _finish(ids: tuple[int, ...], max_tokens: int, eos: tuple[int, ...]) -> str:
    if ids and ids[-1] in eos:
        return "eos"
    return "length" if len(ids) >= max_tokens else "stop"


def _logprobs(scores: tuple[Any, ...], ids: tuple[int, ...]) -> tuple[float, ...]:
    """Of each token, by the scores ``[1, vocabulary]`` that it was chosen by, shaped by all but a greedy choice."""
    import torch

    logs = [each[0].log_softmax(dim=-1)[token] for each, token in zip(scores, ids)]
    return tuple(torch.stack(logs).tolist()) if logs else ()


def _cache_bytes(output: Any) -> int | None:
    """Return the size of the cache that came back; its name and layout belong to transformers."""
    cache = getattr(output, "cache", None) or getattr(output, "past_key_values", None)
    sizes = []
    for layer in getattr(cache, "layers", ()):
        for part in (getattr(layer, "keys", None), getattr(layer, "values", None)):
            if part is None:
                return None
            sizes.append(int(part.numel() * part.element_size()))
    return sum(sizes) or None
