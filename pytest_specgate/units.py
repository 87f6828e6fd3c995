"""Quantities as people write them: "6 GiB", "1.8x", "95%", "5% + 64 MiB"; parsed to base units, and printed.

Parsers take what YAML gives (a string, or a bare number in the metric's own unit) and raise ValueError
whose text is ``what — what to do``; the suite loader adds file, line and column.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_specgate.metrics import Unit

_BYTES = {
    "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
# Both the micro sign and the Greek letter are in use.
_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "\u03bcs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
}
_SUFFIXES: dict[Unit, dict[str, float]] = {
    Unit.RATIO: {"": 1.0, "x": 1.0, "×": 1.0},
    Unit.FRACTION: {"": 1.0, "%": 0.01},
    Unit.TOKENS: {"": 1.0, "tokens": 1.0},
    Unit.BYTES: {"": 1.0, **_BYTES},
    Unit.SECONDS: _SECONDS,
    Unit.RATE: {"": 1.0, "tokens/s": 1.0, "tok/s": 1.0},
    Unit.SCORE: {"": 1.0},
    Unit.SLOPE: {"": 1.0, "points": 0.01},
    Unit.REQUESTS: {"": 1.0, "requests": 1.0},
    Unit.WATTS: {"": 1.0, "w": 1.0, "kw": 1e3},
    Unit.JOULES: {"": 1.0, "j": 1.0, "kj": 1e3, "mj": 1e-3},
}
_EXAMPLES = {
    Unit.RATIO: "1.3x",
    Unit.FRACTION: "95% or 0.95",
    Unit.TOKENS: "2.4",
    Unit.BYTES: "6 GiB",
    Unit.SECONDS: "250 ms",
    Unit.RATE: "20 tokens/s",
    Unit.SCORE: "95",
    Unit.SLOPE: "-0.02",
    Unit.REQUESTS: "8",
    Unit.WATTS: "300 W",
    Unit.JOULES: "0.5 J",
}
#: What a bound can be, in numbers and in words, where that is not 0 upwards.
_SPANS = {Unit.FRACTION: (0.0, 1.0, "0% to 100%"), Unit.SLOPE: (-1.0, 1.0, "-1 to 1")}
_NUMBER = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*(\D.*)?")
_MAX_LENGTH = 80


@dataclass(frozen=True, slots=True)
class Limit:
    """An absolute demand: ``low <= value <= high``, None where open; ``text`` is as written."""

    low: float | None
    high: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Allowance:
    """A tolerated change from a stored value: a relative part plus an absolute one in the metric's unit."""

    relative: float
    absolute: float
    text: str

    def of(self, stored: float) -> float:
        """The tolerated change in the metric's unit, for this stored value."""
        return self.relative * abs(stored) + self.absolute


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``"; did you mean 'speedup'?"`` for a near miss, else an empty string."""
    close = difflib.get_close_matches(str(word), list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def parse_quantity(value: object, unit: Unit) -> float:
    """A finite number in the unit's base; "%" is for fractions only, and seconds need a unit."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"expected a quantity, got {value!r} — write it like {_EXAMPLES[unit]}")
    text = str(value).strip()
    match = _NUMBER.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        raise ValueError(f"{text[:_MAX_LENGTH]!r} is no quantity — write it like {_EXAMPLES[unit]}")
    suffix = match[2] or ""
    factor = _SUFFIXES[unit].get(suffix.lower())
    if factor is None:
        given = f"unit {suffix!r}" if suffix else "a number without a unit"
        raise ValueError(f"{given} does not fit here: {text!r} — write it like {_EXAMPLES[unit]}")
    # Dividing by the whole number rounds once, so that 57% is 0.57; multiplying by 0.01 would not.
    number = float(match[1]) * factor if factor >= 1 else float(match[1]) / round(1 / factor)
    if not math.isfinite(number):
        raise ValueError(f"{text!r} is too large — write it like {_EXAMPLES[unit]}")
    return number


def parse_bytes(value: object) -> int:
    """``"6 GiB"`` → bytes, positive."""
    number = int(parse_quantity(value, Unit.BYTES))
    if number <= 0:
        raise ValueError(f"{value!r} is not positive — write it like 6 GiB")
    return number


