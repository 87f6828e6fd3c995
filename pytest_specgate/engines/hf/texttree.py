"""Texts as a tree in which each token that several of them begin with stands once, and in which order it is read.

Nodes are numbered depth first, so the ancestors of a node are those whose range holds it, and a forward that reads a
range of nodes needs of what was read before only the way to the first of them. A token that closes a text is scored by
the node before it and needs no node of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: Ids of a prompt and of what answers it; neither is empty.
Ids = tuple[Sequence[int], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Tree:
    """Nodes by number: token, parent (-1 for a beginning), depth, and the first number after all its descendants.

    ``before`` holds, for each text, the node before each token of its answer.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    depths: tuple[int, ...]
    ends: tuple[int, ...]
    before: tuple[tuple[int, ...], ...]

    def way(self, node: int) -> list[int]:
        """The node's ancestors, from the beginning on."""
        found = []
        while (node := self.parents[node]) >= 0:
            found.append(node)
        return found[::-1]


@dataclass(frozen=True, slots=True)
class Use:
    """The tokens of a text from the ``at``-th on that a stretch scores, by the places of their rows within it."""

    text: int
    at: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Nodes ``begin`` to ``end`` that one forward reads after ``way``; ``scored`` are those whose logits are used."""

    begin: int
    end: int
    way: tuple[int, ...]
    scored: tuple[int, ...]
    uses: tuple[Use, ...]


def tree_of(texts: Sequence[Ids]) -> Tree:
    """The tree of these texts."""
    tokens, parents, ends = list[int](), list[int](), list[int]()
    depths = list[int]()
    before: list[tuple[int, ...]] = [()] * len(texts)
    read = [(*prompt, *answer[:-1]) for prompt, answer in texts]
    way, last = list[int](), tuple[int, ...]()
    for number in sorted(range(len(texts)), key=lambda number: read[number]):
        shared = _shared(last, read[number])
        for node in way[shared:]:
            ends[node] = len(tokens)
        del way[shared:]
        for token in read[number][shared:]:
            parents.append(way[-1] if way else -1)
            depths.append(len(way))
            way.append(len(tokens))
            tokens.append(token)
            ends.append(0)
        last = read[number]
        before[number] = tuple(way[len(texts[number][0]) - 1 :])
    for node in way:
        ends[node] = len(tokens)
    return Tree(tuple(tokens), tuple(parents), tuple(depths), tuple(ends), tuple(before))


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens both begin with."""
    for place, (a, b) in enumerate(zip(one, other)):
        if a != b:
            return place
    return min(len(one), len(other))


def stretches(tree: Tree, width: int, rows: int) -> Iterator[Stretch]:
    """The whole tree in order, in stretches of about ``width`` nodes that score at most ``rows`` each."""
    wanted = {node for nodes in tree.before for node in nodes}
    users = _users(tree)
    count = len(tree.tokens)
    even = -(-count // max(1, -(-count // width)))  # the last one as long as the others
    begin = 0
    while begin < count:
        end, scored = begin, list[int]()
        while end < count and end - begin < even and (len(scored) < rows or end not in wanted):
            if end in wanted:
                scored.append(end)
            end += 1
        place = {node: row for row, node in enumerate(scored)}
        yield Stretch(begin, end, tuple(tree.way(begin)), tuple(scored), tuple(_uses(scored, place, users)))
        begin = end


def _users(tree: Tree) -> dict[int, list[tuple[int, int]]]:
    """(text, place in its answer) by the node that scores it."""
    found: dict[int, list[tuple[int, int]]] = {}
    for text, nodes in enumerate(tree.before):
        for at, node in enumerate(nodes):
            found.setdefault(node, []).append((text, at))
    return found


def _uses(scored: Sequence[int], place: dict[int, int], users: dict[int, list[tuple[int, int]]]) -> Iterator[Use]:
    by_text: dict[int, list[tuple[int, int]]] = {}
    for node in scored:
        for text, at in users[node]:
            by_text.setdefault(text, []).append((at, place[node]))
    for text, found in by_text.items():
        yield Use(text, found[0][0], tuple(row for _, row in found))
