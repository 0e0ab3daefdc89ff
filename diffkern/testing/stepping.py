"""Running a kernel, or its adjoint, as the Python source that users read, thread by thread, optionally in a debugger.

:func:`run_in_python` takes a kernel, a launch's dimensions and NumPy arguments, and computes the results of the
compiled code, up to rounding, from the source that ``kernel.source()`` and ``kernel.adjoint_source()`` show. It is
slow, and meant for looking at a few threads.
"""

from __future__ import annotations

import pdb  # noqa: T100 - stepping is what this module is for
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from diffkern.compiler import pipeline
from diffkern.ir.nodes import Function
from diffkern.ir.types import Array, Type, is_complex
from diffkern.kernels.kernel import Kernel
from diffkern.printing.executor import load_source
from diffkern.printing.python import function_name, to_python
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.complexes import numbers, parts
from diffkern.testing.gradcheck import Vjp
from diffkern.testing.programs import Interpreted

__all__ = ["run_in_python"]


def run_in_python(
    kernel: Kernel,
    dim: int | Sequence[int],
    inputs: Sequence[Any],
    outputs: Sequence[Any] = (),
    *,
    cotangents: Mapping[str, Any] | None = None,
    debug: bool = False,
) -> dict[str, Any]:
    """Run a kernel in Python, and its adjoint if cotangents are given; the arguments are not changed.

    Where the kernel calls ``breakpoint()``, the forward run enters :mod:`pdb`.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    dim : int or sequence of int
        The launch's dimensions. Threads run one after the other.
    inputs, outputs : sequence
        The arguments, as for a launch.
    cotangents : mapping of str to array_like, optional
        The adjoint's seeds by name of the parameter.
    debug : bool, optional
        Whether to run it in :mod:`pdb`, which stops at the first line of every thread.

    Returns
    -------
    dict
        By name of the parameter: without cotangents the arrays as the kernel leaves them, else the gradients. Empty if
        the debugger was quit.

    Raises
    ------
    IndexError
        If a thread accesses an array out of bounds.
    """
    # Arrays of a device are copied to the host, where Python runs.
    given = [np.array(a._host()) if isinstance(a, array) else a for a in (*inputs, *outputs)]
    dims = tuple(dim) if isinstance(dim, Sequence) else (dim,)
    # As in a launch of the same arguments, so that the same program is shown.
    types = kernel.argument_types(*inputs, *outputs)
    fn = pipeline.lower_kernel(kernel.func, types, kernel.variant, stops=True)
    if cotangents is None:
        # Only here: the adjoint is made of the function as it was lowered.
        fn = pipeline.optimise(fn)

        def forward() -> dict[str, Any]:
            # The program changes arrays in place.
            copies = [np.array(a) if isinstance(a, np.ndarray) else a for a in given]
            Interpreted(fn).run(dims, copies)
            arrays = ((p, a) for p, a in zip(fn.params, copies, strict=True) if isinstance(a, np.ndarray))
            return {p.name: _shown(p.type, a) for p, a in arrays}

        return _debugged([fn], forward) if debug else forward()

    vjp = Vjp(fn, Interpreted, variant=kernel.variant)
    names = list(vjp.names)
    unknown = [name for name in cotangents if name not in names]
    if unknown:
        raise ValueError(f"kernel {kernel.name!r} has no parameter {unknown[0]!r}; it has {', '.join(names)}")
    seeds = {names.index(name): _seed(vjp.types[names.index(name)], seed) for name, seed in cotangents.items()}

    def backward() -> dict[str, Any]:
        gradients = vjp.gradients(dims, given, seeds)
        return {names[i]: _shown(vjp.types[i], gradient) for i, gradient in gradients.items()}

    return _debugged([vjp.adjoint.fn], backward) if debug else backward()


def _shown(t: Type, data: Any) -> Any:
    """Return the contents of a parameter, with complex numbers as NumPy's."""
    return numbers(data) if is_complex(t.dtype if isinstance(t, Array) else t) else data


def _seed(t: Type, seed: Any) -> Any:
    """Return a cotangent in double precision, complex numbers as pairs."""
    if is_complex(t.dtype if isinstance(t, Array) else t):
        return parts(np.asarray(seed, dtype=np.complex128))
    return np.asarray(seed, dtype=np.float64)


def _debugged(functions: Sequence[Function], run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run in pdb, with a breakpoint at the first line of each function's generated source."""
    debugger = pdb.Pdb()
    for fn in functions:
        code = load_source(to_python(fn), function_name(fn)).__code__
        # The first line of code, behind the `def` and its header of comments.
        first = min(line for *_, line in code.co_lines() if line is not None and line > code.co_firstlineno)
        debugger.set_break(code.co_filename, first)
    # The debugger starts out here; what there is to see begins at the breakpoint.
    debugger.rcLines.append("continue")
    handler = signal.getsignal(signal.SIGINT)
    try:
        # Without a result if the user quits.
        return debugger.runcall(run) or {}
    finally:  # "continue" makes Ctrl-C stop in the debugger, also after its end
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(signal.SIGINT, handler)
