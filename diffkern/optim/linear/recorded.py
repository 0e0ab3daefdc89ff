"""Steps of the host in a recorded sequence: what a solve asks of its data at each replay.

The iterations of a recorded solve are native steps. What is looked at once in each solve (whether the right side is
finite, whether the residual is small) is a function of Python between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from diffkern.errors import LaunchError
from diffkern.process.uncopied import Uncopied
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import Operation, submit
from diffkern.runtime.memory.device import Device
from diffkern.runtime.memory.scope import under, unrecorded
from diffkern.runtime.memory.state import will_replay
from diffkern.runtime.native.replay import Steps

__all__ = ["on_host"]


def on_host(name: str, function: Callable[[], None], reads: Sequence[array], writes: Sequence[array] = ()) -> None:
    """Run a function now; in a recorded sequence, in each replay.

    Parameters
    ----------
    name : str
        What it does, for messages.
    function : callable
        Reads and writes arrays on the host, and may raise.
    reads, writes : sequence of array
        These arrays.
    """
    if will_replay():
        submit(_HostStep(name, function, reads, writes))
    else:
        function()


class _HostStep(Uncopied, Operation):
    """A function of the host as a step of a sequence."""

    phrase = "a step of the host"

    def __init__(
        self, name: str, function: Callable[[], None], reads: Sequence[array], writes: Sequence[array]
    ) -> None:
        self._name, self._function = name, function
        self._reads, self._writes = tuple(reads), tuple(writes)

    @property
    def label(self) -> str:
        """The name of the function."""
        return self._name

    @property
    def device(self) -> Device:
        """The device of its arrays."""
        return self._reads[0]._memory.device

    def execute(self) -> None:
        """Run the function, outside of the recording and of tapes."""
        if self.device.is_capturing:
            raise LaunchError(
                f"{self._name} happens on the host, which a graph of a GPU does not wait for",
                remedy="replay the recorded sequence instead of capturing it",
            )
        with unrecorded(), under(None):
            self._function()

    def reads(self) -> Sequence[array]:
        """Return the arrays that it reads."""
        return self._reads

    def writes(self) -> Sequence[array]:
        """Return the arrays that it writes."""
        return self._writes

    def steps(self) -> Steps | None:
        """Return None: it is Python."""
        return None

    def constants(self) -> bytes:
        """Return the function's id, which tells it from others."""
        return repr(id(self._function)).encode()
