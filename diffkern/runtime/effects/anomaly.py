"""``with dk.detect_anomaly():`` — kernels in the block say where a number first becomes infinite or NaN."""

from __future__ import annotations

from types import TracebackType

from diffkern.runtime.observe.config import config

__all__ = ["detect_anomaly"]


class detect_anomaly:
    """Check every number that kernels and their adjoints compute within a block, and raise where one is not finite.

    The :class:`NonFiniteError` names the kernel or its adjoint, the thread, the line and the variable. It reports the
    operation whose operands are finite, not those that its result has spoilt. The adjoints that a tape runs are
    checked if
    their forward launches were: put the recording into the block as well. Kernels with a ``mode`` of their own keep it.
    Checking programs are several times slower, and are compiled when they are first needed.
    """

    def __enter__(self) -> detect_anomaly:
        self._mode = config.mode
        config.mode = "finite"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        config.mode = self._mode
