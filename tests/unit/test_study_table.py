"""What a study prints: the tables, word for word, and the progress line."""

from __future__ import annotations

import io
from pathlib import Path

from pytest_specgate.commands.progress import Progress
from pytest_specgate.commands.study_table import lines
from pytest_specgate.engines.plants import parse_plant
from pytest_specgate.records import Outcome
from pytest_specgate.study.ledger import Build, CaseRun, GateOutcome
from pytest_specgate.study.plan import Plan
from pytest_specgate.study.run import shown_time
from pytest_specgate.study.tally import tally
from pytest_specgate.suite.load import load_suite
from tests.unit.project import write

CASE = "tiny::qa-t0-c1"
PASS, FAIL, OPEN = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE


def build(number: int, planted: str, speedup: Outcome, naive: Outcome) -> Build:
    gates = (
        GateOutcome(CASE, "speedup", "speedup", speedup, f"it was {speedup.value}"),
        GateOutcome(CASE, "exact_match", "exact_match", PASS, "it was"),
    )
    case = CaseRun(CASE, 2, 1.0, 0.01, naive, (), {"q1": (0.4, 0.41)})
    return Build(number, planted, "2030-01-01T00:00:00+00:00", 10.0 * number, gates, (case,))


EXPECTED = """\
unchanged: 4 builds, verdicts after 40 s (median), 64 s (p90)
gate                         false FAIL                 INCONCLUSIVE
---------------------------  -------------------------  -------------------------
any gate                     0/4, at most 52.7%         1/4 = 25.0% [0.6%, 80.6%]
tiny: speedup[qa-t0-c1]      0/4, at most 52.7%         1/4 = 25.0% [0.6%, 80.6%]
tiny: exact_match[qa-t0-c1]  0/4, at most 52.7%         0/4
naive rule [qa-t0-c1]        2/4 = 50.0% [6.8%, 93.2%]  -
INCONCLUSIVE tiny: speedup[qa-t0-c1]: build 3: it was INCONCLUSIVE

memory=1MiB: 3 builds, verdicts after 40 s (median), 56 s (p90)
gate                     detected                      INCONCLUSIVE
-----------------------  ----------------------------  --------------
any gate                 3/3 = 100.0% [29.2%, 100.0%]  0/3
tiny: speedup[qa-t0-c1]  3/3 = 100.0% [29.2%, 100.0%]  0/3
naive rule [qa-t0-c1]    0/3, at most 63.2%            -
PASS in every build: tiny: exact_match[qa-t0-c1]
note: memory=1MiB is meant for memory gates, and none was studied

sampler=1: 1 build, verdicts after 80 s (median), 80 s (p90)
gate                   detected            INCONCLUSIVE
---------------------  ------------------  --------------
any gate               0/1, at most 95.0%  0/1
naive rule [qa-t0-c1]  0/1, at most 95.0%  -
PASS in every build: tiny: speedup[qa-t0-c1], tiny: exact_match[qa-t0-c1]
PASS tiny: exact_match[qa-t0-c1]: build 8: it was

delay=1%: no build yet

Rates have exact 95 % limits (Clopper-Pearson); of 0, the one-sided limit.
Naive rule: FAIL where the mean candidate time per token is above 1.05 × the stored mean.
"""


def test_the_tables(tmp_path: Path) -> None:
    suite = load_suite(write(tmp_path), tmp_path)
    plan = Plan(suite, tmp_path, 4, (parse_plant("memory=1MiB"), parse_plant("sampler=1"), parse_plant("delay=1%")))
    builds = [build(n, "", OPEN if n == 3 else PASS, FAIL if n in (1, 5) else PASS) for n in (1, 3, 5, 7)]
    builds += [build(n, "memory=1MiB", FAIL, PASS) for n in (2, 4, 6)]
    builds += [build(8, "sampler=1", PASS, PASS)]
    report = tally(plan, builds)
    assert [line.rstrip() for line in lines(report)] == EXPECTED.splitlines()
    assert "above 1.05 x the stored mean" in list(lines(report, ascii_only=True))[-1]


def test_times_are_short() -> None:
    assert [shown_time(s) for s in (0.0123, 9.94, 89, 600, 9000)] == ["0.012 s", "9.9 s", "89 s", "10 min", "2.5 h"]


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_progress_is_rewritten_on_a_terminal() -> None:
    now, stream = [0.0], Terminal()
    progress = Progress(stream, {}, lambda: now[0])
    for seconds in (0.1, 0.3, 0.4, 0.6):
        now[0] = seconds
        progress(f"at {seconds}\n\x1b[2J")
    progress.clear()
    progress.clear()
    assert stream.getvalue() == "\r\x1b[2Kat 0.3 \\x1b[2J\r\x1b[2Kat 0.6 \\x1b[2J\r\x1b[2K"


def test_progress_is_a_line_now_and_then_elsewhere() -> None:
    for stream, environ in ((io.StringIO(), {}), (Terminal(), {"CI": "true"})):
        now = [0.0]
        progress = Progress(stream, environ, lambda now=now: now[0])  # type: ignore[misc]
        for seconds in (1.0, 31.0, 32.0, 62.0):
            now[0] = seconds
            progress(f"at {seconds}")
        progress.clear()
        assert stream.getvalue() == "specgate: at 31.0\nspecgate: at 62.0\n"
