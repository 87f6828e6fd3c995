"""What is asked at the edge, and how one answer is judged: pure, on answers made by hand."""

from __future__ import annotations

import datetime
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specgate.gates import requests
from pytest_specgate.gates.context import JudgeContext, NoVerdict
from pytest_specgate.gates.honoured import Broken, Measure, broken, parted
from pytest_specgate.logits import Control
from pytest_specgate.measure.probes import Ground, Said, first, not_asked, then
from pytest_specgate.records import (
    Arm,
    Bias,
    Bounds,
    Capability,
    Chunk,
    Outcome,
    Place,
    Probe,
    Reply,
    Request,
    Round,
    Samples,
    Sampling,
    Sweep,
    Trace,
)
from tests.unit.project import load, write

FINE = Measure(1e-3, True)
COARSE = Measure(0.05, False)
UNSCORED = Measure(None, False)
ALL = frozenset(Capability)


def answer(arm: Arm, ids: tuple[int, ...], **more: Any) -> Trace:
    chunks = (Chunk(1000, len(ids)),) if ids else ()
    finish = more.pop("finish", "length")
    budget = more.pop("max_tokens", len(ids))
    return Trace("p", arm, ids, "".join(map(chr, ids)), 3, 0, chunks, finish, max_tokens=budget, **more)


def sweep(probe: Probe, reference: Any, candidate: Any, *others: tuple[Probe, Any, Any]) -> Sweep:
    """Answers as ids, traces, or replies."""
    probes, replies = [probe], []
    for one, made in ((probe, (reference, candidate)), *((o[0], o[1:]) for o in others)):
        if one not in probes:
            probes.append(one)
        for arm, said in zip(Arm, made):
            if isinstance(said, Reply):
                replies.append(replace(said, probe=one.name, arm=arm))
            else:
                trace = said if isinstance(said, Trace) else answer(arm, said)
                replies.append(Reply(one.name, arm, trace, regrets=(0.0,) * len(trace.token_ids)))
    return Sweep(tuple(probes), tuple(replies), None, (), 1.0)


def probe(name: str = "x", sampling: Sampling | None = None, **fields: Any) -> Probe:
    return Probe(name, "area", "what is wrong", Request("p", (), 5, sampling or Sampling()), **fields)


def told(of: Sweep, measure: Measure = FINE) -> list[str]:
    return [f"{one.probe} {one.arm.value}: {one.what}" for one in broken(of, measure)]


HOT = Sampling(1.5, seed=1)
REFUSED = Reply("x", Arm.REFERENCE, None, "no room")
CRASHED = Reply("x", Arm.REFERENCE, None, "IndexError: 7", crashed=True)


@pytest.mark.parametrize(
    ("asked", "reference", "candidate", "said"),
    [
        (probe(), (65, 66), (65, 66), []),
        (
            probe(),
            (65, 66),
            (65, 66, 67),
            ["x candidate: 3 tokens instead of 2: the reference arm's: what is wrong"],
        ),
        (probe(sampling=HOT), (65, 66), (70, 71), []),
        (probe(expected=(65,)), (65,), (65,), []),
        (probe(never=(66,), until=1), (65, 66), (65, 66), []),
        (
            probe(never=(66,), until=2),
            (65, 66),
            (65, 66),
            [f"x {arm.value}: output token 2 is 66: what is wrong" for arm in Arm],
        ),
        (
            probe(always=65),
            (65, 65),
            (65, 66),
            [
                "x candidate: output token 2 is 66: what is wrong",
            ],
        ),
        (probe(), REFUSED, REFUSED, [f"x {arm.value}: refused (no room)" for arm in Arm]),
        (probe(may_refuse=True), REFUSED, REFUSED, []),
        (
            probe(may_refuse=True),
            (65,),
            REFUSED,
            ["x candidate: refused (no room) what the other arm answers"],
        ),
        (probe(may_refuse=True), (65,), CRASHED, ["x candidate: crashed (IndexError: 7)"]),
        (probe(sampling=Sampling(1.0, min_tokens=3, seed=1)), (65, 66, 67), (65, 66, 67), []),
    ],
)
def test_one_request(asked: Probe, reference: Any, candidate: Any, said: list[str]) -> None:
    found = told(sweep(asked, reference, candidate))
    # A text that is legitimate token by token may differ by rounding, as hand-made regrets of 0 say of all of these.
    assert found == said


