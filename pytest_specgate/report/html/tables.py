"""Tables that go with the pictures: what changes along the context, and with the number of requests at once."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_specgate.metrics import Unit
from pytest_specgate.records import Measurement
from pytest_specgate.report import contexts, loads
from pytest_specgate.report.html import svg
from pytest_specgate.report.html.markup import EMPTY, Markup, joined, table, tag
from pytest_specgate.report.html.svg import BOTTOM, LEFT, RIGHT, TOP, WIDTH, Scale
from pytest_specgate.report.loads import Load, Room
from pytest_specgate.report.numbers import ends, text

_HEIGHT = 170
_CONTEXT_HEADS = (
    *("tokens so far", "acceptance", "ITL, reference", "ITL, candidate"),
    *("KV cache, reference", "KV cache, candidate"),
)
_LOAD_HEADS = ("requests at once", "reference", "candidate", "candidate ÷ reference", "rounds filled (occupancy)")


def by_context(taken: Measurement) -> Markup:
    """Acceptance, time between tokens and cache of a request by doublings of the context, where texts are long."""
    found = contexts.by_context(taken)
    if not contexts.is_long(found):
        return EMPTY
    return table("By context (95 % intervals; the cache is one request's)", _CONTEXT_HEADS, map(contexts.cells, found))


def room(taken: Measurement) -> Markup:
    """What the search for capacity found: throughput at each concurrency, and how many requests fit."""
    found = loads.searched(taken.memory)
    if found is None:
        return EMPTY
    picture = throughput("Throughput up to capacity", found.loads, found)
    return joined([tag("div", picture, class_="figures"), load_table(found.loads, "one run each")])


def load_table(found: Sequence[Load], note: str) -> Markup:
    """Tokens per second of both arms by concurrency."""
    return table(f"Throughput by requests at once, tokens per second ({note})", _LOAD_HEADS, map(loads.cells, found))


def throughput(title: str, found: Sequence[Load], room_found: Room | None = None) -> Markup:
    """Both arms' throughput over concurrency, and a mark where the draft's cost turns the speed-up around."""
    curves = {
        "reference": [(load.concurrency, load.reference) for load in found if load.reference],
        "candidate": [(load.concurrency, load.candidate) for load in found if load.candidate],
    }
    points = [point for curve in curves.values() for point in curve]
    if len(found) < 2 or not points:
        return svg.absent(title, "not measured at two concurrencies or more")
    across = Scale(found[0].concurrency, found[-1].concurrency, LEFT + 16, WIDTH - RIGHT - 16, log=True)
    up = Scale(*svg.around([end for _, rate in points for end in ends(rate)]), _HEIGHT - BOTTOM, TOP + 6)
    parts = [svg.y_axis(up, lambda value: f"{value:.4g}")]
    if (turned := loads.turn(found)) is not None:
        parts.append(svg.line(across(turned.at), TOP, across(turned.at), _HEIGHT - BOTTOM, "even"))
    for arm, curve in curves.items():
        parts.append(svg.path([(across(n), up(rate.value)) for n, rate in curve], f"curve {arm}"))
        spans = [(across(n), up(r.low), across(n), up(r.high)) for n, r in curve if r.low and r.high]
        parts.append(svg.lines(spans, f"whisker {arm}"))
        parts += [svg.dot(across(n), up(r.value), arm, f"{arm}, {n} at once: {text(r, Unit.RATE)}") for n, r in curve]
    every = -(-len(found) // 10)
    parts += [svg.text(across(load.concurrency), _HEIGHT - 17, str(load.concurrency)) for load in found[::every]]
    parts.append(svg.text((LEFT + WIDTH) / 2, _HEIGHT - 4, "requests at once"))
    said = [loads.told(found), loads.room_told(room_found) if room_found else ""]
    note = "; ".join(filter(None, said))
    note = f"{note[:1].upper()}{note[1:]}. " if note else ""
    return svg.figure(title, note, _HEIGHT, parts, f"{note}Grey: reference, blue: candidate, tokens per second.")
