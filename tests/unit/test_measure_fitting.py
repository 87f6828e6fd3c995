"""The scoring pass of sampled cases: seeds by round, what is scored when, and what a session makes of bad engines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.chances import Chances
from pytest_specgate.measure import fitting
from pytest_specgate.measure.dialogue import in_round
from pytest_specgate.records import Arm, Measurement, Outcome, Request, Sampling, Trace, Verdict
from pytest_specgate.session import SuiteSession
from pytest_specgate.settings import Settings
from tests.unit.drawing import Counting, TableEngine
from tests.unit.project import load, write

FIT = {"metric": "distribution_fit", "limit": "==100%"}
COUNTS = {"metric": "token_accounting", "limit": "==100%"}
PROMPTS = [{"id": f"p{n}", "turns": [f"Say {n} words."]} for n in range(6)]


class Odd(TableEngine):
    def chances(self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]]) -> list[Chances]:
        return self.spoilt(super().chances(requests, texts))

    def spoilt(self, found: list[Chances]) -> list[Chances]:
        return [replace(chances, chance=(math.nan, *chances.chance[1:])) for chances in found]


class Short(Odd):
    def spoilt(self, found: list[Chances]) -> list[Chances]:
        return [replace(chances, above=chances.above[:3]) for chances in found]


class Few(Odd):
    def spoilt(self, found: list[Chances]) -> list[Chances]:
        return found[:-1]


class Beyond(Odd):
    def spoilt(self, found: list[Chances]) -> list[Chances]:
        return [replace(chances, highest=(0.0, *chances.highest[1:])) for chances in found]


class Deaf(TableEngine):
    """Draws the same in every round, in the arms that its option names."""

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        if arm.value in str(self._context.spec.options["deaf"]):
            requests = [replace(r, sampling=replace(r.sampling, seed=1)) for r in requests]
        return super().generate(requests, arm)


class Cold(TableEngine):
    """Both arms draw at half the temperature that they are asked for."""

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        return super().generate([replace(r, sampling=Sampling(0.35, seed=r.sampling.seed)) for r in requests], arm)


def run(folder: Path, kind: str, *gates: Any, rounds: int = 2, **options: Any) -> tuple[list[Verdict], Measurement]:
    keys = {"engines": {"tiny": {"kind": kind, "options": options}}, "measure": {"rounds": rounds, "warmup": 1}}
    scenario = {"max_tokens": 40, "sampling": [{"temperature": 0.7, "seed": 5}], "concurrency": [6]}
    suite, case = load(write(folder, *(gates or (FIT,)), prompts=PROMPTS, scenario=scenario, **keys))
    session = SuiteSession(suite, "tiny", Settings(folder))
    verdicts = [session.judge(gate, case) for gate in case.gates]
    return verdicts, session.case(case).measurement


def mine(name: str) -> str:
    return f"tests.unit.test_measure_fitting:{name}"


def test_each_round_draws_by_a_seed_of_its_own_and_always_the_same() -> None:
    asked = Sampling(0.7, seed=5)
    seeds = [in_round(asked, number).seed for number in range(64)]
    assert seeds[0] == 5
    assert len(set(seeds)) == 64
    assert seeds == [in_round(asked, number).seed for number in range(64)]
    assert all(0 <= seed < 2**32 for seed in seeds if seed is not None)
    assert in_round(replace(asked, temperature=0.0), 3).seed == 5
    assert in_round(replace(asked, seed=None), 3).seed is None


def test_rounds_tell_something_new_and_a_rerun_the_same(tmp_path: Path) -> None:
    _, measurement = run(tmp_path, "tests.unit.drawing:TableEngine")
    texts = [trace.token_ids for p in measurement.pairs for trace in (p.reference, p.candidate)]
    assert len(set(texts)) == len(texts) == 24
    _, again = run(tmp_path, "tests.unit.drawing:TableEngine")
    assert [p.candidate.token_ids for p in measurement.pairs] == [p.candidate.token_ids for p in again.pairs]


def test_every_text_is_scored_once_as_looks_need_it(tmp_path: Path) -> None:
    Counting.asked.clear()
    (verdict,), measurement = run(tmp_path, "tests.unit.drawing:Counting", rounds=4)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    # Looks after 1, 2 and 4 rounds, each arm by itself.
    assert [len(texts) for texts in Counting.asked] == [6, 6, 6, 6, 12, 12]
    assert measurement.fit is not None
    assert {text.token_ids for text in measurement.fit.texts} == {ids for texts in Counting.asked for ids in texts}
    assert [look.rounds for look in verdict.checks[0].looks] == [1, 2, 4]


@pytest.mark.parametrize(("fault", "plain"), [("none", 11), ("resamples from p", None)])
def test_plain_texts_are_scored_as_far_as_the_control_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, plain: int | None
) -> None:
    """All of them before anything is called a fault; else the pairs that hold the first 440 tokens of them."""
    monkeypatch.setattr(fitting, "CONTROL_TOKENS", 440)
    (verdict,), measurement = run(tmp_path, "tests.unit.drawing:TableEngine", rounds=4, fault=fault)
    assert measurement.fit is not None
    assert measurement.fit.plain == plain
    rounds = {pair.round for pair in measurement.pairs}
    known = {text.token_ids for text in measurement.fit.texts}
    scored = [pair.reference.token_ids in known for pair in measurement.pairs]
    assert scored == [number < (plain or 24) for number in range(len(rounds) * 6)]
    assert (verdict.outcome is Outcome.FAIL) == (fault != "none"), verdict.reason


def test_a_suspicion_that_the_control_shares_is_the_scorer_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scorer that is wrong from the second round on: the first plain tokens do not show it, and all of them do."""
    monkeypatch.setattr(fitting, "CONTROL_TOKENS", 1)
    (verdict,), measurement = run(tmp_path, mine("Cold"), rounds=4)
    assert measurement.fit is not None
    assert measurement.fit.plain is None
    assert verdict.outcome is Outcome.ERROR
    assert "the control failed" in verdict.reason


