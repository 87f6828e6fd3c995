"""What a speedup is predicted to be from acceptance and costs, and which draft length would pay."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pytest_specgate.records import Costs, Counts, Forwards, PromptSamples, Samples
from pytest_specgate.report import prediction
from pytest_specgate.report.prediction import (
    decode_times,
    expected,
    per_round,
    predicted_speedup,
    round_time,
    suggestion,
)

#: A draft that costs a tenth of the target, and verify forwards that cost 5 % a token more.
COSTS = Costs(
    target=tuple(Forwards(width, (0.02 * (1 + 0.05 * (width - 1)),) * 5) for width in (1, 5, 9)),
    draft=Forwards(1, (0.002,) * 5),
    draft_tokens=4,
    rows=1,
    context=100,
)


def samples(accepted: int, tested: int, tpot: float = 0.02, prompts: int = 6) -> Samples:
    """Ten rounds of four drafted tokens a prompt; the target alone takes 20 ms a token."""
    series = {"tpot": (tpot,), "reference_tpot": (0.02,), "speedup": (math.log(0.02 / tpot),)}
    counts = (Counts(10, 10, 40, tested, accepted),)
    return Samples("e::c", True, tuple(PromptSamples(f"p{n}", f"p{n}", series, counts) for n in range(prompts)))


def test_a_share_of_drafts_stays_between_none_and_all_however_few_conversations() -> None:
    few = samples(20, 25, prompts=2)
    high, low = (replace(p, counts=(Counts(10, 10, 40, 25, n),)) for p, n in zip(few.prompts, (25, 1)))

    found = prediction.conditional(replace(few, prompts=(high, low)))

    assert found is not None
    assert (found.value, found.low, found.high) == (0.52, 0.0, 1.0)


def test_a_round_yields_what_is_accepted_and_one() -> None:
    assert per_round(samples(20, 25)) == prediction.PerRound(emitted=3.0, drafted=4.0, drafting=1.0)
    assert per_round(replace(samples(0, 0), prompts=())) is None
    assert expected(0.5, 2) == 1.75
    assert expected(1.0, 4) == 5.0


def test_the_prediction_is_tokens_over_cost() -> None:
    # 3 tokens a round for 4 × 0.1 + 1.2 forwards of the target.
    assert predicted_speedup(samples(20, 25), COSTS) == pytest.approx(3 / 1.6)


def test_rounds_without_a_draft_cost_one_plain_forward() -> None:
    half = Counts(10, 5, 20, 12, 10)
    mixed = replace(samples(20, 25), prompts=(PromptSamples("p", "p", {}, (half,)),))

    assert predicted_speedup(mixed, replace(COSTS, draft=None)) == pytest.approx(2 / (0.5 * 1.2 + 0.5 * 1))


def test_costs_are_ratios_with_limits() -> None:
    uneven = replace(COSTS, draft=Forwards(1, tuple(0.002 + 0.0001 * n for n in range(12))))
    uneven = replace(uneven, target=tuple(Forwards(one.width, one.seconds[:1] * 12) for one in COSTS.target))
    found, wide = prediction.draft_cost(uneven), prediction.verify_cost(uneven)

    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high
    assert found.value == pytest.approx(0.1275)
    assert wide is not None
    assert wide.value == pytest.approx(1.2)
    assert prediction.draft_cost(replace(COSTS, draft=None)) is None


def test_where_a_rounds_time_goes() -> None:
    taken = samples(20, 25, tpot=0.015)
    found = round_time(per_round(taken), COSTS, decode_times(taken))

    assert found is not None
    assert found.whole == pytest.approx(0.045)
    assert (found.draft, found.verify, found.loop) == pytest.approx((0.008, 0.024, 0.013))


@pytest.mark.parametrize(
    ("accepted", "tested", "k"),
    [
        (5, 15, 1),  # a third is accepted: the second token seldom matters
        (36, 38, 8),  # nearly all is accepted: as long as was timed
    ],
)
def test_the_draft_length_follows_acceptance_and_costs(accepted: int, tested: int, k: int) -> None:
    emitted = 1 + accepted / 10
    found = suggestion(samples(accepted, tested, tpot=0.032 / emitted), COSTS)

    assert found is not None
    assert (found.k, found.present, found.most) == (k, 4, 8)
    assert found.gain.low is not None
    assert found.gain.high is not None
    assert 1.0 < found.gain.low <= found.gain.value <= found.gain.high


def test_a_loop_that_costs_much_a_round_asks_for_longer_drafts() -> None:
    cheap, dear = (suggestion(samples(20, 25, tpot=whole / 3), COSTS) for whole in (0.032, 0.132))

    assert cheap is not None
    assert dear is not None
    assert dear.k > cheap.k


def test_no_length_is_suggested_without_costs_or_acceptance() -> None:
    assert suggestion(samples(20, 25), None) is None
    assert suggestion(samples(0, 0), COSTS) is None
    assert suggestion(replace(samples(20, 25), prompts=()), COSTS) is None
