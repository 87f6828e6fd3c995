"""Greedy exactness: that every token of the candidate's text is the target's own choice, as far as rounding lets tell.

Two right evaluations of one token differ by rounding, so a token may lie a little below the target's choice. How
little is measured: the control changes how many tokens a forward reads and sees what that does to the margins of
tokens which the target chose. A real fault shows as one regret far beyond that noise, as two beyond it, or as more
near ties than right software has. The reference arm's own texts stand the same test first: a machine whose target
regrets its own tokens cannot blame a decoder.

A server's texts are scored from outside, by another arithmetic than chose them and perhaps other weights in few bits.
There the reference server's choices are the control, and only what the candidate says otherwise than the reference is
judged: a token that the target alone chose too is no decoder's fault.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_specgate.gates.context import JudgeContext, Judged, NoVerdict
from pytest_specgate.gates.noise import FINE, LEAST_OUTSIDE, is_tie, tied_within, tolerance
from pytest_specgate.gates.parts import declared, unmeasured
from pytest_specgate.logits import Between, Choices, Control, Divergence, TextRegrets
from pytest_specgate.records import Check, Interval, Outcome, Samples, Stored
from pytest_specgate.stats.choosing import beyond, more_than
from pytest_specgate.stats.proportions import chance_of_more
from pytest_specgate.suite.cases import Gate

#: Beyond this, in logits, a near tie and a fault look alike.
MOST_NOISE = 0.75
#: With fewer control tokens their largest change says little.
LEAST_CONTROL = 128
_OTHER_SCORER = "score with the server's own weights and dtype, or by the server itself"


def judge(gate: Gate, samples: Samples, stored: Stored | None, context: JudgeContext) -> Judged:  # noqa: ARG001 - as all
    """The check of one exactness gate. Raises NoVerdict where no text was scored."""
    found = _found(gate, samples, context)
    noise = tolerance(found.control, context.place.dtype)
    tied = tied_within(found.control, context.place.dtype)
    outcome, reason, needed = _judged(found, noise, context)
    if outcome is Outcome.PASS and found.max_tv is None and (parted := _real(found, tied)):
        outcome, (reason, needed) = Outcome.INCONCLUSIVE, _unexplained(parted[0])
    share = 1 - (_beyond(found.candidate, noise) + len(_bad_ends(found, tied))) / _tokens(found.candidate)
    value = Interval(share, share, share)
    required = gate.spec.limit.text if gate.spec.limit else ""
    check = Check("limit", required, outcome, f"greedy exactness: {declared(found.max_tv)}{reason}", value, needed)
    return Judged((check,), value, warnings=tuple(_notes(found, tied)))


def _found(gate: Gate, samples: Samples, context: JudgeContext) -> Choices:
    if not samples.greedy:
        what = f"{gate.spec.metric} asks for the target's highest choice, and this case samples"
        raise NoVerdict(what, "narrow the gate with 'scenarios', or set the scenario's temperature to 0")
    if samples.choices is None or not _tokens(samples.choices.candidate):
        hint = "remove the gate, or use an engine that scores texts"
        raise unmeasured(gate.spec.metric, context.engine, hint)
    return samples.choices


def _judged(found: Choices, noise: float, context: JudgeContext) -> tuple[Outcome, str, str]:
    """(outcome, what was found, what would decide)."""
    if refusal := _refusal(found, noise):
        return Outcome.INCONCLUSIVE, *refusal
    if found.control.between is not None and found.max_tv is None:
        return _from_outside(found, found.control.between, noise, context)
    if found.max_tv is not None:
        return *_effect(found, noise, found.max_tv), ""
    if fault := _fault(found, noise, context):
        return Outcome.FAIL, fault, ""
    tokens = _tokens(found.candidate)
    if _beyond(found.candidate, noise):
        said = f"one of {tokens} tokens lies beyond the target's noise: {_worst(found.candidate, noise)}"
        return Outcome.INCONCLUSIVE, said, "more prompts would tell: a second such token fails"
    largest = max(max(text.regrets, default=0.0) for text in found.candidate)
    said = f"all {tokens} tokens are the target's choice within its noise of {noise:.3g} logits"
    return Outcome.PASS, f"{said} (largest regret {largest:.3g}, {_ties(found.candidate)} near ties)", ""


def _from_outside(found: Choices, law: Between, noise: float, context: JudgeContext) -> tuple[Outcome, str, str]:
    """The same for texts of servers: of the candidate's tokens only those that the reference arm did not choose too."""
    tokens, own = _tokens(found.candidate), [replace(t, regrets=t.own_regrets) for t in found.candidate]
    # No token is called wrong that lies about as far off as one that the target chose by itself.
    limit = max(noise, law.worst)
    if ends := _bad_ends(found, limit):
        return Outcome.FAIL, f"the text of {ends[0]}", ""
    if not _tokens(own):
        return Outcome.PASS, f"all {tokens} tokens are those that the reference server chose", ""
    if _off(own, limit):
        said = f"{_beyond(own, limit)} of {tokens} tokens are not the target's choice: {_worst_own(found, limit)}"
        return Outcome.FAIL, said, ""
    if said := _more_flips(found, own, context):
        return Outcome.FAIL, said, ""
    if noise > MOST_NOISE:
        said = f"server and scorer disagree by up to {noise:.3g} logits, and more than {MOST_NOISE} hides faults"
        return Outcome.INCONCLUSIVE, said, _OTHER_SCORER
    if _beyond(own, limit):
        said = f"one of {tokens} tokens lies beyond the noise: {_worst_own(found, limit)}"
        return Outcome.INCONCLUSIVE, said, "more prompts would tell: a second such token fails"
    if _beyond(own, max(noise, MOST_NOISE)):
        said = f"no token lies farther off than one of the reference server's own ({law.worst:.3g} logits), which hides"
        said += f" faults: {_worst_own(found, noise)}"
        return Outcome.INCONCLUSIVE, said, _OTHER_SCORER
    said = f"all {tokens} tokens are the target's choice within {limit:.3g} logits of noise between server and scorer"
    return Outcome.PASS, f"{said} ({_tokens(own)} differ from the reference server's, {_ties(own)} near ties)", ""


