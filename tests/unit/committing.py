"""How tests call git: as somebody, unsigned, on a branch that they name, whatever the machine is set to."""

from __future__ import annotations


def git_as_anybody(branch: str) -> tuple[str, ...]:
    """The command, up to its arguments."""
    settings = ("user.name=n", "user.email=e@x", "commit.gpgsign=false", f"init.defaultBranch={branch}")
    return ("git", *(word for setting in settings for word in ("-c", setting)))
