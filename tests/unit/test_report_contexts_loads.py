"""What changes along the context and with the number of requests at once: reductions, tables, the turning point."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_specgate.records import Arm, Capacity, Chunk, Measurement, MemoryReading, Pair, Spent, Throughput, Trace
from pytest_specgate.report import contexts, loads
from pytest_specgate.report.html import tables
from pytest_specgate.report.html.page import html
from pytest_specgate.report.loads import Load, Turn
from pytest_specgate.report.markdown import markdown
from pytest_specgate.report.numbers import Estimate
from tests.unit.reporting import Page, fixed, measured

MS = 1_000_000


def long_case() -> Measurement:
    """Requests of 1,500 prompt tokens and 700 output tokens: 10 ms a token up to 2,048 tokens of context, then 20."""
    (taken,) = fixed().measurements["s.specgate.yaml"]
    return replace(taken, pairs=tuple(_pair(f"q{n}", turn, n) for turn in range(4) for n in range(2)))


def _pair(prompt: str, turn: int, number: int) -> Pair:
    began = (2 * turn + number) * 1_000_000 * MS
    at, chunks = began, []
    for count in range(700):
        at += (10 if 1500 + count < 2048 else 20) * MS + number * MS
        chunks.append(Chunk(at, 1))
    spent = Spent(700, 700, 700, 1, 1, 1, 1, 1, cache_bytes=2200 * 64, draft_cache_bytes=0)
    one = Trace(prompt, Arm.REFERENCE, tuple(range(700)), "", 1500, began, tuple(chunks), "length", spent=spent)
    quick = tuple(Chunk((began + chunk.t_ns) // 2, chunk.tokens) for chunk in chunks)
    other = replace(one, arm=Arm.CANDIDATE, chunks=quick, spent=replace(spent, cache_bytes=2200 * 80))
    return Pair(prompt, prompt, turn, "AB", one, other)


def test_times_and_caches_are_told_by_doublings_of_the_context() -> None:
    short, far = contexts.by_context(long_case())

    assert (short.first, short.last, far.first, far.last) == (1024, 2047, 2048, 2199)
    assert [one.value for one in short.itl if one] == pytest.approx([0.0105, 0.00525], rel=1e-3)
    assert [one.value for one in far.itl if one] == pytest.approx([0.0205, 0.01025], rel=1e-3)
    assert all(one.low and one.high and one.low <= one.value <= one.high for b in (short, far) for one in b.itl if one)
    assert short.cache == (2047 * 64, 2047 * 80)
    assert short.acceptance is None
    assert contexts.is_long([short, far])


def test_acceptance_stands_in_its_bucket() -> None:
    (taken,) = fixed().measurements["s.specgate.yaml"]
    found = contexts.by_context(taken)

    assert [one.first for one in found] == [16, 32]
    assert [round(one.acceptance.value, 3) for one in found if one.acceptance] == [0.667, 0.667]
    assert not contexts.is_long(found)


def test_one_bucket_is_no_table() -> None:
    taken = long_case()
    pairs = []
    for pair in taken.pairs:
        one, other = (replace(trace, chunks=trace.chunks[:100]) for trace in (pair.reference, pair.candidate))
        pairs.append(replace(pair, reference=one, candidate=other))
    assert contexts.by_context(replace(taken, pairs=tuple(pairs))) == []


def test_long_contexts_are_shown_on_the_page_and_in_markdown() -> None:
    report = replace(fixed(), measurements={"s.specgate.yaml": (long_case(),)}, baselines={})
    row = ["2048–2199", "not measured", "20.5 ms", "10.2 ms"]
    page = Page(html(report)).text
    assert page.index("By context") < page.index("2048–2199")
    (line,) = [line for line in markdown(report).splitlines() if "2048–2199" in line]
    assert all(part.split()[0] in line for part in row)
    assert "By context" not in markdown(fixed())


def rates(*pairs: tuple[int, float, float]) -> dict[Arm, MemoryReading]:
    by_arm = {arm: tuple(Throughput(p[0], p[1 + n]) for p in pairs) for n, arm in enumerate(Arm)}
    return {
        Arm.REFERENCE: MemoryReading(capacity=Capacity(40, True, by_arm[Arm.REFERENCE])),
        Arm.CANDIDATE: MemoryReading(capacity=Capacity(32, False, by_arm[Arm.CANDIDATE])),
    }


SEARCH = rates((1, 10.0, 16.0), (2, 20.0, 28.0), (4, 40.0, 44.0), (8, 80.0, 72.0), (16, 120.0, 90.0))


def test_the_search_for_capacity_says_where_the_speedup_turns() -> None:
    room = loads.searched(SEARCH)
    assert room is not None
    assert [(one.concurrency, one.ratio.value if one.ratio else None) for one in room.loads] == [
        (1, 1.6), (2, 1.4), (4, 1.1), (8, 0.9), (16, 0.75),
    ]  # fmt: skip
    found = loads.turn(room.loads)
    assert found is not None
    assert (found.below, found.above) == (4, 8)
    assert found.at == pytest.approx(5.56, abs=0.01)
    assert loads.told(room.loads) == (
        "the draft's cost turns the speed-up around between 4 and 8 requests at once (the lines cross near 5.56)"
    )
    assert loads.room_told(room) == (
        "requests that fit at once (max_batch): 32 or more (the search ended there) with the draft, "
        "40 without the draft"
    )
    refusing = loads.room_told(replace(room, refusing=frozenset(Arm)))
    assert refusing.endswith("40 (more were turned away: 429 or 503) without the draft")


@pytest.mark.parametrize(
    ("ratios", "turned", "said"),
    [
        ((1.2, 1.0), None, "the candidate arm gives no fewer tokens per second anywhere between 1 and 2"),
        ((0.9, 0.8), None, "the candidate arm gives fewer tokens per second everywhere between 1 and 2"),
        ((1.2, 0.9, 1.1), None, "the arms change places more than once between 1 and 4"),
        ((1.0, 0.5), Turn(1, 2, 1.0), "the draft's cost turns the speed-up around between 1 and 2"),
        ((1.2,), None, ""),
    ],
)
def test_what_is_said_of_other_shapes(ratios: tuple[float, ...], turned: Turn | None, said: str) -> None:
    found = [Load(2**n, None, None, Estimate(ratio)) for n, ratio in enumerate(ratios)]
    assert loads.turn(found) == turned
    assert loads.told(found).startswith(said)
    assert bool(loads.told(found)) == bool(said)


def test_how_full_the_rounds_were_stands_beside_the_throughput() -> None:
    load = Load(8, Estimate(100.0), Estimate(110.0), Estimate(1.1), (0.953, 0.91))
    assert loads.cells(load)[-1] == "95.3% / 91.0%"
    assert loads.cells(replace(load, filled=(None, 0.91)))[-1] == "not measured / 91.0%"
    assert loads.cells(replace(load, filled=(None, None)))[-1] == "not measured"


def test_the_page_shows_table_picture_and_turning_point() -> None:
    (taken,) = fixed().measurements["s.specgate.yaml"]
    made = tables.room(replace(taken, memory=SEARCH))
    page = Page(made)
    assert "The draft's cost turns the speed-up around between 4 and 8" in page.text
    assert "32 or more" in page.text
    assert [one for one in page.all("path") if one.get("class") == "even"]
    assert ("td", "0.900x") in page.texts
    assert tables.room(taken) == ""


def test_scenarios_at_several_concurrencies_are_tables_too(tmp_path: Path) -> None:
    report = measured(tmp_path)
    text = markdown(report)
    assert "### Throughput by requests at once" in text
    (row,) = [line for line in text.splitlines() if line.startswith("| `quick::qa-t0` | 4 |")]
    assert row.count("tokens/s") == 2 * 3
    assert "anywhere between 1 and 4 requests at once" in text
    assert Page(html(report)).text.count("Throughput by requests at once, tokens per second (qa-t0") == 3
