"""``dk.map``: a function applied to the elements of arrays, by a kernel made for it.

The function is a built-in, a func, a Python function or a lambda. Its arguments are arrays, which are broadcast as in
NumPy, or values; its results become arrays. The kernel is launched like any other: tapes and sequences record it, and
gradients flow through it.
"""

from __future__ import annotations

import ast
import itertools
import linecache
import threading
from collections.abc import Callable, Sequence
from types import CellType, FunctionType, LambdaType, NoneType
from typing import Any, Final

import numpy as np

from diffkern.errors import KernelTypeError, MisuseError, described
from diffkern.host.device_functions import result_types
from diffkern.ir import types as T
from diffkern.ir.structs import Stored, Struct
from diffkern.kernels.kernel import Kernel
from diffkern.lang.dialects import NATIVE, WARP, Dialect
from diffkern.lang.dtypes import SCALARS, element_of_value
from diffkern.lang.func import Func
from diffkern.lang.intrinsics import INTRINSICS, Intrinsic
from diffkern.lang.library import Composed
from diffkern.lang.structs import public_type
from diffkern.process.dataclass import dataclass
from diffkern.process.forks import free_in_child
from diffkern.process.tracebacks import brief
from diffkern.runtime.arrays.array import array
from diffkern.runtime.arrays.create import empty
from diffkern.runtime.arrays.foreign import adopt
from diffkern.runtime.arrays.indexed import SeenThrough
from diffkern.runtime.records.launch import launch
from diffkern.transforms.operators import OPERATORS, SIGNS

__all__ = ["executed", "map_arrays", "mapped", "operated"]


@dataclass(frozen=True, slots=True)
class _ResultTypes:
    """The types of what a function returns, as long as a kernel that calls it means the same."""

    types: tuple[Stored, ...]
    kernel: Kernel
    generation: int

    def holds(self) -> bool:
        """Return whether the objects that the function captures are unchanged."""
        return self.kernel.generation() == self.generation


kernels: dict[Any, Kernel] = {}
"""The kernels by functions, types, and where the results go."""
_known: dict[Any, _ResultTypes] = {}
"""The types of results by functions and types."""
_lock = free_in_child(threading.RLock())
_number = itertools.count()
_INDICES: Final = "ijkl"


@brief
def map_arrays(
    func: Callable[..., Any],
    *inputs: Any,
    out: Any = None,
    return_kernel: bool = False,
    block_dim: int | None = None,
    device: Any = None,
) -> Any:
    """Apply a function to the elements of arrays.

    Parameters
    ----------
    func : callable
        A built-in, a func, a Python function in the language of kernels, or a lambda.
    *inputs
        Arrays, whose shapes are broadcast as NumPy's, and values: numbers, vectors, structs.
    out : array or sequence of array, optional
        Where the results go, one array for each value that the function returns; new arrays by default, with a gradient
        if one of the inputs has one.
    return_kernel : bool, optional
        Whether to return the kernel instead of launching it: its arguments are the inputs, then the results.
    block_dim : int, optional
        Threads of a block on a GPU.
    device : str or Device, optional
        Where to run; where the arrays are by default.

    Returns
    -------
    array, list of array, or Kernel
        The results: one array, or a list of several.

    Raises
    ------
    KernelError
        If the function cannot be compiled for these inputs.
    ValueError
        If shapes do not fit.

    Examples
    --------
    >>> dk.map(lambda x, y: x * x + y, dk.array([1.0, 2.0]), 0.5).numpy()
    array([1.5, 4.5])
    """
    return mapped(func, inputs, out, return_kernel, block_dim, device, NATIVE)


@brief
def operated(name: str, operands: Sequence[Any], out: Any) -> Any:
    """Apply an operator or a built-in to the elements of arrays: in Warp's dialect where one of them is in it."""
    dialect = WARP if any(getattr(one, "in_warps_dialect", False) for one in operands) else NATIVE
    if dialect is NATIVE:
        operands = _like_numpys(name, operands)
    try:
        return mapped(OPERATORS.get(name) or INTRINSICS[name], operands, out, False, None, None, dialect)
    except KernelTypeError as error:
        # The line is that of the operator in the program; that of the function it stands for would lead astray.
        raise KernelTypeError(error.message, remedy=error.remedy) from None


# -- operands of operators ---------------------------------------------------------------------------------------------


