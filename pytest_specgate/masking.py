"""Secrets of the environment, kept out of what is written: values of variables with a telling name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from pytest_specgate.records import Verdict

MASK = "********"
_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSWORD", re.IGNORECASE)
_LEAST = 8  # shorter values are words like "true", which stand everywhere
# Texts are shown on one line: a key of several lines is known again with blanks or escapes between them.
_BLANKS = r"(?:\s|\\[nrt])+"


def secrets(environ: Mapping[str, str]) -> list[str]:
    """Values of variables with a telling name, the longest first."""
    values = {value.strip() for name, value in environ.items() if _SECRET_NAME.search(name)}
    return sorted((value for value in values if len(value) >= _LEAST), key=lambda value: (-len(value), value))


def masker(environ: Mapping[str, str]) -> Callable[[str], str]:
    """A function that replaces these secrets wherever they occur in a text."""
    found = secrets(environ)
    if not found:
        return str
    pattern = re.compile("|".join(_BLANKS.join(map(re.escape, value.split())) for value in found))
    return lambda text: pattern.sub(MASK, text)


def masked(verdict: Verdict, hide: Callable[[str], str]) -> Verdict:
    """The verdict with every text in it hidden that may quote an engine, a model or a setting."""
    checks = tuple(replace(check, reason=hide(check.reason)) for check in verdict.checks)
    return replace(
        verdict,
        case=hide(verdict.case),
        reason=hide(verdict.reason),
        advice=hide(verdict.advice),
        checks=checks,
        warnings=tuple(map(hide, verdict.warnings)),
        location=hide(verdict.location),
        softened=hide(verdict.softened),
    )
