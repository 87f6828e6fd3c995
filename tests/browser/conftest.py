"""A headless Chromium that opens one file at a time and tells all that the page did.

These tests need playwright and a Chromium (``SPECGATE_CHROMIUM``, or one on the path): ``tox run -e browser``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
THEMES, WIDTHS = ("light", "dark"), (1280, 390)


@dataclass
class Opened:
    """A page and what it did: console messages, errors, dialogs, and every address that it asked for."""

    page: Any
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def show(self, selector: str) -> None:
        """Open every fold that matches."""
        self.page.evaluate("s => document.querySelectorAll(s).forEach(fold => { fold.open = true })", selector)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    path = os.environ.get("SPECGATE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no Chromium on the path: set SPECGATE_CHROMIUM")
    with pytest.importorskip("playwright.sync_api").sync_playwright() as driver:
        # Inside a container there is no user namespace for its sandbox; the pages are our own.
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Any) -> Iterator[Callable[..., Opened]]:
    """Open a file in a theme and a width."""
    contexts = []

    def visited(path: Path, theme: str = "light", width: int = 1280) -> Opened:
        context = chromium.new_context(color_scheme=theme, viewport={"width": width, "height": 900})
        contexts.append(context)
        opened = Opened(context.new_page())
        opened.page.on("console", lambda message: opened.messages.append(message.text))
        opened.page.on("pageerror", lambda error: opened.messages.append(str(error)))
        opened.page.on("request", lambda request: opened.requests.append(request.url))
        opened.page.on("dialog", lambda dialog: (opened.dialogs.append(dialog.message), dialog.dismiss()))
        opened.page.goto(path.as_uri())
        return opened

    yield visited
    for context in contexts:
        context.close()
