"""``@wp.func_native``: functions whose bodies are text in C++.

Formulas, and on a GPU what threads of a warp or a block do together, are written in Python, for a processor and for a
GPU; a function with another body can be declared, and a kernel that calls it is refused where it does.
"""

from __future__ import annotations

import inspect
import itertools
import linecache
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from diffkern.errors import MisuseError
from diffkern.lang import definition_of
from diffkern.lang.annotations import TileAnnotation
from diffkern.lang.dialects import WARP
from diffkern.lang.dtypes import DType
from diffkern.lang.func import Func
from diffkern.warp.c_text import translated
from diffkern.warp.c_types import OtherTextError

__all__ = ["NativeFunction", "TranslatedFunction", "func_native"]

_numbers: Final = itertools.count(1)


class NativeFunction:
    """A function whose body is text in C++.

    Attributes
    ----------
    refused_in_kernels
        What is wrong with a call in a kernel, and what to write instead.
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
    """A func whose body was text in C++.

    Attributes
    ----------
    on_gpu : Func or str
        The func that GPUs run in its place: itself, where the texts for both say the same; or why there is none.
    on_cpu : Func or str
        The func that processors run, as well.
    """

    on_gpu: Func | str
    on_cpu: Func | str

    def on(self, simt: bool) -> Func | str:
        """The func that a processor or a GPU runs where this one is called, or why there is none."""
        return self.on_gpu if simt else self.on_cpu


def _written(function: Callable[..., Any], lines: list[str], kind: type[Func]) -> Func:
    """Make a func of a body in Python, with the parameters of a function."""
    file = f"<{function.__module__}.{function.__qualname__} {next(_numbers)}>"
    body = "".join(f"    {line}\n" for line in lines or ["pass"])
    text = f"def {function.__name__}({', '.join(inspect.signature(function).parameters)}):\n{body}"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    import diffkern.warp as wp
    from diffkern.warp import c_functions, c_warps

    space: dict[str, Any] = {
        "wp": wp, "c_functions": c_functions, "c_warps": c_warps, "__name__": function.__module__
    }  # fmt: skip
    exec(compile(text, file, "exec"), space)
    made = space[function.__name__]
    made.__annotations__ = {n: a for n, a in inspect.get_annotations(function, eval_str=True).items() if n != "return"}
    made.__doc__, made.__qualname__, made.__defaults__ = function.__doc__, function.__qualname__, function.__defaults__
    return kind(made, WARP)


def _axes_of(function: Callable[..., Any]) -> Mapping[str, int]:
    """Return the number of axes of a function's array parameters, and of the arrays in its struct parameters."""
    found: dict[str, int] = {}
    for name, annotation in inspect.get_annotations(function, eval_str=True).items():
        found[name] = _count_of(annotation)
        fields = annotation if isinstance(annotation, type) and definition_of(annotation) is not None else None
        for field, kind in inspect.get_annotations(fields, eval_str=True).items() if fields is not None else ():
            found[f"{name}.{field}"] = _count_of(kind)
    return found


def _count_of(annotation: Any) -> int:
    """Return the number of axes of an array or a tile."""
    shape = annotation.shape if isinstance(annotation, TileAnnotation) else None
    return len(shape) if shape is not None else getattr(annotation, "ndim", 1)


def _kinds_of(function: Callable[..., Any]) -> tuple[dict[str, str], str | None]:
    """The types of parameters, of their fields, and of the result; those of elements for arrays."""
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
    """The type of a number, a vector or an element; "" for others."""
    if annotation in (int, float, bool):
        return {int: "int32", float: "float32", bool: "bool"}[annotation]
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
    adj_snippet, replay_snippet : str
        Texts in C++ for its adjoint. A function that has one is not compiled.

    Returns
    -------
    callable
        The decorator.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        kinds, axes = _kinds_of(function), _axes_of(function)

        def body(gpu: bool) -> list[str]:
            if adj_snippet or replay_snippet:
                raise OtherTextError("it has an adjoint in C++", 1)
            return translated(snippet, kinds[0], gpu, axes, kinds[1])

        def read(gpu: bool) -> list[str] | str:
            try:
                return body(gpu)
            except OtherTextError as reason:
                return f"line {reason.args[1]} of it: {reason.args[0]}"

        on_cpu, on_gpu = read(gpu=False), read(gpu=True)
        if isinstance(on_cpu, str) and isinstance(on_gpu, str):
            return NativeFunction(function, on_cpu)
        made = _written(function, on_gpu if isinstance(on_cpu, str) else on_cpu, TranslatedFunction)  # type: ignore[arg-type]
        assert isinstance(made, TranslatedFunction)
        made.on_cpu = on_cpu if isinstance(on_cpu, str) else made
        if isinstance(on_gpu, str):
            made.on_gpu = on_gpu
        else:
            made.on_gpu = made if isinstance(on_cpu, str) or on_gpu == on_cpu else _written(function, on_gpu, Func)
        return made

    return decorate
