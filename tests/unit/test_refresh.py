"""What an update stores beside the numbers, and what it refuses: losses, limits that cannot be held, broken rules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate import baseline, recording
from pytest_specgate.records import Anchor, Outcome, PromptSamples, Samples, Stored
from pytest_specgate.refresh import Change, update_baselines
from pytest_specgate.session import SuiteSession
from pytest_specgate.settings import Settings
from pytest_specgate.suite.cases import expand
from tests.unit.project import load, write

DRIFT = {"metric": "speedup", "max_drop": "5%"}
TOKENS = {"metric": "acceptance_length", "max_drop": "1%"}
CASE = "tiny::qa-t0-c1"
MORE = [{"id": f"q{n}", "turns": [f"Say {n} words of it."]} for n in range(1, 17)]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECGATE_CACHE", str(tmp_path / ".cache"))


def recorded(
    folder: Path,
    gate: Mapping[str, object] = DRIFT,
    *,
    prompts: Sequence[Mapping[str, object]] = MORE,
    measure: Mapping[str, object] | None = None,
    sessions: int = 1,
    accept_loss: bool = False,
    **options: object,
) -> Change:
    """What an update does on an engine with these options."""
    path = write(folder, gate, options=options, prompts=prompts, measure=measure or {})
    suite, case = load(path)
    settings = Settings(folder / "baselines", update=True, update_sessions=sessions, accept_loss=accept_loss)
    session = SuiteSession(suite, "tiny", settings)
    session.case(case)
    (change,) = update_baselines(session, frozenset())
    return change


def stored(change: Change) -> Stored:
    return baseline.read(change.path)[CASE]


# --- how much is recorded ---


def rounds_in(change: Change) -> int:
    return len(stored(change).samples.prompts[0].series["speedup"])


def test_a_quiet_machine_records_what_the_suite_asks_for(tmp_path: Path) -> None:
    assert rounds_in(recorded(tmp_path, measure={"rounds": 2}, noise=0.001)) == 2


def test_a_finer_allowance_asks_for_more_rounds_up_to_sixteen(tmp_path: Path) -> None:
    same: dict[str, Any] = {"measure": {"rounds": 4}, "noise": 0.018}
    assert rounds_in(recorded(tmp_path, {"metric": "speedup", "max_drop": "4%"}, **same)) == 4
    assert rounds_in(recorded(tmp_path, {"metric": "speedup", "max_drop": "2.4%"}, **same)) == 16


def test_exact_gates_ask_for_one_round(tmp_path: Path) -> None:
    assert rounds_in(recorded(tmp_path, TOKENS, measure={"rounds": 8}, noise=0.05)) == 1


def test_a_limit_alone_asks_for_no_more(tmp_path: Path) -> None:
    gate = {"metric": "speedup", "limit": ">=1.1x"}
    assert rounds_in(recorded(tmp_path, gate, measure={"rounds": 3}, noise=0.05)) == 3


def test_a_change_finer_than_the_noise_is_refused_with_what_can_be_held(tmp_path: Path) -> None:
    change = recorded(tmp_path, {"metric": "speedup", "max_drop": "0.5%"}, noise=0.03)
    assert change.new is None
    what = "speedup: max_drop 0.5% cannot be held: 8 rounds of pairs that scatter by "
    assert change.refused.startswith(what)
    assert " resolve no change below " in change.refused
    assert not change.path.exists()


def test_the_change_named_as_holdable_is_accepted(tmp_path: Path) -> None:
    refused = recorded(tmp_path, {"metric": "speedup", "max_drop": "0.5%"}, noise=0.03).refused
    least = refused.partition("no change below ")[2].partition("%")[0]
    again = recorded(tmp_path, {"metric": "speedup", "max_drop": f"{float(least) + 0.1:.1f}%"}, noise=0.03)
    assert again.refused == ""


def test_a_baseline_of_an_older_schema_is_replaced(tmp_path: Path) -> None:
    path = recorded(tmp_path).path
    path.write_text(path.read_text().replace(f'"schema": {baseline.SCHEMA}', '"schema": 1'))
    change = recorded(tmp_path)
    assert (change.old, change.refused) == (None, "")
    assert stored(change).samples.prompts


# --- sessions ---


def test_sessions_are_recorded_in_processes_of_their_own(tmp_path: Path) -> None:
    change = recorded(tmp_path, sessions=3, measure={"rounds": 2}, noise=0.001)
    entry = stored(change)
    assert rounds_in(change) == 6
    assert all(len(prompt.counts) == 6 for prompt in entry.samples.prompts)
    assert {name: len(levels) for name, levels in entry.sessions.items()}["speedup"] == 3
    assert math.exp(entry.sessions["speedup"][2]) == pytest.approx(1.5, rel=0.01)
    assert "exact_match" not in entry.sessions


def test_one_session_says_nothing_about_others(tmp_path: Path) -> None:
    assert stored(recorded(tmp_path)).sessions == {}


def samples(level: float) -> Samples:
    return Samples("c", True, (PromptSamples("p", "p", {"speedup": (level, level)}),))


def test_the_spread_between_sessions_is_relative() -> None:
    found = recording.levels([samples(level) for level in (0.40, 0.41, 0.42)])
    assert found == {"speedup": (0.40, 0.41, 0.42)}
    assert recording.spread(found["speedup"]) == pytest.approx(math.expm1(0.01))
    assert recording.spread((0.1, 0.5)) == 0.0


def test_a_change_that_a_restart_makes_is_refused_with_what_can_be_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "levels", lambda _: {"speedup": (0.40, 0.42, 0.44)})
    change = recorded(tmp_path, {"metric": "speedup", "max_drop": "5%"}, noise=0.001)
    assert change.refused == ("speedup: max_drop 5.0% cannot be held: sessions differ by 2.02%; allow at least 10.1%")


# --- losses ---


def test_a_loss_that_the_gate_does_not_allow_asks_for_consent(tmp_path: Path) -> None:
    first = recorded(tmp_path, speedup=1.5)
    refused = recorded(tmp_path, speedup=1.3)
    assert refused.new is None
    assert refused.refused.startswith("speedup 1.30")
    assert refused.refused.endswith("(allowed drop: 5%); to make that the new norm, add --specgate-accept-loss")
    assert stored(first).samples == stored(refused).samples
    accepted = recorded(tmp_path, speedup=1.3, accept_loss=True)
    assert accepted.refused == ""
    assert len(accepted.losses) == 1


def test_an_allowed_loss_is_stored_and_told(tmp_path: Path) -> None:
    recorded(tmp_path, speedup=1.5)
    change = recorded(tmp_path, speedup=1.46)
    assert change.refused == ""
    assert len(change.losses) == 1
    assert "below the stored" in change.losses[0]


def test_a_gain_and_noise_are_no_losses(tmp_path: Path) -> None:
    recorded(tmp_path, speedup=1.5)
    assert recorded(tmp_path, speedup=1.5, seed=7).losses == ()
    assert recorded(tmp_path, speedup=1.6).losses == ()


def test_a_loss_of_exact_counts_asks_for_consent_too(tmp_path: Path) -> None:
    recorded(tmp_path, TOKENS, acceptance=0.8)
    assert "add --specgate-accept-loss" in recorded(tmp_path, TOKENS, acceptance=0.5).refused


# --- the anchor ---


def test_the_first_baseline_stays_the_anchor(tmp_path: Path) -> None:
    assert recorded(tmp_path, speedup=1.5).new.anchor is None  # type: ignore[union-attr]
    second = recorded(tmp_path, speedup=1.46)
    third = recorded(tmp_path, speedup=1.42)
    assert second.new is not None
    assert third.new is not None
    one, other = second.new.anchor, third.new.anchor
    assert one is not None
    assert other is not None
    assert other.values == pytest.approx(one.values, rel=1e-5)
    assert one.values["speedup"] == pytest.approx(1.5, rel=0.01)


def test_another_workload_begins_anew(tmp_path: Path) -> None:
    recorded(tmp_path)
    recorded(tmp_path, seed=1)
    fresh = recorded(tmp_path, prompts=MORE[:9])
    assert fresh.new is not None
    assert fresh.new.anchor is None
    assert fresh.losses == ()


def test_losses_that_added_up_are_noted_with_every_verdict(tmp_path: Path) -> None:
    entry = stored(recorded(tmp_path, speedup=1.5))
    anchored = replace(entry, anchor=Anchor("2029-12-31", {"speedup": 2.0}))
    path = tmp_path / "baselines" / "simulated-x1-none" / "demo.json"
    baseline.write(path, "demo", {CASE: anchored})
    session = SuiteSession(load(write(tmp_path, DRIFT, prompts=MORE))[0], "tiny", Settings(tmp_path / "baselines"))
    (case,) = expand(session.suite)
    verdict = session.judge(case.gates[0], case)
    assert verdict.outcome is Outcome.PASS
    (note,) = verdict.warnings
    assert note.startswith("since the first baseline, of 2029-12-31, it went from 2.000x to 1.5")


# --- what must not be stored, nor passed over ---


def test_numbers_whose_memory_pass_failed_are_not_stored(tmp_path: Path) -> None:
    gate = {"metric": "host_memory_ratio", "limit": "<=2x"}
    suite, case = load(write(tmp_path, gate, engines={"tiny": {"kind": "tests.unit.crashing:CrashesAlone"}}))
    session = SuiteSession(suite, "tiny", Settings(tmp_path / "baselines", update=True))
    session.case(case)
    (change,) = update_baselines(session, frozenset())
    assert change.new is None
    assert change.refused.startswith("memory was not measured: tiny: the memory pass of the reference arm failed: ")


def test_refreshing_what_failed_does_not_pass_over_another_workload(tmp_path: Path) -> None:
    recorded(tmp_path)
    suite, case = load(write(tmp_path, DRIFT, prompts=MORE[:9]))
    session = SuiteSession(suite, "tiny", Settings(tmp_path / "baselines", update=True, update_only="failed"))
    verdict = session.judge(case.gates[0], case)
    assert verdict.outcome is Outcome.ERROR
    assert "no baseline for this workload: prompts changed" in verdict.reason


def test_every_reason_of_a_refusal_is_told(tmp_path: Path) -> None:
    recorded(tmp_path, speedup=1.5)
    refused = recorded(tmp_path, {"metric": "speedup", "max_drop": "0.5%"}, speedup=1.3, noise=0.03).refused
    assert "max_drop 0.5% cannot be held" in refused
    assert "add --specgate-accept-loss" in refused
