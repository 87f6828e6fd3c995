"""The ``native`` engine: both arms through specgate's own decoder, in batches, with rounds counted inside the loop.

The reference arm is the same loop with an empty draft, so a speed-up compares two ways to decode and not two pieces of
software. A checkpoint's own repetition penalty holds where a request gives none; a warning names what else its
generation config sets and this engine leaves out. A request's random numbers depend on its sampling seed, its prompt's
name and the position alone: never on what runs beside it. Importing this module loads no torch.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_specgate.engines.base import EngineContext, Timed
from pytest_specgate.engines.hf.holding import HoldsModels
from pytest_specgate.engines.threads import tame_spinning
from pytest_specgate.errors import EngineError
from pytest_specgate.records import Arm, Bounds, Capability, MemoryReading, Request, Trace

if TYPE_CHECKING:
    from pytest_specgate.decoding.loop import Decoder
    from pytest_specgate.decoding.network import Network
    from pytest_specgate.engines.hf.loading import Loaded
    from pytest_specgate.engines.hf.scoring import Blocks

_log = logging.getLogger("pytest_specgate")
#: So many requests of a run are named where it fails as a whole.
_NAMED = 8


class NativeEngine(HoldsModels):
    """The engine protocol over :mod:`pytest_specgate.decoding`."""

    capabilities: frozenset[Capability] = frozenset(
        {
            *(Capability.ROUNDS, Capability.BATCH, Capability.SEEDS),
            *(Capability.STREAMING, Capability.LOGITS, Capability.TOKENS),
            *(Capability.CHOICES, Capability.LOGPROBS, Capability.CANCEL, Capability.QUEUE),
        }
    )

    def __init__(self, context: EngineContext) -> None:
        super().__init__(context)
        self._decoders: dict[Arm, Decoder] = {}
        self._told: set[str] = set()

    # --- life --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Load target and draft; refuse what the decoder cannot run, before anything is timed."""
        if warning := tame_spinning():
            _log.warning("%s", warning)
        from pytest_specgate.decoding.loop import Decoder
        from pytest_specgate.decoding.network import Network
        from pytest_specgate.engines.hf import facts, scoring

        placed = facts.load_target(self._context)
        self._target, self._device = placed.target, placed.device
        for name, value in scoring.processed(self._target.model):
            said = "%s: kind native leaves out what the target's generation config sets, %s: %s, in both arms alike"
            _log.warning(said, self._name, name, value)
        with self._refusals():
            network = Network(self._target.model)
            self._decoders[Arm.REFERENCE] = Decoder(network)
            if Arm.CANDIDATE in self._context.arms:
                self._decoders[Arm.CANDIDATE] = self._candidate(network, placed.dtype)
            self._warn_of_doubts()
            if self._context.spec.graphs:
                self._record()
        facts.forget_loading(self._device)  # matrices were laid side by side, and lay there twice

    def _candidate(self, network: Network, dtype: Any) -> Decoder:
        from pytest_specgate.decoding.loop import Decoder
        from pytest_specgate.engines.hf import drafting, loading, machine

        candidate = self._context.spec.candidate
        if candidate is None:
            hint = "add 'candidate: {method: ...}' to the engine in the suite"
            raise EngineError(self._name, "no candidate", hint)
        if candidate.draft:
            draft_dtype = machine.draft_dtype_for(self._context, dtype)
            self._draft = loading.load(self._context, candidate.draft, draft_dtype, self._device)
        parts = drafting.Parts(self._name, network, self._started(), self._draft)
        drafter, verifier = drafting.drafter(candidate, parts), drafting.verifier(candidate)
        return Decoder(
            network, drafter, candidate.num_draft_tokens, verifier=verifier, length=drafting.length(candidate)
        )

    def _record(self) -> None:
        """Have every network record its forwards."""
        from pytest_specgate.decoding.recorded import cuda_recorder

        if not self._device.startswith("cuda"):
            hint = "remove 'graphs' or choose device: cuda"
            raise EngineError(self._name, f"graphs are recorded on a GPU, and this is {self._device}", hint)
        for network in self._networks():
            network.record(partial(cuda_recorder, network.device))

    def _warn_of_doubts(self) -> None:
        for network in self._networks():
            if network.doubt:
                said = "%s: %s runs through its own modules, which is slower: %s"
                _log.warning(said, self._name, network.anatomy.name, network.doubt)

    def _networks(self) -> Iterator[Network]:
        found = [self._decoders[Arm.REFERENCE].target]
        for decoder in self._decoders.values():
            found += [network for network in decoder.drafter.networks() if network not in found]
        yield from found

    def check(self, concurrency: int, greedy: bool) -> None:
        """Accept any case: requests run side by side, greedy or not."""

    def close(self) -> None:
        """Drop both models and their caches."""
        if self._target is None:
            return
        from pytest_specgate.engines.hf.facts import is_large
        from pytest_specgate.engines.hf.failures import empty_caches

        large = is_large(self._target, self._device)
        self._target = self._draft = self._readers = None
        self._decoders.clear()
        if large:
            empty_caches()

    # --- work --------------------------------------------------------------------------------------------

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        """Return one trace per request and answer, all run side by side. Raises EngineError, OutOfMemory."""
        return self.serve(requests, arm, sum(request.n for request in requests))

    def serve(self, requests: Sequence[Request], arm: Arm, slots: int) -> list[Trace]:
        """Return one trace per request and answer, ``slots`` of which run at once. Raises EngineError, OutOfMemory."""
        from pytest_specgate.decoding.refusal import NotFinite
        from pytest_specgate.engines.hf import facts
        from pytest_specgate.engines.hf.failures import translated
        from pytest_specgate.engines.hf.jobs import each_answer, spent, trace
        from pytest_specgate.engines.hf.shaping import Speaker, refuse_unwritable

        target = self._started()
        if arm not in self._decoders:
            raise EngineError(self._name, "the candidate arm was not prepared", "name it in the context's arms")
        decoder = self._decoders[arm]
        speaker = Speaker(self._name, target)
        asked = [
            pair for request in requests for pair in each_answer(request, self._prompt_ids(request, target), speaker)
        ]
        jobs = [job for _, job in asked]
        with translated(self._name, f"{_names(requests)}: {arm.value} arm failed"), self._refusals():
            try:
                made = decoder.run(jobs, slots)
            except NotFinite as bad:
                decoder.forget()
                what = f"{asked[bad.job][0].prompt}: {bad.what}"
                if bad.whose == "draft":
                    what += f" ({facts.drafting(self._context.spec)})"
                raise EngineError(self._name, what, bad.hint) from bad
            except Exception:
                decoder.forget()
                raise
        if facts.is_read(self._context.spec, arm):
            for (request, _), each in zip(asked, made):
                refuse_unwritable(request, each.tokens, speaker)
        self._warn_of_refused()
        traces = [trace(*pair, each, arm, target) for pair, each in zip(asked, made)]
        held = decoder.bytes_per_token()
        return [
            replace(one, spent=spent(each.spent, one.prompt_tokens + one.output_tokens, held))
            for one, each in zip(traces, made)
        ]

    def _warn_of_refused(self) -> None:
        for network, why in self._refused():
            if why not in self._told:
                self._told.add(why)
                said = "%s: graphs of %s are not used: %s; forwards run as they would without"
                _log.warning(said, self._name, network.anatomy.name, why)

    def _refused(self) -> Iterator[tuple[Network, str]]:
        """Networks whose recordings were thrown away, and why."""
        for network in self._networks():
            if network.recordings is not None and network.recordings.refused:
                yield network, network.recordings.refused

    def refuse(self, requests: Sequence[Request]) -> None:
        """Raise EngineError for a request that exceeds the window."""
        target = self._started()
        for request in requests:
            self._prompt_ids(request, target)

    def drain(self) -> None:
        """Give the caches back; the next requests have theirs made anew."""
        for decoder in self._decoders.values():
            decoder.forget()

    def _blocks(self) -> Blocks | None:
        """The arms' own forward, on a cache of its own, where 16 bits round apart from the modules; else None.

        By it whole texts are read as a prompt is. Elsewhere the modules are as near, and what is wrong with the arms'
        forward must not pass for noise.
        """
        from pytest_specgate.engines.hf.scoring import rows_at_once

        network = self._decoders[Arm.REFERENCE].target.apart()
        if not network.rounds_apart:
            return None
        most = rows_at_once(network.model)
        return lambda text, width: (
            network.forced(text.prompt, text.output, width) if width else network.whole(text.prompt, text.output, most)
        )

    def time_forwards(
        self, requests: Sequence[Request], texts: Sequence[tuple[int, ...]], widths: Sequence[int], repeats: int
    ) -> Timed | None:
        """Return what each part of a round takes, as :class:`~pytest_specgate.engines.base.ForwardTimer` says."""
        import torch

        from pytest_specgate.decoding.alone import steps
        from pytest_specgate.engines.hf.costs import in_turn
        from pytest_specgate.engines.hf.failures import translated

        target, decoder = self._started(), self._decoders.get(Arm.CANDIDATE)
        if decoder is None:
            return None
        with translated(self._name, "timing forwards failed"), self._refusals():
            known = [(*self._prompt_ids(request, target), *text) for request, text in zip(requests, texts)]
            with torch.inference_mode():
                made = steps(decoder, known, widths)
            return in_turn(made.target, made.draft, repeats, self._device)

    def _prompt_ids(self, request: Request, target: Loaded) -> tuple[int, ...]:
        from pytest_specgate.engines.hf.shaping import Speaker, prompt_ids

        ids = prompt_ids(request, Speaker(self._name, target))
        window = self._decoders[Arm.REFERENCE].target.anatomy.context
        if window is not None and len(ids) + request.max_tokens > window:
            asked = f"{len(ids)} prompt tokens and {request.max_tokens} to generate"
            what = f"{request.prompt}: {asked} exceed the window of {window}"
            raise EngineError(self._name, what, "lower max_tokens or shorten the prompt")
        return ids

    def bounds(self) -> Bounds:
        """Return vocabulary, windows and draft length, and by how much the cache grows."""
        from pytest_specgate.decoding.loop import STEP
        from pytest_specgate.engines.hf import facts

        candidate = self._context.spec.candidate
        return facts.bounds(
            self._name, self._started(), self._draft, candidate.num_draft_tokens if candidate else 0, STEP
        )

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Say in the engine's name what the decoder refuses."""
        from pytest_specgate.decoding.refusal import Refusal

        try:
            yield
        except Refusal as refusal:
            raise EngineError(self._name, refusal.what, refusal.hint) from refusal

    # --- facts -------------------------------------------------------------------------------------------

    def memory(self, arms: Sequence[Arm]) -> MemoryReading:
        """Return weights and caches by arm; on a GPU, its peaks too.

        Caches are allocated as a whole, for the most and longest requests that there were; what the operating system
        knows of the process is left to the caller.
        """
        from pytest_specgate.engines.hf import facts

        target, draft = self._started(), self._draft if Arm.CANDIDATE in arms else None
        drafting = self._decoders.get(Arm.CANDIDATE) if Arm.CANDIDATE in arms else None
        held = self._decoders[Arm.REFERENCE].target.cache_bytes()
        drafts = drafting.draft_cache_bytes() if drafting else 0
        read = facts.memory(self._device, target, draft, held + drafts or None, drafts if held and drafting else None)
        return facts.with_copies(read, self._decoders[Arm.REFERENCE].target, drafting.drafter if drafting else None)

    def subject(self) -> Mapping[str, str]:
        """Return versions, threads and settings, and the candidate: what a gate judges."""
        from pytest_specgate.engines.hf import facts

        spec = self._context.spec
        found = facts.subject("native", self._device, self._started(), spec)
        found["forward"] = self._decoders[Arm.REFERENCE].target.forward_name
        if spec.graphs:
            found["graphs"] = next((f"off: {why}" for _, why in self._refused()), "on")
        drafting = self._decoders.get(Arm.CANDIDATE)
        if spec.candidate is None or drafting is None:
            return found
        for network in drafting.drafter.networks():
            found["draft_forward"] = network.forward_name
        return found | facts.candidate(spec, spec.candidate.num_draft_tokens, self._draft)


def _names(requests: Sequence[Request]) -> str:
    shown = ", ".join(request.prompt for request in requests[:_NAMED])
    return f"{shown} and {len(requests) - _NAMED} more" if len(requests) > _NAMED else shown
