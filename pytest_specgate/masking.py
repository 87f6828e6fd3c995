"""Secrets of the environment, kept out of what is written: values of variables with a telling name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

MASK = "********"
_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSWORD", re.IGNORECASE)
_LEAST = 8  # shorter values are words like "true", which stand everywhere


def masker(environ: Mapping[str, str]) -> Callable[[str], str]:
    """A function that replaces these secrets wherever they occur in a text, the longest first."""
    found = {value for name, value in environ.items() if _SECRET_NAME.search(name) and len(value) >= _LEAST}
    if not found:
        return str
    pattern = re.compile("|".join(re.escape(value) for value in sorted(found, key=lambda v: (-len(v), v))))
    return lambda text: pattern.sub(MASK, text)
