"""``@wp.func_native``: functions whose bodies are C++ text.

Formulas and, on a GPU, what threads of a warp or a block do together are translated to Python, for a CPU and for a GPU.
A function with any other body can be declared; a kernel that calls it is rejected at the call.
"""

from __future__ import annotations

import inspect
import itertools
import linecache
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from diffkern.errors import MisuseError
from diffkern.lang import definition_of
from diffkern.lang.annotations import ArrayAnnotation, TileAnnotation
from diffkern.lang.dialects import WARP
from diffkern.lang.dtypes import DType
from diffkern.lang.func import Func
from diffkern.lang.rules import func_grad
from diffkern.process.dataclass import dataclass
from diffkern.warp.c.c_adjoints import adjoint, references
from diffkern.warp.c.c_text import translated
from diffkern.warp.c.c_types import OtherTextError

__all__ = ["NativeFunction", "TranslatedFunction", "func_native"]

_numbers: Final = itertools.count(1)


class NativeFunction:
    """A function whose C++ body is not translated.

    Attributes
    ----------
    refused_in_kernels
        The error for a call in a kernel, and its remedy.
    """

    def __init__(self, function: Callable[..., Any], reason: str) -> None:
        self.refused_in_kernels = (
            f"has a body in C++, which is not compiled here ({reason})",
            "write it in Python, as a function decorated with @wp.func",
        )
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any) -> NoReturn:
        raise MisuseError(
            f"{self.__name__} {self.refused_in_kernels[0]}",
            remedy=self.refused_in_kernels[1],
        )


class TranslatedFunction(Func):
    """A func whose body was C++ text.

    Attributes
    ----------
    on_gpu : Func or str
        The func that GPUs run in its place: itself, where the texts for both targets are equal; or why there is none.
    on_cpu : Func or str
        The func that CPUs run, likewise.
    """

    on_gpu: Func | str
    on_cpu: Func | str

    def on(self, simt: bool) -> Func | str:
        """Return the func that a CPU or a GPU runs where this one is called, or why there is none."""
        return self.on_gpu if simt else self.on_cpu


@dataclass(frozen=True)
class _Bodies:
    """The bodies of a function, in Python.

    Attributes
    ----------
    forward : list of str
        The lines of the primal.
    adjoint : list of str or None
        The lines of the adjoint, if it has a text.
    """

    forward: list[str]
    adjoint: list[str] | None


def _written(function: Callable[..., Any], bodies: _Bodies, kind: type[Func]) -> Func:
    """Make a func from bodies in Python, with the parameters of a function."""
    annotations = _annotations(function)
    # A parameter by reference has no cotangent of its own, so the derivative is given for a func of values.
    parameters = list(inspect.signature(function).parameters)
    changed = references(function)
    if bodies.adjoint is None or not changed:
        made = kind(_python(function, function.__name__, parameters, bodies.forward, annotations), WARP)
        of_values = made
    else:  # a func that returns what the variables of the caller are afterwards has the derivative
        by_value = {name: getattr(a, "value_type", a) for name, a in annotations.items()}
        lines = [*bodies.forward, f"return {', '.join(changed)}"]
        of_values = Func(_python(function, f"values_of_{function.__name__}", parameters, lines, by_value), WARP)
        called = f"{', '.join(changed)} = values({', '.join(parameters)})"
        made = kind(_python(function, function.__name__, parameters, [called], annotations, values=of_values), WARP)
    if bodies.adjoint is not None:
        taken = [*parameters, *(f"ct_{name}" for name in changed or ["ret"])]
        # The adjoint names these to make zeros of the parameters' types.
        types = {f"type_of_{name}": a for name, a in annotations.items()}
        # Nothing is returned, so there is no cotangent of a result.
        if not changed and "return" not in inspect.get_annotations(function):
            taken = parameters
        func_grad(of_values)(
            _python(function, f"adjoint_of_{function.__name__}", taken, bodies.adjoint, annotations, **types)
        )
    return made


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    return {n: a for n, a in inspect.get_annotations(function, eval_str=True).items() if n != "return"}


def _python(
    function: Callable[..., Any],
    name: str,
    parameters: list[str],
    lines: list[str],
    annotations: Mapping[str, Any],
    **names: Any,
) -> Callable[..., Any]:
    """Return a function of a given name with a body in Python, whose globals are the given names."""
    # A unique file name, known to linecache: the frontend reads the source of a function from its file.
    file = f"<{function.__module__}.{function.__qualname__} {next(_numbers)}>"
    body = "".join(f"    {line}\n" for line in lines or ["pass"])
    text = f"def {name}({', '.join(parameters)}):\n{body}"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    # Here, as both modules need this one.
    import diffkern.warp as wp
    from diffkern.warp.c import c_functions, c_warps

    space: dict[str, Any] = {
        "wp": wp, "c_functions": c_functions, "c_warps": c_warps, "__name__": function.__module__, **names
    }  # fmt: skip
    exec(compile(text, file, "exec"), space)
    made: Any = space[name]
    # Helpers take values; only the function itself has parameters by reference.
    known = {n: getattr(a, "value_type", a) if name != function.__name__ else a for n, a in annotations.items()}
    made.__annotations__ = known
    made.__doc__, made.__defaults__ = function.__doc__, function.__defaults__ if name == function.__name__ else None
    made.__qualname__ = f"{function.__qualname__.rpartition('.')[0]}.{name}".lstrip(".")
    return made  # type: ignore[no-any-return]


