"""What is wrong with a text that is not YAML, in words, wherever the parser's own words would not help.

libyaml and PyYAML's own parser name the same mistake differently and point at different ends of it; both
give the same text here, at the place where a person would look first.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from pytest_specgate.errors import Location, SuiteError

#: (found in "problem, context", what, what to do, whether the place is where the construct began)
_TABLE = (
    ("flow sequence", "a '[' that is not closed, or a ',' missing after it", "add ']' or ','", True),
    ("flow mapping", "a '{' that is not closed, or a ',' missing after it", "add '}' or ','", True),
    ("expected node content", "a '[' or '{' that is not closed", "add ']' or '}'", False),
    ("expected the node content", "a '[' or '{' that is not closed", "add ']' or '}'", False),
    (
        "undefined alias",
        "an alias without its anchor",
        "define it before use: '&name', or put the '*' in quotes",
        False,
    ),
    ("expected a single document", "a second document", "one suite per file: remove '---'", False),
    (
        "quoted scalar",
        "a quote that is not closed, or a '\\' that escapes nothing",
        "close it; in \"...\" write '\\\\' for '\\'",
        True,
    ),
    ("mapping values", "a ':' where no value can begin", "indent the line, or put the text in quotes", False),
    (
        "could not find expected ':'",
        "a line that is no 'key: value'",
        "add ':' or indent it as part of the value above",
        True,
    ),
    ("block mapping", "indentation that fits nothing above", "line it up with the keys beside it", False),
    ("block collection", "indentation that fits nothing above", "line it up with the '-' beside it", False),
    ("block sequence", "a '-' where no list can begin", "put it on a line of its own", False),
    ("sequence entries", "a '-' where no list can begin", "put it on a line of its own", False),
    ("maximum nesting depth", "nested too deeply", "flatten it", False),
)


def syntax_error(error: Exception, text: str, shown: Path) -> SuiteError:
    """The parser's complaint about ``text`` as an error of ours."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        if isinstance(error, RecursionError):
            return SuiteError(Location(shown), "nested too deeply", "flatten it")
        return SuiteError(Location(shown), f"not YAML: {error}", "mend it")
    words = f"{error.problem}, {error.context}"
    for part, what, hint, at_beginning in _TABLE:
        if part in words:
            mark = error.context_mark if at_beginning and error.context_mark else error.problem_mark
            unquoted = "flow" in part and "${" in _line(text, error.problem_mark)
            more = '; in a {...} or [...] put "${env:NAME}" in quotes' if unquoted else ""
            return SuiteError(_location(mark, shown), what, hint + more)
    if "cannot start any token" in words:
        return _bad_start(error.problem_mark, text, shown)
    return SuiteError(
        _location(error.problem_mark, shown),
        f"not YAML: {error.problem}",
        "mend the line, or put the text in quotes",
    )


def _bad_start(mark: yaml.Mark, text: str, shown: Path) -> SuiteError:
    line = _line(text, mark)
    character = line[mark.column : mark.column + 1]
    if character == "\t":
        return SuiteError(_location(mark, shown), "a tab as indentation", "indent with spaces")
    return SuiteError(_location(mark, shown), f"{character!r} cannot begin a value", "put the text in quotes")


def _line(text: str, mark: yaml.Mark) -> str:
    lines = text.split("\n")
    return lines[mark.line] if mark.line < len(lines) else ""


def _location(mark: yaml.Mark, shown: Path) -> Location:
    return Location(shown, mark.line + 1, mark.column + 1)
