"""``with dk.detect_anomaly():`` — kernels in the block say where a number first becomes infinite or NaN."""

from __future__ import annotations

from types import TracebackType

from diffkern.runtime.config import config

__all__ = ["detect_anomaly"]


class detect_anomaly:
    """Let kernels and their adjoints look at every number for a block, and raise where one becomes infinite or NaN.

    The :class:`NonFiniteError` names the kernel or its adjoint, the thread, the line and the variable. It is about the
    operation whose operands are finite, not about what came of it. A tape's adjoints look if what it recorded did: put
    the recording into the block as well. Kernels with a ``mode`` of their own keep it. Programs of this kind are
    several times slower, and are compiled when they are first needed.
    """

    def __enter__(self) -> detect_anomaly:
        self._mode = config.mode
        config.mode = "finite"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        config.mode = self._mode
