"""Which metrics of speculation a server software cannot tell, as far as a suite says which it is.

A gate on such a metric would be an ERROR of every run; the suite says so before any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_specgate.suite.servers import ServerSpec

_ROUNDS = ("conditional_acceptance", "acceptance_slope")
_ALL = ("acceptance_rate", "acceptance_length", *_ROUNDS)
_LOOKED_AT = "it does not tell which draft tokens the target looked at"
#: Software → (its name, what it cannot tell, why, what to gate instead).
_SILENT: Mapping[str, tuple[str, tuple[str, ...], str, str]] = {
    "sglang": ("SGLang", _ROUNDS, _LOOKED_AT, "gate acceptance_rate or acceptance_length"),
    "trtllm": ("TensorRT-LLM", _ROUNDS, _LOOKED_AT, "gate acceptance_rate or acceptance_length"),
    "tgi": ("TGI", ("acceptance_rate", *_ROUNDS), "it tells no draft tokens at all", "gate acceptance_length"),
    "plain": ("the OpenAI protocol", _ALL, "it says nothing of speculation", "gate speed and output"),
}
#: Words of commands that start it.
_PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "sglang": ("sglang",),
    "tgi": ("text-generation-launcher", "text-generation-server"),
    "trtllm": ("trtllm-serve",),
}


def software(spec: ServerSpec) -> str:
    """The candidate server's software, by the suite's word or its command; empty where neither tells."""
    if spec.dialect != "auto":
        return spec.dialect
    words = [word.rpartition("/")[2] for word in spec.candidate.command]
    return next((name for name, known in _PROGRAMS.items() if any(word.startswith(known) for word in words)), "")


def untold(metric: str, servers: Mapping[str, ServerSpec]) -> Iterator[tuple[str, str]]:
    """(what, what to do) for every engine, by name, whose server cannot tell this metric."""
    for engine, spec in servers.items():
        name, silent, why, instead = _SILENT.get(software(spec), ("", (), "", ""))
        if metric in silent:
            yield f"{metric} is not told by {name} (engine {engine!r}): {why}", instead
