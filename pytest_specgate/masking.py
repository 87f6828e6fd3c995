"""Secrets of the environment, kept out of what is written: values of variables with a telling name.

A suite names further ones: the variable of an API's key, and those that it puts into a server's command. Their names
are learned when it is read, for the whole process, as everything that writes takes its secrets from here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from pytest_specgate.records import Verdict

MASK = "********"
_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSWORD", re.IGNORECASE)
_LEAST = 8  # shorter values are words like "true", which stand everywhere
_LEAST_OF_A_KEY = 4  # of a variable that a suite says holds a key
# Texts are shown on one line: a key of several lines is known again with blanks or escapes between them.
_BLANKS = r"(?:\s|\\[nrt])+"
#: Names that suites told, and from what length on the values of each are masked.
_learned: dict[str, int] = {}


def learn_key(name: str) -> None:
    """From now on the value of this variable is a secret: a suite says that it holds a key."""
    _learned[name] = _LEAST_OF_A_KEY


def learn_part(name: str) -> None:
    """From now on the value of this variable is a secret as those of telling names are."""
    _learned.setdefault(name, _LEAST)


def learned() -> dict[str, int]:
    """What was learned, for another process to take in."""
    return dict(_learned)


def learn_all(told: Mapping[str, int]) -> None:
    """Take in what another process learned."""
    for name, least in told.items():
        _learned[name] = min(least, _learned.get(name, least))


def secrets(environ: Mapping[str, str]) -> list[str]:
    """Values of variables with a telling name or one that a suite told, the longest first."""
    values = {value.strip() for name, value in environ.items() if len(value.strip()) >= _least(name)}
    return sorted(values, key=lambda value: (-len(value), value))


def _least(name: str) -> float:
    """From what length on a variable's value is a secret."""
    return _learned.get(name, _LEAST if _SECRET_NAME.search(name) else float("inf"))


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
