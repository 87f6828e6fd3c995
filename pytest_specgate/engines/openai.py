"""The ``openai`` engine: two servers behind the OpenAI protocol, one for each arm.

Nothing is generated here: the decoder under test is the server, on whatever machines it runs. Each call sends its
requests side by side and waits for all; in a closed loop so many are under way as the case's concurrency says. What a
server does not tell is unmeasured. Importing this module loads no HTTP library.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.registry import create
from pytest_specgate.engines.serving import facts
from pytest_specgate.engines.serving.failures import Busy, Failing, Failure, Lacking
from pytest_specgate.engines.serving.hosts import Hosts
from pytest_specgate.engines.serving.identity import weights
from pytest_specgate.engines.serving.launching import arm_server, hosts_for
from pytest_specgate.engines.serving.looked_at import ServedMemory
from pytest_specgate.engines.serving.met import Server, require_library, unlike_targets
from pytest_specgate.engines.serving.outside import Outside, Source
from pytest_specgate.engines.serving.texts import ServedTexts
from pytest_specgate.errors import EngineError, TurnedAway, Unsupported
from pytest_specgate.masking import MASK
from pytest_specgate.records import Arm, Capability, Place, Request, Trace
from pytest_specgate.suite.servers import ServerSpec
from pytest_specgate.units import did_you_mean

if TYPE_CHECKING:
    from pytest_specgate.engines.serving.client import Client, Post
    from pytest_specgate.engines.serving.counters import Seen
    from pytest_specgate.engines.serving.loop import LoopThread
    from pytest_specgate.engines.serving.traces import Heard


#: How long after a failure the end of a server's process is told, and after one that it may be dying of: as long as it
#: is not well again, for ending takes a while on a busy machine.
_WORD_SECONDS, _LAST_WORD_SECONDS = 2.0, 60.0
#: What a failure is called outside; any other is an EngineError.
_KINDS = {Lacking: Unsupported, Busy: TurnedAway}


class OpenAIEngine(ServedMemory, ServedTexts):
    """The engine protocol over two servers."""

    #: Without what shows once the servers were met: whether texts can be scored, and prompts be token ids.
    capabilities: frozenset[Capability] = frozenset(
        {
            *(Capability.ARRIVALS, Capability.BATCH, Capability.SEEDS, Capability.STREAMING),
            *(Capability.CHOICES, Capability.LOGPROBS, Capability.CANCEL, Capability.QUEUE),
        }
    )

    def __init__(self, context: EngineContext) -> None:
        if context.spec.server is None:
            raise EngineError(context.name, "no servers", "add 'server: {model: ..., reference: ..., candidate: ...}'")
        self._context, self._name = context, context.name
        self._spec: ServerSpec = context.spec.server
        self._servers: dict[Arm, Server] = {}
        self._loop: LoopThread | None = None
        self._client: Client | None = None
        self._hosts = Hosts({}, {})
        self._secret = ""
        self._tokens_of: Callable[[str], int] | None = None
        self._outside: Outside | None = None

    @property
    def apart(self) -> bool:
        """Whether the two servers take turns."""
        return not self._spec.together

    # --- life --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the servers that have a command, and ask both who they are. Raises EngineError, MissingPackage."""
        require_library(self._name)
        from pytest_specgate.engines.serving.client import Client
        from pytest_specgate.engines.serving.loop import LoopThread

        self._secret = self._key()
        if self._spec.tokenizer:
            from pytest_specgate.engines.hf.tokens import token_counter

            self._tokens_of = token_counter(self._context, self._spec.tokenizer)
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        if self._secret:
            headers["Authorization"] = f"Bearer {self._secret}"
        self._hosts = hosts_for(self._context, self._spec, headers)
        self._loop, self._client = LoopThread(), Client(headers)
        self._loop.run(self._client.open())
        for arm in self._context.arms:
            self._servers[arm] = self._meet(arm)
        if Arm.REFERENCE in self._servers:
            self._outside = Outside(self._context, create, self._source)
            ids = all(server.dialect.takes_ids for server in self._servers.values())
            self.capabilities = self.capabilities | self._outside.capabilities(ids=ids)

    def check(self, concurrency: int, greedy: bool) -> None:  # noqa: ARG002 - part of the protocol
        """Start again what died in an earlier case, and accept any.

        How many requests a server takes at once is its own affair, and is measured.
        """
        for arm in self._context.arms:
            if self._hosts.runs(arm) and not self._hosts.up(arm) and not self.apart:
                self._servers[arm] = self._meet(arm)

    def begin(self, arm: Arm) -> None:
        """Have this arm's server alone up, started anew. Raises EngineError."""
        self._hosts.begin(arm)
        self._servers[arm] = self._meet(arm)

    def close(self) -> None:
        """Close all connections and end the servers that were started here; others are left as they are."""
        try:
            if self._outside is not None:
                self._outside.close()
            if self._loop is not None:
                if self._client is not None:
                    self._loop.run(self._client.close())
                self._loop.close()
        finally:
            self._loop = self._client = None
            self._servers.clear()
            self._hosts.close()

    # --- work --------------------------------------------------------------------------------------------

    def generate(self, requests: Sequence[Request], arm: Arm) -> list[Trace]:
        """Return one trace per request and answer, all sent at once, or each when it comes. Raises EngineError."""
        return self._traces(requests, arm, None)

    def serve(self, requests: Sequence[Request], arm: Arm, slots: int) -> list[Trace]:
        """Return one trace per request and answer, ``slots`` requests under way at once. Raises EngineError."""
        return self._traces(requests, arm, slots)

    def _traces(self, requests: Sequence[Request], arm: Arm, at_once: int | None) -> list[Trace]:
        from pytest_specgate.engines.serving.traces import noted, speculated, traces, windowed

        server = self._server(arm)
        with self._telling(server.arm, server.url):
            heard, seen = self._ask(requests, server, at_once)
            if arm is Arm.REFERENCE and (count := speculated(heard, server.dialect, seen)):
                what = f"speculates too ({count}), though it is the reference arm's"
                raise Failure(what, "start it without speculation, or swap the two servers")
            if self._outside is not None:
                self._outside.note(heard, arm)
            window = server.dialect.window(server.probe, server.model)
            found = [windowed(trace, window) for trace in traces(heard, arm, server.dialect, seen)]
            for odd in filter(None, (unlike_targets(self._servers), self._hosts.found)):
                found = [noted(trace, odd) for trace in found]
            return found

    def _posts(self, requests: Sequence[Request], server: Server) -> list[Post]:
        from pytest_specgate.engines.serving.wire import post

        return [post(request, self._spec, server.url, (server.model, server.dialect)) for request in requests]

    def _ask(self, requests: Sequence[Request], server: Server, at_once: int | None) -> tuple[list[Heard], Seen]:
        from pytest_specgate.engines.serving import counters
        from pytest_specgate.engines.serving.traces import hear

        (loop, client), posts = self._connected(), self._posts(requests, server)
        before = loop.run(counters.look(client, server.url, server.dialect))
        exchanges = loop.run(client.ask(posts, at_once))
        heard = [one for asked in zip(requests, exchanges) for one in hear(*asked, self._tokens_of)]
        asked = counters.Asked(server.url, server.dialect, len(requests), sum(one.counted.tokens for one in heard))
        return heard, loop.run(counters.look_after(client, asked, before))

    # --- facts -------------------------------------------------------------------------------------------

    def place(self) -> Place:
        """Return what the suite says that the servers run on.

        Else it is this machine if both were started here, else the candidate server's host and software.
        """
        if (said := self._spec.place) is not None:
            return Place(said.device, said.count, said.dtype)
        return facts.place(list(self._met().values())[-1], here=self._here())

    def occupies(self) -> frozenset[str]:
        """Return the GPUs of this machine that servers compute on, where the suite's place says that they are GPUs."""
        from pytest_specgate.engines.serving.occupied import taken

        return taken(self._spec, self._context.arms)

    def workload(self) -> Mapping[str, str]:
        """Return the model's name as it is served, whose weights they are as far as is told, and how it is asked.

        The weights are those of the target alone: the reference server's.
        """
        return facts.workload(self._spec, next(iter(self._met().values())))

    def subject(self) -> Mapping[str, str]:
        """Return both servers' software, version and what else they tell of themselves."""
        return facts.subject(self._spec, self._met().values(), here=self._here())

    # --- how ---------------------------------------------------------------------------------------------

    def _meet(self, arm: Arm) -> Server:
        from pytest_specgate.engines.serving import dialects

        loop, client = self._connected()
        spec = arm_server(self._spec, arm)
        model, url = spec.model or self._spec.model, self._hosts.url(arm) if spec.command else spec.url or ""
        with self._telling(arm, url):
            probe = dialects.Probe(loop.run(client.pages(url, dialects.PAGES)))
            named = self._spec.dialect
            dialect = dialects.recognise(probe) if named == "auto" else dialects.DIALECTS[named]
            if dialect.checks_model and probe.models and model not in probe.models:
                what = f"serves no model {model!r}{did_you_mean(model, probe.models)}"
                raise Failure(what, f"it serves {', '.join(probe.models)}: correct 'model'")
        command = self._hosts.command(arm)
        served = weights(dialect.weights(probe, model), command, self._context.folder if command else None)
        return Server(arm, url, model, dialect, probe, dialect.rooms(self._hosts.log(arm), probe), served)

    def _source(self, arm: Arm) -> Source:
        """An arm's server, to be asked about texts."""
        server = self._server(arm)

        def ask(path: str, body: Mapping[str, Any]) -> Any:
            loop, client = self._connected()
            return loop.run(client.call(server.url + path, body, self._spec.timeout))

        return Source(ask, server.model, server.dialect, server.dialect.eos(server.probe))

    @contextmanager
    def _telling(self, arm: Arm, url: str) -> Iterator[None]:
        """Say in the engine's name what failed between us and a server; the key of the API is in no message."""
        try:
            yield
        except Failure as failure:
            self._hosts.check(arm, _WORD_SECONDS)
            if isinstance(failure, Failing):
                self._await_end(arm, url)
            what = f"{arm.value} server {url} {failure.what}"
            raise _KINDS.get(type(failure), EngineError)(
                self._name, self._hide(what), self._hide(failure.hint)
            ) from None

    def _await_end(self, arm: Arm, url: str) -> None:
        """Wait while a server that was started here is neither well nor gone. Raises Ended once it is gone."""
        page = arm_server(self._spec, arm).health
        until = time.monotonic() + _LAST_WORD_SECONDS
        while page and self._hosts.up(arm) and time.monotonic() < until and not self._well(url + page):
            self._hosts.check(arm, _WORD_SECONDS)
        self._hosts.check(arm, 0.0)

    def _well(self, page: str) -> bool:
        loop, client = self._connected()
        try:
            return loop.run(client.text(page)) is not None
        except Failure:
            return False

    def _hide(self, text: str) -> str:
        return text.replace(self._secret, MASK) if self._secret else text

    def _key(self) -> str:
        """The key of the API; empty where the suite names none. Raises EngineError where its variable is not set."""
        name = self._spec.api_key_env
        key = os.environ.get(name, "").strip() if name else ""
        if name and not key:
            raise EngineError(self._name, f"environment variable {name} is not set", "set it to the servers' API key")
        return key

    def _here(self) -> bool:
        """Whether all servers were started here, and nothing is said of where they compute."""
        return self._spec.place is None and all(map(self._hosts.runs, self._met()))

    def _connected(self) -> tuple[LoopThread, Client]:
        if self._loop is None or self._client is None:
            raise EngineError(self._name, "the engine is not started", "call start() before, and not after close()")
        return self._loop, self._client

    def _met(self) -> Mapping[Arm, Server]:
        self._connected()
        return self._servers

    def _server(self, arm: Arm) -> Server:
        if arm not in self._met():
            raise EngineError(self._name, f"the {arm.value} arm was not prepared", "name it in the context's arms")
        return self._servers[arm]
