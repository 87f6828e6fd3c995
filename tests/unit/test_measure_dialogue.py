"""Later turns carry the reference arm's first answers, in both arms and in every round."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.scripted import ScriptedEngine
from pytest_specgate.measure.dialogue import Dialogue, turn_name
from pytest_specgate.measure.run import Plan, measure_case
from pytest_specgate.records import Arm, Message, Request, Trace
from pytest_specgate.stats.looks import Looks
from pytest_specgate.suite.prompts import Conversation
from tests.unit.project import context, load, write

TALK = [{"id": "chat", "system": "Be brief.", "turns": ["Hello.", "And then?", "Why?"]}]


class _Recorder(ScriptedEngine):
    """Keeps what it was asked."""

    def __init__(self, given: EngineContext) -> None:
        super().__init__(given)
        self.asked: list[tuple[Arm, Request]] = []

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        self.asked += [(arm, request) for request in requests]
        return super().generate(requests, arm)


def test_a_single_turn_is_named_as_its_conversation_and_others_are_numbered() -> None:
    assert turn_name(Conversation("qa", ("Say it.",)), 0) == "qa"
    assert [turn_name(Conversation("chat", ("Hi.", "Bye.")), n) for n in range(2)] == ["chat/1", "chat/2"]


def test_a_request_holds_what_the_scenario_says(tmp_path: Path) -> None:
    scenario = {"max_tokens": 7, "stop": ["END"], "ignore_eos": True, "sampling": [{"temperature": 0.5, "seed": 3}]}
    _, case = load(write(tmp_path, prompts=TALK, scenario=scenario))
    request = Dialogue(case).request(case.scenario.conversations[0], 0)
    assert request == Request(
        "chat/1",
        (Message("system", "Be brief."), Message("user", "Hello.")),
        7,
        case.sampling,
        ("END",),
        ignore_eos=True,
    )
    assert (request.sampling.temperature, request.sampling.seed) == (0.5, 3)


def test_both_arms_of_all_rounds_are_asked_with_the_references_first_answers(tmp_path: Path) -> None:
    # The candidate's text differs, so a history of its own answers would show.
    suite, case = load(write(tmp_path, prompts=TALK, options={"fault": "diverge"}))
    engine = _Recorder(context(suite))
    measurement = measure_case(engine, case, Plan(Looks((2,)), 1, None, lambda *_: ["more"], lambda _: None))
    first = {pair.prompt: pair.reference.text for pair in measurement.pairs if pair.round == 0}
    assert first["chat/1"] != next(p.candidate.text for p in measurement.pairs if p.prompt == "chat/1")
    asked = [(arm, request) for arm, request in engine.asked if request.prompt == "chat/3"]
    assert [arm for arm, _ in asked].count(Arm.CANDIDATE) == 2
    expected = (
        Message("system", "Be brief."),
        Message("user", "Hello."),
        Message("assistant", first["chat/1"]),
        Message("user", "And then?"),
        Message("assistant", first["chat/2"]),
        Message("user", "Why?"),
    )
    assert {request.messages for _, request in asked} == {expected}
