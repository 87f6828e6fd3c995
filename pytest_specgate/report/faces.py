"""A report in the form that its file's ending asks for: ``.html`` and ``.md`` for people, ``.json`` for machines.

Secrets of the environment are masked in the values, before any form escapes them.
"""

from __future__ import annotations

import dataclasses
import enum
import os
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pytest_specgate.files import write_atomically
from pytest_specgate.masking import masker
from pytest_specgate.report import document
from pytest_specgate.report.document import Report
from pytest_specgate.report.html.page import html
from pytest_specgate.report.markdown import markdown

T = TypeVar("T")

#: Those that people read.
FACES: Mapping[str, Callable[[Report], str]] = MappingProxyType({".html": html, ".md": markdown})


def write(path: Path, report: Report) -> None:
    """Write a whole file in the form of its ending: ``.json``, or one of FACES. Raises StoreError."""
    if path.suffix == ".json":
        document.write(path, report)
    else:
        write_atomically(path, FACES[path.suffix](hidden(report, masker(os.environ))))


def framed(report: Report) -> str:
    """The page as a frame that runs no script, secrets masked; its height is the reader's to change."""
    page = escape(html(hidden(report, masker(os.environ))), quote=True)
    style = "width:100%;height:640px;border:1px solid #8888;resize:vertical"
    return f'<iframe title="pytest-specgate report" sandbox srcdoc="{page}" style="{style}"></iframe>'


def hidden(value: T, hide: Callable[[str], str]) -> T:
    """The value with ``hide`` applied to every text in it, keys of mappings included; numbers and enums stay."""
    if hide is str:
        return value
    found: Any = _hidden(value, hide)
    return found  # type: ignore[no-any-return]  # of the same type by construction


def _hidden(value: Any, hide: Callable[[str], str]) -> Any:
    if isinstance(value, enum.Enum):
        return value
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Mapping):
        return {_hidden(key, hide): _hidden(item, hide) for key, item in value.items()}
    if isinstance(value, tuple):
        # Token ids are most of a report, and hold no text.
        return value if value and type(value[0]) is int else tuple(_hidden(item, hide) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        texts = {field.name: _hidden(getattr(value, field.name), hide) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **texts)
    return value
