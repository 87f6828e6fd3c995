"""The registry is complete, its baselines are kept apart, and the page says what a run came to."""

from __future__ import annotations

from pathlib import Path

from tests.faults.entry import Entry
from tests.faults.parts import Parts
from tests.faults.settings import Setting
from tests.faults.table import ELSEWHERE, Result, page
from tests.faults.zoo import ENTRIES

FAULTS = [f"V{number:02}" for number in range(1, 58)]
SOUND = [f"N{number}" for number in range(1, 10)]
OWN = [f"X{number}" for number in range(1, 9)]


def result(entry: str, seed: int, **fields: object) -> Result:
    usual = {"ok": True, "right": True, "pardoned": True, "gates": ("greedy_exactness",), "requests": 8, "tokens": 160}
    return Result(id=entry, seed=seed, **{**usual, "error": False, **fields})  # type: ignore[arg-type]


def _entry(number: str) -> Entry:
    return next(entry for entry in ENTRIES if entry.id == number)


def row(*results: Result) -> str:
    """The cells behind what is broken."""
    entry = _entry(results[0].id)
    (line,) = [line for line in page([entry], results).splitlines() if line.startswith(f"| {entry.id} |")]
    return line.partition(f"| {entry.broken} | ")[2]


def test_every_entry_of_the_corpus_is_rebuilt_here_or_named() -> None:
    ids = [entry.id for entry in ENTRIES]
    assert [*(i for i in ids if i[0] == "V"), *(number for number, _ in ELSEWHERE)] == FAULTS
    assert [i for i in ids if i[0] == "N"] == SOUND
    assert [i for i in ids if i[0] == "X"] == OWN
    assert ids == [*(i for i in FAULTS if i in ids), *SOUND, *OWN]


def test_settings_of_one_name_are_one_setting() -> None:
    by_name: dict[str, Setting] = {}
    for entry in ENTRIES:
        assert by_name.setdefault(entry.setting.name, entry.setting) == entry.setting


def test_right_decoders_of_one_name_are_one_decoder() -> None:
    kinds: dict[str, set[Parts]] = {}
    for entry in ENTRIES:
        kinds.setdefault(entry.right_name, set()).add(entry.right)
    assert {name for name, found in kinds.items() if len(found) > 1} == set()


def test_a_row_tells_gates_tokens_and_seeds() -> None:
    assert row(result("V01", 0), result("V01", 1, tokens=162)) == "`greedy_exactness` | 161 tokens | 2 of 2 |"


def test_a_row_tells_what_broke_off_and_what_was_missed() -> None:
    assert row(result("V50", 0, error=True)) == "all: ERROR | 8 requests | 1 of 1 |"
    assert row(result("V01", 0, ok=False, gates=())) == "NOT CAUGHT | 160 tokens | 0 of 1 |"
    red = row(result("V01", 0, ok=False, right=False))
    assert red == "`greedy_exactness` | 160 tokens | 0 of 1 (right decoder red on 1) |"


def test_the_page_names_the_software_that_ran() -> None:
    made = [result("V01", seed, commit="aaa") for seed in (0, 1)]
    assert "2 seeds of each entry, at commit aaa; 1 of 1" in page([_entry("V01")], made)
    both = [_entry("V01"), _entry("V02")]
    twice = [*made, *(result("V02", seed, commit="bbb") for seed in (0, 1))]
    assert "at commit aaa (V02 at commit bbb); 2 of 2" in page(both, twice)
    beyond = page(
        [_entry("V01"), _entry("X1")], [*made, result("X1", 0, commit="aaa"), result("X1", 1, commit="aaa", ok=False)]
    )
    assert "1 of 1 faults caught on all of theirs, 0 of 1 beyond the corpus." in beyond
    assert "## X. Beyond the corpus" in beyond
    later = [result("V01", seed, commit="bbb") for seed in (2, 3, 4)]
    assert "seeds 0 to 1 at commit aaa, 2 to 4 at commit bbb; 1 of 1" in page(both[:1], [*made, *later])


def test_the_committed_page_knows_every_entry() -> None:
    text = (Path(__file__).parents[2] / "docs" / "faults.md").read_text(encoding="utf-8")
    assert all(f"| {entry.id} | {entry.title} | {entry.broken} |" in text for entry in ENTRIES)


def test_what_is_no_fault_asks_for_no_red_gate() -> None:
    assert [entry.id for entry in ENTRIES if not entry.gates] == ["N1", "N2", "N3", "N4", "N5", "N6", "N7"]
