"""Random numbers by address: the same seed, position and purpose give the same number, whatever ran before.

A generator with a state would make a request's text depend on the order in which the loop asks: on its neighbours in
the batch and on how tokens fall into rounds. Here a number is a hash of its address (SplitMix64: Steele, Lea and Flood,
"Fast splittable pseudorandom number generators", OOPSLA 2014), computed on the device for all rows at once.

Numbers of one address may be read again for another context after a rejection. That is exact: what is emitted at a
position depends on numbers of this and earlier positions alone, so those of a later one are still fresh.
"""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

_GAMMA = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


class Purpose(IntEnum):
    """What a number decides at its position."""

    DRAFT = 0
    ACCEPT = 1
    TARGET = 2


def uniforms(seeds: Tensor, positions: Tensor, purpose: Purpose) -> Tensor:
    """Numbers in [0, 1) in float64: ``seeds [rows, 1]`` and ``positions [rows, width]`` are int64, so is the shape."""
    address = positions * len(Purpose) + int(purpose) + 1
    mixed = _mix(_mix(seeds * _signed(_GAMMA)) + address * _signed(_GAMMA))
    return (_shifted(mixed, 11)).to(torch.float64) * 2.0**-53


def _mix(word: Tensor) -> Tensor:
    word = (word ^ _shifted(word, 30)) * _signed(_FIRST)
    word = (word ^ _shifted(word, 27)) * _signed(_SECOND)
    return word ^ _shifted(word, 31)


def _shifted(word: Tensor, by: int) -> Tensor:
    """Shift right without the sign: torch has no unsigned arithmetic."""
    return (word >> by) & ((1 << (64 - by)) - 1)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >= 1 << 63 else word
