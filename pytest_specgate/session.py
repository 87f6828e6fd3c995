"""Run a suite without pytest: start engines, measure cases, judge gates, store baselines.

``SuiteSession`` is one engine of one suite over its life. A case is measured once, whatever asks for it and however
often, and so is its failure.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pytest_specgate import baseline, gates, interim
from pytest_specgate.engines.base import Engine, EngineContext, Occupies
from pytest_specgate.errors import AlreadyStored, EngineError, OutdatedBaseline, SpecgateError
from pytest_specgate.gates import refusals
from pytest_specgate.measure.anew import measure_anew
from pytest_specgate.measure.capacity import busy_notes
from pytest_specgate.measure.costs import with_costs
from pytest_specgate.measure.fitting import FitPass
from pytest_specgate.measure.lock import alone_on
from pytest_specgate.measure.memory import OWN_PASS, measure_memory
from pytest_specgate.measure.run import Plan, asked, measure_case, unmeasured
from pytest_specgate.measure.scoring import with_scores
from pytest_specgate.measure.sweep import sweep_case
from pytest_specgate.measure.tasks import with_grades
from pytest_specgate.metrics import Family
from pytest_specgate.recording import rounds_to_record, still_coarse
from pytest_specgate.records import Finding, GpuUse, Measurement, Outcome, Pair, Place, Samples, Stored, Verdict
from pytest_specgate.running import RunningEngine
from pytest_specgate.settings import Settings
from pytest_specgate.stats.budget import share
from pytest_specgate.stats.looks import doubling
from pytest_specgate.suite.cases import Case, Gate, Suite

#: Families of gates that look at what was said, for which no environment rule matters.
_UNTIMED = frozenset({Family.OUTPUT, Family.EXACTNESS, Family.DISTRIBUTION, Family.REQUESTS, Family.TASK})


@dataclass(frozen=True, slots=True)
class CaseResult:
    """A measured case: the traces, the numbers drawn from them look by look, and what was stored for it.

    A memory or scoring pass that failed leaves the other gates of the case judgeable; its error says why it did.
    ``sessions`` are the numbers of further processes that recorded the same.
    """

    case: Case
    measurement: Measurement
    seen: tuple[gates.Seen, ...]
    found: baseline.Found | None
    memory_error: SpecgateError | None = None
    sessions: tuple[Samples, ...] = ()
    scoring_error: SpecgateError | None = None
    fit_error: SpecgateError | None = None
    task_error: SpecgateError | None = None

    def error_of(self, family: Family) -> SpecgateError | None:
        """What stopped the pass that this family of gates judges."""
        passes = {Family.EXACTNESS: self.scoring_error, Family.DISTRIBUTION: self.fit_error}
        passes[Family.TASK] = self.task_error
        return {**passes, **dict.fromkeys(OWN_PASS, self.memory_error)}.get(family)

    @property
    def samples(self) -> Samples:
        """The numbers of all that was measured."""
        return self.seen[-1].samples


@dataclass(slots=True)
class SuiteSession:
    """One engine of one suite. ``checks`` is the number of statistical checks that share the build's error budget."""

    suite: Suite
    engine: str
    settings: Settings
    checks: int = 1
    _engine: RunningEngine | None = None
    _results: dict[str, CaseResult | SpecgateError] = field(default_factory=dict)

    def case(self, case: Case) -> CaseResult:
        """Measure the case, or return what came of it before. Raises the SpecgateError that stopped it, every time."""
        if case.id not in self._results:
            try:
                self._results[case.id] = self._measure(case)
            except SpecgateError as error:
                self._results[case.id] = error
        result = self._results[case.id]
        if isinstance(result, SpecgateError):
            raise result
        return result

    def judge(self, gate: Gate, case: Case) -> Verdict:
        """The gate's verdict; ERROR when the case could not be measured, unless the suite expects a refusal.

        Raises AlreadyStored.
        """
        expect = self.suite.spec.engines[self.engine].expect
        try:
            result = self.case(case)
            if (stopped := result.error_of(gate.spec.info.family)) is not None:
                raise stopped
        except AlreadyStored:
            raise
        except SpecgateError as error:
            return refusals.unmeasured(gate, case.id, error, expect, at_start=self._life().broken is error)
        if expect is not None:
            return refusals.running(gate, expect, self._context(result.measurement))
        verdict = gates.judge(gate, result.seen, self._compared_with(result.found), self._context(result.measurement))
        return _refreshed(verdict) if self.settings.update else verdict

    def take(self, case: Case, measurement: Measurement) -> None:
        """Let a measurement taken earlier stand for the case, so that it is judged without an engine."""
        try:
            self._refuse_other_question(case, measurement)
            self._results[case.id] = self._reduced(case, measurement)
        except SpecgateError as error:
            self._results[case.id] = error

    def results(self) -> list[CaseResult]:
        """Every case that was measured."""
        return [result for result in self._results.values() if isinstance(result, CaseResult)]

    @property
    def running(self) -> Engine | None:
        """The engine while it runs."""
        return self._engine.running if self._engine is not None else None

    def close(self) -> None:
        """Stop the engine; may be called twice. Raises EngineError where its adapter fails at it, once."""
        if self._engine is not None:
            self._engine.close()

    # --- how ----------------------------------------------------------------------------------------------------

    def _compared_with(self, found: baseline.Found | None) -> Stored | None:
        """The stored numbers; none while they are being replaced, unless what fails decides what is replaced."""
        if found is None or (self.settings.update and self.settings.update_only != "failed"):
            return None
        return found.stored

    def context(self, case: str, place: Place, engine: str = "") -> gates.JudgeContext:
        """How the gates of a case are judged, its environment apart; ``engine`` is the engine's kind."""
        return gates.JudgeContext(
            suite=self.suite.shown,
            case=case,
            engine=engine,
            alpha=share(self.checks),
            place=place,
            today=datetime.date.today(),
            updating=self.settings.update,
            looks=doubling(self._rounds).count,
        )

    def _context(self, measurement: Measurement) -> gates.JudgeContext:
        blank = self.context(measurement.case, measurement.place, measurement.engine_kind)
        return replace(blank, findings=measurement.findings)

    @property
    def _rounds(self) -> int:
        return self.suite.spec.measure.rounds

    def _measure(self, case: Case) -> CaseResult:
        seconds = self._seconds()
        engine = self._life().started()
        try:
            more = engine.occupies() if isinstance(engine, Occupies) else frozenset()
            with alone_on(engine.subject().get("device", "cpu"), case.id, self.settings.progress, more):
                if case.scenario.generated:
                    return self._reduced(case, sweep_case(engine, case, self.settings.progress))
                blank = unmeasured(engine, case)
                self._refuse_needless(case, blank)
                fits = FitPass(engine, case, self.settings.progress, lambda found: self._suspected(case, found))
                plan = self._plan(case, (blank, self._stored(case, blank)), seconds, fits)
                measurement = fits.into(measure_case(engine, case, plan))
                measurement, scoring_error = with_scores(
                    engine, case, measurement, self.settings.progress, self.suite.spec.measure.control
                )
                measurement, task_error = with_grades(case, measurement, allow_code=self.settings.allow_code)
                if self.suite.spec.measure.costs:
                    measurement = with_costs(engine, case, measurement, self.settings.progress)
                measurement, memory_error = self._with_memory(measurement, case, engine)
                measurement, sessions = self._with_sessions(measurement, case)
        except SpecgateError:
            raise
        except Exception as error:  # an adapter's own bug is that case's error, not the run's
            what = f"{case.id}: {type(error).__name__}: {error}"
            raise EngineError(self.engine, what, "this is a fault of the engine's adapter") from error
        result = self._reduced(case, measurement, memory_error)
        result = replace(result, sessions=sessions, task_error=task_error)
        return replace(result, scoring_error=scoring_error, fit_error=fits.error)

    def _refuse_needless(self, case: Case, blank: Measurement) -> None:
        """Raise AlreadyStored where only what is missing is to be stored, and this place has the case's entry."""
        if self.settings.update_only != "new":
            return
        found = self._stored(case, blank)
        if found is None or found.stored.place != blank.place or baseline.mismatch(found.stored, blank.workload):
            return
        what = f"{case.id}: stored on {found.stored.recorded}, and only what is missing is measured"
        raise AlreadyStored(f"{what} — leave out --specgate-update-only to store it anew")

    def _suspected(self, case: Case, measurement: Measurement) -> bool:
        """Whether what was scored so far would fail a gate on drawn tokens."""
        seen = (interim.all_of(measurement, case),)
        context = self._context(measurement)
        drawn = [gate for gate in case.gates if gate.spec.info.family is Family.DISTRIBUTION]
        return any(gates.judge(gate, seen, None, context).outcome is Outcome.FAIL for gate in drawn)

    def _reduced(self, case: Case, measurement: Measurement, memory_error: SpecgateError | None = None) -> CaseResult:
        if self.settings.update or case.scenario.generated:  # judged once, by all that there is
            seen: tuple[gates.Seen, ...] = (interim.all_of(measurement, case),)
        else:
            seen = interim.looks_at(measurement, case, doubling(self._rounds))
        return CaseResult(case, measurement, seen, self._stored(case, measurement), memory_error)

    def _refuse_other_question(self, case: Case, measurement: Measurement) -> None:
        changed = [name for name, now in asked(case).items() if measurement.workload.get(name) != now]
        if changed:
            what = f"{case.id}: {', '.join(changed)} changed since it was measured"
            raise EngineError(self.engine, what, f"measure it again: pytest --specgate {case.gates[0].location.path}")

    def _with_memory(
        self, measurement: Measurement, case: Case, engine: Engine
    ) -> tuple[Measurement, SpecgateError | None]:
        if not (self.suite.spec.measure.memory and any(g.spec.info.family in OWN_PASS for g in case.gates)):
            return measurement, None
        self.settings.progress(f"{case.id}: memory pass, each arm in a process of its own")
        try:
            taken = measure_memory(self._engine_context(), case, self.suite.spec.measure, engine)
            return replace(measurement, memory=taken, warnings=(*measurement.warnings, *busy_notes(taken))), None
        except SpecgateError as error:
            return measurement, error

    def _with_sessions(self, measurement: Measurement, case: Case) -> tuple[Measurement, tuple[Samples, ...]]:
        """Record the case in further processes, one after the other; what broke a rule there counts here."""
        more = self.settings.update_sessions - 1 if self.settings.update else 0
        if more < 1:
            return measurement, ()
        self.close()  # a process of its own shall find the device as this one did
        rounds, others = interim.rounds_of(measurement), list[Measurement]()
        for number in range(more):
            self.settings.progress(f"{case.id}: session {number + 2} of {more + 1}, in a process of its own")
            others.append(measure_anew(self._engine_context(), case, rounds, self.suite.spec.measure.warmup))
        broken = [finding for one in others for finding in one.findings if not finding.held]
        numbers = tuple(interim.all_of(one, case).samples for one in others)
        return replace(measurement, findings=(*measurement.findings, *broken)), numbers

    def _life(self) -> RunningEngine:
        self._engine = self._engine or RunningEngine(self._engine_context(), self.settings.progress)
        return self._engine

    def _engine_context(self) -> EngineContext:
        return EngineContext(
            name=self.engine,
            spec=self.suite.spec.engines[self.engine],
            folder=self.suite.path.parent,
            device=self.settings.device,
            allow_remote_code=self.settings.allow_remote_code,
            allow_pickle=self.settings.allow_pickle,
            scorer=self.suite.spec.scorer_of(self.engine),
        )

    def _seconds(self) -> float | None:
        """The time that the next case may take."""
        given = [self.suite.spec.measure.budget, self.settings.time.allot() if self.settings.time else None]
        return min((seconds for seconds in given if seconds is not None), default=None)

    def _plan(
        self, case: Case, begun: tuple[Measurement, baseline.Found | None], seconds: float | None, fits: FitPass
    ) -> Plan:
        """Looks that double while judging; while recording, after every round from the suite's number on."""
        recording, (blank, found) = self.settings.update, begun

        def still_open(pairs: Sequence[Pair], findings: Sequence[Finding], gpu: Sequence[GpuUse]) -> Sequence[str]:
            so_far = replace(blank, pairs=tuple(pairs), findings=tuple(findings), gpu=tuple(gpu))
            if recording:
                numbers = interim.all_of(so_far, case).samples
                return still_coarse(case, numbers, self._rounds, share(self.checks))
            so_far = fits.into(so_far)
            seen = interim.looks_at(so_far, case, looks)
            return interim.open_gates(case, seen, self._compared_with(found), self._context(so_far))

        looks = rounds_to_record(case, self._rounds) if recording else doubling(self._rounds)
        warmup, tell = self.suite.spec.measure.warmup, self.settings.progress
        timed = recording or any(gate.spec.info.family not in _UNTIMED for gate in case.gates)
        return Plan(looks, warmup, seconds, still_open, tell, self._life().gpus_before, timed)

    def _stored(self, case: Case, measurement: Measurement) -> baseline.Found | None:
        try:
            found = baseline.find(self.settings.baselines, self.suite.name, case.id, measurement.place)
        except OutdatedBaseline:
            if not self.settings.update or self.settings.update_only == "failed":
                raise
            return None
        if found is None or (self.settings.update and self.settings.update_only != "failed"):
            return found
        if any(gate.spec.compares for gate in case.gates) and (
            parts := baseline.mismatch(found.stored, measurement.workload)
        ):
            unknown = [part for part in parts if part not in found.stored.workload]
            said = [f"{part} (not recorded then)" if part in unknown else part for part in parts]
            what = f"{case.id}: no baseline for this workload: {', '.join(said)} changed since {found.stored.recorded}"
            raise EngineError(self.engine, what, f"record one: pytest --specgate-update {case.gates[0].location.path}")
        return found


def _refreshed(verdict: Verdict) -> Verdict:
    """While baselines are being stored, a change that failed is about to be accepted; a broken limit stays broken."""
    failed = [check for check in verdict.checks if check.outcome is Outcome.FAIL]
    if not failed or verdict.softened or any(check.kind == "limit" for check in failed):
        return verdict
    return replace(verdict, softened="judged against the old baseline")
