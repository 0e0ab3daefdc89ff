"""Built-in functions called from Python, on numbers and on vectors, matrices, quaternions and transforms.

The result is what the built-in gives in a kernel: the call is lowered for the types of the arguments as in a kernel,
and its readable source runs on the host. It is a Python number or a value such as ``dk.vec3``.
"""

from __future__ import annotations

import functools
import itertools
import linecache
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from diffkern.errors import KernelTypeError, described
from diffkern.host.device_functions import DeviceFunction, device_function, library_function
from diffkern.ir import types as T
from diffkern.lang.called import RequestedForm
from diffkern.lang.dtypes import SCALARS, DType, composite_type, element_of_value
from diffkern.lang.intrinsics import Intrinsic
from diffkern.lang.library import Composed
from diffkern.lang.values import CompositeValue, held_type
from diffkern.printing.executor import evaluator

__all__ = ["call"]

_KNOWN_NOW: Final = frozenset({"n", "shape", "length", "dtype"})
"""Parameters whose arguments are part of the program."""

_Given = tuple[tuple[str, Any], ...]
"""Arguments: the keyword, or nothing, and the type; what is part of the program by itself."""


def call(function: Composed | Intrinsic, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Evaluate a built-in in the scalar type of the vectors that are given; of Python's numbers in double precision.

    Parameters
    ----------
    function : Composed or Intrinsic
        The built-in.
    args, kwargs
        Numbers, values such as ``dk.vec3(…)``, and what is part of the program: dtypes and shapes.

    Raises
    ------
    KernelError
        If there is no such call in a kernel.
    """
    kinds = None if kwargs else _kinds(args)
    if kinds is not None and (plan := _PLANS.get((function, kinds))) is not None:
        return plan.run(args)
    given = _fixed(function, args, kwargs)
    values = [value for _, value, fixed in given if not fixed]
    types = [_type_of(function.name, value) for value in values]
    # As in NumPy, Python's numbers take the precision of the vectors and typed scalars that they meet.
    strong = [T.scalar_of(t) for t, v in zip(types, values, strict=True) if not _is_weak(v)]
    scalar = max((t for t in strong if t.is_float), key=lambda t: t.bits, default=T.FLOAT64)
    weak = [_is_weak(v) and T.scalar_of(t) == T.FLOAT32 for v, t in zip(values, types, strict=True)]
    typed = iter([T.with_scalar(t, scalar) if is_weak else t for t, is_weak in zip(types, weak, strict=True)])
    # Dtypes and shapes are part of the key by value, other arguments by type: one program serves all numbers.
    key = tuple((name, _Constant(value) if fixed else next(typed)) for name, value, fixed in given)
    evaluated, made = _compiled(function, key)
    found = evaluated(*values)
    results = found if isinstance(found, tuple) else (found,)
    # A built-in that changes its argument by reference changes the vector that was given.
    if isinstance(function, Composed) and _set(function, given, results):
        return None
    changed = function.sets if isinstance(function, Composed) else 0
    if changed < len(results):  # variables that a call in a kernel changes stay as they are
        results, made = results[changed:], made[changed:]
    # Python's numbers alone were computed in double precision, and the result is a plain Python number again.
    if not strong and not any(fixed for _, _, fixed in given):
        made = tuple(T.with_scalar(t, T.FLOAT32) if T.scalar_of(t).is_float else t for t in made)
    shown = tuple(_shown(t, scalar) for t in made)
    hosted = tuple(map(_hosted, results, shown))
    if kinds is not None and not any(fixed for _, _, fixed in given) and len(_PLANS) < _MOST_PLANS:
        changed = len(found) - len(results) if isinstance(found, tuple) else 0
        _PLANS[function, kinds] = _KnownCall(evaluated, changed, tuple(map(_host, shown)))
    return hosted if isinstance(found, tuple) and len(hosted) > 1 else hosted[0]


class _KnownCall(NamedTuple):
    """A call as it was worked out before for values of the same types.

    Attributes
    ----------
    evaluated
        The evaluator.
    changed
        How many of its results are variables that a call in a kernel changes.
    host
        Functions that return the other results as they are on the host.
    """

    evaluated: Callable[..., Any]
    changed: int
    host: tuple[Callable[[Any], Any], ...]

    def run(self, args: tuple[Any, ...]) -> Any:
        """Return the result for other values."""
        found = self.evaluated(*args)
        if not isinstance(found, tuple):
            return self.host[0](found)
        hosted = tuple([host(value) for host, value in zip(self.host, found[self.changed :], strict=True)])
        return hosted if len(hosted) > 1 else hosted[0]


_PLANS: Final[dict[tuple[Composed | Intrinsic, tuple[type, ...]], _KnownCall]] = {}
_MOST_PLANS: Final = 4096


def _kinds(args: tuple[Any, ...]) -> tuple[type, ...] | None:
    """Return the types of the arguments, if these tell all that a program depends on: not of large integers."""
    kinds = tuple(map(type, args))
    for kind, value in zip(kinds, args, strict=True):
        if kind is int:
            if not -(1 << 31) <= value < 1 << 31:
                return None
        elif kind is not float and not issubclass(kind, CompositeValue):
            return None
    return kinds


def _set(function: Composed, given: list[tuple[str, Any, bool]], results: tuple[Any, ...]) -> bool:
    """Give vectors that a call changes their components, where all that comes back goes to such."""
    # Which overload was called shows in the number of its results and arguments.
    for overload in function.overloads:
        names = list(overload.signature.parameters)
        if len(overload.sets) == len(results) and len(names) == len(given):
            by_name = {keyword or name: value for name, (keyword, value, _) in zip(names, given, strict=True)}
            targets = [by_name[name] for name in overload.sets]
            if all(isinstance(target, CompositeValue) for target in targets):
                for target, result in zip(targets, results, strict=True):
                    target.view(np.ndarray)[...] = result
                return True
    return False


class _Constant:
    """An argument that is part of the program."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Constant) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


def _fixed(
    function: Composed | Intrinsic, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[tuple[str, Any, bool]]:
    """The arguments with their keywords, and whether each is part of the program."""
    names = [part.partition("=")[0].strip("[] ") for part in function.signature.split(",")]
    pairs = [*itertools.zip_longest(names[: len(args)], args, fillvalue=""), *kwargs.items()]
    of_name = isinstance(function, Intrinsic)
    fixed = [isinstance(v, (DType, type, str, tuple)) or (of_name and name in _KNOWN_NOW) for name, v in pairs]
    keywords = [""] * len(args) + list(kwargs)
    return [(keyword, v, f) for keyword, (_, v), f in zip(keywords, pairs, fixed, strict=True)]


def _is_weak(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic)


def _type_of(name: str, value: Any) -> Any:
    t = element_of_value(value)
    # A Python integer takes the first type that holds it.
    if t == T.INT32 and _is_weak(value):
        return T.INT32 if -(1 << 31) <= value < 1 << 31 else T.INT64 if value < 1 << 63 else T.UINT64
    if t is not None:
        return t
    if hasattr(value, "shape") and hasattr(value, "dtype") and getattr(value.dtype, "name", None) in T.SCALARS:
        return T.Array(T.SCALARS[value.dtype.name], len(value.shape), "A")
    raise _unknown(name, value)


def _unknown(name: str, value: Any) -> KernelTypeError:
    each = f"dk.map(dk.{name}, ...) calls it for each element of arrays"
    remedy = each if hasattr(value, "shape") else "pass numbers, vectors such as dk.vec3(...)"
    return KernelTypeError(f"dk.{name} is called with {described(value)}", remedy=remedy)


@functools.cache
def _compiled(function: Composed | Intrinsic, given: _Given) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the evaluator of a built-in for types of arguments, and the types of its results."""
    made = _library(function, given) if isinstance(function, Composed) else _intrinsic(function, given)
    return evaluator(made.fn, made.python_source()), tuple(v.type for v in made.fn.body.yields)


def _library(function: Composed, given: _Given) -> DeviceFunction:
    types = [(name, t.value if isinstance(t, _Constant) else t) for name, t in given]
    wrong = next((t for _, t in types if isinstance(t, (str, tuple))), None)
    if wrong is not None:
        raise _unknown(function.name, wrong)
    return library_function(function, tuple(t for name, t in types if not name), {n: t for n, t in types if n})


def _intrinsic(function: Intrinsic, given: _Given) -> DeviceFunction:
    """The function that calls a built-in with parameters of some types."""
    names = [f"a{k}" for k in range(len(given))]
    fixed = {name: t.value for name, (_, t) in zip(names, given, strict=True) if isinstance(t, _Constant)}
    passed = ", ".join(f"{k}={name}" if k else name for name, (k, _) in zip(names, given, strict=True))
    free = [name for name in names if name not in fixed]
    text = f"def {function.name}({', '.join(free)}):\n    return built_in({passed})\n"
    file = f"<dk.{function.name}({', '.join(str(t) for _, t in given if not isinstance(t, _Constant))})>"
    # The frontend reads the source of a function through linecache.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space: dict[str, Any] = {"built_in": function, "__name__": __name__, **fixed}
    exec(compile(text, file, "exec"), space)
    return device_function(
        space[function.name], RequestedForm.VALUE, [t for _, t in given if not isinstance(t, _Constant)]
    )


def _shown(t: Any, scalar: T.Scalar) -> Any:
    """The type of a result on the host: of half values half, in which it was not computed."""
    half = scalar in T.STORAGE_ONLY and T.scalar_of(t) == T.FLOAT32
    return T.with_scalar(t, scalar) if half else t


def _host(t: Any) -> Callable[[Any], Any]:
    """Return the function of a result of a type that does what :func:`_hosted` does."""
    if isinstance(t, T.Scalar) or T.is_complex(t) or t.dtype == T.BFLOAT16:
        return lambda value: _hosted(value, t)
    kind, shape = composite_type(t), t.shape
    dtype = held_type(kind)
    return lambda value: kind._over(np.array(value, dtype).reshape(shape))


def _hosted(value: Any, t: Any) -> Any:
    """A result as a number of Python, or a scalar or vector of its type."""
    if T.is_complex(t):
        return complex(value) if T.scalar_of(t) == T.FLOAT32 else value
    if not isinstance(t, T.Scalar):
        return composite_type(t).wrap(np.array(value))
    number = value.item() if isinstance(value, np.generic) else value
    return number if t in (T.FLOAT32, T.INT32, T.BOOL) else SCALARS[t.name](number)