def _axes_of(function: Callable[..., Any]) -> Mapping[str, int]:
    """Return the number of axes of a function's array parameters, and of the arrays in its struct parameters."""
    found: dict[str, int] = {}
    for name, given in _annotations(function).items():
        annotation = getattr(given, "value_type", given)
        if isinstance(annotation, ArrayAnnotation | TileAnnotation):
            found[name] = _count_of(annotation)
        # Only structs are searched for arrays; other classes are types of numbers and vectors.
        fields = annotation if isinstance(annotation, type) and definition_of(annotation) is not None else None
        for field, kind in inspect.get_annotations(fields, eval_str=True).items() if fields is not None else ():
            if isinstance(kind, ArrayAnnotation):
                found[f"{name}.{field}"] = _count_of(kind)
    return found


def _count_of(annotation: Any) -> int:
    """Return the number of axes of an array or a tile."""
    shape = annotation.shape if isinstance(annotation, TileAnnotation) else None
    return len(shape) if shape is not None else getattr(annotation, "ndim", 1)


def _kinds_of(function: Callable[..., Any]) -> tuple[dict[str, str], str | None]:
    """Return the types of the parameters and their fields (those of elements for arrays), and of the result."""
    annotations = inspect.get_annotations(function, eval_str=True)
    found = dict.fromkeys(inspect.signature(function).parameters, "")
    for name in found.copy():
        annotation = annotations.get(name)
        found[name] = _kind_of(annotation)
        definition = definition_of(annotation) if isinstance(annotation, type) else None
        for field, kind in getattr(definition.type, "fields", ()) if definition is not None else ():
            found[f"{name}.{field}"] = _kind_of(kind)
    result = annotations.get("return")
    return found, None if result is None else _kind_of(result)


def _kind_of(annotation: Any) -> str:
    """Return the type of a scalar, a vector or an element; "" for other annotations."""
    if annotation in (int, float, bool):
        return {int: "int32", float: "float32", bool: "bool"}[annotation]
    # Arrays and tiles have a `dtype`. So have vector types, which have a `length` too and are types themselves.
    if not isinstance(annotation, DType | type) and hasattr(annotation, "dtype") and not hasattr(annotation, "length"):
        return _kind_of(annotation.dtype)
    return str(getattr(annotation, "ir", "" if isinstance(annotation, type) else annotation or ""))


def func_native(
    snippet: str, adj_snippet: str | None = None, replay_snippet: str | None = None
) -> Callable[[Callable[..., Any]], Any]:
    """Make a func of a function with a body in C++.

    Parameters
    ----------
    snippet : str
        The body. Declarations, assignments, branches, loops, ``return``, arithmetic, casts, elements of arrays
        (``a.data[k]``), fields, calls of Warp's functions (``wp::dot(a, b)``), and bits read as another type are
        written in Python; a text of another kind is not compiled, and the function cannot be called. Nor is one that
        reads an element and writes it after that, which in C for a processor no other thread disturbs. The text for
        a GPU may have more: what threads of a warp do together, barriers, atomic updates, shared arrays.
    adj_snippet : str, optional
        The body of its derivative, as in Warp: for a parameter ``x`` it adds to ``adj_x``, for an array ``a`` to
        ``adj_a[k]``, and it reads ``adj_ret``. Without one the derivative is that of the body.
    replay_snippet : str, optional
        The text that the adjoint runs in place of the body. A function that has one is not compiled.

    Returns
    -------
    callable
        The decorator.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        kinds, axes = _kinds_of(function), _axes_of(function)

        def bodies(gpu: bool) -> _Bodies:
            # Replays recompute a primal with the body itself, so that another text could not be honoured.
            if replay_snippet:
                raise OtherTextError("it has a text for the adjoint to run in its place", 1)
            forward = translated(snippet, kinds[0], gpu, axes, kinds[1])
            return _Bodies(forward, adjoint(function, snippet, adj_snippet, kinds, gpu, axes) if adj_snippet else None)

        def read(gpu: bool) -> _Bodies | str:
            try:
                return bodies(gpu)
            except OtherTextError as reason:
                return f"line {reason.args[1]} of it: {reason.args[0]}"

        # Both are read when the function is declared: whether it can be called on a target is known before any launch.
        on_cpu, on_gpu = read(gpu=False), read(gpu=True)
        if isinstance(on_cpu, str) and isinstance(on_gpu, str):
            return NativeFunction(function, on_cpu)
        made = _written(function, on_gpu if isinstance(on_cpu, str) else on_cpu, TranslatedFunction)  # type: ignore[arg-type]
        assert isinstance(made, TranslatedFunction)
        made.on_cpu = on_cpu if isinstance(on_cpu, str) else made
        if isinstance(on_gpu, str):
            made.on_gpu = on_gpu
        else:
            # Equal bodies share one func, so that kernels for both targets have one fingerprint.
            made.on_gpu = made if isinstance(on_cpu, str) or on_gpu == on_cpu else _written(function, on_gpu, Func)
        return made

    return decorate
