"""Baselines on disk: what is written comes back, what is broken is told with its place and what to do."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_specgate import baseline
from pytest_specgate.errors import BaselineError, StoreError
from pytest_specgate.records import Anchor, Costs, Counts, Forwards, Place, PromptSamples, Samples, Stored

HERE = Place("Ada 1", 1, "float16")
THERE = Place("cpu", 1, "float32")
GOLDEN = Path(__file__).parents[1] / "golden" / "baseline.json"
SCHEMA = Path(__file__).parents[2] / "docs" / "schema" / "baseline.schema.json"
REFRESH = "restore it from version control, or delete it and record anew: pytest --specgate-update"


def entry(case: str = "e::chat-t0-c1", place: Place = HERE, speed: float = 0.25) -> Stored:
    prompts = (
        PromptSamples("chat-01", "chat-01", {"speedup": (speed, 0.5)}, (Counts(3, 3, 12, 9, 7),), "ab12"),
        PromptSamples("chat-02é", "chat-02é", {}, ()),
    )
    workload = {"prompts": "f00d", "max_tokens": "64"}
    samples = Samples(case, True, prompts, {"vram": 6e9})
    anchor = Anchor("2029-12-31", {"speedup": 1.5})
    costs = Costs((Forwards(1, (0.02, 0.021)), Forwards(5, (0.025, 0.026))), None, 4, 1, 80)
    return Stored(place, workload, {"torch": "2.11"}, "2030-01-31", samples, {"speedup": (0.2, 0.3)}, anchor, costs)


def stored_at(folder: Path, place: Place = HERE, *entries: Stored) -> Path:
    path = baseline.path_for(folder, place, "chat")
    baseline.write(path, "chat", {one.samples.case: one for one in entries or (entry(place=place),)})
    return path


# --- whole ---


def test_what_is_written_is_read(tmp_path: Path) -> None:
    one, other = entry(), entry("e::qa-t0-c1")

    path = stored_at(tmp_path, HERE, one, other)

    assert path == tmp_path / "ada-1-x1-float16" / "chat.json"
    assert baseline.read(path) == {one.samples.case: one, other.samples.case: other}


def test_a_file_from_before_costs_is_read_as_having_none(tmp_path: Path) -> None:
    path = stored_at(tmp_path)
    data = json.loads(path.read_text())
    data["schema"] = 2
    for case in data["cases"].values():
        del case["costs"]
    path.write_text(json.dumps(data))

    assert baseline.read(path) == {"e::chat-t0-c1": replace(entry(), costs=None)}


def test_the_file_reads_like_the_golden_one(tmp_path: Path) -> None:
    path = stored_at(tmp_path, HERE, entry(speed=0.123456789), entry("e::a-t0-c1"))

    assert path.read_text(encoding="utf-8") == GOLDEN.read_text(encoding="utf-8")


def test_writing_what_was_read_changes_nothing(tmp_path: Path) -> None:
    path = stored_at(tmp_path, HERE, entry(speed=1 / 3))
    first = path.read_bytes()

    baseline.write(path, "chat", baseline.read(path))

    assert path.read_bytes() == first


def test_a_changed_number_is_one_changed_line() -> None:
    before = baseline.render("chat", {"e::c": entry("e::c", speed=0.1)}).splitlines()
    after = baseline.render("chat", {"e::c": entry("e::c", speed=0.2)}).splitlines()

    assert len(before) == len(after)
    assert sum(old != new for old, new in zip(before, after)) == 1


def test_the_schema_accepts_the_file_and_is_committed(tmp_path: Path) -> None:
    schema = baseline.json_schema()

    jsonschema.validate(json.loads(stored_at(tmp_path).read_text()), schema)
    assert json.loads(SCHEMA.read_text()) == schema


def test_the_schema_refuses_what_the_reader_refuses(tmp_path: Path) -> None:
    data = json.loads(stored_at(tmp_path).read_text())
    data["cases"]["e::chat-t0-c1"]["extra"] = 1

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, baseline.json_schema())


# --- refused writes ---


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_number_that_is_not_finite_is_never_stored(tmp_path: Path, number: float) -> None:
    path = stored_at(tmp_path)
    before = path.read_bytes()

    with pytest.raises(StoreError) as caught:
        stored_at(tmp_path, HERE, entry(speed=number))

    where = "e::chat-t0-c1.prompts[0].series.speedup[0]"
    what = f"{number} cannot be stored — a number that is not finite was measured"
    assert str(caught.value) == f"{path}: {where}: {what}"
    assert path.read_bytes() == before


def test_entries_of_two_places_or_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    hint = "cannot be stored in one file — write one file a place"

    for entries in ({}, {"a": entry("a"), "b": entry("b", THERE)}):
        with pytest.raises(StoreError) as caught:
            baseline.write(path, "chat", entries)
        assert str(caught.value) == f"{path}: entries of {len(entries)} places {hint}"


def test_secrets_do_not_reach_the_subject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_API_KEY", "hunter2hunter2")
    secretive = replace(entry(), subject={"flags": "--key=hunter2hunter2 -v"})

    path = stored_at(tmp_path, HERE, secretive)

    assert baseline.read(path)["e::chat-t0-c1"].subject == {"flags": "--key=******** -v"}


# --- refused reads ---


def text_with(change: Callable[[dict[str, Any]], object]) -> str:
    data = json.loads(baseline.render("chat", {"e::c": entry("e::c")}))
    change(data)
    return json.dumps(data, indent=1)


def deep(data: dict[str, Any], *path: str | int, to: Any) -> None:
    inner: Any = data
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = to


GOOD = baseline.render("chat", {"e::c": entry("e::c")})
PROMPT = ("cases", "e::c", "prompts", 0)
BROKEN = {
    "empty": ("", f":1:1: is no whole JSON (Expecting value) — {REFRESH}"),
    "cut off": (GOOD[:60], f":3:24: is no whole JSON (Unterminated string starting at) — {REFRESH}"),
    "conflict": (
        "{\n<<<<<<< ours\n}",
        f":2:1: holds a merge conflict — keep one of the two sides, or {REFRESH}",
    ),
    "list": ("[]", f":1:1: is no baseline: it has no 'schema' number — {REFRESH}"),
    "no schema": ('{"suite": "x"}', f":1:1: is no baseline: it has no 'schema' number — {REFRESH}"),
    "schema true": ('{"schema": true}', f":1:2: is no baseline: it has no 'schema' number — {REFRESH}"),
    "newer": (
        '{\n "schema": 4}',
        (":2:2: schema 4 is newer than 3, which this version reads — update pytest-specgate"),
    ),
    "older": (
        '{"schema": 1}',
        ":1:2: schema 1 is older than 3, which this version reads — record it anew: pytest --specgate-update",
    ),
    "twice": ('{"schema": 1,\n "schema": 1}', f":2:2: key 'schema' stands twice — {REFRESH}"),
    "nan": ('{"schema": 1,\n "NaN": NaN}', f":2:9: NaN is no finite number — {REFRESH}"),
    "deep": ("[" * 100_000, f":1:1: is nested too deep — {REFRESH}"),
    "unknown key": (
        text_with(lambda data: deep(data, "extra", to=1)),
        f":88:2: extra: unknown key — {REFRESH}",
    ),
    "missing": ('{"schema": 3}', f":1:1: suite: missing key — {REFRESH}"),
    "greedy": (
        text_with(lambda data: deep(data, "cases", "e::c", "greedy", to="yes")),
        f":19:4: cases.e::c.greedy: expected true or false, got text — {REFRESH}",
    ),
    "series": (
        text_with(lambda data: deep(data, *PROMPT, "series", "speedup", 1, to="fast")),
        f":74:8: cases.e::c.prompts[0].series.speedup[1]: expected a number, got text — {REFRESH}",
    ),
}


COUNTS = (*PROMPT, "counts", 0)
LADDER = "each is at most the next, and none below 0"
NONSENSE = {
    "accepted": (
        text_with(lambda data: deep(data, *COUNTS, "accepted", to=-1)),
        f"cases.e::c.prompts[0].counts[0]: accepted -1, tested 9, drafted 12 cannot be: {LADDER}",
    ),
    "tested": (
        text_with(lambda data: deep(data, *COUNTS, "tested", to=13)),
        f"cases.e::c.prompts[0].counts[0]: accepted 7, tested 13, drafted 12 cannot be: {LADDER}",
    ),
    "drafts": (
        text_with(lambda data: deep(data, *COUNTS, "drafts", to=4)),
        "cases.e::c.prompts[0].counts[0]: 4 drafts in 3 rounds cannot be",
    ),
    "twice": (
        text_with(lambda data: deep(data, "cases", "e::c", "prompts", 1, "prompt", to="chat-01")),
        "cases.e::c.prompts[1].prompt: prompt 'chat-01' is there twice",
    ),
    "log": (
        text_with(lambda data: deep(data, *PROMPT, "series", "speedup", 1, to=1e200)),
        "cases.e::c.prompts[0].series.speedup[1]: 1e+200 cannot be the natural log of speedup",
    ),
    "share": (
        text_with(lambda data: deep(data, *PROMPT, "series", "exact_match", to=[1.5])),
        "cases.e::c.prompts[0].series.exact_match[0]: 1.5 cannot be a value of exact_match",
    ),
    "time": (
        text_with(lambda data: deep(data, *PROMPT, "series", "reference_ttft", to=[-0.1])),
        "cases.e::c.prompts[0].series.reference_ttft[0]: -0.1 cannot be a value of ttft",
    ),
    "block": (
        text_with(lambda data: deep(data, *PROMPT, "series", "block", to=[-1.0])),
        "cases.e::c.prompts[0].series.block[0]: block -1 cannot be",
    ),
    "scalar": (
        text_with(lambda data: deep(data, "cases", "e::c", "scalars", "vram", to=0.0)),
        "cases.e::c.scalars.vram: 0 cannot be a value of vram",
    ),
    "costs": (
        text_with(lambda data: deep(data, "cases", "e::c", "costs", "target", 0, "seconds", 1, to=0)),
        "cases.e::c.costs.target[0].seconds: a forward takes time above zero",
    ),
    "widths": (
        text_with(lambda data: deep(data, "cases", "e::c", "costs", "target", 0, "width", to=7)),
        "cases.e::c.costs.target: widths 7, 5 do not rise from 1",
    ),
    "anchor": (
        text_with(lambda data: deep(data, "cases", "e::c", "anchor", "values", "speedup", to=-2.0)),
        "cases.e::c.anchor.values.speedup: -2 cannot be a value of speedup",
    ),
    "date": (
        text_with(lambda data: deep(data, "cases", "e::c", "recorded", to="yesterday")),
        "cases.e::c.recorded: 'yesterday' is no date",
    ),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_well_formed_nonsense_judges_nothing(tmp_path: Path, name: str) -> None:
    text, said = NONSENSE[name]
    path = tmp_path / "chat.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(BaselineError) as caught:
        baseline.read(path)

    assert str(caught.value).startswith(f"{path}:")
    assert str(caught.value).endswith(f": {said} — {REFRESH}")


def test_a_baseline_under_another_suites_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "code.json"
    path.write_text(GOOD, encoding="utf-8")

    with pytest.raises(BaselineError) as caught:
        baseline.read(path)

    what = "holds numbers of the suite 'chat', but is named for 'code'"
    assert str(caught.value) == f"{path}:2:2: {what} — name it chat.json, or {REFRESH}"


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_told_with_its_place(tmp_path: Path, name: str) -> None:
    text, said = BROKEN[name]
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(BaselineError) as caught:
        baseline.read(path)

    assert str(caught.value) == f"{path}{said}"


def test_every_cut_of_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for length in range(len(GOOD) - 1):  # the last character is the line's end
        path.write_text(GOOD[:length], encoding="utf-8")
        with pytest.raises(BaselineError):
            baseline.read(path)


def test_bytes_that_are_no_text_and_files_that_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with pytest.raises(BaselineError) as caught:
        baseline.read(path)
    assert str(caught.value) == f"{path}: cannot be read (No such file or directory) — check the path"

    path.write_bytes(b"{\xff")
    with pytest.raises(BaselineError) as caught:
        baseline.read(path)
    assert str(caught.value) == f"{path}: byte 1 is not UTF-8 — {REFRESH}"


# --- finding ---


def test_this_places_entry_comes_first_then_the_first_folder(tmp_path: Path) -> None:
    assert baseline.find(tmp_path, "chat", "e::chat-t0-c1", HERE) is None

    stored_at(tmp_path, Place("zeta", 1, "float32"))
    there = stored_at(tmp_path, THERE)
    found = baseline.find(tmp_path, "chat", "e::chat-t0-c1", HERE)
    assert found is not None
    assert (found.path, found.elsewhere, found.stored.place) == (there, True, THERE)

    here = stored_at(tmp_path, HERE)
    found = baseline.find(tmp_path, "chat", "e::chat-t0-c1", HERE)
    assert found is not None
    assert (found.path, found.elsewhere, found.stored.place) == (here, False, HERE)
    assert baseline.find(tmp_path, "chat", "e::other-t0-c1", HERE) is None


def test_a_suites_name_is_no_pattern(tmp_path: Path) -> None:
    stored_at(tmp_path, THERE)

    assert baseline.find(tmp_path, "c*", "e::chat-t0-c1", HERE) is None


def test_a_file_copied_from_another_place_is_refused(tmp_path: Path) -> None:
    path = baseline.path_for(tmp_path, HERE, "chat")
    path.parent.mkdir()
    path.write_bytes(stored_at(tmp_path, THERE).read_bytes())

    with pytest.raises(BaselineError) as caught:
        baseline.find(tmp_path, "chat", "e::chat-t0-c1", HERE)

    what = "holds numbers of cpu-x1-float32, but lies in the folder of ada-1-x1-float16"
    assert str(caught.value) == f"{path}: {what} — move it to {tmp_path / 'cpu-x1-float32'}, or {REFRESH}"


def test_a_changed_workload_is_named_part_by_part() -> None:
    now = {"prompts": "beef", "stop": "()", "max_tokens": "64"}

    assert baseline.mismatch(entry(), now) == ("prompts", "stop")
    assert baseline.mismatch(entry(), dict(entry().workload)) == ()


def test_entries_that_no_case_reads_are_named() -> None:
    assert baseline.unused({"b": entry("b"), "a": entry("a"), "c": entry("c")}, ["c", "d"]) == ("a", "b")
