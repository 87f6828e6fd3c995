"""What an engine over servers tells of them, once met: where they run, what they are asked, what is judged."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from urllib.parse import urlsplit

from pytest_specgate.engines.base import SERVER_DEVICE
from pytest_specgate.engines.hf.machine import cpu_cores, cpu_model
from pytest_specgate.engines.serving.launching import arm_server, shown_command
from pytest_specgate.engines.serving.met import Server
from pytest_specgate.records import Place
from pytest_specgate.suite.servers import ServerSpec


def place(last: Server, *, here: bool) -> Place:
    """Where the servers run: this machine if they are ``here``, else the last one's host and software."""
    if here:
        return Place(cpu_model(), cpu_cores(), "served")
    return Place(f"{urlsplit(last.url).hostname} {last.dialect.name}", 1, "served")


def workload(spec: ServerSpec, first: Server) -> dict[str, str]:
    """The model's name as it is served, the first server's weights as far as they are told, and how it is asked."""
    found = {"target": spec.model, "endpoint": spec.endpoint}
    found |= {"weights": first.weights} if first.weights else {}
    return found | ({"body": json.dumps(spec.body, sort_keys=True)} if spec.body else {})


def subject(spec: ServerSpec, servers: Collection[Server], *, here: bool) -> dict[str, str]:
    """Every server's software, version and what else it tells of itself.

    What is ``here`` computes here, unless the suite names another device of this machine.
    """
    found = {"engine": "openai", "device": "cpu" if here else _hosts(servers)}
    for server in servers:
        prefix = server.arm.value
        facts = {"server": server.software, "weights": server.weights, **server.dialect.facts(server.probe)}
        found |= {f"{prefix}_{name}": told for name, told in facts.items() if told}
        if (own := arm_server(spec, server.arm)).command:
            found[f"{prefix}_command"] = shown_command(own)
    return found


def _hosts(servers: Iterable[Server]) -> str:
    return SERVER_DEVICE + "+".join(sorted({urlsplit(server.url).hostname or "" for server in servers}))
