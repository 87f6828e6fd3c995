"""What a round costs, in pictures and a table: its parts beside the target alone, and what other draft lengths promise.

Intervals are 95 %: of forwards over their repetitions, of a promised speedup over the limits of acceptance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_specgate.metrics import Unit
from pytest_specgate.records import Costs, Measurement, Samples
from pytest_specgate.report import numbers, prediction
from pytest_specgate.report.html import svg
from pytest_specgate.report.html.markup import EMPTY, Markup, table
from pytest_specgate.report.html.svg import BOTTOM, LEFT, RIGHT, TOP, WIDTH, Scale
from pytest_specgate.report.numbers import text
from pytest_specgate.units import format_value, many

_KEY = (("draft", "part1"), ("target forward", "part0"), ("loop", "part3"))
_UNTOLD = "not measured: this engine does not tell what forwards cost"


def pictures(samples: Samples, taken: Measurement) -> Iterator[Markup]:
    """Where a round's time goes, and the speedup that each draft length promises."""
    yield round_parts(samples, taken)
    yield lengths(samples, taken.costs)


def round_parts(samples: Samples, taken: Measurement) -> Markup:
    """A bar for a token of the target alone, and one for a round of the candidate arm."""
    title, rounds = "Where a round's time goes", prediction.per_round(samples)
    spent = prediction.round_time(rounds, taken.costs, prediction.decode_times(samples))
    if spent is None or rounds is None:
        return svg.absent(title, _UNTOLD)
    bars = [
        ("reference", (0.0, spent.single, spent.alone - spent.single), "a token"),
        ("candidate", (spent.draft, spent.verify, spent.loop), f"a round of {rounds.emitted:.2f} tokens"),
        *_inside(taken),
    ]
    height = TOP + 30 * len(bars) + BOTTOM + 16
    most = max(sum(max(part, 0.0) for part in parts) for _, parts, _ in bars)
    scale, drawn, told = Scale(0.0, most, LEFT + 24, WIDTH - RIGHT), list[Markup](), list[str]()
    drawn.append(svg.x_axis(scale, TOP, height - BOTTOM - 16, _seconds, "seconds"))
    for row, (name, parts, what) in enumerate(bars):
        y, x = TOP + 30 * row, scale.start
        drawn.append(svg.text(LEFT + 18, y + 15, name, "end"))
        said = [f"{label} {_seconds(part)}" for (label, _), part in zip(_KEY, parts) if abs(part) > most / 100]
        for (_, class_), part in zip(_KEY, parts):
            wide = scale(max(part, 0.0)) - scale.start
            drawn.append(svg.bar((x, y + 3, wide, 18), class_) if wide else EMPTY)
            x += wide
        told.append(f"{name}, {what}: {', '.join(said)}")
    note = f"{'; '.join(told)}. {_predicted(samples, taken)}"
    return svg.figure(title, "; ".join(told), height, [*drawn, _key(height)], note)


def _inside(taken: Measurement) -> Iterator[tuple[str, tuple[float, float, float], str]]:
    """What the engine's own loop counted, a mean round: choosing tokens and waiting belong to the loop."""
    spent = [pair.candidate.spent for pair in taken.pairs if pair.candidate.spent is not None]
    rounds = sum(one.rounds for one in spent)
    if rounds:
        draft, verify = sum(one.draft_ns for one in spent), sum(one.verify_ns for one in spent)
        rest = sum(one.sample_ns + one.host_ns for one in spent)
        parts = (draft / rounds / 1e9, verify / rounds / 1e9, rest / rounds / 1e9)
        yield "inside", parts, "a round as its own loop counted it"


def _predicted(samples: Samples, taken: Measurement) -> str:
    predicted = prediction.predicted_speedup(samples, taken.costs) if taken.costs else None
    measured = numbers.speedup(samples, "decode_speedup")
    if predicted is None or measured is None:
        return ""
    kept = f"measured is {text(measured, Unit.RATIO)}, {measured.value / predicted:.0%} of it"
    return f"Without a loop's own work, acceptance and costs predict {predicted:.2f}x for decoding; {kept}."


