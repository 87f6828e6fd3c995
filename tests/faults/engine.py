"""The native engine with the parts of a zoo entry: ``options: {entry: V01, version: faulty, seed: 0}``.

The reference arm is the entry's right decoder without a draft, so that a fault strikes the candidate alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_specgate.decoding.job import Generation, Job
from pytest_specgate.decoding.loop import Decoder
from pytest_specgate.decoding.network import Network
from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.hf.jobs import job
from pytest_specgate.engines.hf.shaping import Speaker
from pytest_specgate.engines.native import NativeEngine
from pytest_specgate.logits import Scores
from pytest_specgate.records import Arm, Place, Request, Trace
from tests.faults.charged import charged
from tests.faults.clock import Clock, SimulatedMeter
from tests.faults.parts import Parts, Rig
from tests.faults.scoring import scored


def exchanged(job: Job, parts: Parts) -> Job:
    """The job with the stop rule, the processors and the seed of these parts."""
    shaping = parts.processors(job.processors)
    return replace(job, stop=parts.stop(job.stop), processors=shaping, seed=parts.seed(job.seed))


class Exchanged(Decoder):
    """The decoder, whose jobs stop and shape as its parts do."""

    def __init__(self, parts: Parts, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._parts = parts

    def run(self, jobs: Sequence[Job], slots: int) -> list[Generation]:
        return super().run([exchanged(job, self._parts) for job in jobs], slots)


class Zoo(NativeEngine):
    """It runs on a simulated clock: what else the machine does is no part of the question."""

    def __init__(self, context: EngineContext) -> None:
        from tests.faults.zoo import BY_ID

        super().__init__(context)
        entry = BY_ID[str(context.spec.options["entry"])]
        self._right: Parts = entry.right
        self._parts: Parts = entry.right if context.spec.options["version"] == "right" else entry.wrong
        self._seed = int(str(context.spec.options["seed"]))
        self._clock = Clock(self._seed)
        self.requests = self.tokens = 0

    def start(self) -> None:
        super().start()
        self._right.loaded(self._started().model)
        right = self._network(self._right, self._right.target, self._started().model)
        self._decoders[Arm.REFERENCE] = Exchanged(
            self._right, right, verifier=self._right.verifier(), meter=SimulatedMeter(self._clock)
        )

    def _candidate(self, network: Network, dtype: Any) -> Decoder:
        from pytest_specgate.engines.hf import loading

        candidate, parts = self._context.spec.candidate, self._parts
        assert candidate is not None
        target, draft = self._network(parts, parts.target, self._started().model), None
        if candidate.draft:
            self._draft = loading.load(self._context, candidate.draft, dtype, self._device)
            draft = self._network(parts, parts.draft, self._draft.model, draft=True)
        rig = Rig(target, draft, candidate.num_draft_tokens, self._clock)
        verifier = parts.verifier()
        return Exchanged(parts, target, parts.drafter(rig), rig.k, verifier=verifier, meter=SimulatedMeter(self._clock))

    def _network(self, parts: Parts, make: Any, model: Any, draft: bool = False) -> Network:
        return charged(make(model), self._clock, parts.cost.draft if draft else parts.cost.target)

    def serve(self, requests: Sequence[Request], arm: Arm, slots: int) -> list[Trace]:
        self.requests += len(requests)
        traces = super().serve(requests, arm, slots)
        self.tokens += sum(trace.output_tokens for trace in traces)
        if quoted := getattr(self._decoders[arm]._verifier, "quoted", None):
            traces = [replace(t, logprobs=tuple(quoted[n][: t.output_tokens])) for n, t in enumerate(traces)]
        if arm is Arm.REFERENCE or self._context.spec.candidate is None:
            return traces
        return [self._parts.told(trace, self._context.spec.candidate.num_draft_tokens) for trace in traces]

    def score(
        self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]], width: int | None = None
    ) -> list[Scores]:
        """By the right decoder's own network where that is not transformers' model as it stands."""
        if not self._right.own_scores:
            return super().score(requests, texts, width)
        target, parts = self._started(), self._right
        network, speaker = parts.target(target.model), Speaker(self._name, target)
        jobs = [exchanged(job(request, self._prompt_ids(request, target), speaker), parts) for request in requests]
        return [scored(network, parts.verifier(), asked, text, width) for asked, text in zip(jobs, texts)]

    def close(self) -> None:
        """Without the collection of garbage that a large model needs: it takes longer than these models live."""
        self._target = self._draft = None
        self._decoders.clear()

    def place(self) -> Place:
        return replace(super().place(), device="simulated", count=1)

    def subject(self) -> Mapping[str, str]:
        return {**super().subject(), "device": "simulated"}
