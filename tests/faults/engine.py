"""The native engine with the parts of a zoo entry: ``options: {entry: V01, version: faulty, seed: 0}``.

The reference arm is the entry's right decoder without a draft, so that a fault strikes the candidate alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_specgate.decoding.loop import Decoder
from pytest_specgate.decoding.network import Network
from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.native import NativeEngine
from pytest_specgate.logits import Scores
from pytest_specgate.records import Arm, Place, Request, Trace
from tests.faults.clock import Clock, SimulatedMeter
from tests.faults.parts import Parts, Rig
from tests.faults.scoring import scored


class Zoo(NativeEngine):
    """Its device is called simulated: what else the machine does is no part of the question."""

    def __init__(self, context: EngineContext) -> None:
        from tests.faults.zoo import BY_ID

        super().__init__(context)
        entry = BY_ID[str(context.spec.options["entry"])]
        self._right: Parts = entry.right
        self._parts: Parts = entry.wrong if context.spec.options["version"] == "faulty" else entry.right
        self._seed = int(str(context.spec.options["seed"]))
        self._clock = Clock(self._seed)
        self._arm = Arm.REFERENCE
        self.requests = self.tokens = 0

    def start(self) -> None:
        super().start()
        right = self._network(self._right, self._right.target, self._started().model)
        self._decoders[Arm.REFERENCE] = Decoder(right, verifier=self._right.verifier(), **self._metered(self._right))

    def _candidate(self, network: Network, dtype: Any) -> Decoder:
        from pytest_specgate.engines.hf import loading

        candidate, parts = self._context.spec.candidate, self._parts
        assert candidate is not None
        target, draft = self._network(parts, parts.target, self._started().model), None
        if candidate.draft:
            self._draft = loading.load(self._context, candidate.draft, dtype, self._device)
            draft = self._network(parts, parts.draft, self._draft.model, draft=True)
        rig = Rig(target, draft, candidate.num_draft_tokens, self._seed)
        verifier = parts.verifier()
        return Decoder(target, parts.drafter(rig), rig.k, verifier=verifier, **self._metered(parts))

    def _network(self, parts: Parts, make: Any, model: Any, draft: bool = False) -> Network:
        from tests.faults.charged import charged

        network: Network = make(model)
        if parts.cost is None:
            return network
        return charged(network, self._clock, parts.cost.draft if draft else parts.cost.target)

    def _metered(self, parts: Parts) -> dict[str, Any]:
        return {} if parts.cost is None else {"meter": SimulatedMeter(self._clock)}

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        self._arm = arm
        self.requests += len(requests)
        traces = super().generate(requests, arm)
        self.tokens += sum(trace.output_tokens for trace in traces)
        if arm is Arm.REFERENCE or self._context.spec.candidate is None:
            return traces
        return [self._parts.told(trace, self._context.spec.candidate.num_draft_tokens) for trace in traces]

    def _job(self, request: Request, target: Any) -> Any:
        job = super()._job(request, target)
        parts = self._right if self._arm is Arm.REFERENCE else self._parts
        return replace(job, stop=parts.stop(job.stop), processors=parts.processors(request, job.processors))

    def score(
        self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]], width: int | None = None
    ) -> list[Scores]:
        """By the right decoder's own network where that is not transformers' model as it stands."""
        if not self._right.own_scores:
            return super().score(requests, texts, width)
        self._arm = Arm.REFERENCE
        target = self._started()
        network = self._right.target(target.model)
        jobs = [self._job(request, target) for request in requests]
        return [scored(network, self._right.verifier(), job, text, width) for job, text in zip(jobs, texts)]

    def close(self) -> None:
        """Without the collection of garbage that a large model needs: it takes longer than these models live."""
        self._target = self._draft = None
        self._decoders.clear()

    def place(self) -> Place:
        return replace(super().place(), device="simulated", count=1)

    def subject(self) -> Mapping[str, str]:
        return {**super().subject(), "device": "simulated"}
