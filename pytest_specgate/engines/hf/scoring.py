"""A text's logits under the target, teacher-forced, with bounded memory.

Only four numbers per position leave the device; full rows of logits exist for :data:`MOST_BYTES` at a time. Texts are
scored whole, several in one forward (padded on the right, where a causal model does not look), or on a key-value cache
in forwards of a given number of tokens: one is how plain decoding reads, k+1 how verification does. Where a request
reshapes scores, by a penalty say, so does its scoring: the numbers are those that a choice is made by, draws aside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_specgate.engines.hf.shaping import Shaper, Speaker, refuse_unwritable, shaper
from pytest_specgate.errors import EngineError
from pytest_specgate.logits import Scores
from pytest_specgate.records import Request

if TYPE_CHECKING:
    from pytest_specgate.engines.hf.reading import Readers

T = TypeVar("T")

#: Rows of logits that one forward may make, in bytes of float32.
MOST_BYTES = 1 << 28

#: Settings of a checkpoint that change which token is the highest and that no request can ask for, each with the values
#: that do not.
_PROCESSORS: Mapping[str, tuple[object, ...]] = {
    "no_repeat_ngram_size": (None, 0),
    "bad_words_ids": (None,),
    "suppress_tokens": (None,),
    "begin_suppress_tokens": (None,),
    "sequence_bias": (None,),
    "min_length": (None, 0),
    "min_new_tokens": (None, 0),
    "forced_eos_token_id": (None,),
}

#: The same for tokens that are drawn, which filters reach too.
_FILTERS: Mapping[str, tuple[object, ...]] = {
    "min_p": (None, 0.0),
    "typical_p": (None, 1.0),
    "epsilon_cutoff": (None, 0.0),
    "eta_cutoff": (None, 0.0),
    "top_h": (None,),
    "guidance_scale": (None, 1.0),
    "watermarking_config": (None,),
    "exponential_decay_length_penalty": (None,),
}

#: The logit of a token that the request forbids: a number that no model gives and every file can hold.
FORBIDDEN = -1e9

#: best, best_ids, runner_up, emitted.
_Rows = tuple[list[float], list[int], list[float], list[float]]


@dataclass(frozen=True, slots=True)
class Text:
    """A text to force: the prompt's name and ids, the output's ids, and how its request shapes scores (None: not)."""

    name: str
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    shape: Shaper | None = None


#: Makes logits ``[tokens, vocabulary]`` of a text in order, so many tokens a forward (None: as there is room for).
Blocks = Callable[[Text, int | None], Iterator[Any]]


def forced(
    asked: Sequence[tuple[Request, tuple[int, ...]]], outputs: Sequence[tuple[int, ...]], speaker: Speaker
) -> list[Text]:
    """Each output as answer to the request, with its prompt's ids, at the same place. Raises EngineError."""
    for (request, _), output in zip(asked, outputs):
        refuse_unwritable(request, output, speaker)
    return [
        Text(request.prompt, prompt, output, shaper(request, prompt, speaker))
        for (request, prompt), output in zip(asked, outputs)
    ]


def refuse_processed(model: Any, engine: str, *, drawn: bool = False) -> None:
    """Raise EngineError where the checkpoint's own settings change the logits in a way that scoring does not follow."""
    for name, value in processed(model, drawn=drawn):
        so = "its tokens are not drawn as the request says" if drawn else "its choice is not the highest logit"
        what = f"the target's generation config sets {name}: {value}, so {so}"
        raise EngineError(engine, what, f"remove {name} from generation_config.json, or the gate")


def processed(model: Any, *, drawn: bool = False) -> list[tuple[str, object]]:
    """The checkpoint's own settings, its repetition penalty apart, that change which token is the highest.

    ``drawn``: or how likely the others are.
    """
    known = {**_PROCESSORS, **(_FILTERS if drawn else {})}
    found = [(name, getattr(model.generation_config, name, None)) for name in known]
    return [(name, value) for name, value in found if value not in known[name]]


def score(
    speaker: Speaker,
    texts: Sequence[Text],
    width: int | None,
    readers: Readers | None = None,
    blocks: Blocks | None = None,
) -> list[Scores]:
    """Scores in the order of the texts. Raises EngineError for ids beyond the model's and logits that are no numbers.

    ``width`` tokens a forward, one text at a time; None is as many of each as the memory bound takes. ``blocks`` makes
    the logits where they are not to be those of the model's own modules.
    """
    import torch

    from pytest_specgate.engines.hf.forcing import blockwise
    from pytest_specgate.engines.hf.reading import Readers, Voice, pieces

    model = speaker.target.model
    refuse_foreign(model, texts, speaker.engine)
    parts: list[list[_Rows]] = [[] for _ in texts]
    with torch.inference_mode():
        if width or blocks:
            read = blocks or (lambda text, width: blockwise(model, text, width or 1))
            for text, found in zip(texts, parts):
                done = 0
                for rows in read(text, width):
                    found.append(_reduced(rows, text, done))
                    done += len(rows)
        else:
            for piece in pieces(readers or Readers(), [Voice(model)], texts, rows_at_once(model)):
                parts[piece.text].append(_reduced(piece.logits[0], texts[piece.text], piece.at))
    return [_finite(_joined(found), text.name, speaker.engine) for found, text in zip(parts, texts)]


def rows_at_once(model: Any) -> int:
    """Rows of logits that one forward may make."""
    return max(1, MOST_BYTES // (4 * int(model.config.get_text_config().vocab_size)))


def refuse_foreign(model: Any, texts: Sequence[Text], engine: str) -> None:
    """Raise EngineError for a text with ids that the model does not score."""
    rows = int(model.config.get_text_config().vocab_size)
    for text in texts:
        if wrong := [i for i in text.output if not 0 <= i < rows]:
            what = f"{text.name}: the text holds token id {wrong[0]}, and the target scores ids up to {rows - 1}"
            raise EngineError(engine, what, "decode with the target's own vocabulary")


def _joined(parts: Sequence[_Rows]) -> _Rows:
    best, best_ids, runner_up, emitted = zip(*parts)
    return _flat(best), _flat(best_ids), _flat(runner_up), _flat(emitted)


def _flat(lists: Iterable[list[T]]) -> list[T]:
    return [item for one in lists for item in one]


def _reduced(rows: Any, text: Text, at: int) -> _Rows:
    """Reduce the logits of the text's output tokens from the ``at``-th on, shaped as the request asks."""
    import torch

    if text.shape is not None:
        shaped = text.shape(rows, text.output, at)
        rows = shaped.masked_fill(shaped.isneginf() & ~rows.isneginf(), FORBIDDEN)
    output = text.output[at : at + len(rows)]
    top = rows.topk(2, dim=-1)
    emitted = rows.gather(-1, torch.tensor(output, device=rows.device)[:, None])[:, 0]
    best, runner_up = top.values.double().unbind(-1)
    return best.tolist(), top.indices[:, 0].tolist(), runner_up.tolist(), emitted.double().tolist()


def _finite(rows: _Rows, prompt: str, engine: str) -> Scores:
    for position, numbers in enumerate(zip(*rows)):
        if not all(map(math.isfinite, numbers)):
            what = f"{prompt}: the target's logits at output token {position + 1} are not finite numbers"
            raise EngineError(engine, what, "look at the target's weights and dtype: float16 overflows at 65504")
    best, best_ids, runner_up, emitted = rows
    return Scores(tuple(best), tuple(best_ids), tuple(runner_up), tuple(emitted))