def _like_numpys(name: str, operands: Sequence[Any]) -> list[Any]:
    """Return operands as NumPy takes them: lists are arrays, and a bool beside numbers is 0 or 1."""
    given = [
        np.asarray(one) if isinstance(one, (list, tuple)) and element_of_value(one) is None else one for one in operands
    ]
    for one, value in zip(operands, given, strict=True):
        is_other = value is None or isinstance(value, (str, bytes, dict, set, frozenset))
        if is_other or (isinstance(value, np.ndarray) and value.dtype.kind in "OSUMm"):
            raise MisuseError(
                f"{SIGNS.get(name, name)} of an array and {repr(one)[:60]}",
                remedy="combine and compare arrays with arrays, numbers and lists of numbers",
            )
    numbers = [one for one in given if not _is_bool(one)]
    if not numbers or len(numbers) == len(given) or name.startswith("bitwise"):
        return given
    return [_as_number(one, numbers[0]) if _is_bool(one) else one for one in given]


def _is_bool(value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return True
    if isinstance(value, np.ndarray):
        return bool(value.dtype.kind == "b")
    return bool(getattr(_whole(value), "_element", None) == T.BOOL)


def _as_number(value: Any, beside: Any) -> Any:
    """Return bools as numbers of the type of the operand beside them."""
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    if isinstance(beside, SeenThrough):
        beside = beside.data
    if isinstance(beside, array) and not isinstance(beside._element, Struct):
        return _as_array(value).astype(public_type(T.scalar_of(beside._element)))
    if isinstance(beside, (np.ndarray, np.generic)):
        return _as_array(value).astype(beside.dtype)
    return _as_array(value).astype(type(beside)) if isinstance(beside, (int, float)) else value


def mapped(
    func: Callable[..., Any],
    inputs: Sequence[Any],
    out: Any,
    return_kernel: bool,
    block_dim: int | None,
    device: Any,
    dialect: Dialect,
) -> Any:
    """Apply a function in a dialect; the parameters are those of :func:`map_arrays`."""
    if not inputs:
        raise MisuseError("dk.map applies a function to arrays, and none are given", remedy="pass at least one array")
    # Arrays of other libraries share their memory, so nothing is copied.
    given = [_as_array(value) for value in inputs]
    arrays = [value for value in given if isinstance(value, array)]
    if not arrays:
        raise MisuseError("dk.map applies a function to arrays, and none are given", remedy="call the function itself")
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    # Before the kernel is chosen, as the types are part of its key.
    given = _typed(given, arrays)
    wanted = None if out is None else [out] if isinstance(out, (array, SeenThrough)) else list(out)
    # A kernel cannot write through index arrays: results go to a copy, which is assigned below.
    destinations = None if wanted is None else [_whole(one) for one in wanted]
    kernel, results = _kernel(func, given, destinations, shape, dialect)
    if return_kernel:
        return kernel
    if destinations is None:
        # New results take part in derivatives if an input does.
        smooth = any(a.requires_grad for a in arrays)
        place = device if device is not None else arrays[0].device
        destinations = [
            empty(shape, public_type(t), smooth and (isinstance(t, Struct) or T.is_differentiable(t)), place)
            for t in results
        ]
        for result in destinations:
            result._speak(dialect is WARP)
    for destination in destinations:
        if destination.shape != shape:
            raise ValueError(f"the results have shape {shape}, and {described(destination)} does not")
    # A result that goes to an input is that parameter itself: passing the array twice would be an alias.
    others = [destination for destination in destinations if _place_of(destination, given) is None]
    launch(kernel, shape, given, others, block_dim=block_dim, device=device)
    if wanted is not None:
        for one, destination in zip(wanted, destinations, strict=True):
            if isinstance(one, SeenThrough):
                one.assign(destination)
        destinations = wanted
    return destinations[0] if len(destinations) == 1 else destinations


def _whole(value: Any) -> Any:
    """An array seen through index arrays as one of its own; anything else as it is."""
    return value.contiguous() if isinstance(value, SeenThrough) else value


def _as_array(value: Any) -> Any:
    """Return an array over the memory of another library's array; any other value unchanged."""
    value = _whole(value)
    if isinstance(value, array) or element_of_value(value) is not None:
        return value
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        return value
    found = adopt(value, None)
    return value if found is None else found


def _typed(given: Sequence[Any], arrays: Sequence[array]) -> list[Any]:
    """Python's numbers in the widest type of the arrays they are combined with."""
    scalars = [T.scalar_of(a._element) for a in arrays if not isinstance(a._element, Struct)]
    floats = max((s for s in scalars if s.is_float and s.bits > 32), key=lambda s: s.bits, default=T.FLOAT32)
    whole = max((s for s in scalars if s.is_integer), key=lambda s: s.bits, default=T.INT32)
    out = []
    for value in given:
        if type(value) is float and floats != T.FLOAT32 or type(value) is int and all(s.is_float for s in scalars):
            value = float(value) if floats == T.FLOAT32 else SCALARS[floats.name](value)
        elif type(value) is int and whole != T.INT32:
            value = SCALARS[whole.name](value)
        out.append(value)
    return out


def _place_of(destination: array, given: Sequence[Any]) -> int | None:
    """Return the position of the input that is the very array to which the results go, or None."""
    same = (
        k
        for k, a in enumerate(given)
        if isinstance(a, array) and a.shape == destination.shape and a._same_place(destination)
    )
    return next(same, None)


# -- the kernel --------------------------------------------------------------------------------------------------------


def _kernel(
    func: Callable[..., Any],
    given: Sequence[Any],
    destinations: Sequence[array] | None,
    shape: tuple[int, ...],
    dialect: Dialect,
) -> tuple[Kernel, tuple[Stored, ...]]:
    """The kernel for types and shapes like these, and the types of its results."""
    # Shapes count only as far as an axis is broadcast, so that one kernel serves arrays of all sizes.
    pattern = tuple(
        (a._element, tuple(n != m for n, m in zip(a.shape, shape[len(shape) - a.ndim :], strict=True)))
        if isinstance(a, array)
        else type(a)
        for a in given
    )
    signature = _identity(func), pattern, dialect.name
    # One lock for both tables: two threads must not make two kernels for one key.
    with _lock:
        known = _known.get(signature)
        # The result types may depend on captured objects, so they are looked up again if these changed.
        results = known.types if known is not None and known.holds() else ()
        if destinations is None:
            results = results or _results(_callable(func, len(given), dialect), given)
            places: tuple[int | None, ...] = (None,) * len(results)
        else:
            places = tuple(_place_of(destination, given) for destination in destinations)
        key = (*signature, len(shape), places)
        if key not in kernels:
            kernels[key] = _made(func, given, places, shape, dialect)
        kernel = kernels[key]
        if destinations is None and (known is None or known.types is not results):
            _ = kernel.may_change  # which takes down what it captures
            _known[signature] = _ResultTypes(results, kernel, kernel.generation())
        return kernel, results


def _identity(func: Any) -> Any:
    """Return the cache key of a function: for a lambda its code and captures, as it may be created repeatedly."""
    if isinstance(func, LambdaType) and func.__name__ == "<lambda>":
        # A lambda in a loop is a new object each time; with equal code, captures and globals it means the same.
        held = tuple(_as_key(cell.cell_contents) for cell in func.__closure__ or ())
        # The position in a file does not change the meaning.
        code = func.__code__.replace(co_filename="", co_firstlineno=1, co_linetable=b"")
        return code, held, id(func.__globals__)
    return func


def _as_key(value: Any) -> Any:
    """Return a key that differs wherever a kernel may tell two captured values apart.

    Numbers that are equal may differ: 1 and 1.0, 0.0 and -0.0. Equality of other objects is up to their classes.
    """
    if isinstance(value, tuple):
        return type(value), tuple(map(_as_key, value))
    if isinstance(value, (float, complex, np.generic)):
        return type(value), repr(value)
    if isinstance(value, (int, str, bytes, NoneType)):
        return type(value), value
    return _Object(value)


class _Object:
    """An object by its identity; the key keeps it alive, so that no other one gets its address."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Object) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _made(
    func: Callable[..., Any],
    given: Sequence[Any],
    places: Sequence[int | None],
    shape: tuple[int, ...],
    dialect: Dialect,
) -> Kernel:
    """The kernel whose results go to inputs, by their places, or to arrays of their own."""
    function = _callable(func, len(given), dialect)
    indices = _INDICES[: len(shape)]
    # Values are passed as they are; arrays by the element of this thread.
    elements = [f"a{k}[{_index(a, shape, indices)}]" if isinstance(a, array) else f"a{k}" for k, a in enumerate(given)]
    targets = [f"out{k}" if place is None else f"a{place}" for k, place in enumerate(places)]
    parameters = [f"a{k}" for k in range(len(given))] + [t for t in targets if t.startswith("out")]
    lines = [
        f"def map_{_name(func)}({', '.join(parameters)}):",
        f"    {', '.join(indices)} = tid()",
        # All results are computed before the first is stored, as a destination may be an input.
        f"    {', '.join(f'r{k}' for k in range(len(places)))} = function({', '.join(elements)})",
        *(f"    {target}[{', '.join(indices)}] = r{k}" for k, target in enumerate(targets)),
    ]
    space = {"tid": INTRINSICS["tid"], "function": function}
    return Kernel(executed("\n".join(lines) + "\n", f"map_{_name(func)}", space))


def _index(a: array, shape: tuple[int, ...], indices: str) -> str:
    """The indices of an element, where axes of extent 1 are repeated."""
    own = zip(a.shape, shape[len(shape) - a.ndim :], indices[len(shape) - a.ndim :], strict=True)
    return ", ".join(index if n == m else "0" for n, m, index in own)


def _name(func: Any) -> str:
    name = getattr(func, "__name__", "function")
    return name if name.isidentifier() else "function"


def executed(text: str, name: str, space: dict[str, Any]) -> Any:
    """The function of a text, whose lines tracebacks show."""
    file = f"<diffkern {name} {next(_number)}>"
    # The frontend reads sources through linecache, as tracebacks do.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space.setdefault("__name__", __name__)
    exec(compile(text, file, "exec"), space)
    return space[name]


def _callable(func: Any, arity: int, dialect: Dialect) -> Func:
    """A func that kernels may call."""
    if isinstance(func, Func):
        return func
    if isinstance(func, (Intrinsic, Composed)):
        names = ", ".join(f"a{k}" for k in range(arity))
        text = f"def {func.name}({names}):\n    return built_in({names})\n"
        return Func(executed(text, func.name, {"built_in": func}), dialect)
    if isinstance(func, LambdaType) and func.__name__ == "<lambda>":
        return Func(_of_lambda(func), dialect)
    if isinstance(func, FunctionType):
        return Func(func, dialect)
    raise MisuseError(
        f"dk.map applies a function to elements, not {func!r}", remedy="pass a built-in, a func, or a Python function"
    )


def _of_lambda(func: Any) -> Any:
    """A function with the body of a lambda, found in its file."""
    code = func.__code__
    # inspect.getsource gives the whole statement around a lambda, which may hold several and need not parse.
    text = "".join(linecache.getlines(code.co_filename, func.__globals__))
    try:
        nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Lambda)]
    except SyntaxError:
        nodes = []
    inside = [n for n in nodes if n.lineno <= code.co_firstlineno <= (n.end_lineno or n.lineno)]
    # Several lambdas in one line are told apart by compiling them again.
    alike = inside if len(inside) == 1 else [n for n in inside if _like(n, code)]
    if not alike:
        raise KernelTypeError("the source of the lambda is not found", remedy="write it as a function with def")
    node = alike[0]
    held = {n: CellType(c.cell_contents) for n, c in zip(code.co_freevars, func.__closure__ or (), strict=True)}
    arguments = ", ".join(a.arg for a in node.args.args)
    # A function around it gives the captured variables cells, as the lambda has.
    body = f"def outer({', '.join(held)}):\n    def function({arguments}):\n        return {ast.unparse(node.body)}\n"
    outer = executed(body + "    return function\n", "outer", {})
    inner = outer(*held).__code__  # whose globals are those of the lambda, so that their changes are noticed
    return FunctionType(inner, func.__globals__, "function", None, tuple(held[n] for n in inner.co_freevars))


def _like(node: ast.Lambda, code: Any) -> bool:
    """Return whether a lambda of the source has the parameters and names of a compiled one."""
    if [a.arg for a in node.args.args] != list(code.co_varnames[: code.co_argcount]):
        return False
    # Free variables must be locals of an outer function, or they would compile to loads of globals.
    free = "; ".join(f"{name} = None" for name in code.co_freevars) or "pass"
    outer = f"def _():\n    {free}\n    return {ast.unparse(node)}\n"
    made = compile(outer, "<lambda>", "exec")
    inner = next(c for c in made.co_consts if hasattr(c, "co_code"))
    again = next(c for c in inner.co_consts if hasattr(c, "co_code"))
    return bool((again.co_code, again.co_names, again.co_consts) == (code.co_code, code.co_names, code.co_consts))


def _results(function: Func, given: Sequence[Any]) -> tuple[Stored, ...]:
    """The types of what the function returns for elements and values like these."""
    types = [a._element if isinstance(a, array) else _type_of(function, a) for a in given]
    found = result_types(function.pyfunc, types)
    if not found:
        raise KernelTypeError(f"{function.name} returns nothing", remedy="return what the arrays are to hold")
    # Python's floats are weak: they do not make results of half-precision arrays wider.
    strong = (t for t, a in zip(types, given, strict=True) if type(a) is not float and not isinstance(t, Struct))
    floats = {scalar for t in strong if (scalar := T.scalar_of(t)).is_float}
    half = next(iter(floats)) if len(floats) == 1 and floats <= T.STORAGE_ONLY else None
    kept = [t for t in found if isinstance(t, (Struct, T.Scalar, T.Vec, T.Mat))]
    return tuple(_stored_as(half, t) if half is not None else t for t in kept)


def _stored_as(half: T.Scalar, t: Stored) -> Stored:
    """A type of float32 with the numbers that the arrays have."""
    return t if isinstance(t, Struct) or T.scalar_of(t) != T.FLOAT32 else T.with_scalar(t, half)


def _type_of(function: Func, value: Any) -> Stored:
    found = element_of_value(value)
    if found is None:
        raise MisuseError(
            f"dk.map does not know what {function.name} returns, as it takes {described(value)}",
            remedy="pass out=, an array for each result",
        )
    return found
