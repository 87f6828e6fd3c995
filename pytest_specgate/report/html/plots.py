"""The pictures of one case: speed by prompt and round, acceptance by position, times, memory.

Intervals are 95 %. What was not measured is told in the picture's place; nothing is drawn as zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from pytest_specgate.metrics import Unit
from pytest_specgate.records import Arm, Check, Measurement, MemoryReading, Samples, Verdict
from pytest_specgate.report import numbers, positions
from pytest_specgate.report.html import svg
from pytest_specgate.report.html.markup import EMPTY, Markup
from pytest_specgate.report.html.svg import BOTTOM, LEFT, RIGHT, TOP, WIDTH, Scale
from pytest_specgate.report.numbers import Estimate, text
from pytest_specgate.stats.scatter import within
from pytest_specgate.units import format_value, parse_limit

MOST_PROMPTS = 24
_PARTS = (("weights_target", "target weights"), ("weights_draft", "draft weights"), ("kv_cache", "KV cache"))
_ARMS = {Arm.REFERENCE: "reference", Arm.CANDIDATE: "candidate"}


def speedup_by_prompt(samples: Samples, verdicts: Sequence[Verdict]) -> Markup:
    """A dot and an interval for every prompt, the slowest first, the break-even line and the gate's limit."""
    title, found, whole = "Speedup by prompt", numbers.by_prompt(samples), numbers.speedup(samples)
    if not found or whole is None:
        return svg.absent(title, "not measured")
    shown, rest, limits = [*found[:MOST_PROMPTS], ("all prompts", whole)], found[MOST_PROMPTS:], _limits(verdicts)
    height = TOP + 14 * len(shown) + BOTTOM + 4
    ends = [end for _, one in shown for end in numbers.ends(one)]
    scale = Scale(*svg.around(ends, [1.0, *limits]), LEFT + 40, WIDTH - RIGHT)
    axis = svg.x_axis(scale, TOP, height - BOTTOM, _times, "reference ÷ candidate")
    parts = [axis, _marks(scale, limits, TOP, height - BOTTOM), *_prompt_rows(scale, shown)]
    slower = sum(1 for _, one in found if one.value < 1)
    said = f"All prompts {text(whole, Unit.RATIO)}; {slower} of {len(found)} are slower than without speculation."
    if rest:
        others = f"{_times(rest[0][1].value)} and {_times(rest[-1][1].value)}"
        said += f" Shown are the slowest {MOST_PROMPTS}; the others lie between {others}."
    return svg.figure(title, said, height, parts, said)


def _prompt_rows(scale: Scale, shown: Sequence[tuple[str, Estimate]]) -> Iterator[Markup]:
    """One row a prompt, and the last one for all of them."""
    kinds = [*("worse" if one.value < 1 else "candidate" for _, one in shown[:-1]), "whole"]
    rows = [(TOP + 8 + 14 * row, kind, *named) for row, (kind, named) in enumerate(zip(kinds, shown))]
    for wanted in dict.fromkeys(kinds):
        spans = [_span(scale, one, y) for y, kind, _, one in rows if kind == wanted and one.low is not None]
        yield svg.lines(spans, f"whisker {wanted}")
    for y, kind, prompt, one in rows:
        yield svg.text(LEFT + 34, y + 3.5, _short(prompt), "end")
        yield svg.dot(scale(one.value), y, kind, f"{prompt}: {text(one, Unit.RATIO)}")


def rounds_and_looks(samples: Samples, verdicts: Sequence[Verdict]) -> Markup:
    """The speedup of every round, and the gate's own interval at each look."""
    title, found = "Noise and looks", numbers.by_round(samples)
    if not found:
        return svg.absent(title, "not measured")
    looks = [(look.rounds, look.interval) for check in _speed_checks(verdicts) for look in check.looks]
    ends = [end for _, seen in looks if seen is not None for end in (seen.low, seen.high)]
    height, limits = 150, _limits(verdicts)
    across = Scale(0.5, len(found) + 0.5, LEFT, WIDTH - RIGHT)
    up = Scale(*svg.around([*found, *ends], [1.0, *limits]), height - BOTTOM, TOP)
    parts = [svg.y_axis(up, _times), svg.text((LEFT + WIDTH) / 2, height - 4, "round")]
    parts += [svg.line(LEFT, up(limit), WIDTH - RIGHT, up(limit), "limit") for limit in limits]
    parts.append(svg.line(LEFT, up(1.0), WIDTH - RIGHT, up(1.0), "even"))
    for number, seen in looks:
        if seen is not None and number <= len(found):
            x = across(number) + 5
            parts += [svg.line(x, up(seen.low), x, up(seen.high), "whisker look"), svg.dot(x, up(seen.value), "look")]
    parts.append(svg.path([(across(n + 1), up(value)) for n, value in enumerate(found)], "curve candidate"))
    for number, value in enumerate(found):
        parts.append(svg.dot(across(number + 1), up(value), "candidate", f"round {number + 1}: {_times(value)}"))
        parts.append(svg.text(across(number + 1), height - 17, str(number + 1)) if len(found) <= 16 else EMPTY)
    scatter = within(p.series["speedup"] for p in samples.prompts if p.series.get("speedup"))
    noise = "one round tells no noise" if scatter is None else f"one pair scatters by ±{scatter:.1%}"
    span = "one round of" if len(found) == 1 else f"{len(found)} rounds from {_times(min(found))} to"
    said = f"{span} {_times(max(found))}; {noise}."
    note = f"{said} Beside them, the gate's interval at each look." if ends else said
    return svg.figure(title, said, height, parts, note)


