"""Settings of the process: ``dk.config``.

In: attributes set by the user, or environment variables at the start. Out: checked values.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["MODES", "Config", "config"]

MODES = ("release", "debug")


class _HoldsPrograms(Protocol):
    def forget_programs(self) -> None: ...


class Config:
    """Settings of the process.

    Attributes
    ----------
    verbose : bool
        Whether to print what is compiled, on standard error. DIFFKERN_VERBOSE=1 sets it at the start.
    quiet : bool
        Whether nothing is printed; setting it to True ends ``verbose``.
    mode : str
        ``"release"``, or ``"debug"`` for programs that check indices, integer divisions and stores while they run.
        DIFFKERN_MODE=debug sets it at the start. Kernels made with ``mode=…`` keep their own.
    """

    __slots__ = ("_kernels", "_mode", "verbose")

    def __init__(self) -> None:
        self.verbose = os.environ.get("DIFFKERN_VERBOSE", "").strip() not in ("", "0")
        self._kernels: weakref.WeakSet[_HoldsPrograms] = weakref.WeakSet()
        self._mode = check_mode(os.environ.get("DIFFKERN_MODE", "").strip() or "release")

    @property
    def quiet(self) -> bool:
        """Whether nothing is printed."""
        return not self.verbose

    @quiet.setter
    def quiet(self, value: bool) -> None:
        if value:
            self.verbose = False

    @property
    def mode(self) -> str:
        """Which programs kernels run: ``"release"``, or ``"debug"`` with checks."""
        return self._mode

    @mode.setter
    def mode(self, value: str) -> None:
        if check_mode(value) != self._mode:
            self._mode = value
            # So that a launch need not ask which mode it is.
            for kernel in tuple(self._kernels):
                kernel.forget_programs()

    def watch(self, kernel: _HoldsPrograms) -> None:
        """Have a kernel forget its programs when the mode changes."""
        self._kernels.add(kernel)

    def __repr__(self) -> str:
        return f"<dk.config mode={self.mode!r} verbose={self.verbose}>"


def check_mode(value: str) -> str:
    """Return the name of a mode.

    Raises
    ------
    ValueError
        If it is none.
    """
    if value not in MODES:
        raise ValueError(f"mode is 'release' or 'debug', not {value!r}")
    return value


config = Config()
