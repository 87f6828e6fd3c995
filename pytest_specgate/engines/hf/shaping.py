"""What a request asks of the scores before a token is chosen, as the decoder's processors and as ``generate`` takes it.

The same request comes to the same choice either way; a scorer shapes a text's logits by the processors too, so that
the choice of a penalised target is its own. What one of the two cannot do is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_specgate.decoding.job import Job, Row
from pytest_specgate.decoding.processors import (
    BadWords,
    CountPenalty,
    LogitBias,
    MinP,
    MinTokens,
    Processor,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
)
from pytest_specgate.engines.hf.loading import Loaded
from pytest_specgate.errors import EngineError, Unsupported
from pytest_specgate.records import Bias, Request, Sampling

#: (scores ``[width, vocabulary]`` of output tokens from the ``at``-th on, the whole output, at) → shaped scores.
Shaper = Callable[[Any, Sequence[int], int], Any]


@dataclass(frozen=True, slots=True)
class Speaker:
    """A target, under its engine's name in messages."""

    engine: str
    target: Loaded


def eos_ids(model: Any) -> tuple[int, ...]:
    """Return the ids that end a text for this model."""
    eos = model.generation_config.eos_token_id
    if eos is None:
        return ()
    return (eos,) if isinstance(eos, int) else tuple(eos)


def ends(request: Request, speaker: Speaker) -> tuple[int, ...]:
    """Return the ids that end this request's text, its stop strings that are control tokens among them.

    Raises EngineError for a stop string that is one in part: texts leave control tokens out.
    """
    own = () if request.ignore_eos else eos_ids(speaker.target.model)
    controls = tuple(_control_tokens(request, speaker).values())
    return tuple(dict.fromkeys((*own, *request.stop_ids, *controls)))


def stop_strings(request: Request, speaker: Speaker) -> tuple[str, ...]:
    """The stop strings that are looked for in the text: those that are no control tokens. Raises EngineError."""
    controls = _control_tokens(request, speaker)
    return tuple(string for string in request.stop if string not in controls)


def _control_tokens(request: Request, speaker: Speaker) -> dict[str, int]:
    """Ids of the stop strings that are control tokens."""
    if not request.stop:
        return {}
    tokenizer = speaker.target.tokenizer
    known = {str(token): number for number, token in tokenizer.added_tokens_decoder.items() if token.special}
    for string in request.stop:
        if string not in known and (inside := [name for name in known if name in string]):
            what = f"{request.prompt}: the stop string {string!r} holds the control token {inside[0]!r}"
            hint = "give the control token alone, or its text without it: texts leave control tokens out"
            raise EngineError(speaker.engine, what, hint)
    return {string: known[string] for string in request.stop if string in known}


def prompt_ids(request: Request, speaker: Speaker) -> tuple[int, ...]:
    """The request's prompt as ids: its own, or its messages in the target's template. Raises EngineError."""
    if request.token_ids is None:
        messages = [{"role": m.role, "content": m.content} for m in request.messages]
        made = speaker.target.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
        _refuse_foreign_tokenizer(request, made["input_ids"], speaker)
        return tuple(made["input_ids"])
    if not request.token_ids:
        raise EngineError(speaker.engine, f"{request.prompt}: an empty prompt", "give at least one token")
    rows = _rows(speaker)
    if wrong := [token for token in request.token_ids if not 0 <= token < rows]:
        what = f"{request.prompt}: the prompt holds token id {wrong[0]}, and the target knows ids up to {rows - 1}"
        raise EngineError(speaker.engine, what, "encode with the target's own tokenizer")
    return request.token_ids


def _rows(speaker: Speaker) -> int:
    """Token ids that the target's model knows."""
    return int(speaker.target.model.config.get_text_config().vocab_size)


def _refuse_foreign_tokenizer(request: Request, ids: Sequence[int], speaker: Speaker) -> None:
    if wrong := [token for token in ids if token >= _rows(speaker)]:
        what = f"{request.prompt}: the target's tokenizer makes token id {wrong[0]} of it, and the target's vocabulary"
        what += f" is smaller: ids up to {_rows(speaker) - 1}"
        raise EngineError(speaker.engine, what, "use the tokenizer that the target was trained with")


def refuse_unwritable(request: Request, output: Sequence[int], speaker: Speaker) -> None:
    """Raise EngineError for a text with ids that the target scores and its tokenizer cannot write: rows of padding."""
    tokenizer = speaker.target.tokenizer
    known = len(tokenizer)
    beyond = (token for token in output if known <= token < _rows(speaker))
    if wrong := [token for token in beyond if not _written(tokenizer, token)]:
        what = f"{request.prompt}: the text holds token id {wrong[0]}, and the tokenizer's vocabulary is smaller than"
        what += f" the target's: ids up to {known - 1}"
        raise EngineError(speaker.engine, what, "use the target's own tokenizer, or bar what pads its vocabulary")


def _written(tokenizer: Any, token: int) -> bool:
    """Whether a tokenizer has a token of this id: where some ids are left out, its last ones exceed its length."""
    try:
        return bool(tokenizer.convert_ids_to_tokens(token))
    except IndexError:
        return False


