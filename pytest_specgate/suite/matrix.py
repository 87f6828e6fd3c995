"""A matrix of engines as a suite writes it: axes with options, of which every combination is an engine.

Each option holds some of an engine's settings. An engine's settings are those that all share, under those of its
options in the order of the axes, under those of the rules that match it. How engines come of it stands in
``suite.expanding``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field, model_validator

from pytest_specgate.suite.quantities import Chosen, Name, Strict

#: An engine's settings, any part of them; they are validated where they are whole.
Settings = dict[str, object]


class Rule(Strict):
    """What holds for some cells alone: further settings, or that they are left out."""

    where: dict[Name, Chosen] = Field(
        min_length=1, description="options by axis, one or a list of them", examples=["{AXIS: OPTION}"]
    )
    engine: Settings = Field(default_factory=dict, description="settings laid over those of the options")
    skip: str | None = Field(None, min_length=3, description="why these cells are left out")

    @model_validator(mode="after")
    def _does_something(self) -> Rule:
        if bool(self.engine) == (self.skip is not None):
            raise ValueError("a rule says one thing of its cells — give 'engine: {...}' or 'skip: why'")
        return self


class MatrixSpec(Strict):
    """Engines by their options: one for every combination of an option of each axis."""

    engine: Settings = Field(default_factory=dict, description="settings that all engines share")
    axes: dict[Name, Annotated[dict[Name, Settings], Field(min_length=1)]] = Field(
        min_length=1,
        description="options by axis, each some of an engine's settings; names of engines are options joined by +",
        examples=["{AXIS: {OPTION: {dtype: float32}}}"],
    )
    rules: tuple[Rule, ...] = Field((), description="what holds for some cells alone; later ones win")


@dataclass(frozen=True, slots=True)
class Axis:
    """A direction of the matrix, and its options in order."""

    name: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A cell without an engine, and why."""

    place: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Grid:
    """Where each engine of a matrix stands: its options, one per axis.

    ``gates`` is how many verdicts each engine gets where all of it runs; one that is not named has no such number.
    """

    axes: tuple[Axis, ...]
    engines: Mapping[str, tuple[str, ...]]
    left_out: tuple[LeftOut, ...] = ()
    gates: Mapping[str, int] = field(default_factory=dict)

    def chosen(self, where: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
        """The engines that have, on every axis named, one of these options."""
        return tuple(name for name, place in self.engines.items() if matches(self.axes, place, where))


def matches(axes: tuple[Axis, ...], place: tuple[str, ...], where: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether a cell has one of the options on every axis that is named."""
    return all(option in where.get(axis.name, (option,)) for axis, option in zip(axes, place))
