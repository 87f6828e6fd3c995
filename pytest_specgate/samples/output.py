"""What the two arms said: identical ids, lengths, bookkeeping, and closeness of the texts."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_specgate.records import Pair, Trace
from pytest_specgate.samples import text


def series(pairs: Sequence[Pair], wanted: frozenset[str], *, greedy: bool) -> dict[str, tuple[float, ...]]:
    """One value per round. Text scores of a greedy run are those of its first round: the rest repeats it."""
    found = {
        "exact_match": tuple(float(p.reference.token_ids == p.candidate.token_ids) for p in pairs),
        "length_ratio": tuple(p.candidate.output_tokens / p.reference.output_tokens for p in pairs),
        "token_accounting": tuple(float(not accounting_problems(p.candidate)) for p in pairs),
    }
    scored = pairs[:1] if greedy else pairs
    for name, score in text.SCORES.items():
        if name in wanted:
            found[name] = tuple(score(p.candidate.text, p.reference.text) for p in scored)
    return found


def accounting_problems(trace: Trace) -> list[str]:
    """What does not add up between the ids returned, the usage reported, the budget and the stop that was claimed."""
    problems = []
    ids, eos = trace.token_ids, set(trace.eos_ids)
    if trace.usage_tokens is not None and trace.usage_tokens != len(ids):
        problems.append(f"usage says {trace.usage_tokens} tokens, {len(ids)} were returned")
    if trace.max_tokens and len(ids) > trace.max_tokens:
        problems.append(f"{len(ids)} tokens for a budget of {trace.max_tokens}")
    if any(token in eos for token in ids[:-1]):
        problems.append("text goes on after the end-of-text token")
    if trace.finish == "length" and trace.max_tokens and len(ids) != trace.max_tokens:
        problems.append(f"finished for length after {len(ids)} of {trace.max_tokens} tokens")
    if trace.finish == "eos" and (not ids or ids[-1] not in eos):
        problems.append("finished for end of text without an end-of-text token")
    return problems