def acceptance_by_draft(measurement: Measurement) -> Markup:
    """A bar for every draft position."""
    title, found = "Acceptance by draft position", positions.by_draft_position(measurement)
    if not found:
        return svg.absent(title, "not measured: the engine tells no rounds, or nothing was drafted")
    labels = [str(one.position) for one in found]
    return _share_bars(title, found, labels, "position in the draft")


def acceptance_by_context(measurement: Measurement) -> Markup:
    """A bar for every doubling of the context, and how acceptance changes with one."""
    title, found = "Acceptance by context", positions.by_context(measurement)
    if not found:
        return svg.absent(title, "not measured: the engine tells no rounds, or nothing was drafted")
    slope = positions.decay(measurement)
    labels = [f"{one.position}+" for one in found]
    note = "" if slope is None else f"Per doubling of the context, within conversations: {_points(slope)}."
    return _share_bars(title, found, labels, "tokens of prompt and output so far", note)


def _share_bars(
    title: str, found: Sequence[positions.Share], labels: Sequence[str], name: str, note: str = ""
) -> Markup:
    height = 150
    up, step = Scale(0.0, 1.0, height - BOTTOM, TOP), (WIDTH - RIGHT - LEFT) / len(found)
    parts = [svg.y_axis(up, lambda value: f"{value:.0%}"), svg.text((LEFT + WIDTH) / 2, height - 4, name)]
    every = math.ceil(len(found) / 12)
    for number, (one, label) in enumerate(zip(found, labels)):
        middle, y = LEFT + step * (number + 0.5), up(one.share.value)
        said = f"{label}: {text(one.share, Unit.FRACTION)} of {one.trials}"
        width = min(step * 0.6, 40)
        parts.append(svg.bar((middle - width / 2, y, width, up(0.0) - y), "candidate soft", said))
        if one.share.low is not None and one.share.high is not None:
            parts.append(svg.line(middle, up(one.share.low), middle, up(one.share.high), "whisker candidate"))
        parts.append(svg.text(middle, height - 17, label) if number % every == 0 else EMPTY)
    told = "; ".join(f"{label}: {text(one.share, Unit.FRACTION)}" for one, label in zip(found[:8], labels))
    return svg.figure(title, told, height, parts, note)


def times(samples: Samples, name: str, title: str) -> Markup:
    """Quantiles of both arms on one scale: 5 to 95 % thin, the middle half thick, the median a dot, 99 % a tick."""
    rows = [(arm, numbers.quantiles_of(samples, prefix + name)) for arm, prefix in _PREFIXES.items()]
    known = [(arm, found) for arm, found in rows if found]
    if not known:
        return svg.absent(title, "not measured")
    height = TOP + 26 * len(rows) + BOTTOM
    scale = Scale(*svg.around([v for _, found in known for v in found]), LEFT + 24, WIDTH - RIGHT)
    parts = [svg.x_axis(scale, TOP, height - BOTTOM, _seconds, "seconds per request")]
    told = []
    for row, (arm, found) in enumerate(rows):
        y = TOP + 14 + 26 * row
        parts.append(svg.text(LEFT + 18, y + 3.5, _ARMS[arm], "end"))
        if not found:
            parts.append(svg.text(scale.start + 4, y + 3.5, "not measured", "start"))
            continue
        kind, said = _ARMS[arm], _quantiles(found)
        parts += [svg.line(scale(found[0]), y, scale(found[4]), y, f"whisker {kind}")]
        parts += [svg.bar((scale(found[1]), y - 5, scale(found[3]) - scale(found[1]), 10), f"{kind} soft")]
        parts += [svg.line(scale(found[5]), y - 5, scale(found[5]), y + 5, f"whisker {kind}")]
        parts.append(svg.dot(scale(found[2]), y, kind))
        told.append(f"{_ARMS[arm]}: {said}")
    return svg.figure(title, "; ".join(told), height, parts, "; ".join(told))


