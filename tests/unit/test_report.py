"""What people and machines read of a run: golden text, hostile text, narrow terminals, whole documents."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.errors import StoreError
from pytest_specgate.masking import masked, masker
from pytest_specgate.records import (
    Anchor,
    Arm,
    Check,
    Chunk,
    Counts,
    Interval,
    Look,
    Measurement,
    Outcome,
    Pair,
    Place,
    PromptSamples,
    Samples,
    Stored,
    Trace,
    Verdict,
)
from pytest_specgate.report import document
from pytest_specgate.report.escape import columns, flat, harmless, in_ascii, one_line, visible
from pytest_specgate.report.failure import failure_text
from pytest_specgate.report.junit import properties
from pytest_specgate.report.summary import change_lines
from pytest_specgate.report.terminal import lines
from pytest_specgate.samples.values import values

GOLDEN = Path(__file__).parents[1] / "golden"
SCHEMA = Path(__file__).parents[2] / "docs" / "schema" / "report.schema.json"
PLACE = Place("cpu", 1, "float32")


LOOKS = (Look(1, Outcome.INCONCLUSIVE), Look(2, Outcome.FAIL, Interval(1.1, 1.05, 1.15)))


def verdict(
    outcome: Outcome = Outcome.FAIL, case: str = "tiny::chat-t0-c1", reason: str = "slower than allowed"
) -> Verdict:
    found = Interval(1.1, 1.05, 1.15)
    checks = (
        Check("limit", ">=1.2x", outcome, "1.100x is below", found, looks=LOOKS),
        Check("max_drop", "5%", Outcome.PASS, "within", Interval(0.99, 0.97, 1.01)),
    )
    advice, stored = "look at the draft's cost", Interval(1.3, 1.3, 1.3)
    return Verdict(
        "speedup",
        "speedup",
        case,
        outcome,
        reason,
        advice,
        found,
        stored,
        checks,
        ("few",),
        location="s.yaml:9:5",
    )


def trace(arm: Arm, ids: tuple[int, ...], text: str) -> Trace:
    return Trace("chat-01/1", arm, ids, text, 3, 0, (Chunk(5, len(ids)),), "eos")


def measurement(one: Trace, other: Trace) -> Measurement:
    pair = Pair("chat-01/1", "chat-01", 0, "AB", one, other)
    return Measurement("tiny::chat-t0-c1", "scripted", PLACE, {}, {}, (pair,), greedy=True)


PARTED = measurement(
    trace(Arm.REFERENCE, (1, 2, 3), "One two  three"), trace(Arm.CANDIDATE, (1, 2, 4), "One two\nthree")
)
VERDICTS = (
    verdict(),
    replace(verdict(Outcome.PASS, "tiny::qa-t0-c1", "kept"), warnings=()),
    Verdict("vram", "vram", "other::qa-t0-c1", Outcome.ERROR, "not measured", "use a GPU", location="s.yaml:12:5"),
    replace(verdict(Outcome.INCONCLUSIVE, "other::qa-t0-c1", "cannot tell"), softened="waived: until 2030"),
)


# --- terminal ---


@pytest.mark.parametrize(("name", "ascii_only"), [("terminal.txt", False), ("terminal-ascii.txt", True)])
def test_the_section_reads_like_the_golden_one(name: str, ascii_only: bool) -> None:
    text = "\n".join(lines(VERDICTS, 120, ascii_only=ascii_only)) + "\n"

    assert text == (GOLDEN / name).read_text(encoding="utf-8")


def test_what_stopped_several_gates_is_said_once() -> None:
    stopped = replace(
        verdict(Outcome.ERROR, "two::qa-t0-c1"), reason="two: unknown option 'sped'", advice="valid: seed", warnings=()
    )
    other_gate = replace(stopped, gate="tpot", location="s.yaml:13:5")
    other_case = replace(stopped, case="two::chat-t0-c1")
    other_engine = replace(stopped, case="three::qa-t0-c1")

    def said(*verdicts: Verdict) -> list[str]:
        return [line for line in lines(verdicts, 120) if line.startswith(("ERROR", "    "))]

    where = f"ERROR {stopped.location}"
    assert said(stopped, other_gate) == [
        f"{where}: two::qa-t0-c1: unknown option 'sped' (stopped speedup, tpot)",
        "    next: valid: seed",
    ]
    assert said(stopped, other_case)[0] == f"{where}: two, 2 cases: unknown option 'sped' (stopped speedup)"
    assert [line for line in said(stopped, other_engine) if line.startswith("ERROR")] == [
        f"{where}: two::speedup[qa-t0-c1]: two: unknown option 'sped'",
        f"{where}: three::speedup[qa-t0-c1]: two: unknown option 'sped'",
    ]


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_tables_fit_the_width_and_cases_stay_apart(width: int) -> None:
    names = [f"tiny::a-rather-long-scenario-with-a-name-that-goes-on-t0-c{number}" for number in (1, 16)]
    shown = list(lines([replace(verdict(Outcome.PASS, name), warnings=()) for name in names], width))

    assert max(map(len, shown)) <= width
    assert len({line.split()[0] for line in shown[3:5]}) == 2
    assert shown[3].split()[0].endswith("c1")
    assert shown[4].split()[0].endswith("c16")
    assert ("[1.050x, 1.150x]" in shown[3]) == (width >= 100)


def test_ascii_tables_are_aligned() -> None:
    shown = list(lines([verdict()], 120, ascii_only=True))

    assert shown[1].index("verdict") == shown[2].rindex(" ") + 1 == shown[3].index("FAIL")


def test_nothing_is_shortened_where_there_is_room() -> None:
    name = "a-rather-long-scenario-with-a-name-that-goes-on-t0-c1"

    assert any(name in line for line in lines([verdict(case=f"tiny::{name}")], 200))


def test_a_reason_cannot_forge_lines_or_colours() -> None:
    hostile = replace(verdict(reason="x\nPASS everything\x1b[32m\u202e"), gate="g\x1b]0;", location="a\x07")
    shown = list(lines([hostile], 120))

    assert not any(line.startswith("PASS") for line in shown)
    assert not any(c in line for line in shown for c in "\x1b\x07\u202e\n")
    assert any(r"x PASS everything\x1b[32m\u202e" in line for line in shown)


# --- escapes ---


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\rb", r"a\rb"),
        ("\x00\x7f\x9b", r"\x00\x7f\x9b"),
        ("\u202eabc\u2066", r"\u202eabc\u2066"),
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("\U000e0041", r"\U000e0041"),
        ("\ud800", r"\ud800"),
        ("a\tb\nc é 漢", "a\tb\nc é 漢"),
    ],
)
def test_what_a_terminal_would_obey_becomes_visible(text: str, safe: str) -> None:
    assert harmless(text) == safe


@given(st.text(alphabet=st.characters()))
def test_no_text_breaks_a_line_or_an_encoding(text: str) -> None:
    for made in (flat(text), visible(text), one_line(text, 20)):
        assert len(made.splitlines()) <= 1
        made.encode("utf-8")
        in_ascii(made).encode("ascii")
    assert len(one_line(text, 20)) <= 20


def test_spaces_stay_visible_where_they_are_the_difference() -> None:
    assert visible("a  b\n\tc") == r"a  b\n\tc"
    assert columns("漢字e\u0301") == 5


# --- failure ---


def test_a_failure_reads_like_the_golden_one() -> None:
    exact = Verdict(
        "exact_match", "exact_match", "tiny::chat-t0-c1", Outcome.FAIL, "1 of 1 prompts differ", "compare dtypes",
        Interval(0, 0, 0), None, (Check("limit", "==100%", Outcome.FAIL, "0.0% is below", Interval(0, 0, 0)),),
        location="s.yaml:9:5",
    )  # fmt: skip
    text = f"{failure_text(verdict())}\n\n{failure_text(exact, PARTED)}\n"

    assert text == (GOLDEN / "failure.txt").read_text(encoding="utf-8")


def test_an_output_that_only_ends_earlier_is_told_so() -> None:
    ends = measurement(trace(Arm.REFERENCE, (1, 2), "ab"), trace(Arm.CANDIDATE, (1,), "a"))
    text = failure_text(replace(verdict(), metric="exact_match"), ends)

    assert "first divergence: chat-01/1, output token 2\n    reference (id 2): ab\n    candidate (ends): a\n" in text


# --- JUnit ---


def test_properties_are_flat_and_what_is_unmeasured_is_absent() -> None:
    assert properties(verdict()) == [
        ("specgate.metric", "speedup"),
        ("specgate.outcome", "FAIL"),
        ("specgate.value", "1.1"),
        ("specgate.low", "1.05"),
        ("specgate.high", "1.15"),
        ("specgate.baseline", "1.3"),
        ("specgate.limit", ">=1.2x"),
        ("specgate.max_drop", "5%"),
    ]
    assert properties(VERDICTS[2]) == [("specgate.metric", "vram"), ("specgate.outcome", "ERROR")]
    assert properties(VERDICTS[3])[-1] == ("specgate.softened", "waived: until 2030")


# --- old → new ---


def stored(speed: float, accepted: int, torch: str, **scalars: float) -> Stored:
    logs = {"speedup": (math.log(speed), math.log(speed * 4))}
    prompts = (PromptSamples("a", "a", logs, (Counts(10, 10, 40, 30, accepted), Counts(10, 10, 40, 10, 0))),)
    return Stored(PLACE, {}, {"torch": torch, "same": "1"}, "2030-01-31", Samples("e::c", True, prompts, scalars))


def test_a_later_baseline_is_also_compared_with_the_first() -> None:
    first = Anchor("2029-12-31", {"speedup": 4.0})
    new = replace(stored(1.2, 20, "2.13"), anchor=first)
    _, head, _, speedup, *_ = change_lines("e::c", stored(1.5, 10, "2.11"), new)

    assert head.split() == ["metric", "old", "new", "change", "since", "2029-12-31"]
    assert speedup.split() == ["speedup", "3.000x", "2.400x", "-20.0%", "-40.0%"]


def test_one_number_a_metric() -> None:
    assert values(stored(1.5, 10, "2", vram=5.0).samples) == pytest.approx({
        "speedup": 3.0, "vram": 5.0, "acceptance_rate": 0.125, "conditional_acceptance": 0.25,
        "acceptance_length": 1.5,
    })  # fmt: skip
    assert values(Samples("c", True, (PromptSamples("a", "a", {}, (Counts(3, 0, 0, 0, 0),)),))) == {}


def test_an_update_reads_like_the_golden_one() -> None:
    text = "\n".join(
        [
            *change_lines("e::c", stored(1.5, 10, "2.11"), stored(1.2, 20, "2.13", vram=2.0**30)),
            *change_lines("e::new", None, stored(1.2, 20, "2.13")),
        ]
    )

    assert text + "\n" == (GOLDEN / "update.txt").read_text(encoding="utf-8")


# --- document ---

REPORT = document.new_report(VERDICTS, {"s.yaml": (PARTED,)}, 1, {"cpu": "x"}, ["careful"])


def test_a_report_comes_back_whole_and_fits_its_schema(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    odd = replace(REPORT, warnings=("half \ud83d pair, \x1b and \u202e",))

    document.write(path, odd)

    assert document.read(path) == odd
    jsonschema.validate(json.loads(path.read_text(encoding="utf-8")), document.json_schema())


def test_the_committed_schema_is_that_of_the_report() -> None:
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == document.json_schema()


@pytest.mark.parametrize("secret", ['quo"te\\d-é', "12345678", "measurements", "hunter2hunter2"])
def test_secrets_do_not_reach_a_report_nor_break_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv("MY_TOKEN", secret)
    monkeypatch.setenv("MY_PASSWORD", "short")
    leaky = replace(REPORT, exit_status=12345678, warnings=(f"key {secret}.", "short"), machine={secret: secret})

    document.write(tmp_path / "r.json", leaky)

    back = document.read(tmp_path / "r.json")
    assert back.warnings == ("key ********.", "short")
    assert back.machine == {"********": "********"}
    assert back.exit_status == 12345678


def test_the_longer_of_two_secrets_goes_first_and_no_secret_changes_nothing() -> None:
    hide = masker({"A_KEY": "abcdefgh", "B_KEY": "abcdefgh-ijkl", "HOME": "/home/someone"})

    assert hide("abcdefgh-ijkl abcdefgh /home/someone") == "******** ******** /home/someone"
    assert masker({})("abcdefgh") == "abcdefgh"


@pytest.mark.parametrize("shown", ["{}", "a {}.", "{} {}"])
def test_a_secret_of_several_lines_is_known_however_it_is_shown(shown: str) -> None:
    secret = "-----BEGIN KEY-----\nabc+/=\n-----END KEY-----\n"
    hide = masker({"DEPLOY_KEY": secret})

    for text in (secret.strip(), flat(secret), visible(secret.strip()), repr(secret.strip())[1:-1]):
        assert hide(shown.replace("{}", text)) == shown.replace("{}", "********")
    assert hide("-----BEGIN KEY-----") == "-----BEGIN KEY-----"


def test_short_and_blank_values_are_no_secrets() -> None:
    text = "true, and 8 blanks:         ."
    assert masker({"USE_TOKEN": "true", "NO_KEY": " " * 9, "ANY_SECRET": ""})(text) == text


def test_a_masked_verdict_differs_in_its_texts_alone() -> None:
    secret = "correct-horse"
    check = Check("limit", ">=1x", Outcome.FAIL, f"below, says {secret}")
    verdict = Verdict(
        gate="speedup", metric="speedup", case=f"{secret}::qa", outcome=Outcome.FAIL, reason=f"of {secret}",
        advice=f"ask {secret}", checks=(check,), warnings=(f"warm {secret}",), location=f"{secret}.yaml:1:1",
        softened=f"waived: {secret}",
    )  # fmt: skip

    hidden = masked(verdict, masker({"MY_PASSWORD": secret}))

    assert secret not in repr(hidden)
    assert repr(hidden).count("********") == 7
    assert replace(hidden, **{name: getattr(verdict, name) for name in (
        "case", "reason", "advice", "checks", "warnings", "location", "softened"
    )}) == verdict  # fmt: skip


GIVE = "give a file that --specgate-report wrote"
TEXT = document.to_json(REPORT)
BROKEN = {
    "cut off": (TEXT[:11], ":2:10: is no whole JSON (Expecting ':' delimiter) — write it again"),
    "list": ("[]", f": is no report: it has no 'schema' number — {GIVE}"),
    "newer": ('{"schema": 99}', f": report schema 99, this version reads {document.SCHEMA} — update pytest-specgate"),
    "older": ('{"schema": 2}', f": report schema 2, this version reads {document.SCHEMA} — write it again"),
    "wrong": (
        TEXT.replace('"exit_status": 1', '"exit_status": "1"'),
        ":5:2: exit_status: expected a whole number, got text — write it again",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_report_is_told_with_its_place(name: str) -> None:
    text, said = BROKEN[name]

    with pytest.raises(StoreError) as caught:
        document.from_json(text, Path("r.json"))

    assert str(caught.value) == f"r.json{said}"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with pytest.raises(StoreError) as caught:
        document.read(path)
    assert str(caught.value) == f"{path}: cannot be read (No such file or directory) — {GIVE}"

    path.write_bytes(b"\xff")
    with pytest.raises(StoreError) as caught:
        document.read(path)
    assert str(caught.value) == f"{path}: byte 0 is not UTF-8 — {GIVE}"


def test_a_report_of_numbers_that_are_not_finite_is_not_written(tmp_path: Path) -> None:
    broken = replace(REPORT, verdicts=(replace(verdict(), measured=Interval(math.nan, 1, 2)),))

    with pytest.raises(StoreError) as caught:
        document.write(tmp_path / "r.json", broken)

    what = "nan cannot be stored — a number that is not finite was measured"
    assert str(caught.value) == f"the report cannot be stored (verdicts[0].measured.value: {what})"
    assert not (tmp_path / "r.json").exists()
