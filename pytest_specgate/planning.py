"""What a run would do and how long it would take, from the suites and from times that were stored: nothing is run.

Times are those of a history's runs, else of a baseline, of the same case asked the same; where there are none, none are
made up. Starting engines, scoring texts and memory passes are not in a baseline's times, and are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from pytest_specgate import baseline
from pytest_specgate.errors import SpecgateError
from pytest_specgate.history import store
from pytest_specgate.history.record import CaseLine, RunLine
from pytest_specgate.measure.run import WARMUP_PATIENCE, asked
from pytest_specgate.metrics import Family
from pytest_specgate.recording import rounds_to_record
from pytest_specgate.records import Arm, Stored
from pytest_specgate.stats.looks import Looks, doubling
from pytest_specgate.suite.cases import Case, Suite
from pytest_specgate.units import many

_RECENT = 10


@dataclass(frozen=True, slots=True)
class Sources:
    """Where times may be found: the folder of baselines, and a history that was asked for."""

    baselines: Path
    history: Path | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What changes how much is measured: updating, in how many processes, and the time for the whole run."""

    update: bool = False
    sessions: int = 1
    budget: float | None = None


@dataclass(frozen=True, slots=True)
class Seconds:
    """How long a case takes if it is decided at the first look, as it usually is, and if never.

    ``usual`` is None where only a baseline tells, which knows no ends. ``source`` says whose times they are, and
    ``gpus`` how many were busy.
    """

    least: float
    usual: float | None
    most: float
    source: str
    gpus: int


@dataclass(frozen=True, slots=True)
class CasePlan:
    """One case: its requests by arm and round, its looks, what runs beside it, and its time where it is known."""

    suite: str
    case: str
    conversations: int
    turns: int
    concurrency: int
    looks: Looks
    sessions: int
    tokens: int
    passes: tuple[str, ...]
    seconds: Seconds | None

    @property
    def generations(self) -> tuple[int, int]:
        """Fewest and most generations of both arms, warming up apart."""
        once = len(Arm) * self.turns * self.sessions
        return once * self.looks.rounds[0], once * self.looks.most


@dataclass(frozen=True, slots=True)
class RunPlan:
    """All cases. ``budget`` bounds them together; ``whole`` is (seconds, when) of an earlier run of at least these."""

    cases: tuple[CasePlan, ...]
    budget: float | None
    whole: tuple[float, str] | None
    notes: tuple[str, ...] = ()

    @property
    def known(self) -> list[Seconds]:
        """Times of the cases that have one."""
        return [case.seconds for case in self.cases if case.seconds is not None]

    @property
    def seconds(self) -> tuple[float, float]:
        """Least and most of all cases whose time is known, within the budget."""
        least, most = (sum(getattr(one, name) for one in self.known) for name in ("least", "most"))
        return (least, most) if self.budget is None else (min(least, self.budget), min(most, self.budget))

    @property
    def gpus(self) -> int:
        """The most GPUs that any case keeps busy."""
        return max((one.gpus for one in self.known), default=0)


def plan(selected: Iterable[tuple[Suite, Case]], sources: Sources, what: Asked) -> RunPlan:
    """The plan of these cases. A history that cannot be read is a note; so is a baseline."""
    notes: list[str] = []
    runs = _runs(sources.history, notes)
    stored = _Stored(sources.baselines, notes)
    cases = tuple(_case(suite, case, (runs, stored), what) for suite, case in selected)
    return RunPlan(cases, what.budget, _whole(runs, cases), tuple(dict.fromkeys(notes)))


def _runs(folder: Path | None, notes: list[str]) -> Sequence[RunLine]:
    if folder is None or not (folder / store.NAME).exists():
        return ()
    try:
        found = store.read(folder)
    except SpecgateError as error:
        notes.append(str(error))
        return ()
    notes += found.problems
    return found.runs


class _Stored:
    """Entries of all places, each file read once."""

    def __init__(self, folder: Path, notes: list[str]) -> None:
        self._folder, self._notes = folder, notes
        self._files: dict[str, list[Mapping[str, Stored]]] = {}

    def newest(self, suite: Suite, case: Case) -> Stored | None:
        """The entry that was recorded last, at whichever place, for the same question."""
        if suite.name not in self._files:
            self._files[suite.name] = list(self._read(suite.name))
        found = [entries[case.id] for entries in self._files[suite.name] if case.id in entries]
        same = [entry for entry in found if _same(case, entry.workload)]
        return max(same, key=lambda entry: entry.recorded, default=None)

    def _read(self, suite: str) -> Iterator[Mapping[str, Stored]]:
        for folder in sorted(path for path in self._folder.glob("*") if path.is_dir()):
            path = folder / f"{suite}.json"
            try:
                yield baseline.read(path) if path.is_file() else {}
            except SpecgateError as error:
                self._notes.append(str(error))


