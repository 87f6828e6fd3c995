"""What is known of a server's texts beside what it sent: their token ids, their prompts, and what the target thinks.

The scorer is an engine of specgate's own that the suite names, or else the reference server, if its software scores
prompts. Either gets the very prompt that the servers read: as ids that a server told, or as its tokenizer makes them;
and as many of them as the servers counted, or nothing is scored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_specgate.chances import Chances
from pytest_specgate.engines.base import ChanceScorer, Engine, EngineContext, Scorer
from pytest_specgate.engines.serving import prompted, wire
from pytest_specgate.engines.serving.dialects import Dialect
from pytest_specgate.engines.serving.failures import Failure
from pytest_specgate.engines.serving.prompted import Told
from pytest_specgate.engines.serving.tokens import Ask, Ids, LocalTokens, ServerTokens, Tokens, ended, recut
from pytest_specgate.engines.serving.traces import Heard
from pytest_specgate.errors import EngineError
from pytest_specgate.logits import Scores
from pytest_specgate.records import Arm, Capability, Message, Request, Trace
from pytest_specgate.records import Told as Said

_Prompt = tuple[tuple[Message, ...], "Ids | None"]


@dataclass(frozen=True, slots=True)
class Source:
    """A server: how it is asked, its model and software, and the end-of-text token that it names."""

    ask: Ask
    model: str
    dialect: Dialect
    eos: str


@dataclass(slots=True)
class _Read:
    """What an arm's server read as prompt: its ids where it told them, and how many it counted."""

    ids: Ids = ()
    count: int = 0


