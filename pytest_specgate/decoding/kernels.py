"""Which of a GPU's kernels attention may take.

On Hopper and later PyTorch prefers cuDNN's, which are planned anew, for tens of milliseconds of the host, for every
number of rows and length that was not there before: in decoding, at every token. An arm that meets more lengths would
look slow for it, and each plan is kept for good. The others know all lengths.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def unplanned(device: torch.device) -> Iterator[None]:
    """While open, attention on this device takes no kernel that is planned by shape."""
    if device.type != "cuda" or not torch.backends.cuda.cudnn_sdp_enabled():
        yield
        return
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(True)
