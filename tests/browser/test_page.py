"""The page in a real browser: silent, alone, readable at both widths in both themes, and unmoved by hostile text."""

from __future__ import annotations

import importlib.resources
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_specgate.report.advice import advise
from pytest_specgate.report.advised import Wanted
from pytest_specgate.report.document import Report
from pytest_specgate.report.faces import framed
from pytest_specgate.report.html.page import html
from tests.browser.conftest import THEMES, WIDTHS, Opened
from tests.unit.reporting import hostile, measured, times, with_gpu_memory

pytest.importorskip("playwright.sync_api", reason="run it with: tox run -e browser")

Visit = Callable[..., Opened]
BOTH = [(theme, width) for theme in THEMES for width in WIDTHS]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    made = with_gpu_memory(measured(tmp_path_factory.mktemp("suite")))
    return advise(replace(made, wanted={suite: Wanted(price=2.5) for suite in made.measurements}))


@pytest.fixture(scope="module")
def path(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html(report), encoding="utf-8")
    return path


@pytest.mark.parametrize(("theme", "width"), BOTH)
def test_the_page_is_silent_asks_for_nothing_and_fits(visit: Visit, path: Path, theme: str, width: int) -> None:
    opened = visit(path, theme, width)
    opened.show("details")

    assert opened.messages == []
    assert opened.requests == [path.as_uri()]
    assert opened.page.evaluate("document.scrollingElement.scrollWidth") <= width
    assert opened.page.locator("svg.plot").count() > 20


@pytest.mark.parametrize(("theme", "width"), BOTH)
def test_axe_finds_no_serious_issue(visit: Visit, path: Path, theme: str, width: int) -> None:
    pytest.importorskip("axe_playwright_python")
    opened = visit(path, theme, width)
    opened.show("details")
    opened.page.evaluate(importlib.resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8"))

    found = opened.page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]

    told = [(one["id"], one["impact"], one["nodes"][0]["html"][:200]) for one in found]
    assert [one for one in told if one[1] in ("serious", "critical")] == []


def test_each_theme_has_its_colours(visit: Visit, path: Path) -> None:
    shown = [visit(path, theme).page.evaluate("getComputedStyle(document.body).backgroundColor") for theme in THEMES]

    assert shown == ["rgb(255, 255, 255)", "rgb(18, 22, 28)"]


def test_keys_lead_past_the_top_and_into_a_case(visit: Visit, path: Path) -> None:
    page = visit(path).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the summary"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"

    fold = page.locator("details.case").last
    before = fold.evaluate("fold => fold.open")
    fold.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert fold.evaluate("fold => fold.open") is not before


def test_the_overview_leads_to_its_cases(visit: Visit, path: Path) -> None:
    page = visit(path).page
    link = page.locator("section[aria-labelledby=cases] a").last
    target = link.get_attribute("href")

    link.click()

    assert page.evaluate("location.hash") == target
    assert page.locator(f"details{target}").is_visible()


HOSTILE = {
    "markup": "<script>window.struck=1</script><img src=x onerror=window.struck=1><svg/onload=window.struck=1>",
    "ends": "</style></title></textarea></svg></details></main><iframe srcdoc='<script>parent.struck=1</script>'>",
    "links": "[a](javascript:window.struck=1) https://evil.example/x @all ![i](https://evil.example/i.png)",
    "controls": "\x1b[31m\x1b]8;;https://evil.example\x07\u202eevil\u2066\u0000\ufeff\ud800",
    "a megabyte": "long " + "x" * 1_000_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_stays_text(visit: Visit, report: Report, tmp_path: Path, text: str) -> None:
    path = tmp_path / "report.html"
    path.write_text(html(advise(hostile(report, text))), encoding="utf-8")
    opened = visit(path)
    opened.show("details")
    page = opened.page

    assert opened.messages == opened.dialogs == []
    assert opened.requests == [path.as_uri()]
    assert page.evaluate("window.struck === undefined")
    assert page.locator("script, iframe, img, object, embed, form, base").count() == 0
    assert page.locator("a:not([href^='#'])").count() == 0
    assert page.evaluate("document.querySelectorAll('main').length") == 1
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 1280
    assert "\u202e" not in page.evaluate("document.body.textContent")


def test_five_hundred_cases_open_and_scroll_to_the_end(visit: Visit, report: Report, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(html(advise(times(report, 500))), encoding="utf-8")
    page = visit(path, width=390).page

    # Folded cases are laid out when they come near, so that the page grows while it is scrolled.
    for _ in range(100):
        page.keyboard.press("End")
        if page.evaluate("scrollY + innerHeight >= document.scrollingElement.scrollHeight - 2"):
            break
        page.wait_for_timeout(20)

    assert page.evaluate("document.querySelector('footer').getBoundingClientRect().top < innerHeight")


def test_a_notebooks_frame_shows_it_and_runs_nothing(visit: Visit, report: Report, tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><title>n</title>{framed(report)}", encoding="utf-8")
    opened = visit(path)

    frame = opened.page.frame_locator("iframe")

    assert "Speculation gates" in (frame.locator("h1").text_content() or "")
    assert opened.messages == []
    assert [url for url in opened.requests if not url.startswith(("about:", "file:"))] == []