def test_a_text_ends_no_earlier_than_it_may() -> None:
    early = answer(Arm.CANDIDATE, (65, 2), finish="eos", max_tokens=5, eos_ids=(2,))
    asked = probe(sampling=Sampling(1.0, min_tokens=3, seed=1))
    assert told(sweep(asked, (65, 66, 67), early)) == ["x candidate: ends after 2 of at least 3 tokens"]
    stopped = replace(early, finish="stop", token_ids=(65, 66), text="AB")
    by_string = replace(asked, request=replace(asked.request, stop=("B",)))
    assert told(sweep(by_string, (65, 67, 68), stopped)) == []
    on = "x reference: goes on after the stop string 'B'"
    assert told(sweep(by_string, (65, 66, 32, 67, 32, 67), stopped)) == [on]
    by_another = replace(asked, request=replace(asked.request, stop=("C",)))
    said = "x candidate: stops after 2 tokens, and none of the stop strings stands there"
    assert told(sweep(by_another, (65, 66, 67), stopped)) == [said]


def scored(arm: Arm, ids: tuple[int, ...], *regrets: float) -> Reply:
    return Reply("x", arm, answer(arm, ids), regrets=regrets)


def test_rounding_excuses_what_the_target_would_have_said_itself() -> None:
    for regret, measure, kinds in (
        (0.0005, FINE, (("x",), ())),
        (0.03, COARSE, (("x",), ())),
        (0.5, COARSE, None),
        (0.5, FINE, None),
    ):
        made = sweep(probe(), (65, 66), scored(Arm.CANDIDATE, (65, 70), 0.0, regret))
        if kinds is None:
            assert told(made, measure)[0] == (
                f"x candidate: output token 2 lies {regret:.3g} logits below the target's choice under this request"
            )
        else:
            assert (told(made, measure), parted(made, measure)) == ([], kinds)


def test_both_arms_that_ignore_a_parameter_alike_are_both_broken() -> None:
    both = [scored(arm, (65, 66), 0.0, 1e9) for arm in Arm]
    assert told(sweep(probe(), *both)) == [
        f"x {arm.value}: output token 2 is forbidden under this request" for arm in Arm
    ]


LEAVING = replace(probe(), request=replace(probe().request, cancel_after=2), expected=(65, 66, 67, 68, 69))


def left(arm: Arm, *ids: int) -> Trace:
    return answer(arm, ids, finish="cancelled", max_tokens=5)


def test_an_answer_whose_caller_left_is_held_to_what_it_came_to() -> None:
    early, late = left(Arm.REFERENCE, 65, 66), left(Arm.CANDIDATE, 65, 66, 67)
    assert told(sweep(LEAVING, early, late)) == []
    assert parted(sweep(LEAVING, early, late), FINE) == ((), ())
    hidden = replace(sweep(LEAVING, early, left(Arm.CANDIDATE, 65, 66, 70)))
    hidden = replace(hidden, replies=tuple(replace(reply, regrets=None) for reply in hidden.replies))
    assert told(hidden, Measure(1e-3, True)) == ["x candidate: another token from output token 3 on: what is wrong"]
    goes_on = answer(Arm.CANDIDATE, (65, 66, 67, 68, 69))
    assert told(sweep(LEAVING, early, goes_on)) == [
        "x candidate: goes on to its budget of 5 tokens, though its caller left after 2"
    ]
    assert told(sweep(LEAVING, early, left(Arm.CANDIDATE, 65))) == [
        "x candidate: is cut after 1 tokens, before its caller left after 2"
    ]
    stays = probe()
    assert told(sweep(stays, (65, 66), left(Arm.CANDIDATE, 65, 66))) == [
        "x candidate: is cancelled after 2 tokens, though nobody left"
    ]


