"""Text that a model or a file wrote, made safe to print: control, ANSI and bidirectional characters become visible."""

from __future__ import annotations

import re

_HARMFUL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def harmless(text: str) -> str:
    """Escape what a terminal would obey; newlines and tabs stay."""
    return _HARMFUL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii") if match[0] >= "\x80" else repr(match[0])[1:-1],
                        text)  # fmt: skip


def one_line(text: str, width: int) -> str:
    """Harmless, on one line, cut in the middle to at most ``width`` characters."""
    flat = " ".join(harmless(text).split())
    if len(flat) <= width:
        return flat
    half = (width - 1) // 2
    return f"{flat[: width - 1 - half]}…{flat[len(flat) - half :]}"
