"""The scoring pass: which texts, which control, what is kept in the cache, and what a session makes of it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.engines.scripted import ScriptedEngine
from pytest_specgate.errors import EngineError, InvalidTrace
from pytest_specgate.logits import Control, Exactness, ScoredText, Scores
from pytest_specgate.measure.margins import change
from pytest_specgate.measure.scoring import _enough, _read, _Texts, _write
from pytest_specgate.records import Arm, Measurement, Message, Outcome, Pair, Request, Sampling, Told, Trace, Verdict
from pytest_specgate.report.failure import failure_text
from pytest_specgate.samples.choices import _same, choices
from pytest_specgate.session import SuiteSession
from pytest_specgate.settings import Settings
from tests.unit.project import PROMPTS, context, load, write

EXACT = {"metric": "greedy_exactness", "limit": "==100%"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECGATE_CACHE", str(tmp_path / ".cache"))
    return tmp_path / ".cache" / "controls"


def judged(path: Path, **chosen: Any) -> tuple[Verdict, Measurement | None]:
    suite, case = load(path)
    session = SuiteSession(suite, "tiny", Settings(path.parent, **chosen))
    verdict = session.judge(case.gates[-1], case)
    return verdict, session.results()[0].measurement if session.results() else None


def run(folder: Path, *gates: Any, **options: Any) -> tuple[Verdict, Measurement | None]:
    return judged(write(folder, *(gates or (EXACT,)), options=options))


class Odd(ScriptedEngine):
    """Scores that are none."""

    def score(
        self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]], width: int | None = None
    ) -> list[Scores]:
        found = super().score(requests, texts, width)
        return self.spoilt(found)

    def spoilt(self, found: list[Scores]) -> list[Scores]:
        return [replace(scores, emitted=(math.nan, *scores.emitted[1:])) for scores in found]


class Short(Odd):
    def spoilt(self, found: list[Scores]) -> list[Scores]:
        return [replace(scores, best=scores.best[:3]) for scores in found]


class Few(Odd):
    def spoilt(self, found: list[Scores]) -> list[Scores]:
        return found[:-1]


class Beyond(Odd):
    def spoilt(self, found: list[Scores]) -> list[Scores]:
        return [replace(scores, emitted=tuple(x + 1 for x in scores.emitted)) for scores in found]


class Restless(ScriptedEngine):
    """One-token forwards that never give the same numbers twice, as on a machine without fixed kernels."""

    runs = 0

    def score(
        self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]], width: int | None = None
    ) -> list[Scores]:
        self.runs += 1
        found = super().score(requests, texts, width)
        return [replace(scores, runner_up=tuple(x - 0.01 * self.runs for x in scores.runner_up)) for scores in found]


class Bounded(ScriptedEngine):
    """A window of 60 new tokens."""

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        if requests[0].max_tokens > 60:
            raise EngineError("tiny", "the window is shorter", "lower max_tokens")
        return super().generate(requests, arm)


class Nameless(ScriptedEngine):
    """An engine that does not say which target it runs."""

    def workload(self) -> dict[str, str]:
        return {}


def engine(kind: type[ScriptedEngine]) -> dict[str, Any]:
    return {"engines": {"tiny": {"kind": f"tests.unit.test_measure_scoring:{kind.__name__}"}}}


# --- verdicts over a whole session ---


@pytest.mark.parametrize(
    ("fault", "outcome", "says"),
    [
        ("none", Outcome.PASS, "all 192 tokens are the target's choice"),
        ("tie", Outcome.PASS, "all 192 tokens are the target's choice"),
        ("diverge", Outcome.FAIL, "6 of 192 tokens are not the target's choice"),
        ("truncate", Outcome.FAIL, "6 of 96 tokens are not the target's choice"),
        ("overrun", Outcome.FAIL, "the text of q1 goes on after the end-of-text token (and 5 more)"),
        ("nan", Outcome.FAIL, "384 of 384 tokens are not the target's choice"),
        ("no_logits", Outcome.ERROR, "greedy_exactness: not measured by this engine (scripted)"),
    ],
)
def test_faults_of_the_scripted_decoder(tmp_path: Path, fault: str, outcome: Outcome, says: str) -> None:
    verdict, _ = run(tmp_path, fault=fault)
    assert (verdict.outcome, says in verdict.reason) == (outcome, True), verdict.reason


def test_a_sampled_case_is_an_error(tmp_path: Path) -> None:
    verdict, measurement = judged(write(tmp_path, EXACT, scenario={"sampling": [{"temperature": 0.7}]}))
    assert (verdict.outcome, verdict.reason) == (
        Outcome.ERROR,
        "greedy_exactness asks for the target's highest choice, and this case samples",
    )
    assert measurement is not None
    assert measurement.exactness is None


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Odd, "tiny: q1: the target's logits at output token 1 are not finite numbers"),
        (Short, "tiny: q1: 3 of 32 tokens scored"),
        (Few, "tiny: 5 texts scored of 6"),
        (Beyond, "tiny: q1: a logit at output token 1 lies above the highest one"),
    ],
)
def test_scores_that_are_none_are_an_error_of_this_gate_alone(tmp_path: Path, kind: Any, reason: str) -> None:
    path = write(tmp_path, {"metric": "exact_match", "limit": "==100%"}, EXACT, **engine(kind))
    suite, case = load(path)
    session = SuiteSession(suite, "tiny", Settings(tmp_path))
    other, mine = (session.judge(gate, case) for gate in case.gates)
    assert (other.outcome, mine.outcome, mine.reason) == (Outcome.PASS, Outcome.ERROR, reason)
    assert mine.advice == "look at the target's weights and dtype, or at the engine's adapter"


def test_nothing_is_scored_unless_a_gate_asks(tmp_path: Path, cache: Path) -> None:
    _, measurement = run(tmp_path, {"metric": "exact_match", "limit": "==100%"})
    assert measurement is not None
    assert measurement.exactness is None
    assert not cache.exists()


def test_later_turns_are_scored_with_the_answers_they_carried(tmp_path: Path) -> None:
    prompts = [{"id": "chat", "turns": ["Say it.", "Say more of it.", "And again."]}]
    verdict, measurement = judged(write(tmp_path, EXACT, prompts=prompts, scenario={"max_tokens": 200}))
    assert verdict.outcome is Outcome.PASS
    assert measurement is not None
    assert measurement.exactness is not None
    assert [text.prompt for text in measurement.exactness.texts] == ["chat/1", "chat/2", "chat/3"]


def test_scoring_is_no_part_of_the_case_s_time_and_texts_count_once(tmp_path: Path) -> None:
    _, measurement = run(tmp_path, {"metric": "speedup", "limit": ">=1.499x"}, EXACT, noise=0.1, fault="diverge")
    assert measurement is not None
    assert measurement.exactness is not None
    assert len({pair.round for pair in measurement.pairs}) > 1
    assert len(measurement.exactness.texts) == 2 * len(PROMPTS)


# --- the control ---


def test_the_control_is_kept_and_found_again(tmp_path: Path, cache: Path) -> None:
    told: list[str] = []
    path = write(tmp_path, EXACT)
    first, one = judged(path, progress=told.append)
    again, other = judged(path, progress=told.append)
    assert one is not None
    assert other is not None
    assert one.exactness is not None
    assert other.exactness is not None
    assert one.exactness.control == other.exactness.control
    assert (one.exactness.control_fresh, other.exactness.control_fresh) == (True, False)
    assert one.exactness.control.tokens == 256
    assert 0 < one.exactness.control.wide_change < 0.05
    assert one.exactness.control.self_change == 0
    assert [note for note in told if "control" in note] == [
        "tiny::qa-t0-c1: control of 256 tokens, measured once for this target and machine"
    ]
    (warning,) = first.warnings
    assert re.fullmatch(r"control: 256 tokens in \d+ s, kept for later runs and not counted", warning)
    assert again.warnings == ()
    assert len(list(cache.iterdir())) == 1


def test_another_target_or_width_has_a_control_of_its_own(tmp_path: Path, cache: Path) -> None:
    run(tmp_path)
    run(tmp_path, target="other")
    run(tmp_path, k=5)
    run(tmp_path, device="other")
    run(tmp_path, speedup=1.6)
    assert len(list(cache.iterdir())) == 4


def test_a_control_that_is_too_small_is_measured_anew_once_there_are_more_prompts(tmp_path: Path, cache: Path) -> None:
    verdict, _ = judged(write(tmp_path, EXACT, **engine(Bounded), prompts=PROMPTS[:1], scenario={"max_tokens": 60}))
    assert "says too little of the target's noise" in verdict.reason
    assert not cache.exists()
    verdict, _ = judged(write(tmp_path, EXACT, **engine(Bounded), scenario={"max_tokens": 60}))
    assert verdict.outcome is Outcome.PASS
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize("text", ["", "{", '{"tokens": 1}', "[1]", '{"tokens": NaN}'])
def test_a_broken_note_is_measured_again(tmp_path: Path, cache: Path, text: str) -> None:
    run(tmp_path)
    (note,) = cache.iterdir()
    whole = json.loads(note.read_text(encoding="utf-8"))
    note.write_text(text, encoding="utf-8")
    verdict, measurement = run(tmp_path)
    assert measurement is not None
    assert measurement.exactness is not None
    assert measurement.exactness.control_fresh
    assert verdict.outcome is Outcome.PASS
    mended = json.loads(note.read_text(encoding="utf-8"))
    assert {**mended, "seconds": 0} == {**whole, "seconds": 0}


def test_a_cache_that_cannot_be_written_costs_time_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    # The device's lock lies in the cache too, so no whole case is run.
    _write(tmp_path / "file" / "controls" / "x.json", Control(1, 1, 0.0, 0.0, 0.0, 0, False, 1.0, 0.0))
    assert _read(tmp_path / "file" / "controls" / "x.json") is None


def test_an_engine_that_names_no_target_has_no_cache(tmp_path: Path, cache: Path) -> None:
    verdict, _ = judged(write(tmp_path, EXACT, **engine(Nameless)))
    assert verdict.outcome is Outcome.PASS
    assert not cache.exists()


def test_a_machine_that_does_not_repeat_itself_is_known(tmp_path: Path) -> None:
    verdict, measurement = judged(write(tmp_path, EXACT, **engine(Restless)))
    assert measurement is not None
    assert measurement.exactness is not None
    assert measurement.exactness.control.self_change == pytest.approx(0.03)
    assert verdict.outcome is Outcome.PASS
    assert verdict.warnings[1] == "one-token forwards run again differ by up to 0.03 logits on this machine"


@pytest.mark.parametrize(("window", "tokens"), [(10**6, 128), (64, 128), (60, 128), (59, 66)])
def test_short_texts_are_made_anew_past_their_end_as_far_as_the_window_goes(
    tmp_path: Path, window: int, tokens: int
) -> None:
    class Narrow(ScriptedEngine):
        def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
            if requests[0].max_tokens > window:
                raise EngineError("tiny", "the window is shorter", "lower max_tokens")
            return super().generate(requests, arm)

    suite, _ = load(write(tmp_path, EXACT))
    asked = [Request(f"p{n}", (Message("user", "say"),), 60, Sampling()) for n in range(3)]
    own = _Texts(asked, [(11,) * 60, (11,) * 3, (11,) * 3])
    made = _enough(Narrow(context(suite)), own, 128)
    assert made.tokens == tokens


def with_margins(*margins: float) -> Scores:
    return Scores((20.0,) * len(margins), (1,) * len(margins), tuple(20 - m for m in margins), (20.0,) * len(margins))


def test_only_small_margins_tell_the_noise_where_there_are_enough() -> None:
    sure, near = (9.0,) * 5, (0.5,) * 64
    one, other = with_margins(*sure, *near), with_margins(*(8.0,) * 5, *near[1:], 0.75)
    assert change([one], [other]) == 0.25
    assert change([with_margins(*sure, *near[1:])], [with_margins(*(8.0,) * 5, *near[1:])]) == 1.0


# --- reduction and report ---


def test_a_text_that_was_not_scored_voids_the_case(tmp_path: Path) -> None:
    _, measurement = run(tmp_path)
    assert measurement is not None
    assert measurement.exactness is not None
    fewer = replace(measurement.exactness, texts=measurement.exactness.texts[1:])
    with pytest.raises(InvalidTrace) as raised:
        choices(replace(measurement, exactness=fewer))
    assert str(raised.value) == ("tiny::qa-t0-c1: q1: the candidate arm's text was not scored whole — measure again")


def changed(pair: Pair, arm: Arm, **fields: Any) -> Pair:
    trace: Trace = pair.reference if arm is Arm.REFERENCE else pair.candidate
    return replace(pair, **{arm.value: replace(trace, **fields)})


def short_text(measurement: Measurement) -> tuple[tuple[int, ...], Exactness]:
    """The first nine tokens of the first text, and the scores of all texts with those of this one."""
    exactness = measurement.exactness
    assert exactness is not None
    whole, ids = exactness.texts[0], measurement.pairs[0].candidate.token_ids[:9]
    scores = Scores(*(getattr(whole.scores, name)[:9] for name in ("best", "best_ids", "runner_up", "emitted")))
    return ids, replace(exactness, texts=(*exactness.texts, ScoredText("q1", ids, scores)))


def test_ends_unrest_and_divergences_are_reduced(tmp_path: Path) -> None:
    _, measurement = run(tmp_path, fault="diverge")
    assert measurement is not None
    (first, *_) = measurement.pairs
    again = replace(changed(first, Arm.REFERENCE, token_ids=first.candidate.token_ids), round=1)
    early = changed(replace(first, round=2), Arm.CANDIDATE, finish="length", max_tokens=99)
    found = choices(replace(measurement, pairs=(first, again, early)))
    assert found is not None
    assert found.restless == 1
    assert [(text.prompt, text.bad_end) for text in found.candidate] == [("q1", "")]
    (part,) = found.divergences
    assert (part.prompt, part.position) == ("q1", 15)
    assert part.gap == pytest.approx(4, abs=0.05)
    ended = choices(replace(measurement, pairs=(early,)))
    assert ended is not None
    assert ended.candidate[0].bad_end == "ends after 32 of 99 tokens"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"finish": "stop"}, "stops after 9 tokens, and no stop was asked for"),
        ({"finish": "eos"}, "ends after 9 tokens without the end-of-text token that it claims"),
        ({"finish": "eos", "eos_ids": ()}, ""),
        ({"finish": "stop", "told": Told()}, ""),
    ],
)
def test_a_text_ends_by_what_was_asked_for(tmp_path: Path, fields: dict[str, Any], says: str) -> None:
    _, measurement = run(tmp_path)
    assert measurement is not None
    ids, exactness = short_text(measurement)
    pair = changed(measurement.pairs[0], Arm.CANDIDATE, token_ids=ids, **fields)
    short = replace(measurement, pairs=(pair,), exactness=exactness)
    found = choices(short)
    assert found is not None
    assert found.candidate[0].bad_end == says
    (part,) = found.divergences
    assert (part.position, part.candidate_id, part.regret is None) == (9, None, bool(says))
    for stop, wrong in (
        ("END", "stops after 9 tokens, and none of the stop strings stands there"),
        (pair.candidate.text, ""),
    ):
        stopped = choices(replace(short, workload={**short.workload, "stop": repr((stop,))}))
        assert stopped is not None
        expected = says if fields["finish"] == "eos" else "" if "told" in fields else wrong
        assert stopped.candidate[0].bad_end == expected


def test_one_answer_of_servers_that_count_its_end_or_not_is_one(tmp_path: Path) -> None:
    _, measurement = run(tmp_path)
    assert measurement is not None
    pair = changed(measurement.pairs[0], Arm.REFERENCE, finish="eos", told=Told())
    one = changed(pair, Arm.CANDIDATE, finish="eos", told=Told(), token_ids=pair.candidate.token_ids[:-1])
    assert _same(one.reference, one.candidate)
    assert not _same(pair.reference, replace(one.candidate, told=None))
    assert not _same(pair.reference, replace(one.candidate, text="another"))


def test_tokens_after_the_end_of_text_are_no_choices(tmp_path: Path) -> None:
    _, measurement = run(tmp_path, fault="overrun")
    assert measurement is not None
    found = choices(measurement)
    assert found is not None
    assert [len(text.regrets) for text in found.candidate] == [32] * len(PROMPTS)
    assert {(d.reference_id, d.reference_logit, d.gap) for d in found.divergences} == {(None, None, None)}


@pytest.mark.parametrize(("fault", "kind"), [("tie", "numerical_tie"), ("diverge", "real_divergence")])
def test_the_failure_shows_the_first_divergence_with_both_logits(tmp_path: Path, fault: str, kind: str) -> None:
    verdict, measurement = run(tmp_path, fault=fault)
    lines = failure_text(verdict, measurement).splitlines()
    at = lines.index(f"  first divergence: q1, output token 16: {kind}")
    assert lines[at + 1].startswith("    reference (id 21, logit 11.9974): ")
    assert lines[at + 2].startswith(f"    candidate (id 10, logit {'8.00273' if fault == 'diverge' else '11.9977'}): ")


def test_a_stored_measurement_is_judged_again_without_an_engine(tmp_path: Path) -> None:
    path = write(tmp_path, EXACT, options={"fault": "diverge"})
    verdict, measurement = judged(path)
    suite, case = load(path)
    later = SuiteSession(suite, "tiny", Settings(tmp_path))
    assert measurement is not None
    later.take(case, measurement)
    assert later.judge(case.gates[0], case) == verdict


@pytest.mark.parametrize(
    ("finish", "told", "past"), [("stop", None, True), ("length", None, False), ("stop", Told(), False)]
)
def test_a_text_that_goes_on_after_the_references_stop_ends_badly(
    tmp_path: Path, finish: str, told: Told | None, past: bool
) -> None:
    _, measurement = run(tmp_path)
    assert measurement is not None
    ids, exactness = short_text(measurement)
    pair = changed(measurement.pairs[0], Arm.REFERENCE, token_ids=ids, finish=finish, told=told)
    asked = {**measurement.workload, "stop": "('of',)"}
    found = choices(replace(measurement, pairs=(pair,), exactness=exactness, workload=asked))
    assert found is not None
    length = len(measurement.pairs[0].candidate.token_ids)
    said = f"goes on for {length - 9} tokens after the stop string that ended the reference's text"
    assert found.candidate[0].bad_end == (said if past else "")
