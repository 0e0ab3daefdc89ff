"""Settings of the process: ``dk.config``.

In: attributes set by the user, or environment variables: DIFFKERN_CACHE_DIR, DIFFKERN_NUM_THREADS, DIFFKERN_MODE,
DIFFKERN_VERBOSE. Out: checked values. What a program sets counts more than what the environment says.
"""

from __future__ import annotations

import os
from pathlib import Path

from diffkern.runtime.native import pool

__all__ = ["Config", "config"]


class Config:
    """Settings of the process.

    Attributes
    ----------
    verbose : bool
        Whether to print what is compiled, on standard error. DIFFKERN_VERBOSE=1 sets it at the start.
    quiet : bool
        Whether nothing is printed; setting it to True ends ``verbose``.
    mode : str
        ``"release"``; this version has no other programs. DIFFKERN_MODE sets it at the start.
    cache_dir : Path or None
        Where artifacts are kept; None for DIFFKERN_CACHE_DIR or the platform's place for caches.
    num_threads : int
        Threads of a launch, the calling one included: DIFFKERN_NUM_THREADS, else the processors of this process.
    """

    __slots__ = ("_cache_dir", "verbose")

    def __init__(self) -> None:
        self.verbose = os.environ.get("DIFFKERN_VERBOSE", "").strip() not in ("", "0")
        self._cache_dir: Path | None = None
        self.mode = os.environ.get("DIFFKERN_MODE", "").strip() or "release"

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
        """``"release"``: array indices are not checked."""
        return "release"

    @mode.setter
    def mode(self, value: str) -> None:
        if value != "release":
            raise ValueError(f"this version of diffkern has release programs only, not {value!r}")

    @property
    def cache_dir(self) -> Path | None:
        """Where artifacts are kept, if the program has set it."""
        return self._cache_dir

    @cache_dir.setter
    def cache_dir(self, value: str | os.PathLike[str] | None) -> None:
        self._cache_dir = None if value is None else Path(value).expanduser()

    @property
    def num_threads(self) -> int:
        """Threads of a launch, the calling one included."""
        return pool.num_threads()

    @num_threads.setter
    def num_threads(self, value: int) -> None:
        pool.set_num_threads(value)

    def __repr__(self) -> str:
        return f"<dk.config verbose={self.verbose} cache_dir={self._cache_dir} num_threads={self.num_threads}>"


config = Config()
