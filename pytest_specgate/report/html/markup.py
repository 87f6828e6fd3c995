"""Markup that cannot be forged: plain text becomes markup by escaping alone.

``Markup`` is text that is HTML already. ``tag`` escapes every child that is not Markup, and every attribute; controls
and bidirectional characters become visible on the way.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

from pytest_specgate.records import Outcome
from pytest_specgate.report.escape import one_line, visible

_MOST = 600  # characters of one text; a page of 200 cases must not grow with what a model wrote
_VOID = frozenset({"meta", "link"})
Attribute = str | int | float | None


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


EMPTY = Markup("")


def escape(text: str, most: int = _MOST) -> Markup:
    """Plain text on one line, harmless, cut in the middle where it is longer than ``most``."""
    if isinstance(text, Markup):
        return text
    # A sentence is put together from parts, so the space at an end belongs to it.
    line, before, after = one_line(text, most), text.startswith(" "), text.endswith(" ")
    if not line:
        return Markup(" " * before)
    return Markup(f"{' ' * before}{html.escape(line, quote=True)}{' ' * after}")


def joined(parts: Iterable[str], between: str = "") -> Markup:
    """The parts one after the other, those that are no markup escaped."""
    return Markup(escape(between).join(map(escape, parts)))


def tag(name: str, /, *children: str, **attributes: Attribute) -> Markup:
    """An element. ``class_`` gives ``class``, ``aria_label`` gives ``aria-label``; None leaves an attribute out."""
    pairs = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not None)
    told = "".join(f' {key}="{escape(str(value), 4 * _MOST)}"' for key, value in pairs)
    if name in _VOID:
        return Markup(f"<{name}{told}>")
    return Markup(f"<{name}{told}>{joined(children)}</{name}>")


def table(caption: str, headers: Sequence[str], rows: Iterable[Sequence[str]], class_: str | None = None) -> Markup:
    """A table with a caption, column heads and the first cell of every row as its head; it scrolls by itself."""
    head = tag("tr", *(tag("th", header, scope="col") for header in headers))
    body = (tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows)
    made = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body), class_=class_)
    return tag("div", made, class_="scroll", tabindex=0, role="group", aria_label=caption)


def pairs(caption: str, found: Mapping[str, str]) -> Markup:
    """A table of names and values; nothing where there are none."""
    return table(caption, ("name", "value"), found.items(), class_="pairs") if found else EMPTY


def badge(outcome: Outcome, label: str = "") -> Markup:
    """An outcome as a word, with its colour beside it."""
    return tag("span", label or outcome.value, class_=f"badge {outcome.value.lower()}")


def model_text(text: str, most: int = _MOST) -> Markup:
    """What a model wrote with every space and line break visible, apart from the direction of the text around it."""
    cut = text if len(text) <= most else f"{text[:most]}…"
    return tag("bdi", Markup(html.escape(visible(cut), quote=True)))