QUOTING = replace(probe(), request=replace(probe().request, logprobs=True))


def quoting(arm: Arm, logs: tuple[float, ...] | None, own: tuple[float, ...] | None) -> Reply:
    return Reply("x", arm, replace(answer(arm, (65, 66)), logprobs=logs), regrets=(0.0, 0.0), logs=own)


@pytest.mark.parametrize(
    ("logs", "own", "measure", "said"),
    [
        ((-1.0, -2.0), (-1.0, -2.005), FINE, ""),
        ((-1.0, -2.3), (-1.0, -2.0), COARSE, ""),
        (None, (-1.0, -2.0), FINE, "tells no log-probabilities, which the request asks for"),
        ((-1.0, 0.2), (-1.0, -2.0), FINE, "tells a log-probability of 0.2, a chance above 1"),
        (
            (-1.0, -2.3),
            (-1.0, -2.0),
            FINE,
            "output token 2 is told with a log-probability of -2.3, the target gives it -2",
        ),
        (
            (0.0, -2.0),
            None,
            COARSE,
            "output token 1 is told with a log-probability of 0, the reference arm tells -1",
        ),
        (
            (-1.0, math.nan),
            None,
            COARSE,
            "output token 2 is told with a log-probability of nan, the reference arm tells -2",
        ),
        ((-1.0,), (-1.0, -2.0), FINE, "log-probabilities of 1 tokens, the output has 2"),
    ],
)
def test_log_probabilities_are_the_targets(
    logs: tuple[float, ...] | None, own: tuple[float, ...] | None, measure: Measure, said: str
) -> None:
    right = quoting(Arm.REFERENCE, (-1.0, -2.0), own)
    made = sweep(QUOTING, right, quoting(Arm.CANDIDATE, logs, own))
    assert told(made, measure) == ([f"x candidate: {said}"] if said else [])


def test_where_nothing_is_scored_only_exact_dtypes_decide() -> None:
    made = sweep(probe(), scored(Arm.REFERENCE, (65, 66)), scored(Arm.CANDIDATE, (65, 70)))
    made = replace(made, replies=tuple(replace(reply, regrets=None) for reply in made.replies))
    assert told(made, Measure(None, True)) == [
        "x candidate: another token from output token 2 on: the reference arm's: what is wrong"
    ]
    assert told(made, UNSCORED) == []
    assert parted(made, UNSCORED) == ((), ("x",))


def test_a_server_without_ids_is_held_to_its_text() -> None:
    one, other = (
        replace(answer(arm, ()), text=text, told=None, chunks=(Chunk(5, 0),)) for arm, text in zip(Arm, ("ab", "ac"))
    )
    made = sweep(probe(), one, other)
    made = replace(made, replies=tuple(replace(reply, regrets=None) for reply in made.replies))
    assert [what for what in told(made, Measure(None, True)) if "another token" in what]


def test_repeated_and_different_requests() -> None:
    a, b, c = (probe(name, HOT) for name in "abc")
    again = replace(b, same_as="a")
    assert told(sweep(a, (65,), (65,), (again, (65,), (65,)))) == []
    other = Reply("b", Arm.CANDIDATE, answer(Arm.CANDIDATE, (66,)))
    assert told(sweep(a, (65,), (65,), (again, (65,), other))) == [
        "b candidate: another token from output token 1 on: what is wrong"
    ]
    unlike = replace(c, unlike=("a", "b"))
    same = (a, (65,), (65,), (b, (65,), (65,)), (unlike, (66,), (65,)))
    assert told(sweep(*same)) == ["c candidate: what is wrong"]
    assert told(sweep(a, (65,), (65,), (b, (65,), (67,)), (unlike, (66,), (65,)))) == []


