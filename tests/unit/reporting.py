"""What the tests of reports share: a run of real suites on the scripted engine, and reports made of it."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from pytest_specgate.records import Arm, Interval, MemoryReading, Verdict
from pytest_specgate.report.document import Report
from pytest_specgate.runner import run

HOSTILE = "<script>alert(1)</script> | `x` [a](http://evil.example) @all ![i](x) \x1b[31m\u202e\x00 </style> &lt; $$"

_SUITE = {
    "specgate": 1,
    "engines": {
        "quick": {"kind": "scripted"},
        "slow": {
            "kind": "scripted",
            "options": {"speedup": 0.8, "acceptance": 0.3, "fault": "diverge", "fail_on": "q2"},
        },
        "blind": {"kind": "scripted", "options": {"fault": "no_rounds"}},
        "gone": {"kind": "scripted", "options": {"fault": "start"}},
    },
    "scenarios": {
        "qa": {"category": "qa", "prompts": "p.jsonl", "concurrency": [1, 2, 4]},
        "chat": {"category": "chat", "prompts": "p.jsonl", "sampling": [{"temperature": 0.7, "seed": 1}]},
    },
    "measure": {"rounds": 4},
    "gates": [
        {"metric": "speedup", "limit": ">=1.2x"},
        {"metric": "decode_speedup", "limit": ">=1.5x", "engines": ["quick"]},
        {"metric": "conditional_acceptance", "limit": ">=50%", "engines": ["quick", "slow", "blind"]},
        {"metric": "exact_match", "limit": "==100%", "scenarios": ["qa"]},
        {"metric": "ttft", "statistic": "p95", "limit": "<=1 ms", "on_fail": "warn"},
        {"metric": "host_memory", "limit": "<=6 GiB", "engines": ["quick"]},
    ],
}  # fmt: skip


def measured(folder: Path, prompts: int = 6) -> Report:
    """Four engines (two fine, one that loses and diverges, one that cannot start), two scenarios, up to 4 at once."""
    rows = (json.dumps({"id": f"q{n}", "turns": [f"Say {n}."]}) + "\n" for n in range(1, prompts + 1))
    (folder / "p.jsonl").write_text("".join(rows))
    path = folder / "demo.specgate.yaml"
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in _SUITE.items()))
    return run(path, baselines=folder / "baselines")


def times(report: Report, cases: int) -> Report:
    """The report with its cases copied until there are this many."""
    (suite, taken), *_ = report.measurements.items()
    copies = tuple(replace(taken[n % len(taken)], case=f"{taken[n % len(taken)].case}#{n}") for n in range(cases))
    by_case: dict[str, list[Verdict]] = {}
    for verdict in report.verdicts:
        by_case.setdefault(verdict.case, []).append(verdict)
    verdicts = [
        replace(verdict, case=one.case) for one in copies for verdict in by_case.get(one.case.partition("#")[0], ())
    ]
    return replace(report, measurements={suite: copies}, verdicts=tuple(verdicts))


def hostile(report: Report, text: str = HOSTILE) -> Report:
    """The report with every text that a user, an engine or a model could write replaced."""
    verdicts = tuple(
        replace(
            v, gate=text, case=f"{text}::{text}", reason=text, advice=text, warnings=(text,), location=f"{text}:1:1",
            softened=text,
        )
        for v in report.verdicts
    )  # fmt: skip
    measurements = {}
    for suite, taken in report.measurements.items():
        measurements[suite + text] = tuple(
            replace(
                one,
                case=f"{text}::{text}{number}",
                engine_kind=text,
                workload={text: text},
                subject={text: text},
                warnings=(text,),
                findings=tuple(replace(f, rule=text, detail=text) for f in one.findings),
                pairs=tuple(
                    replace(
                        p,
                        prompt=text + p.prompt,
                        reference=replace(p.reference, prompt=text + p.prompt, text=text + p.reference.text),
                        candidate=replace(p.candidate, prompt=text + p.prompt, text=text[:40] + p.candidate.text),
                    )
                    for p in one.pairs
                ),
            )
            for number, one in enumerate(taken)
        )
    return replace(report, verdicts=verdicts, measurements=measurements, warnings=(text,), machine={text: text})


def with_gpu_memory(report: Report) -> Report:
    """The report with a memory pass that tells parts."""
    whole = {"max_process_vram": 3 * 2**30, "weights_target": 2**31, "kv_cache": 2**28}
    memory = {
        Arm.REFERENCE: MemoryReading(host_rss=2**30, **whole),
        Arm.CANDIDATE: MemoryReading(host_rss=2**30 + 2**26, weights_draft=2**27, **whole),
    }
    measurements = {
        suite: tuple(replace(one, memory=memory) for one in taken) for suite, taken in report.measurements.items()
    }
    return replace(report, measurements=measurements)


def exact(value: float) -> Interval:
    """A value without uncertainty."""
    return Interval(value, value, value)


class Page(HTMLParser):
    """What a page is made of: elements with attributes, text by element, and whether every element was closed."""

    _VOID = frozenset({"meta", "link", "br", "wbr", "hr", "img", "input"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.misplaced: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self._VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.misplaced.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def all(self, name: str) -> list[dict[str, str | None]]:
        """The attributes of every element of this name."""
        return [attributes for tag, attributes in self.elements if tag == name]

    @property
    def text(self) -> str:
        """All text but that of style."""
        return " ".join(data for tag, data in self.texts if tag != "style")
