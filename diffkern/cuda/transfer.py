"""Arrays of the host in launches: copied to the device and, where the kernel wrote to them, back, as in numba.

On the CPU the arguments are passed unchanged: a kernel works on the memory of NumPy's arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from diffkern.cuda.arrays import to_device
from diffkern.cuda.devices import place
from diffkern.lang.values import CompositeValue

__all__ = ["on_device"]


@contextmanager
def on_device(args: Sequence[Any], stream: Any) -> Iterator[Sequence[Any]]:
    """Return a context manager that yields arguments on the device, and copies back what was written at its end.

    Parameters
    ----------
    args : sequence
        The arguments as they are passed.
    stream : Stream or None
        The stream of the launch; None for the default one.
    """
    # Vectors and matrices are NumPy arrays too, but are passed by value.
    hosts = [k for k, a in enumerate(args) if isinstance(a, np.ndarray) and not isinstance(a, CompositeValue)]
    if not hosts or place() == "cpu":
        yield args
        return
    moved = list(args)
    for k in hosts:
        moved[k] = to_device(args[k], stream or 0)
    # Versions tell which arrays the launch has written: only those are copied back.
    before = {k: moved[k]._memory.now for k in hosts}
    yield moved
    for k in hosts:
        if moved[k]._memory.now != before[k]:
            # Numba copies all arrays back; those that are unchanged need no copy.
            moved[k].copy_to_host(args[k], stream or 0)
