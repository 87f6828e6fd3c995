"""Answers in the form that Spec-Bench's scripts read: one JSON line a question, one file an arm.

A question is a conversation; its choices are the rounds of measuring, each with the answers of all turns. A step is a
forward of the target, and an accept length is what it emitted; where end of text or the budget cut a block, what was
kept of it counts.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_specgate.errors import StoreError
from pytest_specgate.records import Arm, Measurement, Pair, Trace
from pytest_specgate.report.document import Report

#: By conversation, the category that its prompt file or its scenario names.
Categories = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answers:
    """Both files: the lines of each arm, in the order of the questions."""

    reference: tuple[str, ...]
    candidate: tuple[str, ...]


def chosen(report: Report, pattern: str = "") -> list[Measurement]:
    """The measured cases whose id holds the pattern. Raises StoreError where none does, or two answer one question."""
    every = [one for taken in report.measurements.values() for one in taken]
    found = [one for one in every if pattern in one.case]
    listed = ", ".join(one.case for one in every) or "none"
    if not found:
        raise StoreError(f"no measured case holds {pattern!r} — choose with --case from: {listed}")
    seen: dict[str, str] = {}
    for one in found:
        for cluster in dict.fromkeys(pair.cluster for pair in one.pairs):
            if cluster in seen:
                what = f"{seen[cluster]} and {one.case} both answer {cluster}, and a file holds one answer a question"
                raise StoreError(f"{what} — choose with --case from: {listed}")
            seen[cluster] = one.case
    return found


def answers(taken: Sequence[Measurement], created: str, categories: Categories) -> Answers:
    """Both arms' lines. Raises StoreError for an engine that tells no rounds, whose steps nobody knows."""
    stamp = dt.datetime.fromisoformat(created).timestamp()
    lines: dict[Arm, list[str]] = {arm: [] for arm in Arm}
    for one in taken:
        conversations: dict[str, list[Pair]] = {}
        for pair in one.pairs:
            conversations.setdefault(pair.cluster, []).append(pair)
        for name, pairs in conversations.items():
            for arm in Arm:
                question = _question(one, name, categories.get(name, _scenario(one)), arm)
                choices = list(_choices(one, pairs, arm))
                lines[arm].append(json.dumps({**question, "choices": choices, "tstamp": stamp}))
    return Answers(tuple(lines[Arm.REFERENCE]), tuple(lines[Arm.CANDIDATE]))


def _question(taken: Measurement, name: str, category: str, arm: Arm) -> dict[str, Any]:
    engine = taken.case.partition("::")[0]
    answer = hashlib.sha256(f"{taken.case}/{name}/{arm.value}".encode()).hexdigest()[:22]
    model = f"{engine}-vanilla" if arm is Arm.REFERENCE else engine
    number: int | str = int(name) if name.isdecimal() and name.isascii() else name
    return {"question_id": number, "category": category, "answer_id": answer, "model_id": model}


def _choices(taken: Measurement, pairs: Sequence[Pair], arm: Arm) -> Iterator[dict[str, Any]]:
    for index in dict.fromkeys(pair.round for pair in pairs):
        traces = [p.reference if arm is Arm.REFERENCE else p.candidate for p in pairs if p.round == index]
        lengths = [_accept_lengths(taken, trace) for trace in traces]
        yield {
            "index": index,
            "turns": [trace.text for trace in traces],
            "decoding_steps": [len(steps) for steps in lengths],
            "new_tokens": [trace.output_tokens for trace in traces],
            "wall_time": [trace.seconds for trace in traces],
            "accept_lengths": [length for steps in lengths for length in steps],
        }


def _accept_lengths(taken: Measurement, trace: Trace) -> list[int]:
    """Tokens by forward: one each without speculation."""
    if trace.arm is Arm.REFERENCE:
        return [1] * trace.output_tokens
    if trace.rounds is None:
        what = f"{taken.case}: the engine tells no rounds, so that its steps are not known"
        raise StoreError(f"{what} — export another case with --case")
    return [*([1] * trace.prefill_tokens), *(one.emitted for one in trace.rounds)]


def _scenario(taken: Measurement) -> str:
    """What the case's name tells of the scenario: all before the sampling setting and the concurrency."""
    return taken.case.partition("::")[2].rsplit("-", 2)[0]
