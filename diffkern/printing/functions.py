"""A function that programs of other compilers call, as readable Python: plain, or for numba-cuda to compile.

A function of the IR that yields its results becomes the source of a module that defines one function
``name(*parameters)``, or ``name(tid, *parameters)`` for one thread of a kernel. It takes and returns vectors and
matrices as small NumPy arrays; the form for CUDA uses tuples, for a matrix those of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from diffkern.analysis.cuda_plan import CudaPlan, UpdateWay
from diffkern.ir.nodes import Function, Value
from diffkern.ir.types import Mat
from diffkern.printing.cuda import LIBRARY, CudaWriter
from diffkern.printing.cuda_memory import as_tuple
from diffkern.printing.expression import Expr
from diffkern.printing.python import Writer, function_name, import_lines

__all__ = ["Structure", "to_cuda_function", "to_python_function"]

Structure: TypeAlias = "int | tuple[Structure, ...] | None"
"""The structure of a result: the position of a value among the yields, None, or a tuple of these."""


def to_python_function(fn: Function, returns: Structure) -> str:
    """Print a func in Python.

    Parameters
    ----------
    fn : Function
        Any verified function that asks for no thread.
    returns : Structure
        How its results are given back.
    """
    writer = Writer(fn)
    body = _statements(writer, fn, returns, [p.name for p in fn.params])
    lines = [import_lines("diffkern.printing.prims", sorted(writer.primitives))] if writer.primitives else []
    return "\n".join([*lines, "", "", *body]) + "\n"


def to_cuda_function(
    fn: Function,
    returns: Structure,
    arguments: Sequence[int | None],
    *,
    tid: str = "",
) -> str:
    """Print a function as a device function for numba-cuda.

    Parameters
    ----------
    fn : Function
        A function in its compiled form for CUDA.
    returns : Structure
        How its results are given back.
    arguments : sequence of (int or None)
        The parameter of each argument; None for one that is not used.
    tid : {"", "int", "tuple"}
        How the index of a thread is passed, as the first argument, if at all.
    """
    writer = _Device(fn, tid)
    body = _statements(writer, fn, returns, [None if k is None else fn.params[k].name for k in arguments], bool(tid))
    lines = ["from numba import cuda", ""]
    if writer.primitives:
        lines.append(import_lines(LIBRARY, sorted(writer.primitives)))
    return "\n".join([*lines, "", "", "@cuda.jit(device=True)", *body]) + "\n"


def _statements(
    writer: Writer, fn: Function, returns: Structure, names: Sequence[str | None], tid: bool = False
) -> list[str]:
    """Return the function's statements; parameters in the order of the arguments."""
    # Arguments that are not used have no parameter in the IR but still take a place in the call.
    rest = iter(fn.params)
    parameters = ["tid"] if tid else []
    for name in names:
        parameters.append(writer.names.fresh("unused" if name is None else name or "p"))
        if name is not None:
            _bind(writer, next(rest), parameters[-1])
    if fn.loc is not None:
        writer.line = fn.loc.line
    if isinstance(writer, _Device):
        writer.begin()
    writer.region(fn.body)
    if returns is not None:
        writer.emit(f"return {_text(writer, fn.body.yields, returns)}")
    head = f"def {function_name(fn)}({', '.join(parameters)}):"
    return [head, *(writer.lines or ["    pass"])]


def _bind(writer: Writer, p: Value, name: str) -> None:
    """Give a parameter its name; for CUDA, a matrix is a tuple of rows."""
    writer.bind(p, name)
    if isinstance(writer, _Device) and isinstance(p.type, Mat):
        parts = tuple(f"{name}[{r}][{c}]" for r in range(p.type.rows) for c in range(p.type.cols))
        writer.exprs[p] = Expr(as_tuple(parts), reads=frozenset({name}), parts=parts)


def _text(writer: Writer, results: Sequence[Value], returns: Structure) -> str:
    if isinstance(returns, tuple):
        return as_tuple([_text(writer, results, part) for part in returns])
    if returns is None:
        return "None"
    v = results[returns]
    if isinstance(writer, _Device) and isinstance(v.type, Mat):
        parts, cols = writer.components(v), v.type.cols
        return as_tuple([as_tuple(parts[k : k + cols]) for k in range(0, len(parts), cols)])
    return writer.typed(v).text


class _Device(CudaWriter):
    """The form for CUDA. Each call stands alone: nothing is summed over a block."""

    def __init__(self, fn: Function, tid: str) -> None:
        super().__init__(fn)
        self.tid = tid
        # The name is reserved for the first argument, even if the function has a parameter called so.
        self.names.fresh("tid")
        plan = self.plan_of_updates
        # A sum over a block needs all of its threads, which a called function cannot rely on.
        by_itself = {op: UpdateWay.RED if how is UpdateWay.SUM else how for op, how in plan.updates.items()}
        self.plan_of_updates = CudaPlan((), by_itself, plan.invariant, plan.blockwise)

    def begin(self) -> None:
        """Assign each axis of the thread's index to a variable."""
        for axis in range(self.fn.tid_arity if self.tid else 0):
            self.axes.append(self.names.fresh("thread"))
            self.emit(f"{self.axes[-1]} = {self.prim('int32')}(tid{f'[{axis}]' if self.tid == 'tuple' else ''})")
