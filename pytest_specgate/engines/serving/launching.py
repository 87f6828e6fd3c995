"""From a suite's words to servers that can be started: commands with their files found, and whom to ask for a token."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from pytest_specgate.engines.base import EngineContext
from pytest_specgate.engines.serving.first_token import Question, probe
from pytest_specgate.engines.serving.hosts import Hosts
from pytest_specgate.engines.serving.process import Launch
from pytest_specgate.engines.store import PACKAGED, in_package
from pytest_specgate.masking import masker
from pytest_specgate.records import Arm
from pytest_specgate.suite.servers import PORT, ArmServer, ServerSpec


def hosts_for(context: EngineContext, spec: ServerSpec, headers: Mapping[str, str]) -> Hosts:
    """The servers of those arms of the context that have a command; none is started yet. Raises EngineError."""
    started = {arm: server for arm in context.arms if (server := arm_server(spec, arm)).command}
    launches = {arm: _launch(context, arm, server) for arm, server in started.items()}
    probes = {
        arm: probe(Question(context.name, called(arm), server.model or spec.model, spec.endpoint, headers))
        for arm, server in started.items()
    }
    return Hosts(launches, probes, apart=not spec.together)


def arm_server(spec: ServerSpec, arm: Arm) -> ArmServer:
    """What the suite says of this arm's server."""
    return spec.reference if arm is Arm.REFERENCE else spec.candidate


def called(arm: Arm) -> str:
    """The server in messages."""
    return f"the {arm.value} server"


def shown_command(server: ArmServer) -> str:
    """The command as a person would type it, without secrets: part of what is being judged."""
    return masker({**os.environ, **server.env})(shlex.join(server.command).replace(f"'{PORT}'", PORT))


def _launch(context: EngineContext, arm: Arm, server: ArmServer) -> Launch:
    return Launch(
        engine=context.name,
        who=called(arm),
        command=tuple(_found(argument, context.name) for argument in server.command),
        folder=context.folder,
        url=server.url or f"http://127.0.0.1:{PORT}",
        health=server.health,
        env=server.env,
        seconds=server.ready_timeout,
    )


def _found(argument: str, engine: str) -> str:
    return str(in_package(argument, engine)) if argument.startswith(PACKAGED) else argument
