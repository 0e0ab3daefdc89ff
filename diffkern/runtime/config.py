"""Settings of the process: ``dk.config``.

In: attributes set by the user, or environment variables: DIFFKERN_CACHE_DIR, DIFFKERN_NUM_THREADS, DIFFKERN_MODE,
DIFFKERN_VERBOSE, DIFFKERN_ENABLE_MATHDX_GEMM, DIFFKERN_CUDA_COMPILER. Out: checked values. What a program sets counts
more than what the environment says.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Protocol

from diffkern.options import Mode, checked
from diffkern.platforms import LLVM
from diffkern.runtime.native import pool

__all__ = ["Config", "config"]


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
    enable_backward : bool
        Whether kernels may be differentiated that do not say it themselves and whose module does not say it.
    enable_mathdx_gemm : bool or None
        Whether matrix products of tiles on a GPU are made by libmathdx: None (the default) where it is installed and
        has them, True for an error where not, False for loops. DIFFKERN_ENABLE_MATHDX_GEMM=0 or 1 sets it at the start.
        A kernel's own option and that of its module count more.
    cuda_compiler : str
        What compiles programs for GPUs: ``"llvm"`` or ``"numba"``. DIFFKERN_CUDA_COMPILER sets it at the start. Kernels
        made with ``compiler=…`` keep their own.
    cache_dir : Path or None
        Where artifacts are kept; None for DIFFKERN_CACHE_DIR or the platform's place for caches.
    num_threads : int
        Threads of a launch, the calling one included: DIFFKERN_NUM_THREADS, else the processors of this process.
    """

    __slots__ = (
        "_cache_dir",
        "_cuda_compiler",
        "_enable_mathdx_gemm",
        "_kernels",
        "_mode",
        "enable_backward",
        "verbose",
    )

    def __init__(self) -> None:
        self.verbose = os.environ.get("DIFFKERN_VERBOSE", "").strip() not in ("", "0")
        self.enable_backward = True
        self._cache_dir: Path | None = None
        self._kernels: weakref.WeakSet[_HoldsPrograms] = weakref.WeakSet()
        self._mode: Mode = checked("mode", os.environ.get("DIFFKERN_MODE", "").strip() or "release")
        compiler = os.environ.get("DIFFKERN_CUDA_COMPILER", "").strip() or LLVM
        self._cuda_compiler: str = checked("compiler", compiler, called="cuda_compiler")
        wish = os.environ.get("DIFFKERN_ENABLE_MATHDX_GEMM", "").strip()
        self._enable_mathdx_gemm = None if not wish else wish != "0"

    @property
    def quiet(self) -> bool:
        """Whether nothing is printed."""
        return not self.verbose

    @quiet.setter
    def quiet(self, value: bool) -> None:
        if value:
            self.verbose = False

    @property
    def mode(self) -> Mode:
        """Which programs kernels run: ``"release"``, or ``"debug"`` with checks."""
        return self._mode

    @mode.setter
    def mode(self, value: Mode) -> None:
        if checked("mode", value) != self._mode:
            self._mode = value
            self.forget_programs()

    @property
    def enable_mathdx_gemm(self) -> bool | None:
        """Whether matrix products of tiles on a GPU are made by libmathdx."""
        return self._enable_mathdx_gemm

    @enable_mathdx_gemm.setter
    def enable_mathdx_gemm(self, value: bool | None) -> None:
        if value is not None and not isinstance(value, bool):
            raise ValueError(f"enable_mathdx_gemm is True, False or None, not {value!r}")
        if value is not self._enable_mathdx_gemm:
            self._enable_mathdx_gemm = value
            self.forget_programs()

    @property
    def cuda_compiler(self) -> str:
        """What compiles programs for GPUs."""
        return self._cuda_compiler

    @cuda_compiler.setter
    def cuda_compiler(self, value: str) -> None:
        if checked("compiler", value, called="cuda_compiler") != self._cuda_compiler:
            self._cuda_compiler = value
            self.forget_programs()

    def watch(self, kernel: _HoldsPrograms) -> None:
        """Have a kernel forget its programs when what chooses them changes."""
        self._kernels.add(kernel)

    def forget_programs(self) -> None:
        """Have all kernels choose their programs again, so that a launch need not ask for the settings."""
        for kernel in tuple(self._kernels):
            kernel.forget_programs()

    @property
    def cache_dir(self) -> Path | None:
        """Where artifacts are kept, if the program has set it."""
        return self._cache_dir

    @cache_dir.setter
    def cache_dir(self, value: str | os.PathLike[str] | None) -> None:
        try:
            # Absolute, so that a change of the working directory does not change which directory it is.
            self._cache_dir = None if value is None else Path(value).expanduser().absolute()
        except RuntimeError as error:
            raise ValueError(f"cache_dir: there is no home directory for {os.fspath(value or '')}") from error

    @property
    def num_threads(self) -> int:
        """Threads of a launch, the calling one included."""
        return pool.num_threads()

    @num_threads.setter
    def num_threads(self, value: int) -> None:
        pool.set_num_threads(value)

    def __repr__(self) -> str:
        shown = f"mode={self.mode!r} verbose={self.verbose} cache_dir={self._cache_dir} num_threads={self.num_threads}"
        return f"<dk.config {shown}>"


config = Config()
