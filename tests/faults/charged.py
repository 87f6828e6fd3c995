"""A network whose forwards cost simulated time."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from pytest_specgate.decoding.cache import Span
from pytest_specgate.decoding.network import Network
from tests.faults.clock import Clock


def charged(network: Network, clock: Clock, cost: Callable[[int, int, int], float]) -> Network:
    """The same network, of the same class, that charges the clock for every forward."""
    plain = type(network)

    class Charged(plain):  # type: ignore[misc, valid-type]  # of whatever class it was
        def forward(self, tokens: Tensor, span: Span, keep: int = 0) -> Tensor:
            scores = super().forward(tokens, span, keep)
            clock.charge(cost(len(span.starts), span.width, span.length))
            return scores

    network.__class__ = Charged
    return network