def test_what_scoring_took_is_told(tmp_path: Path) -> None:
    _, measurement = run(tmp_path, "tests.unit.drawing:TableEngine")
    cost = measurement.scoring
    assert cost is not None
    assert cost.texts > 0
    assert cost.control > 0
    assert cost.arm == pytest.approx(sum(block_seconds(measurement)))
    assert cost.share == cost.texts / cost.arm
    assert replace(cost, arm=0.0).share is None


def block_seconds(measurement: Measurement) -> list[float]:
    """One block a round: six requests side by side."""
    rounds = {pair.round for pair in measurement.pairs}
    return [max(p.candidate.seconds for p in measurement.pairs if p.round == number) for number in rounds]


def test_nothing_is_scored_unless_a_gate_asks(tmp_path: Path) -> None:
    Counting.asked.clear()
    _, measurement = run(tmp_path, "tests.unit.drawing:Counting", COUNTS)
    assert measurement.fit is None
    assert Counting.asked == []


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("Odd", "tiny: p0: a chance at output token 1 is no number from 0 to 1"),
        ("Short", "tiny: p0: 3 of 40 tokens scored"),
        ("Few", "tiny: 5 texts scored of 6"),
        ("Beyond", "tiny: p0: the chances at output token 1 contradict each other"),
    ],
)
def test_what_are_no_chances_is_an_error_of_this_gate_alone(tmp_path: Path, kind: str, reason: str) -> None:
    (other, verdict), _ = run(tmp_path, mine(kind), COUNTS, FIT)
    assert (other.outcome, verdict.outcome, verdict.reason) == (Outcome.PASS, Outcome.ERROR, reason)
    assert verdict.advice == "look at the target's weights and dtype, or at the engine's adapter"


def test_an_engine_that_cannot_be_scored_is_an_error(tmp_path: Path) -> None:
    (verdict,), _ = run(tmp_path, "scripted")
    assert (verdict.outcome, verdict.reason) == (
        Outcome.ERROR,
        "distribution_fit: not measured by this engine (scripted)",
    )
    assert verdict.advice == "remove the gate, or use an engine that scores drawn texts"


def test_a_scorer_that_knows_other_settings_than_the_engine_is_an_error(tmp_path: Path) -> None:
    (verdict,), _ = run(tmp_path, mine("Cold"), rounds=4)
    assert verdict.outcome is Outcome.ERROR
    assert "the control failed: plain draws of the reference arm do not fit either" in verdict.reason


@pytest.mark.parametrize(
    ("deaf", "outcome", "reason"),
    [
        ("candidate", Outcome.FAIL, "6 prompts get the same text again in another round, as if seeds were not"),
        ("reference and candidate", Outcome.ERROR, "the reference arm draws the same text again in another round (p0)"),
    ],
)
def test_an_arm_that_ignores_seeds_is_told(tmp_path: Path, deaf: str, outcome: Outcome, reason: str) -> None:
    (verdict,), _ = run(tmp_path, mine("Deaf"), deaf=deaf)
    assert (verdict.outcome, reason in verdict.reason) == (outcome, True), verdict.reason
