"""Quantities as people write them, and what is said about those that are none."""

# ruff: noqa: E501 -- messages stand as a user reads them
from __future__ import annotations

import pytest

from pytest_specgate.metrics import Unit
from pytest_specgate.units import (
    Allowance,
    Limit,
    did_you_mean,
    format_value,
    parse_allowance,
    parse_bytes,
    parse_limit,
    parse_quantity,
    parse_seconds,
)

QUANTITIES = [
    ("1.3x", Unit.RATIO, 1.3),
    ("1.3 ×", Unit.RATIO, 1.3),
    (2, Unit.RATIO, 2.0),
    ("95%", Unit.FRACTION, 0.95),
    ("57%", Unit.FRACTION, 0.57),
    (0.95, Unit.FRACTION, 0.95),
    (".5", Unit.FRACTION, 0.5),
    ("-0.02", Unit.SLOPE, -0.02),
    ("-2.5 points", Unit.SLOPE, -0.025),
    ("16", Unit.REQUESTS, 16),
    ("0.7 kW", Unit.WATTS, 700),
    ("250 mJ", Unit.JOULES, 0.25),
    ("2.4", Unit.TOKENS, 2.4),
    ("2.4 tokens", Unit.TOKENS, 2.4),
    ("6 GiB", Unit.BYTES, 6 * 2**30),
    ("6gb", Unit.BYTES, 6e9),
    ("1e3 kB", Unit.BYTES, 1e6),
    (5, Unit.BYTES, 5.0),
    ("250 ms", Unit.SECONDS, 0.25),
    ("3 µs", Unit.SECONDS, 3e-6),
    ("3 \u03bcs", Unit.SECONDS, 3e-6),
    ("1.5 min", Unit.SECONDS, 90.0),
    ("2h", Unit.SECONDS, 7200.0),
    ("20 tokens/s", Unit.RATE, 20.0),
    ("20 tok/s", Unit.RATE, 20.0),
    ("-3", Unit.SCORE, -3.0),
]


@pytest.mark.parametrize(("value", "unit", "expected"), QUANTITIES)
def test_a_quantity(value: object, unit: Unit, expected: float) -> None:
    assert parse_quantity(value, unit) == expected


NO_QUANTITIES = [
    (True, Unit.RATIO, "expected a quantity, got True — write it like 1.3x"),
    (None, Unit.BYTES, "expected a quantity, got None — write it like 6 GiB"),
    ("fast", Unit.RATIO, "'fast' is no quantity — write it like 1.3x"),
    ("", Unit.RATE, "'' is no quantity — write it like 20 tokens/s"),
    ("1.3%", Unit.RATIO, "unit '%' does not fit here: '1.3%' — write it like 1.3x"),
    ("250", Unit.SECONDS, "a number without a unit does not fit here: '250' — write it like 250 ms"),
    ("1.2.3", Unit.SCORE, "unit '.3' does not fit here: '1.2.3' — write it like 95"),
    ("1e999", Unit.SCORE, "'1e999' is too large — write it like 95"),
    (float("nan"), Unit.SCORE, "'nan' is no quantity — write it like 95"),
    (float("inf"), Unit.SCORE, "'inf' is no quantity — write it like 95"),
    ("١", Unit.SCORE, "'١' is no quantity — write it like 95"),
    ("1" * 500_000 + "\n1", Unit.SCORE, f"'{'1' * 80}' is no quantity — write it like 95"),
]


