"""Reads of arrays by the host, or by other libraries that are given an array.

Before elements are read, an error is raised if a sequence that has written them is being recorded: a replay would not
read again, so that Python's results would stay as they are now. Tapes and tangents are told of the read. Diffkern's own
reads do not come here.
"""

from __future__ import annotations

from typing import Any

from diffkern.process.tracebacks import brief
from diffkern.runtime.memory.state import current
from diffkern.runtime.native.slow_path import slow_path_flags

__all__ = ["note_read"]


def note_read(held: Any) -> None:
    """Note that the host reads an array.

    Raises
    ------
    LaunchError
        If a recording that does not allow this has written it.
    """
    if slow_path_flags.word[0]:
        _note(held)


@brief
def _note(held: Any) -> None:
    if (recorder := current.recorder) is not None:
        recorder.check_read(held)
    if (tape := current.tape) is not None:
        tape.note_read(held)