def _more_flips(found: Choices, own: Sequence[TextRegrets], context: JudgeContext) -> str:
    """Near ties where the texts differ, beyond chance: against the reference's there, and against the noise's law."""
    theirs, law = [replace(text, regrets=text.own_regrets) for text in found.reference], found.control.between
    many, of, few, out_of = _ties(own), _tokens(own), _ties(theirs), _tokens(theirs)
    if law is None or not out_of or chance_of_more(many, of, few, out_of) >= context.alpha:
        return ""
    # Where texts part both tokens nearly tie, whoever is right.
    explained = beyond(of, law.density, max(law.scale, LEAST_OUTSIDE / 2), 0.0) + len(found.divergences)
    if more_than(many, explained) >= context.alpha:
        return ""
    said = f"{many} of the {of} tokens that differ from the reference server's lie below the target's choice"
    return f"{said}: more than chance (the reference's {few} of {out_of}, and noise explains {explained:.0f})"


def _worst_own(found: Choices, noise: float) -> str:
    """As :func:`_worst`, of the tokens that are the candidate's own."""
    marked = [
        replace(t, regrets=tuple(r if t.own is None or at in t.own else -1.0 for at, r in enumerate(t.regrets)))
        for t in found.candidate
    ]
    return _worst(marked, noise)


def _effect(found: Choices, noise: float, most: float) -> tuple[Outcome, str]:
    """Where the target has one choice, its distance from what was emitted is the share of other tokens."""
    if ends := _bad_ends(found, math.inf):  # an end of text is one of the tokens that may be others
        return Outcome.FAIL, f"the text of {ends[0]}"
    other, tokens = _beyond(found.candidate, noise), _tokens(found.candidate)
    said = f"{other} of {tokens} tokens are not the target's choice: {other / tokens:.2%}, and {most:.2%} is declared"
    return Outcome.PASS if other <= most * tokens else Outcome.FAIL, said


def _refusal(found: Choices, noise: float) -> tuple[str, str] | None:
    """Why this machine cannot tell, and what would; None where it can."""
    control = found.control
    if control.tokens < LEAST_CONTROL:
        said = f"a control of {control.tokens} tokens says too little of the target's noise"
        return said, f"raise max_tokens or add prompts: it takes {LEAST_CONTROL}"
    if noise > MOST_NOISE and control.between is None:
        said = f"the target's own arithmetic moves margins by up to {control.gap_change:.3g} logits here"
        said += f", and noise of {noise:.3g} hides faults (at most {MOST_NOISE})"
        if control.self_change >= control.gap_change:
            return (
                said,
                "find out why the same forward differs when it runs again: kernels that add in any order, memory",
            )
        return said, "gate exactness with dtype: float32 too, or with kernels that do not depend on the batch"
    if _off(found.reference, noise):
        said = f"the reference arm fails the same test ({_worst(found.reference, noise)})"
        who = "the target disagrees with itself" if control.between is None else "server and scorer disagree"
        said += f": on this machine {who}, which is not the decoder's doing"
        hint = "run the case with dtype: float32: where that decides it, this dtype's kernels differ by the batch; "
        hint += "where it does not, find out how one-token decoding and scoring differ: processors, caches"
        return said, hint if control.between is None else "name a scorer with the servers' own target and dtype"
    return None