@pytest.mark.parametrize(
    ("more", "measure", "broke", "untold"),
    [
        ({}, FINE, True, False),
        ({}, COARSE, False, True),
        ({}, replace(COARSE, steady=True), True, False),
        # Beside others a batch rounds otherwise; another request is another call.
        ({"company": "c"}, replace(COARSE, steady=True), False, True),
        ({"request": Request("p", (), 4, Sampling(1.5, seed=1))}, replace(COARSE, steady=True), False, True),
    ],
)
def test_a_drawn_repeat_that_differs_is_told(more: dict[str, Any], measure: Measure, broke: bool, untold: bool) -> None:
    first, again = probe("a", HOT), replace(probe("b", HOT), same_as="a", **more)
    other = Reply("b", Arm.CANDIDATE, answer(Arm.CANDIDATE, (66,)))
    made = sweep(first, (65,), (65,), (again, (65,), other))
    assert bool(told(made, measure)) == broke
    assert parted(made, measure) == ((), ("b",) if untold else ())
    # Where no arm repeats itself, the machine may be the reason.
    neither = sweep(first, (65,), (65,), (again, replace(other, arm=Arm.REFERENCE), other))
    assert bool(told(neither, measure)) == measure.fine


def test_an_answer_that_is_not_the_one_known_is_told_whatever_the_other_arm_says() -> None:
    first, again = probe("a"), replace(probe("b"), same_as="a")
    known = replace(probe("c", HOT), expected=(65, 66))
    made = sweep(first, (65, 66), (65, 66), (again, (65, 70), (65, 70)), (known, (65, 70), (65, 66)))
    unscored = replace(made, replies=tuple(replace(reply, regrets=None) for reply in made.replies))
    assert parted(unscored, UNSCORED) == ((), ("b", "c"))
    assert parted(made, COARSE) == (("b", "c"), ())


def test_a_draw_that_nobody_can_judge_is_no_pass(tmp_path: Path) -> None:
    first, again = probe("a", HOT), replace(probe("b", HOT), same_as="a", company="c")
    made = sweep(first, (65,), (65,), (again, (65,), Reply("b", Arm.CANDIDATE, answer(Arm.CANDIDATE, (66,)))))
    made = replace(made, control=Control(300, 4, 0.01, 0.01, 0.0, 0, False, 10.0, 1.0))
    found = judged(tmp_path, replace(made, replies=tuple(replace(r, regrets=None) for r in made.replies)), "bfloat16")
    assert found.checks[0].outcome is Outcome.INCONCLUSIVE
    assert found.checks[0].needed == "use float32: no scores tell whether rounding turned a draw"
    assert "answers that differ, by rounding or by a fault, which nothing tells apart here: b" in found.warnings


# --- the verdict ----------------------------------------------------------------------------------------------------


def judged(tmp_path: Path, made: Sweep | None, dtype: str = "float32") -> Any:
    _, case = load(write(tmp_path, {"metric": "request_honouring", "limit": "==100%"}))
    context = JudgeContext("s", case.id, "e", 0.01, Place("cpu", 1, dtype), datetime.date(2026, 11, 30))
    return requests.judge(case.gates[0], Samples(case.id, True, (), sweep=made), None, context)


def test_the_verdict_names_every_broken_request_as_it_can_be_asked_again(tmp_path: Path) -> None:
    request = Request(
        *("p", (), 7, Sampling(0.5, seed=3, logit_bias=(Bias(4, -1.0),))),
        stop=("x",),
        token_ids=tuple(range(9)),
        stop_ids=(8,),
    )
    asked = replace(probe(), request=request)
    control = Control(300, 4, 1e-5, 1e-5, 0.0, 0, False, 10.0, 1.0)
    made = replace(sweep(asked, (65,), CRASHED), control=control, not_asked=("seeds: the engine has none",))
    found = judged(tmp_path, made)
    assert found.checks[0].outcome is Outcome.FAIL
    assert found.checks[0].reason == "requests: 1 of 1 are not honoured: x: crashed (IndexError: 7)"
    assert found.warnings == (
        (
            "x, candidate arm: crashed (IndexError: 7) [max_tokens=7 temperature=0.5 seed=3 "
            "logit_bias=(Bias(token=4, value=-1.0),) stop=('x',) stop_ids=(8,) "
            "a prompt of 9 ids [0, 1, 2, 3, 4, 5, 6, 7, ...]]"
        ),
        "not asked: seeds: the engine has none",
    )


