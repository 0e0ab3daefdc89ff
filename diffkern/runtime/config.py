"""Settings of the process: ``dk.config``.

In: attributes set by the user, or environment variables at the start. Out: checked values.
"""

from __future__ import annotations

import os

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
        ``"release"``; this version has no other programs.
    """

    __slots__ = ("verbose",)

    def __init__(self) -> None:
        self.verbose = os.environ.get("DIFFKERN_VERBOSE", "").strip() not in ("", "0")

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

    def __repr__(self) -> str:
        return f"<dk.config verbose={self.verbose}>"


config = Config()
