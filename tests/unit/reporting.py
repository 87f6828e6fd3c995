"""What the tests of reports share: a run of real suites on the scripted engine, and reports made of it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from pytest_specgate.records import (
    Arm,
    Check,
    Chunk,
    Costs,
    Finding,
    Forwards,
    Interval,
    Measurement,
    MemoryReading,
    Outcome,
    Pair,
    Place,
    PromptSamples,
    Round,
    Stored,
    Trace,
    Verdict,
)
from pytest_specgate.report.advice import advise
from pytest_specgate.report.advised import Wanted
from pytest_specgate.report.document import Report
from pytest_specgate.report.since import compared
from pytest_specgate.runner import run
from pytest_specgate.samples import reduce

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


def fixed() -> Report:
    """A run whose every number is known: 1.50x where 1.73x was, for the draft forward takes 3.4 ms and not 2.1."""
    taken = Measurement(
        case="pair::qa-t0-c1",
        engine_kind="native",
        place=Place("cpu", 1, "float32"),
        workload={"prompts": "f00d"},
        subject={"torch": "2.13"},
        pairs=tuple(_pair(f"q{n}", turn) for turn in range(2) for n in range(1, 5)),
        greedy=True,
        memory={Arm.REFERENCE: MemoryReading(host_rss=2**30), Arm.CANDIDATE: MemoryReading(host_rss=2**30 + 2**27)},
        findings=(Finding("load", True, "1 of 2 cores"),),
        costs=_costs(0.0034),
    )
    now = reduce(taken, ())
    faster = replace(now, prompts=tuple(_faster(prompt) for prompt in now.prompts))
    stored = Stored(taken.place, taken.workload, {"torch": "2.11"}, "2030-01-31", faster, costs=_costs(0.0021))
    check = Check("max_drop", "5%", Outcome.FAIL, "dropped by 13.0%", Interval(0.87, 0.868, 0.872))
    verdicts = (
        Verdict(
            "speedup", "speedup", taken.case, Outcome.FAIL, "speedup fell by 13.0% [12.8%, 13.2%], allowed is 5%",
            "look at the draft's cost", Interval(1.502, 1.499, 1.505), exact(1.726), (check,),
            location="s.specgate.yaml:9:5",
        ),
        Verdict(
            "exact_match", "exact_match", taken.case, Outcome.PASS, "all agree", "", exact(1.0),
            location="s.specgate.yaml:10:5",
        ),
    )  # fmt: skip
    report = Report(
        schema=1, version="0.0", created="2030-02-01T00:00:00+00:00", exit_status=1, verdicts=verdicts,
        measurements={"s.specgate.yaml": (taken,)}, baselines={"s.specgate.yaml": (compared(taken.case, stored),)},
        wanted={"s.specgate.yaml": Wanted(price=2.5)},
    )  # fmt: skip
    return advise(report)


def _pair(prompt: str, turn: int) -> Pair:
    """Twelve tokens: 20 ms each by the target alone, and four rounds of three, 40 ms each, with speculation."""
    ids, jitter = tuple(range(10, 22)), 1 + 0.001 * ((int(prompt[1:]) + turn) % 3)
    ticks = [round(20e6 * n * jitter) for n in range(1, 13)]
    one = Trace(prompt, Arm.REFERENCE, ids, "It is so.", 30, 0, tuple(Chunk(t, 1) for t in ticks), "length")
    rounds = tuple(Round(4, 3, 2, 3, 40_000_000 * n) for n in range(1, 5))
    other = replace(one, arm=Arm.CANDIDATE, rounds=rounds, chunks=tuple(Chunk(r.t_ns, r.emitted) for r in rounds))
    return Pair(prompt, prompt, turn, "AB", one, other)


def _costs(draft: float) -> Costs:
    target = tuple(Forwards(width, (0.019 + 0.0005 * (width - 1),) * 6) for width in (1, 5, 9))
    return Costs(target, Forwards(1, (draft,) * 6), 4, 1, 36)


def _faster(prompt: PromptSamples) -> PromptSamples:
    """The same prompt when a round took 5.2 ms less: four draft forwards of 1.3 ms each."""
    series = dict(prompt.series)
    share = 34.8 / 40
    series["tpot"] = tuple(value * share for value in series["tpot"])
    for name in ("speedup", "decode_speedup"):
        series[name] = tuple(value - math.log(share) for value in series[name])
    return replace(prompt, series=series)


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