def _same(case: Case, workload: Mapping[str, str]) -> bool:
    return all(workload.get(name) == value for name, value in asked(case).items())


def _case(suite: Suite, case: Case, times: tuple[Sequence[RunLine], _Stored], what: Asked) -> CasePlan:
    rounds = suite.spec.measure.rounds
    looks = rounds_to_record(case, rounds) if what.update else doubling(rounds)
    conversations = case.scenario.conversations
    turns = sum(len(conversation.turns) for conversation in conversations)
    sessions = what.sessions if what.update else 1
    tokens = len(Arm) * turns * looks.most * sessions * case.scenario.spec.max_tokens
    seconds = _from_history(suite, case, looks, times[0]) or _from_baseline(suite, case, looks, times[1])
    return CasePlan(
        suite=suite.shown,
        case=case.id,
        conversations=len(conversations),
        turns=turns,
        concurrency=case.concurrency,
        looks=looks,
        sessions=sessions,
        tokens=tokens,
        passes=tuple(_passes(suite, case)),
        seconds=_bounded(seconds, sessions, suite.spec.measure.budget),
    )


def _passes(suite: Suite, case: Case) -> Iterator[str]:
    families = {gate.spec.info.family for gate in case.gates}
    if suite.spec.measure.memory and Family.MEMORY in families:
        yield "memory"
    if Family.EXACTNESS in families:
        yield "scoring"


def _bounded(found: Seconds | None, sessions: int, budget: float | None) -> Seconds | None:
    if found is None:
        return None
    most = float("inf") if budget is None else budget
    least, usual, longest = (
        None if value is None else sessions * min(value, most) for value in (found.least, found.usual, found.most)
    )
    return Seconds(least or 0.0, usual, longest or 0.0, found.source, found.gpus)


def _from_history(suite: Suite, case: Case, looks: Looks, runs: Sequence[RunLine]) -> Seconds | None:
    """Whole times of the last runs at the newest one's place; their rounds tell what one takes, warming up included."""
    lines = [(run, line) for run in runs for line in run.cases if (line.suite, line.case) == (suite.shown, case.id)]
    same = [(run, line) for run, line in lines if _same(case, line.workload) and line.rounds]
    if not same:
        return None
    last, newest = same[-1]
    recent: list[CaseLine] = [line for _, line in same if line.place == newest.place][-_RECENT:]
    one = median(line.seconds / line.rounds for line in recent)
    usual = min(median(line.seconds for line in recent), one * looks.most)
    source = f"{many(len(recent), 'run')} on {newest.place.slug}, last {last.created[:10]}"
    return Seconds(one * looks.rounds[0], max(usual, one * looks.rounds[0]), one * looks.most, source, _gpus(newest))


def _from_baseline(suite: Suite, case: Case, looks: Looks, stored: _Stored) -> Seconds | None:
    """Stored request times of both arms; requests of one block run at the same time."""
    entry = stored.newest(suite, case)
    if entry is None:
        return None
    names = ("e2el", "reference_e2el")
    means = [fmean(p.series[name]) for p in entry.samples.prompts for name in names if p.series.get(name)]
    if len(means) < len(names) * len(entry.samples.prompts) or not means:
        return None
    one = sum(means) / case.concurrency
    blocks = max(-(-len(case.scenario.conversations) // case.concurrency), 1)
    warm = WARMUP_PATIENCE * one / blocks
    source = f"baseline of {entry.recorded} on {entry.place.slug}"
    return Seconds(warm / 3 + one * looks.rounds[0], None, warm + one * looks.most, source, _gpus(entry))


def _gpus(one: CaseLine | Stored) -> int:
    return one.place.count if one.subject.get("device", "").startswith("cuda") else 0


def _whole(runs: Sequence[RunLine], cases: Sequence[CasePlan]) -> tuple[float, str] | None:
    """The last run that measured at least these cases, if any did."""
    wanted = {(case.suite, case.case) for case in cases}
    for run in reversed(runs):
        if wanted and wanted <= {(line.suite, line.case) for line in run.cases}:
            return run.seconds, run.created[:10]
    return None
