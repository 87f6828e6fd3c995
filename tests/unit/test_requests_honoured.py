"""Requests at the edge: a right decoder honours all of them, and every part that is exchanged shows by name.

A sweep is some seventy requests by two arms, so several faults, each in a part of its own, share one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.records import Measurement, Outcome, Verdict
from pytest_specgate.session import SuiteSession
from pytest_specgate.settings import Settings
from tests import tiny
from tests.unit.project import load, write

GATE = {"metric": "request_honouring", "limit": "==100%"}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECGATE_CACHE", str(tmp_path / ".cache"))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    target = tiny.model(layers=2)
    tiny.save(folder / "target", target)
    tiny.save(folder / "draft", tiny.blurred(target, 0.02))
    short = tiny.blurred(target, 0.02)
    short.config.max_position_embeddings = 20
    tiny.save(folder / "short", short)
    return folder


def judged(models: Path, folder: Path, draft: str = "draft", **engine: Any) -> tuple[Verdict, Measurement]:
    candidate = {"method": "draft_model", "draft": str(models / draft), "num_draft_tokens": 2}
    spec = {"kind": "native", "target": str(models / "target"), "dtype": "float64", "candidate": candidate, **engine}
    suite, case = load(write(folder, GATE, engines={"tiny": spec}))
    session = SuiteSession(suite, "tiny", Settings(folder))
    verdict = session.judge(case.gates[0], case)
    assert verdict.outcome is not Outcome.ERROR, verdict.reason
    measurement = session.case(case).measurement
    session.close()
    return verdict, measurement


def broken(verdict: Verdict) -> dict[str, str]:
    """What is told of each broken request, those named without their reason too."""
    found = {}
    for note in verdict.warnings:
        name, comma, what = note.partition(", ")
        if comma and " arm: " in what:
            found[name] = what
        elif " more: " in note:
            found |= dict.fromkeys(note.partition(" more: ")[2].split(", "), "")
    return found


def test_a_right_decoder_honours_everything(models: Path, tmp_path: Path) -> None:
    verdict, measurement = judged(models, tmp_path, draft="short")
    assert verdict.outcome is Outcome.PASS, (verdict.reason, verdict.warnings)
    assert verdict.warnings == ()
    sweep = measurement.sweep
    assert sweep is not None
    assert verdict.reason == f"requests: all {len(sweep.probes)} requests of 23 kinds are honoured by both arms"
    names = [probe.name for probe in sweep.probes]
    assert len(names) == len(set(names))
    refused = {reply.probe for reply in sweep.replies if reply.trace is None}
    assert refused == {"empty", "window/full"}
    accepted = [r.accepted for reply in sweep.replies if reply.trace for r in reply.trace.rounds or ()]
    assert sum(accepted) > len(accepted) / 2
    some = {"length/1", "length/5", "window/1", "draft-window/0", "budget/4", "end/1", "stop/1", "mixed/seed/1"}
    some |= {"choices/drawn/3", "logprobs/greedy", "cancel/last"}
    assert some <= {*names}


FAULTS: tuple[dict[str, str], ...] = (
    {
        "penalties dropped": "repetition_penalty/1.5",
        "bad words dropped": "bad-word/1",
        "stop at the last token": "end/1",
        "one constant seed": "seed/3",
        "crash at the window": "window/1",
        "places of those who left": "cancel/last",
        "log-probabilities of the draft": "logprobs/drawn/1",
    },
    {
        "min_tokens at the bonus alone": "least/1",
        "filters dropped": "filter/top_k",
        "budget by blocks": "budget/2",
        "one generator for all": "seed/1-again",
        "several answers of one seed": "choices/drawn/2",
        "nobody may leave": "cancel/alone",
    },
    {
        "bias at the bonus alone": "bias/barred",
        "temperature dropped": "filter/temperature",
        "parameters ignored in both arms": "repetition_penalty/1.5",
        "mixed rows": "mixed/length/1",
        "log-probabilities of zero": "logprobs/greedy",
    },
)


@pytest.mark.parametrize("faults", FAULTS, ids=range(len(FAULTS)))
def test_every_exchanged_part_shows_by_name(models: Path, tmp_path: Path, faults: dict[str, str]) -> None:
    options = {"faults": list(faults)}
    verdict, measurement = judged(models, tmp_path, kind="tests.unit.unfaithful:Unfaithful", options=options)
    assert verdict.outcome is Outcome.FAIL, verdict.reason
    assert set(faults.values()) <= broken(verdict).keys()
    assert measurement.sweep is not None
    assert len(broken(verdict)) < len(measurement.sweep.probes) - 10


def test_transformers_honours_what_it_offers(models: Path, tmp_path: Path) -> None:
    verdict, measurement = judged(models, tmp_path, kind="transformers")
    # Its search for stop strings cannot take this tokenizer apart.
    assert {name.partition("/")[0] for name in broken(verdict)} == {"stop"}, (verdict.reason, verdict.warnings)
    assert measurement.sweep is not None
    names = {probe.name for probe in measurement.sweep.probes}
    assert {"choices/drawn/3", "choices/decided/2", "logprobs/greedy", "logprobs/drawn/2", "cancel/alone"} <= names
    assert not [left for left in measurement.sweep.not_asked if "offers none" in left]
