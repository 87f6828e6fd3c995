"""``runs.jsonl``: whole lines from any number of writers, torn ones named, newer ones refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from pytest_specgate.errors import StoreError
from pytest_specgate.history import store
from pytest_specgate.history.record import json_schema
from tests.unit.histories import case, run, stored

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "docs" / "schema" / "history.schema.json"
WRITER = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from pytest_specgate.history import store
from tests.unit.histories import case, run
print("ready", flush=True)
sys.stdin.readline()
long = case({{"speedup": 1.5}}, case=f"{{sys.argv[2]}}::" + "x" * 3000)
for number in range(20):
    store.append(Path(sys.argv[1]), run(number, *[long] * 5))
"""


def test_runs_come_back_as_they_were_in_the_order_of_their_time(tmp_path: Path) -> None:
    later = run(3, case({"speedup": 1.5}, baseline=stored("speedup", 1.4), broken=("noise",)))
    store.append(tmp_path / "new", later)
    store.append(tmp_path / "new", run(1))

    assert store.read(tmp_path / "new").runs == (run(1), later)
    assert store.read(tmp_path / "new").problems == ()


def test_writers_at_once_lose_and_mix_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER.format(root=str(ROOT)), str(tmp_path)]
    writers = [
        subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for name in "abc"
    ]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            writer.communicate("go\n", timeout=300)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()

    history = store.read(tmp_path)

    assert history.problems == ()
    names = [one.cases[0].case[0] for one in history.runs]
    assert {name: names.count(name) for name in "abc"} == {"a": 20, "b": 20, "c": 20}


def test_a_torn_last_line_is_named_and_the_next_run_stands_on_its_own(tmp_path: Path) -> None:
    path = store.append(tmp_path, run(1))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])

    history = store.read(tmp_path)
    assert history.runs == (run(1),)
    assert history.problems == (f"{path}:2: is cut off, and was left out — remove it, or run that commit again",)

    store.append(tmp_path, run(2))
    again = store.read(tmp_path)
    assert again.runs == (run(1), run(2))
    assert again.problems == (f"{path}:2: is no whole line, and was left out — remove it, or run that commit again",)


def test_a_line_of_another_form_is_left_out_and_named(tmp_path: Path) -> None:
    path = store.append(tmp_path, run(1))
    data = json.loads(path.read_text())
    data["exit_status"] = "none"
    path.write_text(path.read_text() + json.dumps(data) + "\n[]\n\n")

    assert store.read(tmp_path).problems == (
        f"{path}:2: exit_status: expected a whole number, got text, and was left out — remove the line",
        f"{path}:3: is no run: it has no 'schema' number, and was left out — remove the line",
    )


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = store.append(tmp_path, run(1))
    path.write_text(path.read_text() + '{"schema": 2}\n')

    with pytest.raises(StoreError) as caught:
        store.read(tmp_path)

    what = f"{path}:2: history schema 2 is newer than 1, which this version reads"
    assert str(caught.value) == f"{what} — update pytest-specgate"


@pytest.mark.parametrize(
    ("content", "what"), [(None, "cannot be read (No such file or directory)"), ("", "holds no run")]
)
def test_no_history_is_no_empty_one(tmp_path: Path, content: str | None, what: str) -> None:
    path = tmp_path / "runs.jsonl"
    if content is not None:
        path.write_text(content)

    with pytest.raises(StoreError) as caught:
        store.read(tmp_path)

    assert str(caught.value) == f"{path}: {what} — give a folder that --specgate-history wrote to"


def test_a_folder_that_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")

    with pytest.raises(StoreError) as caught:
        store.append(tmp_path / "taken" / "history", run(1))

    path = tmp_path / "taken" / "history" / "runs.jsonl"
    assert str(caught.value) == f"{path}: cannot be written (Not a directory) — choose a writable folder"


def test_secrets_are_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "correct-horse")

    path = store.append(tmp_path, run(1, case({}, subject={"flags": "--key correct-horse"})))

    assert "correct-horse" not in path.read_text()


def test_numbers_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="the run cannot be stored"):
        store.append(tmp_path, run(1, case({"speedup": float("nan")})))


def test_the_committed_schema_describes_the_lines(tmp_path: Path) -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    line = store.append(tmp_path, run(1, case({"speedup": 1.5}, anchor=stored("speedup", 1.6)))).read_text()

    assert schema == json_schema(), "write it anew: python -m pytest_specgate schema history > " + str(SCHEMA)
    jsonschema.Draft202012Validator(schema).validate(json.loads(line))
