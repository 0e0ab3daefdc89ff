"""The kernel of the JAX benchmark, for either library.

Without the import of annotations from the future: Warp looks at the types themselves when it makes a gradient.
"""

from typing import Any


def make(w: Any) -> Any:
    """Return the kernel of a library."""

    @w.kernel
    def wave(
        x: w.array(dtype=float),
        y: w.array(dtype=float),
        a: float,
        out: w.array(dtype=float),
    ):
        i = w.tid()
        out[i] = w.sin(a * x[i]) * y[i]

    return wave
