"""The options that are tried where the user names none: those that do not change what a kernel means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from diffkern.contracts.manifest import DEFAULT_BLOCK_DIM
from diffkern.contracts.options import names
from diffkern.errors import MisuseError
from diffkern.kernels.kernel import Kernel

__all__ = ["checked_candidates", "usual_candidates"]

_OF_A_PROCESSOR: Final[Mapping[str, tuple[Any, ...]]] = {"lanes": (None, True, False)}
# Added up in another order, sums differ in their last bits, as they do between machines.
_OF_ADJOINTS: Final[Mapping[str, tuple[Any, ...]]] = {"private_copies": (None, False)}
_OF_A_GPU: Final[Mapping[str, tuple[Any, ...]]] = {
    "block_dim": (DEFAULT_BLOCK_DIM, 64, 128, 512, 1024),
    "max_registers": (None, 32, 64, 128),
}


def usual_candidates(kernel: Kernel, program: Any, adds: bool) -> dict[str, tuple[Any, ...]]:
    """Return the values to try for each option.

    Parameters
    ----------
    kernel : Kernel
        The kernel, whose own values come first.
    program : Executable
        The program of the launch.
    adds : bool
        Whether threads may add to the same elements, as those of adjoints do.
    """
    if program.device.is_cpu:
        found = {**_OF_A_PROCESSOR, **(_OF_ADJOINTS if adds else {})}
    else:
        found = dict(_OF_A_GPU)
        # Threads that work together get other results, or none, in other blocks.
        if program.blockwise or program.manifest.block_dim_fixed or program.manifest.tiled:
            del found["block_dim"]
    most = kernel.options.most_threads
    return {
        name: tuple(v for v in _own_first(kernel, name, values) if name != "block_dim" or (v or 0) <= most)
        for name, values in found.items()
    }


def checked_candidates(kernel: Kernel, given: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    """Return the values that a user wants to be tried, with the kernel's own in front.

    Raises
    ------
    MisuseError
        If there is no such option, or its values are no sequence.
    """
    made = {}
    for name, values in given.items():
        if name not in names("kernel"):
            raise MisuseError(
                f"a kernel has no option {name!r}; it has {', '.join(names('kernel'))}", remedy="leave it out"
            )
        if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
            raise MisuseError(f"the values to try for {name} are a sequence, not {values!r}", remedy="write a list")
        made[name] = _own_first(kernel, name, values)
    return made


def _own_first(kernel: Kernel, name: str, values: Sequence[Any]) -> tuple[Any, ...]:
    own = getattr(kernel.options, name)
    # Not told and the default are the same blocks.
    own = own or kernel.options.usual_block_dim if name == "block_dim" else own
    return (own, *(value for value in values if value != own or type(value) is not type(own)))
