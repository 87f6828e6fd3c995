"""The gates tested: each is judged on the user's own engine with a gross loss of its kind planted, and must turn red.

A gate that stays green or undecided under such a loss sees nothing smaller either: it is off, whatever its colour says
on other days. The loss is planted into the candidate arm by :mod:`pytest_specgate.engines.planted`; limits, baselines
and error budget are those of an ordinary run. Nothing is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pytest_specgate.engines.planted import planted
from pytest_specgate.engines.plants import Plant, parse_plant
from pytest_specgate.metrics import Family
from pytest_specgate.records import Outcome, Verdict
from pytest_specgate.session import SuiteSession
from pytest_specgate.settings import Settings
from pytest_specgate.suite.cases import Case, Gate, Suite

_BIAS = "sampler=2"
#: Family of gates → what is planted for it: a loss that nobody would call small.
STRIKES: Mapping[Family, str] = {
    Family.SPEEDUP: "delay=300%",
    Family.LATENCY: "delay=300%",
    Family.ACCEPTANCE: "acceptance=50%",
    Family.MEMORY: "memory=1GiB",
    Family.GROWTH: "leak=2MiB",
    Family.OUTPUT: _BIAS,
    Family.EXACTNESS: _BIAS,
    Family.DISTRIBUTION: _BIAS,
    Family.REQUESTS: _BIAS,
    Family.TASK: _BIAS,
}
#: Metrics of those families that such a loss leaves as they are: bookkeeping, the length of texts, wear.
UNTOUCHED = frozenset({"token_accounting", "length_ratio", "acceptance_wear"})
_ADVICE = "a gate that does not see this sees nothing smaller: tighten what it demands, or give it more prompts"


def plant_for(gate: Gate) -> Plant | None:
    """What is planted to test the gate; None where no plant strikes it."""
    text = STRIKES.get(gate.spec.info.family)
    return None if text is None or gate.spec.metric in UNTOUCHED else parse_plant(text)


@dataclass(slots=True)
class Rehearsal:
    """One engine of one suite, losses planted: a case is measured once for each, and one engine is up at a time."""

    suite: Suite
    engine: str
    settings: Settings
    checks: int = 1
    _sessions: dict[str, SuiteSession] = field(default_factory=dict)

    def judge(self, gate: Gate, case: Case) -> Verdict | None:
        """PASS where the gate turned red, FAIL where it did not, ERROR where that cannot be told; None: no plant.

        INCONCLUSIVE is a gate on a machine that something else disturbed. An engine that is to be refused has no plant.
        """
        plant = plant_for(gate)
        if plant is None or self.suite.spec.engines[self.engine].expect is not None:
            return None
        session = self._session(plant)
        spec = session.suite.spec.engines[self.engine]
        struck = tuple(one for one in case.gates if plant_for(one) == plant)
        planted_case = replace(case, engine_spec=spec, gates=struck)
        found = session.judge(gate, planted_case)
        if found.outcome is Outcome.INCONCLUSIVE and self._disturbed(session, planted_case):
            return replace(found, reason=f"cannot be tested here under {plant.text}: {found.reason}")
        return told(found, plant)

    def _disturbed(self, session: SuiteSession, case: Case) -> bool:
        """Whether something else on the machine kept the gate from deciding."""
        return any(not finding.held for finding in session.case(case).measurement.findings)

    def _session(self, plant: Plant) -> SuiteSession:
        for text, session in self._sessions.items():
            if text != plant.text:
                session.close()
        if plant.text not in self._sessions:
            engines = dict(self.suite.spec.engines)
            engines[self.engine] = planted(engines[self.engine], plant, seed=0)
            suite = replace(self.suite, spec=self.suite.spec.model_copy(update={"engines": engines}))
            self._sessions[plant.text] = SuiteSession(suite, self.engine, self.settings, self.checks)
        return self._sessions[plant.text]

    def close(self) -> None:
        """Stop whatever engine is up; may be called twice."""
        for session in self._sessions.values():
            session.close()


def told(found: Verdict, plant: Plant) -> Verdict:
    """The verdict on the gate itself, from what it said under the plant."""
    if found.outcome is Outcome.ERROR:
        return replace(found, reason=f"under {plant.text}: {found.reason}")
    if found.outcome is Outcome.FAIL:
        reason = f"turns red under {plant.text}: {found.reason}"
        return replace(found, outcome=Outcome.PASS, reason=reason, advice="", checks=(), softened="")
    stays = "green" if found.outcome is Outcome.PASS else "undecided"
    reason = f"a silent gate: it stays {stays} under {plant.text}: {found.reason}"
    return replace(found, outcome=Outcome.FAIL, reason=reason, advice=_ADVICE, softened="")
