"""What is printed can be read again, and reading keeps order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.metrics import Unit
from pytest_specgate.units import format_value, parse_allowance, parse_limit, parse_quantity

# Half a unit in the last place that the table prints.
ROUNDING = {Unit.RATIO: 5e-4, Unit.FRACTION: 5e-4, Unit.TOKENS: 5e-3, Unit.RATE: 5e-2, Unit.SCORE: 5e-3}
ROUNDING |= {Unit.SLOPE: 5e-5}
UNITS = st.sampled_from(list(Unit))
MAGNITUDES = st.floats(0, 1e15, allow_subnormal=False)
SHARES = st.integers(0, 9_999)
SIZES = st.sampled_from(["B", "KiB", "MiB", "GiB", "kB", "MB", "GB"])


@given(MAGNITUDES, UNITS)
def test_a_printed_value_reads_back_within_its_rounding(value: float, unit: Unit) -> None:
    read = parse_quantity(format_value(value, unit), unit)

    assert read == pytest.approx(value, rel=6e-4, abs=ROUNDING.get(unit, 0.0) * 1.01)


@given(MAGNITUDES, UNITS)
def test_printing_what_was_read_gives_the_same_text(value: float, unit: Unit) -> None:
    text = format_value(value, unit)
    again = format_value(parse_quantity(text, unit), unit)

    # Only at a step between units may the text change: "1024 KiB" reads back as "1 MiB".
    assert again == text or parse_quantity(again, unit) == parse_quantity(text, unit)


@given(st.integers(0, 10_000))
def test_a_percentage_is_rounded_once(hundredths: int) -> None:
    assert parse_quantity(f"{hundredths / 100:.2f}%", Unit.FRACTION) == float(f"{hundredths / 100:.2f}") / 100


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_range_keeps_its_order(one: float, two: float) -> None:
    low, high = sorted((one, two))
    limit = parse_limit(f"{low!r}x..{high!r}x", Unit.RATIO)

    assert (limit.low, limit.high) == (low, high)


@given(st.floats(0, 1e9))
def test_a_one_sided_limit_holds_its_number(number: float) -> None:
    above, below = parse_limit(f">={number!r}", Unit.TOKENS), parse_limit(f"<={number!r}", Unit.TOKENS)

    assert (above.low, above.high, below.low, below.high) == (number, None, None, number)


@given(SHARES, st.integers(0, 2_000), SIZES, st.integers(0, 2**50))
def test_a_sum_allows_as_much_as_its_parts(share: int, amount: int, size: str, stored: int) -> None:
    percent, absolute = f"{share / 100:.2f}%", f"{amount} {size}"
    both = parse_allowance(f"{percent} + {absolute}", Unit.BYTES)
    parts = parse_allowance(percent, Unit.BYTES).of(stored) + parse_allowance(absolute, Unit.BYTES).of(stored)

    assert both.of(stored) == parts


@given(st.text(max_size=120), UNITS)
def test_any_text_is_a_number_or_an_error_with_advice(text: str, unit: Unit) -> None:
    try:
        assert isinstance(parse_quantity(text, unit), float)
    except ValueError as error:
        assert " — write it like " in str(error)  # noqa: PT017 -- both ways out are right
