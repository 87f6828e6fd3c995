"""Whether a lean forward may be believed in 16 bits, shown where rounding hides nothing.

There the scores of two right forwards lie so far apart that a wrong one lies among them: .016 on the bundled target in
bfloat16, and .029 on a small Qwen2 for blocks that see their own future. So a miniature is driven first, of the model's
class with its heads, angles and norms, in narrow matrices whose numbers make attention decide what is said. In float32
its scores must be those of the class's modules almost to the bit, and in the model's own dtype they may lie no further
from these than the modules' do. The course holds what a run holds: prompts, whole or in parts, single tokens and blocks
of even and uneven rows, few and many, blocks over what was rolled back, a moved row, padding past a slot's end; and a
text so long that a position in 16 bits would be another one, with wide blocks at its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import torch
from torch import Tensor

from pytest_specgate.decoding.cache import Span
from pytest_specgate.decoding.projections import LEAST, Packed, packable, parts

#: How far scores of a position may lie apart in float32, relative to their size: some 1e-6 by rounding. Elsewhere
#: products may be made of shorter numbers.
_EXACT = {"cpu": 1e-4}
_EXACT_ELSEWHERE = 1e-3
#: In 16 bits the worst position may lie so many times as far from float32 as the modules' worst: 1.6 at most for some
#: 230 random miniatures, and a sound one must not be turned away.
_ROOM = 3.0
#: Embeddings are small, so that the first layer's attention says most of what the second one reads, and the norms'
#: epsilon counts.
_SMALL = 0.01
#: Queries and keys are large enough for attention to choose.
_KEEN = 1.2
_LENGTH = 16
_FEW, _MANY = 3, 9
#: Longer than bfloat16 can count (to 256), and a block as wide as few drafts are.
_FAR, _WIDE = 320, 17


class Driven(Protocol):
    """A model on its cache, as :class:`~pytest_specgate.decoding.network.Network` drives it."""

    def reserve(self, slots: int, capacity: int) -> None:
        """Have room."""

    def forward(self, tokens: Tensor, span: Span) -> Tensor:
        """Scores of a block."""

    def prefill(self, prompt: Sequence[int], slot: int) -> Tensor:
        """Scores after a prompt."""

    def move(self, source: int, target: int) -> None:
        """Copy a slot."""

    def forced(self, prompt: Sequence[int], output: Sequence[int], width: int) -> Iterator[Tensor]:
        """Scores of a text, block by block."""

    def whole(self, prompt: Sequence[int], output: Sequence[int], most: int) -> Iterator[Tensor]:
        """Scores of a text, read as a prompt."""


@dataclass(frozen=True, slots=True)
class _Found:
    """Scores ``[some, vocabulary]`` of a text from a position on, and of what kind they are."""

    what: str
    text: int
    at: int
    scores: Tensor


def objection(model: Any, drive: Callable[[Any], Driven]) -> str:
    """What speaks against driving the model so in its 16 bits; empty where nothing does.

    ``drive`` drives a model without asking here. Neither the model nor torch's random state is touched.
    """
    try:
        with torch.inference_mode():
            return _objection(model, drive)
    except torch.OutOfMemoryError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, RuntimeError) as error:
        return f"a miniature of it cannot be tried ({type(error).__name__}: {str(error).splitlines()[0][:200]})"


def _objection(model: Any, drive: Callable[[Any], Driven]) -> str:
    wide, narrow = (_miniature(model, dtype) for dtype in (torch.float32, model.dtype))
    if changed := _changed(model, wide):
        return f"{changed} is not as its class makes it"
    source = torch.Generator().manual_seed(1)
    sizes = ((_MANY, _LENGTH), (1, min(_FAR, getattr(model.config, "max_position_embeddings", None) or _FAR)))
    texts = [torch.randint(wide.config.vocab_size, size, generator=source).to(model.device) for size in sizes]
    true, own = ([made(input_ids=each, use_cache=False).logits for each in texts] for made in (wide, narrow))
    allowed = _EXACT.get(torch.device(model.device).type, _EXACT_ELSEWHERE)
    if said := _strays(drive(wide), texts, true, allowed):
        return f"in float32 {said}"
    return _strays(drive(narrow), texts, true, _ROOM * max(float(_apart(*both).max()) for both in zip(own, true)))


def _strays(driven: Driven, texts: Sequence[Tensor], true: Sequence[Tensor], allowed: float) -> str:
    """What lies further from the true scores than allowed, told by its worst; empty if nothing."""
    worst, what = 0.0, ""
    short, far = texts
    for runs, held in ((_Course(driven, short).run(), true[0]), (_Course(driven, far).far(), true[1])):
        for found in runs:
            apart = float(_apart(found.scores, held[found.text, found.at : found.at + len(found.scores)]).max())
            if not apart <= max(allowed, worst):  # what is no number is beyond every limit
                worst, what = apart, found.what
    return f"{what} lie {worst:.2g} from its modules' scores, and {allowed:.2g} is allowed" if what else ""


def _apart(scores: Tensor, true: Tensor) -> Tensor:
    """How far scores lie from the true ones at each position, relative to their size."""
    return (scores.float() - true).norm(dim=-1) / true.norm(dim=-1)


# --- the course -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Course:
    """All ways in which a run makes scores, of ``texts [some, length]``."""

    driven: Driven
    texts: Tensor

    def run(self) -> Iterator[_Found]:
        """Scores of short texts, few and many side by side."""
        self.driven.reserve(_FEW, _LENGTH + 1)
        yield from self._side_by_side([7, 2, 5], "rows of several lengths")
        yield from self._side_by_side([6, 6, 6], "rows of one length")
        self.driven.move(2, 0)
        yield from self._block("a row that was moved", (2,), [13], (2, 2))
        yield from self._prompts([_LENGTH - 2, 3])
        yield from self._block("rows padded past their slot", (0, 1), [_LENGTH - 2, 3], (4, 4))
        text = self.texts[0].tolist()
        yield from self._along("tokens one by one", 5, self.driven.forced(text[:5], text[5:], 1))
        yield from self._along("a text's blocks", 4, self.driven.forced(text[:4], text[4:], 4))
        yield from self._along("a prompt read in parts", 6, self.driven.whole(text[:6], text[6:], 4))
        self.driven.reserve(len(self.texts), _LENGTH + 1)
        yield from self._side_by_side([2 + slot * slot % 5 for slot in range(len(self.texts))], "many rows")

    def far(self) -> Iterator[_Found]:
        """Scores far from the beginning of a text."""
        text = self.texts[0].tolist()
        end = len(text) - 2 * _WIDE
        if end < 1:  # a model that reads no more
            return
        yield from self._along("a long prompt read in parts", end, self.driven.whole(text[:end], text[end:], 128))
        yield from self._along("wide blocks of a long text", end, self.driven.forced(text[:end], text[end:], _WIDE))
        yield from self._along("single tokens of a long text", end, self.driven.forced(text[:end], text[end:], 1))

    def _side_by_side(self, lengths: list[int], what: str) -> Iterator[_Found]:
        yield from self._prompts(lengths)
        for width, kept in ((5, 2), (1, 1), (4, 1), (3, 3)):
            kind = "blocks after a rollback" if width > 1 else "single tokens after a rollback"
            yield from self._block(f"{kind}, {what},", range(len(lengths)), lengths, (width, kept))
            lengths = [length + kept for length in lengths]

    def _prompts(self, lengths: Sequence[int]) -> Iterator[_Found]:
        for slot, length in enumerate(lengths):
            scores = self.driven.prefill(self.texts[slot, :length].tolist(), slot)
            yield _Found("scores after a prompt", slot, length - 1, scores[0])

    def _block(self, what: str, who: Sequence[int], lengths: Sequence[int], size: tuple[int, int]) -> Iterator[_Found]:
        """Slots from 0 on read texts ``who`` on; of ``size`` only the second many tokens are theirs and stay."""
        width, kept = size
        places = torch.tensor(lengths)[:, None] + torch.arange(width)
        tokens = self.texts[torch.tensor(who)[:, None], places.clamp(max=_LENGTH - 1)]
        tokens[:, kept:] = self.texts[0, :1]
        scores = self.driven.forward(tokens, Span(tuple(lengths), width))
        for text, at, made in zip(who, lengths, scores):
            yield _Found(what, text, at, made[: min(kept, _LENGTH - at)])

    def _along(self, what: str, prompt: int, read: Iterator[Tensor]) -> Iterator[_Found]:
        at = prompt - 1
        for scores in islice(read, 4):
            yield _Found(what, 0, at, scores)
            at += len(scores)


# --- the miniature ----------------------------------------------------------------------------------------------


def _miniature(model: Any, dtype: torch.dtype) -> Any:
    """Two layers of the model's class with its heads, angles and norms, and numbers that its own dtype holds."""
    config = deepcopy(model.config)
    shared = config.num_key_value_heads
    head_size = int(model.model.layers[0].self_attn.head_dim)
    # Matrices lie as the model's own do: what is small is not packed.
    wide = all(map(packable, parts(model.model.layers[0]).values()))
    size = max(256, -(-LEAST // (shared * head_size))) if wide else 64
    config.update(
        {
            "num_hidden_layers": 2,
            "hidden_size": size,
            "intermediate_size": size,
            "head_dim": head_size,
            "vocab_size": size,
            "pad_token_id": None,
        }
    )
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:2]
    with torch.device("meta"):
        made = type(model)(config).eval()
    source = torch.Generator().manual_seed(2)
    for name, weight in made.named_parameters():
        numbers = _numbers(name, weight.shape, source).to(model.dtype).to(model.device, dtype)
        owner, _, last = name.rpartition(".")
        setattr(made.get_submodule(owner), last, torch.nn.Parameter(numbers, requires_grad=False))
    made.tie_weights()
    made.model.rotary_emb = deepcopy(model.model.rotary_emb)
    return made


def _numbers(name: str, shape: torch.Size, source: torch.Generator) -> Tensor:
    """Random weights of a size that keeps what flows through the matrices about as large as it was."""
    numbers = torch.randn(shape, generator=source)
    if len(shape) == 1:
        return numbers * 0.3 if name.endswith("bias") else 1 + 0.2 * numbers
    if "embed_tokens" in name:
        return numbers * _SMALL
    keen = _KEEN if "q_proj" in name or "k_proj" in name else 1.0
    return numbers * (keen / shape[-1] ** 0.5)


def _changed(model: Any, made: Any) -> str:
    """The first part of the model that is not what its class makes of it; empty if all are."""
    kinds = {name: type(part) for name, part in made.named_modules()}
    for name, part in model.named_modules():
        kind = torch.nn.Linear if isinstance(part, Packed) else type(part)
        alike = re.sub(r"layers\.\d+", "layers.0", name)
        if kind is not kinds.get(alike) or part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part):  # noqa: SLF001
            return name or "the model"
    return ""