def _fault(found: Choices, noise: float, context: JudgeContext) -> str:
    """What the target would not have said; empty if there is nothing."""
    tokens = _tokens(found.candidate)
    if _off(found.candidate, noise):
        beyond = _beyond(found.candidate, noise)
        return f"{beyond} of {tokens} tokens are not the target's choice: {_worst(found.candidate, noise)}"
    if ends := _bad_ends(found, noise):
        more = f" (and {len(ends) - 1} more)" if len(ends) > 1 else ""
        return f"the text of {ends[0]}{more}"
    if _invariant(found, context.place.dtype) and found.divergences:
        part = found.divergences[0]
        said = f"the texts part at {part.prompt}, output token {part.position + 1}, though on this machine forwards"
        return f"{said} of 1 and {found.control.width} tokens agree to the last bit"
    return _more_ties(found, context)


def _more_ties(found: Choices, context: JudgeContext) -> str:
    """Near ties beyond chance, against the reference's texts and against what verifying does by itself."""
    many, of = _ties(found.candidate), _tokens(found.candidate)
    few, out_of = _ties(found.reference), _tokens(found.reference)
    control = found.control
    # All looks share the error rate of a check, and this one looks once.
    if chance_of_more(many, of, few, out_of) >= context.alpha:
        return ""
    if chance_of_more(many, of, control.wide_ties, control.tokens) >= context.alpha:
        return ""
    own = f"the reference arm's {few} of {out_of}, the control's {control.wide_ties} of {control.tokens}"
    return f"{many} of {of} tokens lie below the target's choice, each within its noise: more than chance ({own})"


def _invariant(found: Choices, dtype: str) -> bool:
    return dtype in FINE and found.control.agree and not found.control.self_change and not found.restless


def _off(texts: Sequence[TextRegrets], noise: float) -> bool:
    """One regret of more than twice the noise, or two of more than it."""
    return _beyond(texts, 2 * noise) > 0 or _beyond(texts, noise) > 1


def _beyond(texts: Sequence[TextRegrets], noise: float) -> int:
    return sum(regret > noise for text in texts for regret in text.regrets)


def _ties(texts: Sequence[TextRegrets]) -> int:
    return _beyond(texts, 0.0)


def _tokens(texts: Sequence[TextRegrets]) -> int:
    return sum(len(text.regrets) for text in texts)


def _bad_ends(found: Choices, tied: float) -> list[str]:
    """Prompts whose candidate text ends wrongly, and how: not where the reference arm's own ends so too."""
    excused = {text.prompt for text in found.reference if text.bad_end}
    ends = {text.prompt: text.bad_end for text in found.candidate if text.bad_end}
    for part in _real(found, tied):
        if part.candidate_id is None and part.reference_id is not None:
            ends.setdefault(part.prompt, f"breaks off after {part.position} tokens, where the reference arm's goes on")
        elif part.reference_id is None and part.candidate_id is not None and part.regret is None:
            ends.setdefault(part.prompt, f"goes on after {part.position} tokens, where the reference arm's ends")
    return [f"{prompt} {how}" for prompt, how in ends.items() if prompt not in excused]


def _real(found: Choices, tied: float) -> list[Divergence]:
    return [part for part in found.divergences if not is_tie(part, tied)]


def _unexplained(part: Divergence) -> tuple[str, str]:
    """Texts that part by more than noise where nothing of the candidate's is wrong: (what was found, what would)."""
    said = f"the texts of {part.prompt} part at output token {part.position + 1} by more than the target's noise"
    said += ", and no token or end of the candidate's is wrong by itself"
    return said, "find out why the reference arm's text is another: its own ends, its unrest between rounds"


def _worst(texts: Sequence[TextRegrets], noise: float) -> str:
    regret, prompt, position = max(
        ((regret, text.prompt, i) for text in texts for i, regret in enumerate(text.regrets)), key=lambda row: row[0]
    )
    return f"{prompt}, output token {position + 1}, lies {regret:.3g} logits below it, and its noise is {noise:.3g}"


def _notes(found: Choices, tied: float) -> Iterator[str]:
    control = found.control
    if (law := control.between) is not None:
        off = f"control: {control.tokens} tokens of the reference server, the worst {law.worst:.3g} logits off"
        yield f"{off}{_in_other_forwards(control)}"
    elif found.control_fresh:
        yield f"control: {control.tokens} tokens in {control.seconds:.0f} s, kept for later runs and not counted"
    if found.restless:
        yield f"the reference arm gave {found.restless} prompts another text in another round: not the decoder's doing"
    if control.self_change and law is None:
        yield f"one-token forwards run again differ by up to {control.self_change:.3g} logits on this machine"
    if found.divergences:
        real = len(_real(found, tied))
        yield f"texts that part: {len(found.divergences) - real} by numerical_tie, {real} by real_divergence"


def _in_other_forwards(control: Control) -> str:
    """What became of the scores when they were asked for again, and of the first halves alone; empty where unknown."""
    if control.agree:
        return "; asked again, and in shorter forwards, the scores are the same to the last digit"
    moved = max(control.self_change, control.scoring_change)
    told = f"by up to {moved:.2g} logits: the scorer's kernels are not batch-invariant"
    return f"; asked again, or in shorter forwards, margins differ {told}" if moved else ""
