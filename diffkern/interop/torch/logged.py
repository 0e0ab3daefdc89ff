"""Calls that write a log for their gradient.

The launch, and tensors with the contents of its arrays, give the arrays of the log, for the adjoint. The values that
atomic updates returned are logged by the call itself, as another launch may get other values, and so is what searches
have found, which need not run again then; if a kernel overwrites values that its gradient needs, the launch is made
once more, on copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from diffkern.contracts.argument_block import pack_address
from diffkern.contracts.manifest import Log
from diffkern.errors import CompileError
from diffkern.interop.torch.arrays import as_array
from diffkern.ir.types import Array
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.operation import submit
from diffkern.runtime.arrays.type_keys import type_of_key
from diffkern.runtime.launch.packed import Leaves, PackedLaunch
from diffkern.runtime.launch.program import Executable

__all__ = ["LoggableLaunch"]


class LoggableLaunch:
    """A launch that can be made with a log.

    Parameters
    ----------
    launch : PackedLaunch
        The launch; its arrays are not kept.
    tails : sequence of bytes
        For each array the bytes after the address.
    """

    def __init__(self, launch: PackedLaunch, tails: Sequence[bytes]) -> None:
        self._launch = launch.copy()
        # A plan lives long, and would keep the tensors of its first call alive.
        self._launch.arrays = [None] * len(launch.arrays)
        self._tails = tails

    def searched_adjoint(self, active: frozenset[int]) -> Executable | None:
        """Return the adjoint that reads what searches have found, if there is one, and a program that writes it."""
        found = self._launch.searched_adjoint(active)
        log = None if found is None else found.derivative.log
        if log is None or not log.searches:
            return None
        launch, kernel = self._launch, self._launch.kernel
        try:
            kernel.logged(launch.keys, "searched", log.active, launch.blocks.block_dim, launch.generation)
        except (CompileError, ImportError) as error:
            if not isinstance(error, ImportError) and not isinstance(error.__cause__, ImportError):
                raise
            return None
        return found

    def again(self, log: Log, tensors: Mapping[int, torch.Tensor], values: Mapping[int, bytes]) -> tuple[array, ...]:
        """Launch on copies of the arrays that are written; like :meth:`run`, with the contents of each array before the
        launch.
        """
        copies = {
            k: tensors[k].detach().clone(memory_format=torch.contiguous_format) for k in self._launch.executable.writes
        }
        return self.run(log, {**tensors, **copies}, values)

    def run(self, log: Log, tensors: Mapping[int, torch.Tensor], values: Mapping[int, bytes]) -> tuple[array, ...]:
        """Launch, and return the arrays of the log.

        Parameters
        ----------
        log : Log
            The log that the adjoint reads.
        tensors : mapping
            For each array the tensor, contiguous if it is written.
        values : mapping
            Bytes of the arguments by value.
        """
        launch = self._launch
        arguments: dict[int, Leaves] = {}
        for k, key in enumerate(launch.keys):
            if k not in tensors:
                arguments[k] = (key, [values[k]], [None])
                continue
            t, given = type_of_key(key), tensors[k].detach()
            assert isinstance(t, Array)
            arguments[k] = (key, [pack_address(given.data_ptr()) + self._tails[k]], [as_array(given, t.dtype)])
        made = launch.changed(arguments).with_log(log)
        submit(made)
        assert made.log is not None
        return made.log