def own_penalty(model: Any) -> float:
    """The repetition penalty of the checkpoint's own generation config; 1 where it has none."""
    return float(getattr(model.generation_config, "repetition_penalty", None) or 1.0)


def choosing(request: Request, speaker: Speaker) -> tuple[Processor, ...]:
    """What decides which token is the best one, in transformers' order. Raises EngineError for what cannot be said."""
    sampling, model = request.sampling, speaker.target.model
    penalty = own_penalty(model) if sampling.repetition_penalty is None else sampling.repetition_penalty
    eos = ends(request, speaker)
    found: list[Processor] = []
    if sampling.logit_bias:
        found.append(LogitBias({bias.token: bias.value for bias in _known_bias(request, speaker)}))
    if penalty != 1:
        found.append(RepetitionPenalty(penalty))
    if sampling.frequency_penalty or sampling.presence_penalty:
        found.append(CountPenalty(sampling.frequency_penalty, sampling.presence_penalty))
    if words := _forbidden(request, speaker):
        found.append(BadWords(words))
    if sampling.min_tokens and eos:
        found.append(MinTokens(sampling.min_tokens, eos))
    return tuple(found)


def drawing(sampling: Sampling) -> tuple[Processor, ...]:
    """What a draw needs besides: none of it changes which token is the best one."""
    if sampling.greedy:
        return ()
    filters: list[Processor] = [Temperature(sampling.temperature)]
    if sampling.top_k:
        filters.append(TopK(sampling.top_k))
    if sampling.top_p < 1:
        filters.append(TopP(sampling.top_p))
    if sampling.min_p:
        filters.append(MinP(sampling.min_p))
    return tuple(filters)


def processors(request: Request, speaker: Speaker) -> tuple[Processor, ...]:
    """All that reshapes scores for this request. Raises EngineError."""
    return (*choosing(request, speaker), *drawing(request.sampling))


def shaper(request: Request, prompt: Sequence[int], speaker: Speaker) -> Shaper | None:
    """Shapes teacher-forced scores as the request asks, draws aside; None: it asks for nothing. Raises EngineError."""
    wanted = choosing(request, speaker)
    if not wanted:
        return None
    row = Row(0, Job(tuple(prompt), request.max_tokens), list(prompt))

    def shape(scores: Any, output: Sequence[int], at: int) -> Any:
        import torch

        drafted = torch.tensor(output, dtype=torch.long, device=scores.device)
        if scores.dtype.itemsize < 4:  # as the decoder does; what is forbidden besides has no number in float16
            scores = scores.float()
        for processor in wanted:
            scores = processor(scores, row, drafted, at)
        return scores

    return shape


def arguments(request: Request, speaker: Speaker) -> dict[str, Any]:
    """Keyword arguments of ``generate``. Raises EngineError for what transformers cannot do."""
    sampling = request.sampling
    for name in ("frequency_penalty", "presence_penalty"):
        if getattr(sampling, name):
            what = f"transformers knows no {name}"
            raise Unsupported(speaker.engine, what, "use repetition_penalty, or kind: native")
    asked: dict[str, Any] = {"do_sample": not sampling.greedy}
    if not sampling.greedy:
        asked |= {"temperature": sampling.temperature, "top_k": sampling.top_k, "top_p": sampling.top_p}
        asked |= {"min_p": sampling.min_p} if sampling.min_p else {}
    if sampling.repetition_penalty is not None:
        asked["repetition_penalty"] = sampling.repetition_penalty
    if sampling.logit_bias:
        asked["sequence_bias"] = [[[bias.token], bias.value] for bias in _known_bias(request, speaker)]
    if words := _forbidden(request, speaker):
        asked["bad_words_ids"] = [list(word) for word in words]
    if sampling.min_tokens:
        asked["min_new_tokens"] = sampling.min_tokens
    return asked


def _known_bias(request: Request, speaker: Speaker) -> tuple[Bias, ...]:
    rows = int(speaker.target.model.config.get_text_config().vocab_size)
    for bias in request.sampling.logit_bias:
        if bias.token >= rows:
            what = f"logit_bias names token id {bias.token}, and the target scores ids up to {rows - 1}"
            raise EngineError(speaker.engine, what, "look the id up in the target's own tokenizer")
    return request.sampling.logit_bias


def _forbidden(request: Request, speaker: Speaker) -> tuple[tuple[int, ...], ...]:
    """Token ids of every bad word, at the beginning of a text and within it; in the order in which they were given."""
    tokenizer, found = speaker.target.tokenizer, dict[tuple[int, ...], None]()
    for word in request.sampling.bad_words:
        for written in (word, f" {word}"):
            ids = tuple(tokenizer.encode(written, add_special_tokens=False))
            if not ids or tokenizer.unk_token_id in ids:
                what = f"the target's tokenizer cannot write the bad word {word!r}"
                raise EngineError(speaker.engine, what, "remove it: it cannot be said either")
            found[ids] = None
    return tuple(found)