def test_answers_that_nobody_can_judge_are_no_pass(tmp_path: Path) -> None:
    other = replace(probe("y"), area="presence_penalty")
    made = sweep(probe(), (65, 66), (65, 66), (other, (65, 66), (65, 70)))
    blind = replace(made, replies=tuple(replace(reply, regrets=None) for reply in made.replies))
    check = judged(tmp_path, blind, "bfloat16").checks[0]
    assert check.outcome is Outcome.INCONCLUSIVE
    assert check.reason == (
        "requests: 1 of 2 are answered otherwise, by rounding or by a fault, and nothing tells which: presence_penalty"
    )
    assert check.needed == "use an engine that scores texts (a server: name a 'scorer'), or float32"
    scored_by = replace(made, control=Control(300, 4, 0.01, 0.01, 0.0, 0, False, 10.0, 1.0))
    assert judged(tmp_path, scored_by, "bfloat16").checks[0].outcome is Outcome.PASS


def unscored(made: Sweep) -> Sweep:
    return replace(made, replies=tuple(replace(reply, regrets=None) for reply in made.replies))


def test_equal_answers_that_nothing_scores_are_counted_and_named(tmp_path: Path) -> None:
    penalised = replace(probe("penalised"), area="repetition_penalty")
    barred = replace(probe("barred"), never=(66,), until=5)
    crash = replace(probe("crash"), looks_for="a crash")
    drawn = probe("drawn", HOT)
    others = [(one, (65, 67), (65, 67)) for one in (barred, crash, drawn)]
    check = judged(tmp_path, unscored(sweep(penalised, (65, 66), (65, 66), *others)))

    assert check.checks[0].outcome is Outcome.PASS
    assert check.checks[0].reason == (
        "requests: all 4 requests of 2 kinds are honoured by both arms, as far as can be told: "
        "1 of them could not be checked"
    )
    assert check.warnings == ("not checked (both arms answer alike, and nothing tells what is right): penalised",)


def test_answers_that_the_target_scored_are_checked(tmp_path: Path) -> None:
    control = Control(300, 4, 0.01, 0.01, 0.0, 0, False, 10.0, 1.0)
    found = judged(tmp_path, replace(sweep(probe(), (65, 66), (65, 66)), control=control), "bfloat16")
    assert found.checks[0].reason == "requests: all 1 requests of 1 kinds are honoured by both arms"
    assert found.warnings == ()


def test_log_probabilities_that_the_other_arm_alone_confirms_are_not_checked(tmp_path: Path) -> None:
    made = sweep(QUOTING, *(quoting(arm, (-1.0, -2.0), None) for arm in Arm))
    told_so = "not checked (log-probabilities that the other arm's alone were held against, or none): x"
    assert told_so in judged(tmp_path, made).warnings
    scored_too = sweep(QUOTING, *(quoting(arm, (-1.0, -2.0), (-1.0, -2.0)) for arm in Arm))
    assert told_so not in judged(tmp_path, scored_too).warnings


def test_without_a_sweep_there_is_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(NoVerdict) as raised:
        judged(tmp_path, None)
    assert raised.value.reason == "request_honouring: not measured by this engine (e)"


# --- what is asked --------------------------------------------------------------------------------------------------

BOUNDS = st.builds(
    Bounds,
    vocabulary=st.just(60),
    eos=st.sampled_from([(), (2,), (2, 3)]),
    draft_tokens=st.integers(1, 9),
    window=st.sampled_from([None, 64, 4096]),
    draft_window=st.sampled_from([None, 40, 64]),
    block=st.sampled_from([None, 1, 16, 64]),
)


