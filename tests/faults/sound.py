"""The corpus' negative controls that are no matter of drawing: what looks like a fault and is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from pytest_specgate.decoding.cache import SlotLayer
from pytest_specgate.decoding.drafters.base import NoDraft
from tests.faults.caches import Cached
from tests.faults.entry import Entry
from tests.faults.parts import OWN, Parts
from tests.faults.settings import ENDLESS, GREEDY, PLAIN

#: Texts without an end: where rounding turns a tie, a text may end elsewhere, and that is another story.
_HALF = replace(PLAIN, name="half-precision", kind="endless", dtype="bfloat16")
_TEXTS = (GREEDY[0], *GREEDY[1:3])


class FewBitsLayer(SlotLayer):
    """Keeps keys and values in four bits, scaled by the largest of each head."""

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        return super().update(_rounded(key_states), _rounded(value_states))


def _rounded(states: Tensor) -> Tensor:
    scale = states.abs().amax(dim=-1, keepdim=True) / 7
    return (states / scale).round() * scale


class FewBits(Cached):
    layer = FewBitsLayer


def restless(model: Any) -> Any:
    """A target whose logits are never twice the same, as kernels that add in any order make them."""
    source = torch.Generator().manual_seed(0)

    def disturb(module: Any, inputs: Any, logits: Tensor) -> Tensor:
        return logits + _RESTLESS * torch.randn(logits.shape, generator=source, dtype=logits.dtype)

    model.lm_head.register_forward_hook(disturb)
    return model


#: Standard deviation, in logits.
_RESTLESS = 0.02
_NOISY = Parts(loaded=restless, drafter=lambda rig: NoDraft())

ENTRIES = (
    Entry(
        "N1",
        "near ties flip between forwards of one and of k+1 tokens",
        "bfloat16: verification rounds differently than decoding one by one",
        (),
        OWN,
        setting=_HALF,
        note="green is neither FAIL nor ERROR. On some seeds of N1, N3 and N4 the gate says that this target disagrees "
        "with itself in bfloat16, and stays undecided.",
    ),
    Entry(
        "N2",
        "without speculation at all, two runs agree on a part of the prompts",
        "the target's logits scatter from call to call, and nothing is drafted",
        (),
        _NOISY,
        setting=replace(PLAIN, name="restless", kind="endless", prompts=24, gates=_TEXTS),
        right=_NOISY,
        right_name="restless",
    ),
    Entry(
        "N3",
        "a draft that is the target is not always accepted in half precision",
        "bfloat16: the draft is the target itself",
        (),
        OWN,
        setting=replace(_HALF, name="twin", twin=True),
    ),
    Entry(
        "N4",
        "texts part at the same token for unrelated drafters",
        "bfloat16: prompt lookup meets the same ties as a draft model",
        (),
        OWN,
        setting=replace(_HALF, name="half-precision-lookup", lookup=True),
    ),
    Entry(
        "N8",
        "a cache in few bits lowers acceptance for real",
        "the draft keeps keys and values in four bits: another subject, whose acceptance is another",
        ("conditional_acceptance", "acceptance_length", "acceptance_rate"),
        Parts(draft=FewBits),
        # Where texts end soon, some hundred tokens may by chance be accepted as before.
        setting=ENDLESS,
        updated=True,
    ),
)