@dataclass(slots=True)
class Outside:
    """Scores, and token ids, of one engine's texts. ``source`` is asked each time: a server may be another then."""

    context: EngineContext
    create: Callable[[EngineContext], Engine]
    source: Callable[[Arm], Source]
    _read: dict[_Prompt, dict[Arm, _Read]] = field(default_factory=dict)
    _ids: dict[tuple[object, ...], Ids] = field(default_factory=dict)
    _engine: Engine | None = None
    _local: Tokens | None = None

    # --- who ---------------------------------------------------------------------------------------------

    def capabilities(self, *, ids: bool) -> frozenset[Capability]:
        """What can be had besides; ``ids`` is whether both servers take prompts of token ids."""
        scores = self.context.scorer is not None or self.source(Arm.REFERENCE).dialect.prompted is not None
        tokens = ids and self.tokens() is not None
        wanted = ((Capability.LOGITS, scores), (Capability.TOKENS, tokens))
        return frozenset(capability for capability, there in wanted if there)

    @property
    def shapes(self) -> bool:
        """Whether scores follow penalties and biases: a server's are of the model alone."""
        return self.context.scorer is not None

    def tokens(self) -> Tokens | None:
        """The servers' tokenizer: their own where they have pages for it, else the suite's, else the scorer's."""
        found, server = self.source(Arm.REFERENCE), self.context.spec.server
        if found.dialect.tokens is not None:
            more = server.body if server else {}
            return ServerTokens(found.dialect.tokens(found.model), found.ask, found.eos, more)
        scorer = self.context.scorer
        reference = (server.tokenizer if server else None) or (scorer.target if scorer else None)
        if self._local is None and reference:
            self._local = LocalTokens(self.context, reference)
        return self._local

    def close(self) -> None:
        """End the scoring engine."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    # --- what was said -----------------------------------------------------------------------------------

    def note(self, heard: Sequence[Heard], arm: Arm) -> None:
        """Remember which prompt this arm's server read for each request."""
        for one in heard:
            read = self._read.setdefault(_key(one.request), {}).setdefault(arm, _Read())
            read.ids, read.count = one.answer.prompt_ids or read.ids, one.answer.prompt_tokens or read.count

    def identify(self, requests: Sequence[Request], traces: Sequence[Trace]) -> list[Trace]:
        """The traces with their token ids. Raises Failure."""
        both = zip(requests, traces)
        return [trace if trace.token_ids else self._identified(request, trace) for request, trace in both]

    def _identified(self, request: Request, trace: Trace) -> Trace:
        key = (trace.arm, trace.prompt, request.sampling.seed, trace.text, trace.finish, trace.output_tokens)
        if key not in self._ids:
            tokens = self.tokens()
            if tokens is None:
                what = f"told no token ids of its answer to {trace.prompt}"
                raise Failure(what, "name the servers' 'tokenizer' in the suite, so that the text can be cut anew")
            self._ids[key] = self._retold(request, trace, tokens) or self._recut(request, trace, tokens)
        told = replace(trace.told or Said(), tokens=None)
        return replace(trace, token_ids=self._ids[key], told=told)

    def _recut(self, request: Request, trace: Trace, tokens: Tokens) -> Ids:
        """As :func:`recut`; a draw that might have come again says how."""
        how = self.source(trace.arm).dialect.retold
        try:
            return recut(trace, tokens)
        except Failure as failure:
            if how is None or not how.steady or request.sampling.greedy or request.sampling.seed is None:
                raise
            raise Failure(f"{failure.what}; asked again it drew another", how.steady) from None

    def _retold(self, request: Request, trace: Trace, tokens: Tokens) -> Ids:
        """The ids of the same answer, asked for again; nothing where there is no way, or another answer comes.

        A drawn answer comes again by its seed, without one it does not.
        """
        found, server = self.source(trace.arm), self.context.spec.server
        how = found.dialect.retold
        if how is None or server is None or not (request.sampling.greedy or request.sampling.seed is not None):
            return ()
        again = replace(request, token_ids=self._prompt(request))
        text, ids = how.read(found.ask(how.path, how.again(wire.body(again, server, found.model, found.dialect))))
        whole = ended(tuple(ids), trace, tokens)
        # A stream says nothing of a character that its budget cuts in two; a whole answer has a mark in its place.
        same = text.startswith(trace.text) and not text[len(trace.text) :].strip("\ufffd")
        return whole if same and len(whole) == trace.output_tokens else ()

    # --- what it is worth --------------------------------------------------------------------------------

    def score(self, requests: Sequence[Request], texts: Sequence[Ids]) -> list[Scores]:
        """Scores of texts as answers to requests. Raises Failure, EngineError."""
        asked = self._asked(requests)
        if self.context.scorer is None:
            return [prompted.scores(self._told(one, text)) for one, text in zip(asked, texts)]
        engine = self._scorer()
        if not isinstance(engine, Scorer):
            raise self._no_scorer("texts")
        return engine.score(asked, texts)

    def chances(self, requests: Sequence[Request], texts: Sequence[Ids]) -> list[Chances]:
        """Chances of drawn texts. Raises Failure, EngineError."""
        asked = self._asked(requests)
        if self.context.scorer is None:
            told = [self._told(one, text) for one, text in zip(asked, texts)]
            return [prompted.chances(each, one.sampling) for each, one in zip(told, asked)]
        engine = self._scorer()
        if not isinstance(engine, ChanceScorer):
            raise self._no_scorer("drawn texts")
        return engine.chances(asked, texts)

    def _told(self, request: Request, text: Ids) -> list[Told]:
        found, prompt = self.source(Arm.REFERENCE), request.token_ids or ()
        how = found.dialect.prompted
        if how is None:
            raise Failure("scores no prompts", "name a 'scorer' in the suite")
        said = found.ask(how.path, how.ask((*prompt, *text), prompted.TOP, found.model))
        return prompted.of_text(how, said, len(prompt), text)

    def _asked(self, requests: Sequence[Request]) -> list[Request]:
        """The requests with the prompts that the servers read, as ids."""
        return [replace(request, token_ids=self._prompt(request)) for request in requests]

    def _prompt(self, request: Request) -> Ids:
        read = self._read.get(_key(request), {})
        counts = {arm: one.count for arm, one in read.items() if one.count}
        told = {arm: one.ids for arm, one in read.items() if one.ids}
        if len(set(counts.values())) > 1 or len(set(told.values())) > 1:
            sizes = " and ".join(f"{arm.value}: {count} tokens" for arm, count in counts.items())
            what = f"reads another prompt of {request.prompt} than the other arm's ({sizes})"
            raise Failure(what, "serve both arms with one tokenizer and one chat template")
        ids = request.token_ids or next(iter(told.values()), None) or self._made(request)
        if wrong := [count for count in counts.values() if count != len(ids)]:
            what = f"read a prompt of {wrong[0]} tokens for {request.prompt}, and the scorer's would have {len(ids)}"
            raise Failure(what, "name the servers' own tokenizer, with the chat template that they use")
        return ids

    def _made(self, request: Request) -> Ids:
        tokens, server = self.tokens(), self.context.spec.server
        if tokens is None:
            what = f"told no token ids of the prompt {request.prompt}"
            raise Failure(what, "name the servers' 'tokenizer' in the suite")
        if server is not None and server.endpoint == "completions":
            return tokens.encode(request.messages[0].content, special=True)
        return tokens.templated(request.messages)

    def _scorer(self) -> Any:
        """The engine of our own, loaded when first asked for."""
        spec = self.context.scorer
        assert spec is not None  # noqa: S101 - asked of suites with one alone
        if self._engine is None:
            # The reference arm is the target; the draft is loaded where the spec has one, for the chances of drafts.
            arms = (Arm.REFERENCE, Arm.CANDIDATE) if spec.candidate else (Arm.REFERENCE,)
            engine = self.create(replace(self.context, spec=spec, arms=arms, scorer=None))
            engine.start()
            self._engine = engine
        if Capability.LOGITS not in self._engine.capabilities:
            raise self._no_scorer("texts")
        return self._engine

    def _no_scorer(self, what: str) -> EngineError:
        kind = self.context.scorer.kind if self.context.scorer else ""
        return EngineError(self.context.name, f"its scorer (kind {kind}) does not score {what}", "use kind: native")


def _key(request: Request) -> _Prompt:
    return request.messages, request.token_ids