def parse_seconds(value: object) -> float:
    """``"90 s"`` → seconds, positive; a bare number is taken as seconds."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = f"{value} s"
    seconds = parse_quantity(value, Unit.SECONDS)
    if seconds <= 0:
        raise ValueError(f"{value!r} is not positive — write it like 90 s")
    return seconds


def parse_limit(value: object, unit: Unit) -> Limit:
    """``">=1.3x"``, ``"<=6 GiB"``, ``"==100%"``, ``"1.0x..1.6x"`` → Limit."""
    if isinstance(value, Limit):
        return value
    example = _EXAMPLES[unit].split(" or ")[0]
    text = value.strip() if isinstance(value, str) else ""
    if text[:2] in (">=", "<=", "=="):
        number = _bound(text[2:], unit)
        low = None if text.startswith("<=") else number
        high = None if text.startswith(">=") else number
        return Limit(low, high, text)
    if ".." in text:
        first, last = (_bound(part, unit) for part in text.split("..", 1))
        if first > last:
            raise ValueError(f"range {text!r} runs backwards — write the smaller bound first")
        return Limit(first, last, text)
    what = f"limit {value!r} does not say a direction"
    raise ValueError(f"{what} — write '>={example}', '<={example}' or 'LOW..HIGH'")


def _bound(text: str, unit: Unit) -> float:
    number = _amount(text, unit)
    low, high, span = _SPANS.get(unit, (0.0, math.inf, "0 upwards"))
    if not low <= number <= high:
        # "<=60" for 60% would hold whatever is measured.
        raise ValueError(f"limit {text.strip()!r} is out of range, which is {span} — write it like {_EXAMPLES[unit]}")
    return number


def _amount(text: str, unit: Unit) -> float:
    """A quantity that somebody wrote by hand: "6" of memory is not meant to be six bytes."""
    number = parse_quantity(text, unit)
    if unit is Unit.BYTES and 0 < abs(number) < _BYTES["mib"] and text.strip()[-1].isdigit():
        what = f"a number without a unit does not fit here: {text.strip()!r}"
        raise ValueError(f"{what} — write it like {_EXAMPLES[unit]}")
    return number


def parse_allowance(value: object, unit: Unit) -> Allowance:
    """``"5%"``, ``"0.05"``, ``"5% + 64 MiB"`` → Allowance; of a share, "5%" is relative, "0.05" absolute."""
    if isinstance(value, Allowance):
        return value
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"expected an allowed change, got {value!r} — write it like 5%")
    relative = absolute = 0.0
    for part in re.split(r"(?<![eE])\+", str(value)):
        if part.strip().endswith("%"):
            relative += parse_quantity(part, Unit.FRACTION)
        else:
            absolute += _absolute(part, unit)
    if relative < 0 or absolute < 0 or relative >= 1:
        raise ValueError(f"allowed change {value!r} is out of range — write 0 or more and less than 100%, such as 5%")
    return Allowance(relative, absolute, str(value).strip())


def _absolute(text: str, unit: Unit) -> float:
    try:
        number = _amount(text, unit)
    except ValueError as error:
        what, _, example = str(error).partition(" — write it like ")
        raise ValueError(f"{what} — write it like 5% or {example.split(' or ')[0]}") from error
    bare = text.strip()[-1:].isdigit() or text.strip().endswith(".")
    if number >= 1 and bare and unit in (Unit.RATIO, Unit.FRACTION, Unit.SLOPE):
        # A drop of "5" from 1.8x or from 70% would allow everything, and 5% is what was meant.
        raise ValueError(
            f"allowed change {text.strip()!r} allows everything — write {text.strip()}% for a relative change"
        )
    return number


def many(number: int, what: str) -> str:
    """``1 run``, ``3 runs``: what takes an s."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def format_value(value: float | None, unit: Unit) -> str:
    """Four significant figures at most, with the unit, as a table shows it."""
    if value is None or math.isnan(value):
        return "unmeasured"
    if unit is Unit.BYTES:
        return _scaled(value, ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")), "B")
    if unit is Unit.SECONDS:
        return _scaled(value, ((3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs")), "s")
    if unit is Unit.FRACTION:
        return f"{value * 100:.1f}%"
    if unit is Unit.RATIO:
        return f"{value:.3f}x"
    if unit is Unit.RATE:
        return f"{value:.1f} tokens/s"
    if unit is Unit.REQUESTS:
        return f"{value:g} requests"
    if unit in (Unit.WATTS, Unit.JOULES):
        return f"{value:.4g} {unit.value}"
    if unit is Unit.SLOPE:
        return f"{value * 100:+.2f} points"
    return f"{value:.2f}" if abs(value) < 1000 else f"{value:.0f}"


def _scaled(value: float, steps: tuple[tuple[float, str], ...], base: str) -> str:
    for size, name in steps:
        if abs(value) >= size:
            return f"{value / size:.4g} {name}"
    return f"{value:.4g} {base}"
