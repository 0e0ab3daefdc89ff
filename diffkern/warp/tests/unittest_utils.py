"""``wp.tests.unittest_utils``: what the process writes to its standard output, kernels included, as text."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import IO

__all__ = ["StdErrCapture", "StdOutCapture", "StreamCapture"]


class StreamCapture:
    """Takes what is written to a stream of the process between ``begin`` and ``end``.

    Parameters
    ----------
    stream_name : str
        ``"stdout"`` or ``"stderr"``.
    """

    def __init__(self, stream_name: str) -> None:
        self._descriptor = {"stdout": 1, "stderr": 2}[stream_name]
        self._name = stream_name
        self._saved = -1
        self._file: IO[bytes] | None = None

    def begin(self) -> None:
        """Take what is written from now on."""
        getattr(sys, self._name).flush()
        self._saved = os.dup(self._descriptor)
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - end() closes it
        os.dup2(self._file.fileno(), self._descriptor)

    def end(self) -> str:
        """Give the stream back; returns what was written."""
        if self._file is None:
            return ""
        getattr(sys, self._name).flush()
        os.dup2(self._saved, self._descriptor)
        os.close(self._saved)
        self._file.seek(0)
        text = self._file.read().decode(errors="replace")
        self._file.close()
        self._file = None
        return text


class StdOutCapture(StreamCapture):
    """Takes what is written to the standard output."""

    def __init__(self) -> None:
        super().__init__("stdout")


class StdErrCapture(StreamCapture):
    """Takes what is written to the standard error."""

    def __init__(self) -> None:
        super().__init__("stderr")
