"""What a server says of the tokens of a prompt, as scores: a text is sent as part of the prompt, and one token asked.

A difference of log-probabilities is a difference of logits, so regrets are the same. A server tells its most likely
tokens and no more. Scores of greedy choices need two of them; the chances of drawn tokens need all that a request
leaves possible, and where that much is not told nothing is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pytest_specgate.chances import Chances
from pytest_specgate.engines.serving.failures import Failure
from pytest_specgate.logits import Scores
from pytest_specgate.records import Sampling

#: Most likely tokens that are asked for: a server's own default limit.
TOP = 20
#: Chance that may be unaccounted for at a position: what no gate of drawn tokens could see.
UNTOLD = 5e-4
#: The log-probability of a token that the server gives none: less than anything that a gate would let pass.
IMPOSSIBLE = -1e4
#: Between these lies the log-probability of every most likely token; the upper leaves room for rounding.
_LOWEST, _HIGHEST = -100.0, 0.1
#: What a reader of JSON of another form than it knows runs into.
_MALFORMED = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError)
_SCORER = "check 'dialect', or name a 'scorer' in the suite"


class Told(NamedTuple):
    """One token of a prompt: its id, its log-probability, and those of the most likely tokens, the best first."""

    token: int
    own: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class PromptScores:
    """How a server software is asked for them: what is sent to ``path``, and the tokens of its answer.

    ``ask`` takes the ids of prompt and text, the number of most likely tokens, and the model. ``read`` gives an entry
    to a token, None where the server has nothing to say of it (the first). Both as pure functions.
    """

    path: str
    ask: Callable[[Sequence[int], int, str], dict[str, Any]]
    read: Callable[[Any], list[Told | None]]


def of_text(how: PromptScores, said: Any, prompt: int, text: Sequence[int]) -> list[Told]:
    """What was said of the text behind ``prompt`` tokens. Raises Failure where it is about other tokens."""
    try:
        told = how.read(said)[prompt : prompt + len(text)]
    except _MALFORMED:
        raise Failure("tells the scores of a prompt in a form that nobody knows", _SCORER) from None
    found = [one for one in told if one is not None]
    if [one.token for one in found] != list(text):
        what = f"scores other tokens than it was sent ({len(found)} of {len(text)} come back)"
        raise Failure(what, _SCORER)
    if any(len(one.top) < 2 for one in found):
        raise Failure("tells fewer than two log-probabilities of a token", "raise its limit of log-probabilities")
    return found


def scores(told: Sequence[Told]) -> Scores:
    """Log-probabilities in place of logits: their differences are the same."""
    best = [one.top[0] for one in told]
    # The token itself may lie above what rounding left of the list.
    highest = [max(score, one.own) for (_, score), one in zip(best, told)]
    second = [one.top[1][1] for one in told]
    return Scores(tuple(highest), tuple(token for token, _ in best), tuple(second), tuple(one.own for one in told))


def chances(told: Sequence[Told], sampling: Sampling) -> Chances:
    """The chances of drawn tokens under temperature and filters. Raises Failure where too little is told.

    A token beyond the list has the chance that it was told, in the middle of all that were not.
    """
    rows = [_row(one, sampling, at) for at, one in enumerate(told)]
    outside = tuple(at for at, row in enumerate(rows) if row is None)
    kept = [row or (0.0, 1.0, 1.0) for row in rows]
    columns = list(zip(*kept)) or [(), (), ()]
    return Chances(tuple(columns[0]), tuple(columns[1]), tuple(columns[2]), None, outside)


def _row(one: Told, sampling: Sampling, at: int) -> tuple[float, float, float] | None:
    """(chance, chance of what ranks above, highest chance); None where the request forbids the token."""
    best, temperature = one.top[0][1], sampling.temperature
    if not _LOWEST < best < _HIGHEST:
        raise Failure(f"tells {best:g} as the log-probability of its most likely token", _SCORER)
    weights = [math.exp((score - best) / temperature) for _, score in one.top]
    if sampling.top_k > len(weights):
        raise _too_little(at)
    rest = 0.0 if sampling.top_k else _rest(one, temperature, sum(weights), at)
    whole = math.fsum(weights) + rest
    odds, rest = _normal(weights[: sampling.top_k or None], rest)
    if sampling.top_p < 1:
        odds, rest = _normal(_nucleus(odds, sampling.top_p, at), 0.0)
    if sampling.min_p:
        if rest and odds[-1] >= sampling.min_p * odds[0]:
            raise _too_little(at)
        odds, rest = _normal([share for share in odds if share >= sampling.min_p * odds[0]], 0.0)
    ids = [token for token, _ in one.top[: len(odds)]]
    if one.token in ids:
        place = ids.index(one.token)
        return odds[place], min(sum(odds[:place]), 1.0 - odds[place]), odds[0]
    own = min(math.exp((one.own - best) / temperature) / whole, rest)
    return (own, 1.0 - rest + (rest - own) / 2, odds[0]) if rest else None


def _rest(one: Told, temperature: float, told: float, at: int) -> float:
    """The weight of all tokens that were not told, beside the best one's of 1."""
    left = max(0.0, 1.0 - math.fsum(math.exp(score) for _, score in one.top))
    best, last = one.top[0][1], one.top[-1][1]
    if temperature == 1.0 or not left:
        return left * math.exp(-best)
    # None of them is likelier than the last one that was told.
    most = left * math.exp((last - best) / temperature - last)
    if temperature > 1 or most > UNTOLD * told:
        raise _too_little(at)
    return most


def _normal(weights: Sequence[float], rest: float) -> tuple[list[float], float]:
    total = math.fsum(weights) + rest
    return [weight / total for weight in weights], rest / total


def _nucleus(odds: Sequence[float], top_p: float, at: int) -> list[float]:
    """The shortest list of the most likely that holds ``top_p``."""
    held, kept = 0.0, list[float]()
    for share in odds:
        if held >= top_p:
            return kept
        kept.append(share)
        held += share
    if held < top_p:
        raise _too_little(at)
    return kept


def _too_little(at: int) -> Failure:
    what = f"tells too few log-probabilities to judge drawn tokens (output token {at + 1})"
    return Failure(what, "raise its limit (vLLM: --max-logprobs), set the scenario's top_k, or name a 'scorer'")


def entry(token: int, own: object, top: Sequence[tuple[int, float]]) -> Told:
    """One token as it was told; minus infinity, which JSON has no word for, is a very small number."""
    score = float(own) if isinstance(own, (int, float)) and math.isfinite(own) else IMPOSSIBLE
    ranked = sorted(((t, s) for t, s in top if math.isfinite(s)), key=lambda pair: (-pair[1], pair[0]))
    return Told(token, score, tuple(ranked))


def mapping(value: object) -> Mapping[str, Any]:
    """A JSON object, or an empty one."""
    return value if isinstance(value, Mapping) else {}