@pytest.mark.parametrize(("value", "unit", "message"), NO_QUANTITIES, ids=range(len(NO_QUANTITIES)))
def test_no_quantity(value: object, unit: Unit, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 -- the whole text is compared
        parse_quantity(value, unit)

    assert str(caught.value) == message


def test_bytes_and_seconds_are_positive() -> None:
    assert parse_bytes("1.5 KiB") == 1536
    assert parse_seconds("90 s") == parse_seconds(90) == parse_seconds("1.5 min") == 90.0
    with pytest.raises(ValueError, match=r"^'0 GiB' is not positive — write it like 6 GiB$"):
        parse_bytes("0 GiB")
    with pytest.raises(ValueError, match=r"^'0.2 B' is not positive — write it like 6 GiB$"):
        parse_bytes("0.2 B")
    with pytest.raises(ValueError, match=r"^'-1 s' is not positive — write it like 90 s$"):
        parse_seconds("-1 s")


LIMITS = [
    (">=1.3x", Unit.RATIO, Limit(1.3, None, ">=1.3x")),
    (" <= 6 GiB ", Unit.BYTES, Limit(None, 6 * 2**30, "<= 6 GiB")),
    ("==100%", Unit.FRACTION, Limit(1.0, 1.0, "==100%")),
    ("0.9..1.1x", Unit.RATIO, Limit(0.9, 1.1, "0.9..1.1x")),
    ("1x..1x", Unit.RATIO, Limit(1.0, 1.0, "1x..1x")),
]


@pytest.mark.parametrize(("text", "unit", "expected"), LIMITS)
def test_a_limit(text: str, unit: Unit, expected: Limit) -> None:
    assert parse_limit(text, unit) == expected
    assert parse_limit(expected, unit) is expected


NO_LIMITS = [
    ("1.3x", Unit.RATIO, "limit '1.3x' does not say a direction — write '>=1.3x', '<=1.3x' or 'LOW..HIGH'"),
    (1.3, Unit.FRACTION, "limit 1.3 does not say a direction — write '>=95%', '<=95%' or 'LOW..HIGH'"),
    (">1.3x", Unit.RATIO, "limit '>1.3x' does not say a direction — write '>=1.3x', '<=1.3x' or 'LOW..HIGH'"),
    (["a"], Unit.RATIO, "limit ['a'] does not say a direction — write '>=1.3x', '<=1.3x' or 'LOW..HIGH'"),
    ("2x..1x", Unit.RATIO, "range '2x..1x' runs backwards — write the smaller bound first"),
    ("<=60", Unit.FRACTION, "limit '60' is out of range, which is 0% to 100% — write it like 95% or 0.95"),
    (">=-1x", Unit.RATIO, "limit '-1x' is out of range, which is 0 upwards — write it like 1.3x"),
    (">=", Unit.RATIO, "'' is no quantity — write it like 1.3x"),
    ("<=6", Unit.BYTES, "a number without a unit does not fit here: '6' — write it like 6 GiB"),
]


@pytest.mark.parametrize(("value", "unit", "message"), NO_LIMITS)
def test_no_limit(value: object, unit: Unit, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 -- the whole text is compared
        parse_limit(value, unit)

    assert str(caught.value) == message


ALLOWANCES = [
    ("5%", Unit.RATIO, Allowance(0.05, 0.0, "5%")),
    (0.05, Unit.FRACTION, Allowance(0.0, 0.05, "0.05")),
    ("5% + 64 MiB", Unit.BYTES, Allowance(0.05, 64 * 2**20, "5% + 64 MiB")),
    ("1e+2 B", Unit.BYTES, Allowance(0.0, 100.0, "1e+2 B")),
    ("1x", Unit.RATIO, Allowance(0.0, 1.0, "1x")),
    (0, Unit.RATIO, Allowance(0.0, 0.0, "0")),
    ("2", Unit.SCORE, Allowance(0.0, 2.0, "2")),
]


@pytest.mark.parametrize(("value", "unit", "expected"), ALLOWANCES)
def test_an_allowance(value: object, unit: Unit, expected: Allowance) -> None:
    assert parse_allowance(value, unit) == expected
    assert parse_allowance(expected, unit) is expected


def test_an_allowance_adds_its_parts() -> None:
    assert Allowance(0.05, 10.0, "").of(1000.0) == 60.0
    assert Allowance(0.05, 10.0, "").of(-1000.0) == 60.0


RANGE = "is out of range — write 0 or more and less than 100%, such as 5%"
NO_ALLOWANCES = [
    ("100%", Unit.RATIO, f"allowed change '100%' {RANGE}"),
    ("-5%", Unit.RATIO, f"allowed change '-5%' {RANGE}"),
    ("-0.1", Unit.RATIO, f"allowed change '-0.1' {RANGE}"),
    ("5", Unit.RATIO, "allowed change '5' allows everything — write 5% for a relative change"),
    (5, Unit.FRACTION, "allowed change '5' allows everything — write 5% for a relative change"),
    (True, Unit.RATIO, "expected an allowed change, got True — write it like 5%"),
    ([5], Unit.RATIO, "expected an allowed change, got [5] — write it like 5%"),
    ("5% +", Unit.RATIO, "'' is no quantity — write it like 5% or 1.3x"),
    ("5", Unit.SECONDS, "a number without a unit does not fit here: '5' — write it like 5% or 250 ms"),
    ("5GiB", Unit.RATIO, "unit 'GiB' does not fit here: '5GiB' — write it like 5% or 1.3x"),
]


@pytest.mark.parametrize(("value", "unit", "message"), NO_ALLOWANCES)
def test_no_allowance(value: object, unit: Unit, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 -- the whole text is compared
        parse_allowance(value, unit)

    assert str(caught.value) == message


FORMATTED = [
    (None, Unit.BYTES, "unmeasured"), (float("nan"), Unit.RATIO, "unmeasured"),
    (6.5 * 2**30, Unit.BYTES, "6.5 GiB"), (3 * 2**40, Unit.BYTES, "3 TiB"), (12, Unit.BYTES, "12 B"),
    (0.25, Unit.SECONDS, "250 ms"), (7200, Unit.SECONDS, "2 h"), (90, Unit.SECONDS, "1.5 min"), (0, Unit.SECONDS, "0 s"),
    (0.9512, Unit.FRACTION, "95.1%"), (1.2345, Unit.RATIO, "1.234x"), (20.04, Unit.RATE, "20.0 tokens/s"),
    (2.345, Unit.TOKENS, "2.35"), (95, Unit.SCORE, "95.00"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "unit", "text"), FORMATTED)
def test_a_value_in_a_table(value: float | None, unit: Unit, text: str) -> None:
    assert format_value(value, unit) == text


def test_a_near_miss_is_suggested_and_others_are_not() -> None:
    assert did_you_mean("spedup", ["speedup", "vram"]) == "; did you mean 'speedup'?"
    assert did_you_mean("xyz", ["speedup", "vram"]) == ""
