"""What the host reads of arrays, or gives to other libraries that may read it.

In: an array, before its elements are looked at. Out: nothing, or an error where a sequence is recorded that has written
them: a replay would not look again, so what Python makes of them would stay as it is now. What differentiates the
program is told of it. Diffkern's own looks at elements do not come here.
"""

from __future__ import annotations

from typing import Any

from diffkern.callers import brief
from diffkern.runtime.state import attention, current

__all__ = ["note_read"]


def note_read(held: Any) -> None:
    """Take note that the host reads an array.

    Raises
    ------
    LaunchError
        If a recording has written it that does not allow this.
    """
    if attention.word[0]:
        _note(held)


@brief
def _note(held: Any) -> None:
    if (recorder := current.recorder) is not None:
        recorder.check_read(held)
    if (tape := current.tape) is not None:
        tape.note_read(held)
