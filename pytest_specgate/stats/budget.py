"""How the build's error budget is shared: a build fails if any check fails, so each check gets an equal part."""

from __future__ import annotations

#: Chance that a build without any change fails on any of its statistical checks.
PER_BUILD = 0.01
#: Chance that one check passes a change that lies right at its limit.
WRONG_PASS = 0.05


def share(checks: int, total: float = PER_BUILD) -> float:
    """Bonferroni: the error rate of each of ``checks`` statistical checks. Deterministic checks take none."""
    return total / max(checks, 1)
