"""Text that a model or a file wrote, made safe to print: what a terminal would obey becomes visible."""

from __future__ import annotations

import re
import unicodedata
from typing import TextIO

# Controls (ANSI's ESC among them), invisible and bidirectional characters, half surrogates, tags.
_HARMFUL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_WORDS = {
    "→": "->", "×": "x", "÷": "/", "±": "+-", "…": "...", "–": "-", "—": "-", "−": "-", "·": "-", "µ": "u",
    "≤": "<=", "≥": ">=", "β": "beta", "τ": "tau", "σ": "sigma", "Σ": "sum", "√": "sqrt", "≠": "!=",
    "\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'",
}  # fmt: skip
_ASCII = str.maketrans(_WORDS)


def harmless(text: str) -> str:
    """Escape what a terminal would obey; newlines and tabs stay."""
    return _HARMFUL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def visible(text: str) -> str:
    """Harmless and on one line, with every space as it is and line breaks and tabs as escapes."""
    return harmless(text).replace("\n", "\\n").replace("\t", "\\t")


def flat(text: str) -> str:
    """Harmless and on one line, so that a text can never pass for lines of the report's own."""
    return " ".join(harmless(text).split())


def one_line(text: str, width: int) -> str:
    """Harmless, on one line, cut in the middle to at most ``width`` characters."""
    # What is cut out anyway is not looked at: a model may write a line of a megabyte.
    line = flat(text if len(text) <= 4 * width else f"{text[: 2 * width]}…{text[-2 * width :]}")
    if len(line) <= width:
        return line
    half = (width - 1) // 2
    return f"{line[: width - 1 - half]}…{line[len(line) - half :]}"


def ascii_alone(out: TextIO) -> bool:
    """Whether an output carries no more than ASCII for sure."""
    return not (out.encoding or "utf-8").lower().startswith("utf")


def in_ascii(text: str) -> str:
    """For an output that is not UTF-8: signs by their usual spelling, everything else as an escape."""
    return text.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")


def columns(text: str) -> int:
    """Terminal columns of a harmless line: two for wide East Asian characters, none for combining marks."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)
