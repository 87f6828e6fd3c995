"""The zoo's table: what a run of several seeds came to, as the page ``docs/faults.md``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from tests.faults.entry import Entry

#: Parts of the corpus by the first number behind them.
PARTS = ((23, "A. What is said"), (35, "B. Acceptance"), (42, "C. Speed"), (47, "D. Memory"), (52, "E. Stability"))
#: Faults of clients that measure a stream: they need a server that streams, which the serving part brings.
ELSEWHERE = (
    ("V52", "time between tokens taken as the gap between chunks"),
    ("V53", "a chunk counted as a token"),
    ("V54", "time to first token taken at a chunk that holds a role only"),
    ("V55", "time to first token taken at the first content, though reasoning was streamed before"),
    ("V56", "no usage reported, and the text split into tokens anew"),
    ("V57", "random prompts, or an end of text that is ignored, distort acceptance"),
)
HEAD = """# The fault zoo

Real faults of speculative decoders, rebuilt in miniature on this project's own decoder with one part exchanged, and
judged by the shipped gates at one and the same demands (`tests/faults/settings.py`). Every entry has a right decoder,
whose numbers are the baseline and which has to be green on every seed. Models are tiny and random (float64 unless
said), or a table of the next token's scores. Times are simulated, and memory is a counter of bytes: no GPU was at hand
for a real one of parts C and D.

*Caught* means FAIL or ERROR of a gate that is named here, on a seed whose right decoder is green. *After* is what the
candidate arm had made by then (the median over seeds): its tokens, or its requests where it broke off. Written by
`python -m tests.faults`; one seed of every entry runs with the tests.
"""

BEYOND = "V and N are the public corpus' numbers; X counts faults of our own, which no public report names."


@dataclass(frozen=True, slots=True)
class Result:
    """One seed of an entry. ``gates`` turned red; ``tokens`` were enough, ``requests`` where it broke off.

    ``right`` says that the decoder without the fault was green, ``pardoned`` that the faulty one was so where it has to
    be. ``commit`` is the software that ran.
    """

    id: str
    seed: int
    ok: bool
    right: bool
    pardoned: bool
    gates: tuple[str, ...]
    requests: int
    tokens: int
    error: bool
    commit: str = ""


def page(entries: Sequence[Entry], results: Sequence[Result]) -> str:
    """The whole page."""
    faults, sound, more = ([entry for entry in entries if entry.id[0] == letter] for letter in "VNX")
    lines = [HEAD, f"This run: {_seeds(entries, results)}, {_commits(results)}; {_total(faults, more, results)}.\n"]
    for part, (end, title) in enumerate(PARTS):
        begin = PARTS[part - 1][0] if part else 0
        chosen = [entry for entry in faults if begin <= int(entry.id[1:]) < end]
        lines += [f"## {title}\n", *_rows(chosen, results), ""]
    lines += ["## N. What looks like a fault and is none\n", *_rows(sound, results), ""]
    lines += [f"## X. Beyond the corpus\n\n{BEYOND}\n", *_rows(more, results), ""]
    lines += ["## F. Clients\n", "Rebuilt on a fake streaming server, in `tests/serving/test_faults_of_clients.py`:\n"]
    lines += [f"- {number}: {title}" for number, title in ELSEWHERE]
    notes = [f"- {entry.id}: {entry.note}" for entry in entries if entry.note]
    return "\n".join([*lines, "", "## Notes\n", *notes, ""])


def _total(faults: Sequence[Entry], more: Sequence[Entry], results: Sequence[Result]) -> str:
    said = [f"{_whole(faults, results)} of {len(faults)} faults caught on all of theirs"]
    said += [f"{_whole(more, results)} of {len(more)} beyond the corpus"] if more else []
    return ", ".join(said)


def _whole(faults: Sequence[Entry], results: Sequence[Result]) -> int:
    seen = {entry.id: [result.ok for result in results if result.id == entry.id] for entry in faults}
    return sum(bool(own) and all(own) for own in seen.values())


def _seeds(entries: Sequence[Entry], results: Sequence[Result]) -> str:
    """Seeds of each entry: a run that was stopped has one more of some."""
    counts = [sum(result.id == entry.id for result in results) for entry in entries]
    least, most = min(counts, default=0), max(counts, default=0)
    return f"{least} seeds of each entry" if least == most else f"{least} to {most} seeds of each entry"


def _commits(results: Sequence[Result]) -> str:
    """What ran: the commits of most entries by their seeds, and the entries that were run again."""
    by_entry: dict[str, list[tuple[int, str]]] = {}
    for result in results:
        by_entry.setdefault(result.id, []).append((result.seed, result.commit or "unknown"))
    alike: dict[str, list[str]] = {}
    for name, own in by_entry.items():
        alike.setdefault(_stretches(sorted(own)), []).append(name)
    usual, *others = sorted(alike.items(), key=lambda item: -len(item[1])) or [("at unknown", [])]
    again = [f"{', '.join(names)} {where}" for where, names in others]
    return usual[0] + (f" ({'; '.join(again)})" if again else "")


def _stretches(own: Sequence[tuple[int, str]]) -> str:
    """Which seeds of an entry ran at which commit."""
    parts = []
    for commit, group in groupby(own, key=lambda one: one[1]):
        seeds = [seed for seed, _ in group]
        numbers = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
        parts.append((numbers, f"at commit {commit}"))
    if len(parts) == 1:
        return parts[0][1]
    return "seeds " + ", ".join(f"{numbers} {where}" for numbers, where in parts)


def _rows(entries: Sequence[Entry], results: Sequence[Result]) -> Iterator[str]:
    yield "| id | fault | what is broken | red | after | as it should be |"
    yield "|---|---|---|---|---|---|"
    for entry in entries:
        own = [result for result in results if result.id == entry.id]
        cells = (entry.id, entry.title, entry.broken, _red(entry, own), _after(entry, own), _count(own))
        yield f"| {' | '.join(cells)} |"


def _red(entry: Entry, own: Sequence[Result]) -> str:
    if entry.rule:
        return f"rule `{entry.rule}`"
    if _broke_off(own):
        return "all: ERROR"
    often = [gate for gate in _named(own) if 2 * sum(gate in r.gates for r in own) > len(own)]
    shown = [gate for gate in often if gate in entry.gates] if entry.gates else often
    more = len(often) - len(shown)
    told = ", ".join(f"`{gate}`" for gate in shown) + (f" and {more} more" if more else "")
    return told or ("none" if not entry.gates else "NOT CAUGHT")


def _named(own: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(gate for result in own for gate in result.gates))


def _after(entry: Entry, own: Sequence[Result]) -> str:
    if not own:
        return ""
    if _broke_off(own):
        return f"{median(result.requests for result in own):.0f} requests"
    return f"{median(result.tokens for result in own):.0f} tokens"


def _broke_off(own: Sequence[Result]) -> bool:
    return sum(result.error for result in own) * 2 > len(own)


def _count(own: Sequence[Result]) -> str:
    said = f"{sum(r.ok for r in own)} of {len(own)}"
    if not all(r.right for r in own):
        said += f" (right decoder red on {sum(not r.right for r in own)})"
    if not all(r.pardoned for r in own):
        said += f" (not pardoned on {sum(not r.pardoned for r in own)})"
    return said