@settings(deadline=None, max_examples=40)
@given(bounds=BOUNDS, capabilities=st.frozensets(st.sampled_from(list(Capability))), seed=st.integers(0, 99))
def test_every_request_fits_and_is_named_once(bounds: Bounds, capabilities: frozenset[Capability], seed: int) -> None:
    ground = Ground(capabilities, bounds.draft_tokens, 1024, bounds, tuple(range(5, 60)))
    plain = first(ground)
    source, traces = random.Random(seed), {}
    for one in plain[:3]:
        ids = tuple(source.randrange(60) for _ in range(one.request.max_tokens))
        rounds = (Round(bounds.draft_tokens, 1, 1, 2, 0),) * (len(ids) // 2)
        traces[one.name] = replace(answer(Arm.CANDIDATE, ids), rounds=rounds, text=" ".join(f"w{i}" for i in ids))
    said = Said(traces, traces, lambda ids: " ".join(f"w{i}" for i in ids), lambda text: (int(text.strip()[1:]),))
    every = [*plain, *then(ground, said)]
    names = [one.name for one in every]
    assert len(set(names)) == len(names)
    for one in every:
        assert one.request.max_tokens >= 1
        length = len(one.request.token_ids or ())
        if bounds.window is not None and not one.may_refuse:
            assert length + one.request.max_tokens <= bounds.window
        assert one.same_as in {"", *names}
        assert set(one.unlike) <= {*names}
        if one.expected is not None:
            assert len(one.expected) <= one.request.max_tokens
    seeded = [one for one in every if one.request.sampling.seed and one.area == "seed"]
    assert bool(seeded) == (Capability.SEEDS in capabilities)
    assert any(one.company == "mixed" for one in every) == (Capability.BATCH in capabilities)


def test_an_engine_without_ids_is_asked_what_it_can_be_asked() -> None:
    ground = Ground(ALL - {Capability.TOKENS}, 4, 1024)
    every = first(ground)
    assert {one.area for one in every} == {"plain", "seed"}
    assert all(one.request.token_ids is None and one.request.messages for one in every)
    trace = answer(Arm.REFERENCE, tuple(range(65, 65 + ground.budget)))
    more = then(ground, Said({"plain/1": trace}, {}))
    assert {"budget", "end of text", "min_tokens", "repetition_penalty", "logit_bias"} <= {one.area for one in more}
    assert all(one.expected is None for one in more)
    assert any("takes no token ids" in line for line in not_asked(ground))


def test_what_the_window_leaves_no_room_for_is_named() -> None:
    ground = Ground(frozenset(), 4, 1024, Bounds(60, (), 4, 8192, 2048), tuple(range(60)))
    assert list(not_asked(ground)) == [
        "several answers to one request (n>1): the engine offers none",
        "log-probabilities of the output: the engine offers none",
        "a request that is cancelled: the engine offers none",
        "requests side by side: the engine runs one at a time",
        "seeds: the engine has none",
        "the end of the window: 8192 tokens are more than a sweep reads here (1024)",
        "the end of the draft's window: 2048 tokens are more than a sweep reads here (1024)",
    ]


def test_ends_are_placed_inside_accepted_blocks() -> None:
    ground = Ground(ALL, 2, 1024, Bounds(99, (), 2), tuple(range(5, 60)))
    ids = tuple(range(60, 60 + ground.budget))
    # After the first token, rounds of three: the places 1, 2 | 4, 5 | 7, 8 are followed by others of their round.
    rounds = (Round(2, 2, 2, 3, 0),) * 3
    trace = replace(answer(Arm.CANDIDATE, ids), rounds=rounds, prefill_tokens=1)
    said = Said({"plain/1": trace}, {"plain/1": trace}, lambda i: "".join(map(chr, i)))
    ends = [one for one in then(ground, said) if one.area == "end of text"]
    assert [ids.index(one.request.stop_ids[0]) for one in ends] == [1, 4, 7]
    assert [one.expected for one in ends] == [ids[:2], ids[:5], ids[:8]]


def test_a_broken_request_is_a_value() -> None:
    assert list(broken(sweep(probe(), (65,), CRASHED), FINE)) == [Broken("x", Arm.CANDIDATE, "crashed (IndexError: 7)")]