def lengths(samples: Samples, costs: Costs | None) -> Markup:
    """The expected speedup of every draft length whose forwards were timed, and the break-even line."""
    title, found = "Speedup by draft length, expected", prediction.by_length(samples, costs)
    if not found or costs is None:
        return svg.absent(title, _UNTOLD if costs is None else "not measured: nothing was drafted")
    height = 150
    across = Scale(0.5, len(found) + 0.5, LEFT, WIDTH - RIGHT)
    ends = [end for _, one in found for end in numbers.ends(one)]
    up = Scale(*svg.around(ends, [1.0]), height - BOTTOM, TOP)
    parts = [svg.y_axis(up, lambda value: f"{value:.3g}x"), svg.line(LEFT, up(1.0), WIDTH - RIGHT, up(1.0), "even")]
    parts.append(svg.path([(across(k), up(one.value)) for k, one in found], "curve candidate"))
    spans = [(across(k), up(one.low), across(k), up(one.high)) for k, one in found if one.low and one.high]
    parts.append(svg.lines(spans, "whisker candidate"))
    parts += [svg.dot(across(k), up(one.value), "candidate") for k, one in found if k != costs.draft_tokens]
    parts += [svg.dot(across(k), up(one.value), "whole") for k, one in found if k == costs.draft_tokens]
    parts += [svg.text(across(k), height - 17, str(k)) for k, _ in found if _labelled(k, len(found))]
    parts.append(svg.text((LEFT + WIDTH) / 2, height - 4, "tokens drafted a round"))
    told = "; ".join(f"k = {k}: {text(one, Unit.RATIO)}" for k, one in found[:8])
    return svg.figure(title, told, height, parts, _suggested(samples, costs))


def _labelled(k: int, most: int) -> bool:
    return k % max(1, -(-most // 12)) == 0


def _suggested(samples: Samples, costs: Costs) -> str:
    found = prediction.suggestion(samples, costs)
    if found is None:
        return ""
    here = f"Dark: k = {found.present}, as measured."
    if found.k == found.present or found.gain.low is None or found.gain.low <= 1:
        return f"{here} No other length from 1 to {found.most} is surely faster."
    return f"{here} At k = {found.k} it is expected to be {text(found.gain, Unit.RATIO)} as fast; measure it."


def costs_table(taken: Measurement) -> Markup:
    """Every forward that was timed, and the two ratios; nothing where none was."""
    costs = taken.costs
    if costs is None:
        return EMPTY
    rows: list[Sequence[str]] = [] if costs.draft is None else [_row("draft, 1 token", costs.draft.seconds)]
    rows += [_row(f"target, {_tokens(one.width)}", one.seconds) for one in costs.target]
    rows.append(("draft_cost: draft ÷ target", text(prediction.draft_cost(costs), Unit.RATIO), ""))
    wide = text(prediction.verify_cost(costs), Unit.RATIO)
    rows.append((f"verify_cost: {costs.draft_tokens + 1} tokens ÷ 1", wide, ""))
    where = f"{costs.rows} at once, after {costs.context} tokens"
    return table(f"What forwards cost, each timed alone ({where})", ("forward", "median", "repetitions"), rows)


def _row(name: str, seconds: Sequence[float]) -> Sequence[str]:
    return name, text(prediction.middle(seconds), Unit.SECONDS), str(len(seconds))


def _tokens(width: int) -> str:
    return many(width, "token")


def _key(height: float) -> Markup:
    step = (WIDTH - RIGHT) / len(_KEY)
    swatches = [svg.bar((4 + step * n, height - 10, 8, 8), class_) for n, (_, class_) in enumerate(_KEY)]
    names = [svg.text(15 + step * n, height - 3, name, "start") for n, (name, _) in enumerate(_KEY)]
    return Markup("".join([*swatches, *names]))


def _seconds(value: float) -> str:
    return format_value(value, Unit.SECONDS)
