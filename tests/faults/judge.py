"""Run an entry: record the right decoder as the baseline, run the other one, and ask every gate."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pytest_specgate.records import Measurement, Outcome, Verdict
from pytest_specgate.refresh import update_baselines
from pytest_specgate.session import SuiteSession
from pytest_specgate.settings import Settings
from pytest_specgate.suite.cases import Case, expand
from pytest_specgate.suite.load import load_suite
from tests.faults.entry import Entry

RED = (Outcome.FAIL, Outcome.ERROR)


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of one run: the gates' verdicts, and what the candidate arm had made by then."""

    verdicts: tuple[Verdict, ...]
    requests: int
    tokens: int

    @property
    def red(self) -> tuple[Verdict, ...]:
        """Those that fail a build."""
        return tuple(verdict for verdict in self.verdicts if verdict.outcome in RED)

    @property
    def enough(self) -> int:
        """Tokens of the candidate arm that were enough: all, unless a gate says that fewer were."""
        said = [re.search(r"enough after (\d+) of", verdict.reason) for verdict in self.red]
        return min([self.tokens, *(int(found[1]) for found in said if found)])

    @property
    def broke_off(self) -> bool:
        """Whether nothing could be judged."""
        return bool(self.verdicts) and all(verdict.outcome is Outcome.ERROR for verdict in self.verdicts)

    @property
    def gates(self) -> tuple[str, ...]:
        """Names of the gates that turned red, each once."""
        return tuple(dict.fromkeys(verdict.metric for verdict in self.red))


Measured = tuple[tuple[Case, Measurement], ...]


class Bench:
    """Models and baselines in a folder, each made once.

    A right decoder that was measured for a baseline is judged by that measurement: on a simulated clock it would be the
    same a second time.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._recorded: dict[Path, Measured] = {}

    def run(self, entry: Entry, seed: int, version: str) -> Seen:
        """Judge ``version`` of the entry against its right decoder's baseline.

        That is ``right``, ``faulty``, ``pardoned`` (the faulty one where it is said to be as it is), or ``updated``:
        the faulty one against a baseline that it became itself.
        """
        home = self._folder / entry.right_name / entry.setting.name / str(seed)
        if version == "updated":
            home = home / entry.id
        if home not in self._recorded and any({"max_drop", "max_rise"} & gate.keys() for gate in entry.setting.gates):
            self._recorded[home] = self._record(entry, seed, "right", home)
            if version == "updated":
                self._record(entry, seed, version, home)
        session = self._session(entry, seed, version, Settings(home / "baselines"), home)
        if version == "right":
            for case, measurement in self._recorded.get(home, ()):
                session.take(case, measurement)
        return self._judge(session)

    def _record(self, entry: Entry, seed: int, version: str, home: Path) -> Measured:
        """Make the version the baseline, as a person would who accepts what it loses; return what was measured."""
        settings = Settings(home / "baselines", update=True, accept_loss=True)
        session = self._session(entry, seed, version, settings, home)
        self._judge(session)
        refused = [change.refused for change in update_baselines(session, frozenset()) if change.refused]
        assert not refused, refused
        return tuple((result.case, result.measurement) for result in session.results())

    def _session(self, entry: Entry, seed: int, version: str, settings: Settings, home: Path) -> SuiteSession:
        options = {"entry": entry.id, "version": version, "seed": seed}
        chosen = {"faulty": entry.wrong_setting, "pardoned": entry.pardon}.get(version)
        path = (chosen or entry.setting).write(home, self._folder / "models", options)
        return SuiteSession(load_suite(path, path.parent), "zoo", settings)

    def _judge(self, session: SuiteSession) -> Seen:
        try:
            return self._asked(session)
        finally:
            session.close()

    @staticmethod
    def _asked(session: SuiteSession) -> Seen:
        verdicts: list[Verdict] = []
        for case in expand(session.suite):
            verdicts += [session.judge(gate, case) for gate in case.gates]
        pairs = [pair for result in session.results() for pair in result.measurement.pairs]
        requests, tokens = len(pairs), sum(pair.candidate.output_tokens for pair in pairs)
        if not pairs and session.running is not None:  # it broke off: the engine knows how far it came
            requests, tokens = session.running.requests, session.running.tokens  # type: ignore[attr-defined]
        return Seen(tuple(verdicts), requests, tokens)


def caught(seen: Seen, entry: Entry) -> bool:
    """Whether one of the entry's gates turned red and none that must not, or its environment rule was named."""
    if entry.rule:
        named = f"environment rule '{entry.rule}' did not hold"
        return any(named in verdict.reason for verdict in seen.verdicts)
    return any(gate in entry.gates for gate in seen.gates) and not any(gate in entry.green for gate in seen.gates)


def as_it_should_be(seen: Seen, entry: Entry) -> bool:
    """Caught if it is a fault, green if it is none."""
    return caught(seen, entry) if entry.gates else not seen.red


def pardoned(entry: Entry) -> str:
    """The version of the entry that is green by right though it is red by itself; empty if there is none."""
    return "pardoned" if entry.pardon else "updated" if entry.updated else ""
