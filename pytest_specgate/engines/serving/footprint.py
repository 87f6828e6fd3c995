"""The memory of a server: that of its process tree, whatever of it is ours to see.

A server's resident peak is the sum of its processes' peaks: at most what they ever held together, and pages that they
share (a library, weights in shared memory) count once for each that touched them. GPU memory comes from NVML by
process, added up over all GPUs. In a container NVML gives the host's numbers, of which the tree knows none, and a
server in a container of its own is not below us: then its processes are those that came to the GPUs when we started it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from pytest_specgate.engines.serving.gpus import Board


def tree(root: int) -> tuple[int, ...]:
    """All living processes below ``root``, which is not one of them."""
    try:
        return tuple(child.pid for child in psutil.Process(root).children(recursive=True))
    except psutil.Error:
        return ()


def peak_resident(pids: Iterable[int]) -> int | None:
    """Bytes; None where the system does not tell peaks of other processes, or none of these lives."""
    peaks = [int(peak) * 1024 for pid in pids if (peak := _status(pid, "VmHWM").partition(" ")[0])]
    return sum(peaks) if peaks else None


def resident(pids: Iterable[int]) -> int | None:
    """Bytes resident now, as :func:`peak_resident` counts them."""
    held = [int(now) * 1024 for pid in pids if (now := _status(pid, "VmRSS").partition(" ")[0])]
    return sum(held) if held else None


def vram(pids: Iterable[int], boards: Sequence[Board]) -> Mapping[str, int] | None:
    """Bytes that these processes hold, by the UUID of each GPU that they are on.

    None where no GPU lists any of them, or does not tell what one of them holds: unmeasured, and not nothing.
    """
    known, found = frozenset(pids), dict[str, int]()
    for board in boards:
        held = [size for pid, size in board.held.items() if pid in known]
        if None in held:
            return None
        if held:
            found[board.uuid] = sum(size for size in held if size is not None)
    return found or None


def listed(pids: Iterable[int], boards: Iterable[Board]) -> bool:
    """Whether any of these processes is on any GPU."""
    known = frozenset(pids)
    return any(pid in known for board in boards for pid in board.held)


def arrived(before: Iterable[Board], now: Iterable[Board]) -> frozenset[int]:
    """NVML's numbers of processes that came to these GPUs in between and cannot be told to be somebody else's.

    A number that this system knows as a process of its own, in no container, is somebody's beside us.
    """
    old = {pid for board in before for pid in board.held}
    new = {pid for board in now for pid in board.held} - old
    return frozenset(pid for pid in new if len(_status(pid, "NSpid").split()) != 1)


def visible(boards: Sequence[Board], env: Mapping[str, str]) -> tuple[Board, ...]:
    """The GPUs that a program with this environment may use, as CUDA reads it; all where that cannot be told.

    CUDA may number GPUs by speed and NVML numbers them by bus: where they are not alike and nobody demands the order of
    the bus, a number names none of them.
    """
    named = env.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return tuple(boards)
    by_bus = env.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({board.name for board in boards}) <= 1
    found: list[Board] = []
    for word in map(str.strip, named.split(",")):
        if word.isdigit() and not by_bus:
            return tuple(boards)
        found += [board for board in boards if _names(word, board) and board not in found]
    return tuple(found)


def _names(word: str, board: Board) -> bool:
    """Whether a word of CUDA_VISIBLE_DEVICES is this GPU: its number, or the beginning of its UUID."""
    if word.isdigit():
        return int(word) == board.index
    return word.startswith(("GPU-", "MIG-")) and board.uuid.startswith(word)


def _status(pid: int, name: str) -> str:
    """What the system says of a process; empty where it does not."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    lines = (line.partition(":") for line in status.splitlines())
    return next((said.strip() for key, _, said in lines if key == name), "")
