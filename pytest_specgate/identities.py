"""The identities that hold in every trace, whatever the engine: one that breaks them was counted wrongly."""

from __future__ import annotations

from itertools import pairwise

from pytest_specgate.records import Round, Trace


def trace_problems(trace: Trace) -> tuple[str, ...]:
    """Every identity that the trace breaks, in words; empty for a valid trace.

    The identities: ``0 <= accepted <= tested <= drafted`` · ``tested <= accepted + 1`` · ``accepted + 1 - cut ==
    emitted`` with ``cut > 0`` in the last round only · ``prefill + Σ emitted == output tokens`` · chunks (and
    log-probabilities, if told) add up to the output · times never decrease · something was generated.
    """
    problems = []
    if not trace.output_tokens:
        problems.append("no output token")
    if not trace.chunks:
        problems.append("no chunk was delivered")
    elif sum(chunk.tokens for chunk in trace.chunks) != trace.output_tokens:
        delivered = sum(chunk.tokens for chunk in trace.chunks)
        problems.append(f"chunks deliver {delivered} tokens, the output has {trace.output_tokens}")
    times = (trace.submit_ns, *(chunk.t_ns for chunk in trace.chunks))
    if any(later < earlier for earlier, later in pairwise(times)):
        problems.append("chunk times decrease")
    if trace.logprobs is not None and len(trace.logprobs) != trace.output_tokens:
        problems.append(f"log-probabilities of {len(trace.logprobs)} tokens, the output has {trace.output_tokens}")
    if trace.rounds is not None:
        problems.extend(_round_problems(trace, trace.rounds))
    return tuple(problems)


def _round_problems(trace: Trace, rounds: tuple[Round, ...]) -> list[str]:
    problems = []
    for number, r in enumerate(rounds, start=1):
        if not 0 <= r.accepted <= r.tested <= r.drafted:
            problems.append(
                f"round {number}: accepted {r.accepted}, tested {r.tested}, drafted {r.drafted} are out of order"
            )
        if r.tested > r.accepted + 1:
            problems.append(f"round {number}: tested {r.tested} tokens though only {r.accepted} were accepted")
        cut = r.accepted + 1 - r.emitted
        if cut < 0 or (cut > 0 and number < len(rounds)):
            problems.append(f"round {number}: accepted {r.accepted} but emitted {r.emitted}")
    emitted = trace.prefill_tokens + sum(r.emitted for r in rounds)
    if emitted != trace.output_tokens:
        problems.append(f"rounds emit {emitted} tokens, the output has {trace.output_tokens}")
    if any(later.t_ns < earlier.t_ns for earlier, later in pairwise(rounds)):
        problems.append("round times decrease")
    return problems
