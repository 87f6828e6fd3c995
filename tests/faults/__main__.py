"""``python -m tests.faults --seeds 20``: run the zoo and write ``docs/faults.md``.

Results are kept in a ledger line by line, seed by seed over all entries, so that a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from pytest_specgate.engines.hf import loading
from tests.faults.judge import Bench, as_it_should_be, pardoned
from tests.faults.models import loaded_once
from tests.faults.table import Result, page
from tests.faults.zoo import ENTRIES, Entry

ROOT = Path(__file__).parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="seeds of every entry")
    parser.add_argument("--only", default="", help="entries by id, with commas; default: all")
    parser.add_argument("--ledger", type=Path, help="file of results to go on from; default: none is kept")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "faults.md", help="page to write")
    chosen = parser.parse_args()
    logging.disable(logging.WARNING)
    # Reading the same small models from disk again and again is a good part of the time.
    with tempfile.TemporaryDirectory() as folder, patch.object(loading, "load", loaded_once(loading.load)):
        os.environ["SPECGATE_CACHE"] = f"{folder}/cache"
        ledger = chosen.ledger or Path(folder) / "ledger.jsonl"
        entries = [entry for entry in ENTRIES if not chosen.only or entry.id in chosen.only.split(",")]
        known, commit = {(result.id, result.seed): result for result in _read(ledger)}, _commit()
        for seen in _run(Bench(Path(folder)), entries, range(chosen.seeds), known):
            result = dataclasses.replace(seen, commit=commit)
            with ledger.open("a", encoding="utf-8") as file:
                file.write(json.dumps(dataclasses.asdict(result)) + "\n")
            said = "as it should be" if result.ok else "NOT as it should be"
            sys.stdout.write(f"{result.id} seed {result.seed}: {said} {', '.join(result.gates)}\n")
            sys.stdout.flush()
        results = [result for result in _read(ledger) if result.seed < chosen.seeds]
    chosen.page.write_text(page(ENTRIES, results), encoding="utf-8")
    return 0 if all(result.ok and result.right and result.pardoned for result in results) else 1


def _commit() -> str:
    """The commit that runs, with a + where files differ from it."""
    asked = ["git", "-C", str(ROOT), "describe", "--always", "--exclude=*", "--abbrev=10", "--dirty=+"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def _read(ledger: Path) -> list[Result]:
    if not ledger.is_file():
        return []
    rows = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
    found = {(row["id"], row["seed"]): Result(**{**row, "gates": tuple(row["gates"])}) for row in rows}
    return list(found.values())


def _run(bench: Bench, entries: list[Entry], seeds: range, known: dict[tuple[str, int], Result]) -> Iterator[Result]:
    green: dict[tuple[str, str], bool] = {}
    for seed in seeds:
        green.clear()
        for entry in entries:
            if (entry.id, seed) in known:
                continue
            alike = (entry.right_name, entry.setting.name)
            if alike not in green:
                green[alike] = not bench.run(entry, seed, "right").red
            seen = bench.run(entry, seed, "faulty")
            other = pardoned(entry)
            yield Result(
                id=entry.id,
                seed=seed,
                ok=green[alike] and as_it_should_be(seen, entry),
                right=green[alike],
                pardoned=not other or not bench.run(entry, seed, other).red,
                gates=seen.gates,
                requests=seen.requests,
                tokens=seen.enough,
                error=seen.broke_off,
            )


if __name__ == "__main__":
    sys.exit(main())
