"""``${env:NAME}`` in suites: models and servers may be named by the environment, nothing else may.

It is replaced in ``target``, ``draft``, ``options`` and ``server`` of an engine, after YAML is read, so a value cannot
become structure. ``$${`` stands for a literal ``${``. What goes into a server's command or environment may be a key,
and is masked wherever it would be shown. A variable that is unset or empty is an error: a run against a half-written
address would measure something else. Messages name the variable and never show its value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as Environment

from pytest_specgate import masking
from pytest_specgate.errors import SuiteError
from pytest_specgate.suite.nodes import Mapping, Node, Scalar, Sequence

_PATTERN = re.compile(r"\$\$\{|\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}|\$\{")
_ENGINE = r"(engines/[^/]+|matrix/engine|matrix/axes/[^/]+/[^/]+|matrix/rules//engine)"
_PLACES = re.compile(_ENGINE + r"/(target|options/.*|candidate/(draft|options/.*)|server/.*)")
# Here ``${port}`` stays, for it is known only when a server is started.
_PORTS = re.compile(_ENGINE + r"/server/(reference|candidate)/(url|command/|env/.*)")
_MAY_BE_KEYS = re.compile(_ENGINE + r"/server/(reference|candidate)/(command/|env/.*)")


def substitute(tree: Mapping, environ: Environment[str, str]) -> Mapping:
    """The tree with the environment filled in.

    Raises SuiteError at an unset variable, an unknown ``${…}``, or one where nothing is replaced.
    """
    replaced = _walk(tree, "", environ)
    return replaced if isinstance(replaced, Mapping) else tree


def _walk(node: Node, path: str, environ: Environment[str, str]) -> Node:
    if isinstance(node, Scalar):
        return _scalar(node, path, environ) if isinstance(node.value, str) and "${" in node.value else node
    if isinstance(node, Sequence):
        return Sequence(tuple([_walk(item, path + "/", environ) for item in node.items]), node.location)
    items = {key: _walk(value, f"{path}/{key}" if path else key, environ) for key, value in node.items.items()}
    return Mapping(items, node.keys, node.location)


def _scalar(node: Scalar, path: str, environ: Environment[str, str]) -> Scalar:
    if not _PLACES.fullmatch(path):
        if "${env:" in node.text.replace("$${", ""):
            raise SuiteError(
                node.location, "'${env:…}' is not replaced here", "use it in target, draft, options or server only"
            )
        return Scalar(str(node.value).replace("$${env:", "${env:"), node.text, node.location)

    def value(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        name = match[1]
        if name is None and match.string.startswith("${port}", match.start()) and _PORTS.fullmatch(path):
            return match[0]
        if name is None:
            raise SuiteError(
                node.location, "'${' without 'env:NAME}'", "write '${env:NAME}', or '$${' for a literal '${'"
            )
        if not environ.get(name):
            raise SuiteError(
                node.location,
                f"environment variable {name} is not set",
                f"set {name}, or write the value here",
            )
        if _MAY_BE_KEYS.fullmatch(path):
            masking.learn_part(name)
        return environ[name]

    return Scalar(_PATTERN.sub(value, str(node.value)), node.text, node.location)
