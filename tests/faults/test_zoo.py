"""One seed of every entry: the right decoder is green, the fault turns a gate of its family red."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_specgate.engines.hf import loading
from tests.faults.judge import Bench, as_it_should_be, pardoned
from tests.faults.models import loaded_once
from tests.faults.zoo import BY_ID, ENTRIES, Entry

SEED = 0
#: One entry for each decoder without a fault, and for each setting that it is run on.
RIGHT = {(entry.right_name, entry.setting.name): entry for entry in ENTRIES}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("zoo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECGATE_CACHE", str(folder / "cache"))
        patch.setattr(loading, "load", loaded_once(loading.load))
        yield Bench(folder)


@pytest.mark.parametrize("entry", RIGHT.values(), ids=lambda entry: f"{entry.right_name}-{entry.setting.name}")
def test_a_right_decoder_is_green(bench: Bench, entry: Entry) -> None:
    seen = bench.run(entry, SEED, "right")
    assert not seen.red, [verdict.reason for verdict in seen.red]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_a_fault_is_caught_and_what_is_none_is_green(bench: Bench, entry: Entry) -> None:
    seen = bench.run(entry, SEED, "faulty")
    assert as_it_should_be(seen, entry), [verdict.reason for verdict in seen.verdicts]


@pytest.mark.parametrize(("entry", "part"), [("V02", "the declared q is wrong")])
def test_the_part_that_broke_is_named(bench: Bench, entry: str, part: str) -> None:
    seen = bench.run(BY_ID[entry], SEED, "faulty")
    blamed = [note for verdict in seen.red for note in verdict.warnings if " is wrong: " in note]
    assert blamed
    assert all(note.startswith(part) for note in blamed), blamed


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if pardoned(entry)], ids=lambda entry: entry.id)
def test_what_is_declared_or_updated_is_pardoned(bench: Bench, entry: Entry) -> None:
    seen = bench.run(entry, SEED, pardoned(entry))
    assert not seen.red, [verdict.reason for verdict in seen.red]
