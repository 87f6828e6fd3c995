"""What a suite requires of the machine, and what of it is missing. Loads torch only where a device is asked for."""

from __future__ import annotations

import shutil

from pytest_specgate.suite.model import Requires


def requirements_unmet(requires: Requires, chosen_device: str | None) -> str | None:
    """Why this machine cannot run the suite, or None; ``chosen_device`` is the command line's, None for none."""
    for package in requires.package:
        if not _installed(package):
            return f"requires package {package!r}, which is not installed"
    for command in requires.command:
        if shutil.which(command) is None:
            return f"requires command {command!r}, which is not on PATH"
    if requires.device and (reason := _no_device(requires.device, chosen_device)):
        return reason
    if requires.memory is not None and (free := _free_memory(requires.device)) is not None and free < requires.memory:
        return f"requires {requires.memory / 2**30:.3g} GiB of free memory, {free / 2**30:.3g} GiB are there"
    return None


def _installed(package: str) -> bool:
    import importlib.util

    try:
        return importlib.util.find_spec(package) is not None
    except (ModuleNotFoundError, ValueError):  # a part of a package that is not there, or no name at all
        return False


def _no_device(device: str, chosen: str | None) -> str | None:
    if chosen and chosen.partition(":")[0] != device:
        return f"requires device {device}, --specgate-device says {chosen}"
    if device == "cpu":
        return None
    import torch

    there = torch.cuda.is_available() if device == "cuda" else torch.backends.mps.is_available()
    return None if there else f"requires device {device}, which this machine has not"


def _free_memory(device: str | None) -> int | None:
    if device == "cuda":
        import torch

        return int(torch.cuda.mem_get_info()[0])
    import psutil

    return int(psutil.virtual_memory().available)
