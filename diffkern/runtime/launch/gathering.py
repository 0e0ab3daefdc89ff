"""The condition under which the adjoint of a launch may gather: threads compute the contributions to their elements.

The :class:`~diffkern.contracts.manifest.Gather` of an adjoint that scatters, the dimensions of a launch and its
arguments decide whether it has exactly one thread for each trip of the loops in which threads add to each other's
elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from diffkern.contracts.manifest import Manifest
from diffkern.ir.types import parse_type
from diffkern.runtime.launch.race_checks import number_in

__all__ = ["Gathering"]


class Gathering:
    """The condition for launches of one program.

    Parameters
    ----------
    manifest : Manifest
        The manifest of the adjoint that scatters.

    Attributes
    ----------
    arguments : frozenset of int
        The integer parameters on which the condition depends.
    cleared : tuple of int
        Parameters whose cotangent has to be cleared after the program; it has an element for each thread.
    """

    __slots__ = ("_factor", "_places", "arguments", "cleared")

    def __init__(self, manifest: Manifest) -> None:
        assert manifest.gather is not None
        count = manifest.gather.count
        self._factor = count.factor
        self._places = [(k, axis, parse_type(manifest.params[k].type)) for k, axis in count.of]
        self.arguments = frozenset(k for k, axis in count.of if axis < 0)
        self.cleared = manifest.gather.cleared

    def holds(self, dims: tuple[int, ...], part: Callable[[int], bytes]) -> bool:
        """Return whether a launch may gather, as far as its dimensions and arguments tell.

        Parameters
        ----------
        dims : tuple of int
            The launch's dimensions.
        part : callable
            Returns the bytes of a parameter in the argument block.
        """
        # Thread i gathers what trip i of each loop would scatter, so that there must be as many threads as trips.
        count = self._factor * math.prod(number_in(part(k), t, axis) for k, axis, t in self._places)
        return dims == (count,)