def memory(readings: Mapping[Arm, MemoryReading]) -> Markup:
    """Where the bytes of each arm are, up to the peak of its own process."""
    title = "Memory by part"
    peaks = {arm: (numbers.peak(readings.get(arm), "vram"), "device") for arm in Arm}
    if not all(peak for peak, _ in peaks.values()):
        peaks = {arm: (numbers.peak(readings.get(arm), "host_memory"), "host") for arm in Arm}
    most = max((peak or 0 for peak, _ in peaks.values()), default=0)
    if not most:
        return svg.absent(title, "not measured: no memory pass ran, or its gates were not asked for")
    height = TOP + 34 * len(Arm) + 16
    scale, parts, told = Scale(0.0, most, LEFT + 24, WIDTH - RIGHT), list[Markup](), list[str]()
    for row, arm in enumerate(Arm):
        peak, kind = peaks[arm]
        y, x = TOP + 34 * row, scale.start
        parts.append(svg.text(LEFT + 18, y + 15, _ARMS[arm], "end"))
        said = []
        for part, size, class_ in _stack(readings.get(arm), peak or 0):
            said.append(f"{part} {format_value(size, Unit.BYTES)}")
            parts.append(svg.bar((x, y + 3, scale(size) - scale.start, 18), class_, said[-1]))
            x += scale(size) - scale.start
        whole = f"{kind} peak {format_value(peak, Unit.BYTES)}{_on(readings.get(arm))}" if peak else "peak not measured"
        told.append(f"{_ARMS[arm]}: {', '.join([whole, *said, *_missing_parts(readings.get(arm))])}")
    return svg.figure(title, "; ".join(told), height, [*parts, _key(height)], "; ".join(told))


def _on(reading: MemoryReading | None) -> str:
    """Over how many GPUs a server's memory is summed, where they are several."""
    return f" on {len(reading.gpus)} GPUs" if reading is not None and len(reading.gpus) > 1 else ""


def _key(height: float) -> Markup:
    """Which colour is which part."""
    names = [*(label for _, label in _PARTS), "everything else"]
    step = (WIDTH - RIGHT) / len(names)
    swatches = [svg.bar((4 + step * n, height - 10, 8, 8), f"part{n}") for n in range(len(names))]
    return Markup(
        "".join([*swatches, *(svg.text(15 + step * n, height - 3, name, "start") for n, name in enumerate(names))])
    )


def _stack(reading: MemoryReading | None, peak: int) -> list[tuple[str, int, str]]:
    """(part, bytes, class) as far as they are known, then the rest below the peak."""
    known = [(label, getattr(reading, name, None), f"part{n}") for n, (name, label) in enumerate(_PARTS)]
    found = [(label, int(size), class_) for label, size, class_ in known if size]
    rest = peak - sum(size for _, size, _ in found)
    return [*found, ("everything else", rest, "part3")] if rest > 0 else found


def _missing_parts(reading: MemoryReading | None) -> list[str]:
    missing = [label for name, label in _PARTS if getattr(reading, name, None) is None]
    return [f"{' and '.join(missing)} not measured"] if missing else []


_PREFIXES = {Arm.REFERENCE: "reference_", Arm.CANDIDATE: ""}


def _limits(verdicts: Sequence[Verdict]) -> list[float]:
    """The ends of absolute limits on the speedup."""
    found = []
    for check in _speed_checks(verdicts):
        try:
            limit = parse_limit(check.required, Unit.RATIO)
        except ValueError:
            continue  # a report says what its suite said; another version may say it otherwise
        found += [end for end in (limit.low, limit.high) if end is not None]
    return found


def _speed_checks(verdicts: Sequence[Verdict]) -> list[Check]:
    return [check for v in verdicts if v.metric == "speedup" for check in v.checks if check.kind == "limit"]


def _marks(scale: Scale, limits: Sequence[float], top: float, bottom: float) -> Markup:
    lines = [svg.line(scale(limit), top, scale(limit), bottom, "limit") for limit in limits]
    return Markup("".join([svg.line(scale(1.0), top, scale(1.0), bottom, "even"), *lines]))


def _span(scale: Scale, one: Estimate, y: float) -> tuple[float, float, float, float]:
    low, high = (one.value if end is None else end for end in (one.low, one.high))
    return scale(low), y, scale(high), y


def _short(prompt: str) -> str:
    return prompt if len(prompt) <= 14 else f"{prompt[:6]}…{prompt[-7:]}"


def _times(value: float) -> str:
    return f"{value:.3g}x"


def _seconds(value: float) -> str:
    return format_value(value, Unit.SECONDS)


def _points(slope: Estimate) -> str:
    ends = "" if slope.low is None or slope.high is None else f" [{slope.low * 100:+.1f}, {slope.high * 100:+.1f}]"
    return f"{slope.value * 100:+.1f}{ends} points"


def _quantiles(found: Sequence[float]) -> str:
    return f"median {_seconds(found[2])}, 5–95 % {_seconds(found[0])} to {_seconds(found[4])}, p99 {_seconds(found[5])}"
