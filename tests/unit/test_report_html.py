"""The page: whole and reachable for everybody, closed to what a model wrote, and never larger than it may be."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.plugin.options import REPORT_ENDINGS
from pytest_specgate.records import Outcome
from pytest_specgate.report import faces
from pytest_specgate.report.divergence import Parting, Side
from pytest_specgate.report.document import Report, new_report
from pytest_specgate.report.escape import flat, visible
from pytest_specgate.report.html.markup import escape, model_text, tag
from pytest_specgate.report.html.page import MOST_BYTES, html
from pytest_specgate.report.markdown import markdown
from pytest_specgate.report.outline import WORST_FIRST, counts, outline

from .reporting import HOSTILE, Page, hostile, measured, times, with_gpu_memory

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return with_gpu_memory(measured(tmp_path_factory.mktemp("html")))


@pytest.fixture(scope="module")
def page(report: Report) -> Page:
    return Page(html(report))


def _links(page: Page) -> set[str]:
    return {str(one["href"]) for one in page.all("a")}


def _ids(page: Page) -> Counter[str]:
    return Counter(str(attributes["id"]) for _, attributes in page.elements if "id" in attributes)


# --- structure ---


def test_every_element_is_closed_where_it_was_opened(page: Page) -> None:
    assert page.misplaced == []
    assert page.open == []


def test_headings_go_down_one_level_at_a_time(page: Page) -> None:
    levels = [int(name[1]) for name, _ in page.elements if re.fullmatch("h[1-6]", name)]

    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))


def test_who_reads_with_ears_or_keys_finds_everything(page: Page) -> None:
    assert [len(page.all(name)) for name in ("header", "main", "footer", "h1")] == [1, 1, 1, 1]
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(head.get("scope") in ("col", "row") for head in page.all("th"))
    assert all(plot["role"] == "img" and plot["aria-label"] for plot in page.all("svg"))
    scrolling = [div for div in page.all("div") if div.get("class") == "scroll"]
    assert all(div["tabindex"] == "0" and div["role"] == "group" and div["aria-label"] for div in scrolling)
    assert len(page.all("summary")) == len(page.all("details"))


def test_links_lead_somewhere_and_no_id_is_there_twice(page: Page) -> None:
    assert _links(page) <= {f"#{name}" for name in _ids(page)}
    assert set(_ids(page).values()) == {1}


def test_a_phone_and_a_dark_room_are_served(page: Page) -> None:
    metas = {one.get("name"): one.get("content") for one in page.all("meta")}

    assert metas["viewport"] == "width=device-width, initial-scale=1"
    assert metas["color-scheme"] == "light dark"
    assert "@media (prefers-color-scheme:dark)" in dict(page.texts)["style"]


def test_nothing_is_loaded_and_nothing_runs(page: Page) -> None:
    policy = next(one["content"] for one in page.all("meta") if one.get("http-equiv") == "Content-Security-Policy")
    style = "".join(data for name, data in page.texts if name == "style")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()

    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert not {name for name, _ in page.elements} & {"script", "iframe", "object", "img", "form", "base", "use"}
    for _, attributes in page.elements:
        assert not any(name.startswith("on") or name in ("style", "src") for name in attributes)
        assert (attributes.get("href") or "#").startswith(("#", "data:,"))
    assert "url(" not in style
    assert "@import" not in style


# --- content ---


def test_the_summary_comes_first_and_counts_as_the_verdicts_do(page: Page, report: Report) -> None:
    headings = [data for name, data in page.texts if name in ("h1", "h2")]
    cards = re.findall(r"(\d+)\s+(FAIL|ERROR|INCONCLUSIVE|PASS)\b", page.text.partition("gates on")[0])

    assert headings[0].startswith("Speculation gates: ")
    assert headings[1:4] == ["Summary", "Adopt speculation?", "Cases"]
    assert {name: int(number) for number, name in cards} == {o.value: n for o, n in counts(report.verdicts).items()}


def test_every_gate_stands_in_its_case_with_interval_limit_and_looks(report: Report) -> None:
    text = html(report)

    assert text.count('<table class="gates">') == len(outline(report))
    rows = re.findall(r"<tr><th scope=\"row\"><span[^>]*>speedup</span>.*?</tr>", text)
    slow = next(row for row in rows if "0.8" in row)
    assert ">FAIL</span>" in slow
    assert re.search(r"<td>0\.8\d\dx \[0\.\d+x, 0\.\d+x\]</td><td>none</td><td><div>&gt;=1.2x</div></td>", slow)
    assert re.search(r"limit: INCONCLUSIVE after 1[^<]*, FAIL after 2 \(0\.8", slow)


def test_both_arms_and_all_pictures_are_there(page: Page) -> None:
    captions = Counter(data for name, data in page.texts if name in ("caption", "figcaption"))

    assert captions["Both arms (95 % intervals)"] == 12
    for title in (
        "Speedup by prompt", "Noise and looks", "Acceptance by draft position", "Acceptance by context",
        "Time to first token (TTFT)", "Time between tokens (ITL)", "Memory by part",
    ):  # fmt: skip
        assert captions[title] == 12
    assert captions["Speedup against concurrency: qa-t0"] == 3
    assert captions["Throughput against latency: qa-t0"] == 3
    assert "Slower than without speculation at 1, 2, 4 at once." in page.text
    assert "Faster than without speculation at every concurrency measured." in page.text


def test_where_texts_part_both_sides_stand(page: Page) -> None:
    assert "Texts part on 1 of 6 prompts; where, for the first 1" in page.text
    parted = [data for name, data in page.texts if name == "bdi"]
    assert len(page.all("del")) == len(page.all("ins")) >= 3
    assert any(data.split() for data in parted)


def test_a_speed_that_fails_without_a_baseline_is_told_in_its_parts(report: Report) -> None:
    for text in (html(report), markdown(report)):
        assert re.search(r"round yields 1\.\d\d tokens and takes drafting", text)


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_API_KEY", "hunter2hunter2")
    frame = Page(replace(report, machine={"flags": "--key=hunter2hunter2"})._repr_html_())

    (attributes,) = frame.all("iframe")
    assert attributes["sandbox"] is None
    page = attributes["srcdoc"]
    assert page is not None
    assert "hunter2" not in page
    assert Page(page).texts
    assert page.startswith("<!doctype html>")


def test_a_parting_tells_whether_rounding_explains_it(monkeypatch: pytest.MonkeyPatch, report: Report) -> None:
    sides = (Side("reference", 7, " red", logit=11.5), Side("candidate", 9, " blue", logit=11.25))
    found = [Parting("q1", 3, "The  sky is", sides, "numerical_tie"), Parting("q2", 1, "", sides, "real_divergence")]
    monkeypatch.setattr("pytest_specgate.report.html.case.partings", lambda _: iter(found))

    text = html(report)

    row = text[text.index(">q1</th>") :].partition("</tr>")[0]
    assert "<td>numerical tie: 0.25 logits apart</td>" in row
    assert "<bdi>The  sky is</bdi><del><bdi> red</bdi></del> <small>(id 7, logit 11.5)</small>" in row
    assert text.index(">q2</th>") < text.index(">q1</th>")


def test_what_was_not_measured_is_no_zero(page: Page, report: Report) -> None:
    bare = Page(html(replace(report, measurements={
        suite: tuple(replace(one, memory={}, findings=()) for one in taken)
        for suite, taken in report.measurements.items()
    })))  # fmt: skip

    assert "not measured: the engine tells no rounds, or nothing was drafted" in page.text
    assert "draft weights not measured" in page.text
    assert "not measured: no memory pass ran" in bare.text
    assert "Environment rules: not measured." in bare.text
    assert not re.search(r"(?<![\d.])0 B|(?<![\d.])0\.0 tokens/s|\bnan\b|\binf\b", bare.text)
    assert "this case was not measured" in bare.text


def test_a_trace_that_contradicts_itself_is_told_in_place_of_numbers(report: Report) -> None:
    (suite, taken), *_ = report.measurements.items()
    pair = taken[0].pairs[0]
    wrong = replace(taken[0], pairs=(replace(pair, prompt="other"),))
    page = Page(html(replace(report, measurements={suite: (wrong,)})))

    assert "a pair mixes prompts" in page.text


def test_times_beyond_reason_break_no_page(report: Report) -> None:
    (suite, taken), *_ = report.measurements.items()
    broken = replace(
        taken[0],
        pairs=tuple(
            replace(p, candidate=replace(p.candidate, submit_ns=p.candidate.submit_ns - 10**300))
            for p in taken[0].pairs
        ),
    )  # fmt: skip

    assert Page(html(replace(report, measurements={suite: (broken,)}))).misplaced == []


def test_a_run_that_judged_nothing_makes_a_page() -> None:
    page = Page(html(new_report((), {}, 5, {})))

    assert page.misplaced == []
    assert "Speculation gates: nothing was judged" in page.text
    assert "No case was judged or measured." in page.text


# --- hostile text ---


def test_hostile_text_adds_no_element_and_stays_visible(report: Report) -> None:
    text = html(hostile(report))
    page = Page(text)
    mine = {name for name, _ in Page(html(report)).elements}

    assert {name for name, _ in page.elements} <= mine | {"bdi", "del", "ins"}
    assert page.misplaced == []
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert flat(HOSTILE)[:60] in page.text
    assert len(page.all("style")) == 1


@given(st.text(max_size=120))
def test_no_text_becomes_markup(text: str) -> None:
    read = Page(tag("p", escape(text), title=text))

    assert [name for name, _ in read.elements] == ["p"]
    assert "".join(data for _, data in read.texts).strip() == flat(text)
    assert (read.all("p")[0]["title"] or "").strip() == flat(text)
    assert "".join(data for _, data in Page(model_text(text)).texts) == visible(text)


def test_secrets_are_masked_before_they_are_escaped(
    report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "pa<ss>&'wo\"rd"
    monkeypatch.setenv("MY_TOKEN", secret)

    faces.write(tmp_path / "r.html", hostile(report, f"key {secret}."))

    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "key ********." in text
    assert "ss&gt;" not in text


def test_every_ending_has_a_form() -> None:
    assert set(REPORT_ENDINGS) == {".json", *faces.FACES}


# --- size ---


def test_200_cases_keep_all_their_pictures(report: Report) -> None:
    text = html(times(report, 200))

    assert len(text.encode()) <= MOST_BYTES
    assert text.count("<figcaption>Speedup by prompt") == 200
    assert "To keep this page below" not in text


def test_more_cases_lose_pictures_and_then_tables_the_passing_ones_first(report: Report) -> None:
    many = times(report, 450)
    text = html(many)
    page = Page(text)

    assert len(text.encode()) <= MOST_BYTES
    assert "To keep this page below 4 MB, of 450 cases " in text
    assert page.misplaced == []
    assert _links(page) <= {f"#{name}" for name in _ids(page)}
    assert sum(v.outcome is Outcome.FAIL for v in many.verdicts) == int(re.findall(r"<b>(\d+)</b>", text)[0])
    ranks = [WORST_FIRST.index(view.worst or Outcome.PASS) for view in outline(many)]
    linked = {int(link.removeprefix("#case-")) - 1 for link in _links(page) if link.startswith("#case-")}
    assert max(ranks[n] for n in linked) <= min(rank for n, rank in enumerate(ranks) if n not in linked)


def test_no_text_makes_the_page_grow_beyond_its_size(report: Report) -> None:
    text = html(hostile(times(report, 60), "<&é\u202e" * 5_000))

    assert len(text.encode()) <= MOST_BYTES


# --- in a browser ---


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.parametrize("theme", ["0", "1"])
def test_a_browser_opens_it_without_a_complaint(report: Report, tmp_path: Path, theme: str) -> None:
    (tmp_path / "r.html").write_text(html(hostile(report)), encoding="utf-8")
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", f"--user-data-dir={tmp_path}/b")
    command = [str(CHROMIUM), *flags, f"--blink-settings=preferredColorScheme={theme}", "--dump-dom"]

    done = subprocess.run([*command, f"file://{tmp_path}/r.html"], capture_output=True, timeout=120, check=False)

    assert b"Speculation gates: " in done.stdout
    assert b":CONSOLE" not in done.stderr
    assert b"Content Security Policy" not in done.stderr
