"""Simulated machines: the times of both arms, many builds at once.

The log of a call's time is its prompt's level, plus the machine's level in this run, plus slow drift (AR(1)), plus
white noise, plus now and then a spike. Pairs run prompt by prompt and round by round, arms in ABBA order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from pytest_specgate.measure.schedule import order

Array = NDArray[np.float64]
PROMPTS = 16
SPEEDUP, PROMPT_SPREAD, LENGTH_SPREAD, SECONDS = 1.5, 0.12, 0.3, 0.02


@dataclass(frozen=True, slots=True)
class Machine:
    """What disturbs calls; shares and sizes are of a call's time.

    ``noise`` is the sd of the white part of a pair's log ratio, ``drift`` the sd of a drift that is forgotten over
    ``length`` calls, ``session`` the sd of the machine's level from run to run, ``ramp`` by how much a run slows from
    its first call to its last, ``spikes`` the share of calls hit and how much longer they take on average, and
    ``first`` what the first call of a pair takes longer.
    """

    noise: float = 0.03
    drift: float = 0.05
    length: float = 50.0
    session: float = 0.0
    ramp: float = 0.0
    spikes: tuple[float, float] = (0.02, 0.30)
    first: float = 0.0


@dataclass(frozen=True, slots=True)
class Levels:
    """Log times per token of the reference arm, and log speed-ups, of every prompt: shape (builds, prompts)."""

    reference: Array
    speedup: Array

    @classmethod
    def draw(cls, random: np.random.Generator, builds: int, prompts: int = PROMPTS, *, exact: bool = True) -> Levels:
        """Prompts of ``builds`` builds. ``exact`` puts the mean speed-up of each set of prompts at 1.5 itself."""
        speedup = random.normal(0, PROMPT_SPREAD, (builds, prompts))
        if exact:
            speedup -= speedup.mean(axis=1, keepdims=True)
        reference = random.normal(math.log(SECONDS), LENGTH_SPREAD, (builds, prompts))
        return cls(reference, math.log(SPEEDUP) + speedup)


@dataclass(frozen=True, slots=True)
class Runs:
    """Seconds per token of both arms: shape (builds, prompts, rounds)."""

    reference: Array
    candidate: Array

    @property
    def ratios(self) -> Array:
        """Log speed-ups of the pairs."""
        return np.log(self.reference / self.candidate)


def run(random: np.random.Generator, machine: Machine, levels: Levels, rounds: int, loss: float = 0.0) -> Runs:
    """One run of every build, its candidate arm slower by ``loss`` of its speed-up."""
    builds, prompts = levels.speedup.shape
    slots = disturbances(random, machine, builds, 2 * prompts * rounds).reshape(builds, rounds, prompts, 2)
    slots[..., 0] += math.log1p(machine.first)
    reference_first = [[order(i, r) == "AB" for i in range(prompts)] for r in range(rounds)]
    place = np.array(reference_first)[None, :, :]
    reference = np.where(place, slots[..., 0], slots[..., 1]).transpose(0, 2, 1)
    candidate = np.where(place, slots[..., 1], slots[..., 0]).transpose(0, 2, 1)
    own = levels.reference[:, :, None]
    speedup = levels.speedup[:, :, None] + math.log1p(-loss)
    return Runs(np.exp(own + reference), np.exp(own - speedup + candidate))


def disturbances(random: np.random.Generator, machine: Machine, builds: int, calls: int) -> Array:
    """What is added to the log time of each call, in the order in which calls are made."""
    keep = math.exp(-1 / machine.length)
    steps = random.normal(0, machine.drift * math.sqrt(1 - keep**2), (builds, calls))
    steps[:, 0] = random.normal(0, machine.drift, builds)
    drift = lfilter([1.0], [1.0, -keep], steps, axis=1)
    share, size = machine.spikes
    spikes = np.where(random.random((builds, calls)) < share, random.exponential(size, (builds, calls)), 0.0)
    level = random.normal(0, machine.session, (builds, 1))
    ramp = np.linspace(0, machine.ramp, calls)
    white = random.normal(0, machine.noise / math.sqrt(2), (builds, calls))
    return np.asarray(drift + np.log1p(spikes) + level + np.log1p(ramp) + white)
