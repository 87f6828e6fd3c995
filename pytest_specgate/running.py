"""The engine of a session over its life: built when first asked for, started once, ended once.

An engine that could not start is not tried again: every case of it meets the same error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pytest_specgate.engines.base import Engine, EngineContext
from pytest_specgate.engines.registry import create
from pytest_specgate.errors import EngineError, SpecgateError
from pytest_specgate.measure.nvml import processes_by_gpu


@dataclass(slots=True)
class RunningEngine:
    """One engine, started at most once, and what was on the GPUs before.

    ``running`` is the engine while it runs; ``gpus_before`` the process ids by GPU just before its start; ``broken``
    is why it could not start.
    """

    context: EngineContext
    progress: Callable[[str], None]
    gpus_before: Mapping[str, frozenset[int]] | None = None
    running: Engine | None = None
    broken: SpecgateError | None = None

    def started(self) -> Engine:
        """The engine, running. Raises the SpecgateError of its start, every time."""
        if self.broken is not None:
            raise self.broken
        if self.running is None:
            engine = create(self.context)
            self.progress(f"{self.context.name}: starting")
            self.gpus_before = processes_by_gpu()
            try:
                engine.start()
            except SpecgateError as error:
                engine.close()
                self.broken = error
                raise
            except Exception as error:  # an adapter's own bug, and no case of this engine can be measured
                what = f"cannot start: {type(error).__name__}: {error}"
                self.broken = EngineError(self.context.name, what, "this is a fault of the engine's adapter")
                raise self.broken from error
            self.running = engine
        return self.running

    def close(self) -> None:
        """Stop the engine; may be called twice. Raises EngineError where its adapter fails at it, once."""
        running, self.running = self.running, None
        if running is None:
            return
        try:
            running.close()
        except SpecgateError:
            raise
        except Exception as error:
            what = f"close() failed: {type(error).__name__}: {error}"
            raise EngineError(self.context.name, what, "mend the engine's adapter; what it measured stands") from error
