"""Remedies for what other libraries have and kernels do not: for users who come from Warp, Numba, NumPy or PyTorch.

For an element of a kernel that the kernel language does not have (an object that is called, an attribute, a missing
name of diffkern's) the functions return a sentence of what to write instead, for the remedy of the error.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any, Final

from diffkern.lang.called import Called, KnownToNumba
from diffkern.lang.intrinsics import INTRINSICS

__all__ = [
    "STRINGS", "array_attribute", "for_annotation", "for_call", "for_instance", "missing_name", "number_attribute",
]  # fmt: skip

_MAKE_OUTSIDE: Final = (
    "make the array before the launch and pass it as a parameter; in the kernel use variables, or a vector such as "
    "dk.vec3(...) for a few numbers"
)
_RANDOM: Final = "write state = dk.rand_init(seed, i) and dk.randf(state), or pass an array of random numbers"
_LOOP: Final = "write a loop over range(...) for it"
_ADD_UP: Final = (
    "add up in a loop over range(len(...)), or let each thread add its element with dk.atomic_add(total, 0, x[i])"
)

# Names of functions that make arrays, in NumPy, PyTorch, JAX and diffkern.
_MAKERS: Final = frozenset(
    "array asarray zeros ones full empty zeros_like ones_like full_like empty_like from_numpy arange linspace eye "
    "clone tensor local shared".split()
)
_REDUCTIONS: Final = frozenset("sum mean prod dot matmul einsum norm average trapz cumsum".split())

_CALLS: Final[Mapping[str, str]] = {
    "builtins.sum": _ADD_UP,
    "builtins.sorted": _LOOP,
    "builtins.list": "use a vector such as dk.vec3(...), a tuple, or an array parameter",
    "builtins.dict": "use single variables or array parameters",
    "builtins.str": "kernels compute with numbers; make text on the host",
    "builtins.isinstance": "types are known before the kernel runs: write a kernel or a @dk.func for each",
    "builtins.enumerate": "write for i in range(len(x)) and index",
    "builtins.zip": "write for i in range(len(x)) and index",
}

_NAMES: Final[Mapping[str, str]] = {
    "relu": "write dk.max(x, 0.0)",
    "sigmoid": "write 1.0 / (1.0 + dk.exp(-x))",
    "softmax": "take the maximum and the sum in loops, and divide dk.exp(x - maximum) by the sum",
    "square": "write x * x",
    "mean": "add up, and divide by the number",
    "sum": _ADD_UP,
    "grid": "write i = dk.tid()",
    "threadIdx": "write i = dk.tid()",
    "local_array": "write dk.zeros(shape=8, dtype=float), which is an array of the thread's own",
    **dict.fromkeys(("rand", "random"), _RANDOM),
}

_OF_ARRAYS: Final[Mapping[str, str]] = {
    "T": "exchange the indices instead, as in a[j, i]; an array with one axis is its own transpose",
    "numpy": "index the array, as in x[i]; numpy() is for the host, after the launch",
    "grad": "pass the gradient as a parameter of its own, as in inputs=[x, x.grad]",
    "item": "index the array, as in x[0]",
    "device": "where arrays are is decided by the launch",
    "requires_grad": "what has a gradient is decided by the arrays of the launch",
    "ptr": "index the array; there are no pointers in kernels",
    "data": "index the array, as in x[i]",
    "copy": "copy before the launch, with dk.clone(x), or element by element",
    "fill_": "assign the elements, one per thread, or call it before the launch",
    "zero_": "assign the elements, one per thread, or call it before the launch",
    **dict.fromkeys(("reshape", "flatten", "ravel", "view", "squeeze"), "reshape on the host, and pass the view"),
    **dict.fromkeys(("sum", "mean", "dot", "prod"), _ADD_UP),
    **dict.fromkeys(("min", "max", "argmin", "argmax"), "compare in a loop over range(len(...))"),
    **dict.fromkeys(("append", "push", "extend"), "arrays keep their size: write to an element of a larger one"),
}

_OF_NUMBERS: Final[Mapping[str, str]] = {
    "item": "it is a number already: leave .item() out",
    "numpy": "it is a number already: leave .numpy() out",
    "astype": "write float(...), int(...) or dk.float64(...)",
    "to": "write float(...), int(...) or dk.float64(...)",
    "float": "write float(...)",
    "shape": "it is a number; arrays have a shape",
    "real": "numbers in kernels are real: leave it out",
    "x": "it is a number, not a vector",
}

STRINGS: Final[Mapping[str, str]] = {
    "inf": "write math.inf",
    "+inf": "write math.inf",
    "infinity": "write math.inf",
    "-inf": "write -math.inf",
    "-infinity": "write -math.inf",
    "nan": "write math.nan",
}
"""The replacement for ``float("…")``."""


_OF_OTHER_PROGRAMS = (
    "is for Python and for Numba programs; a kernel cannot call it",
    "in a kernel write dk.grad(f)(x), dk.vjp(f)(x, ct) or dk.jvp(f)(x, t) of a func f",
)


def refused(obj: Any) -> tuple[str, str] | None:
    """Return the error and remedy for a call of an object that declares that kernels cannot call it;
    None for others.
    """
    # Statically, since the attribute lookup of a user's object may run code or answer anything.
    said = inspect.getattr_static(obj, "refused_in_kernels", None)
    return (str(said[0]), str(said[1])) if isinstance(said, tuple) else None


def for_call(obj: Any) -> tuple[str, str] | None:
    """Return the error and remedy for a call of an object of another library or of the host."""
    if isinstance(obj, Called):
        return _OF_OTHER_PROGRAMS
    if (refusal := refused(obj)) is not None:
        return refusal
    module = _module(obj)
    name = str(getattr(obj, "__name__", ""))
    root = module.partition(".")[0]
    known = _CALLS.get(f"{module}.{name}")
    if known is not None:
        return "cannot be called in a kernel", known
    if root == "diffkern":
        if name in _MAKERS:
            return "makes an array, which a kernel cannot", _MAKE_OUTSIDE
        return "is a function of the host", "call it outside the kernel, before or after the launch"
    if root == "random" or ".random" in module or "random" in type(obj).__module__:
        return "cannot be called in a kernel", _RANDOM
    if root == "time":
        return "cannot be called in a kernel", "kernels have no clock: take the time around the launch"
    if root == "warp" and (key := str(getattr(obj, "key", ""))) in INTRINSICS:
        return "cannot be called in a kernel: it is Warp's own", f"write dk.{key}, or import diffkern.warp as wp"
    if root in ("numpy", "cupy", "torch", "jax", "jaxlib", "scipy"):
        if name in _MAKERS:
            return "makes an array, which a kernel cannot", _MAKE_OUTSIDE
        if name in _REDUCTIONS:
            return "cannot be called in a kernel: it works on whole arrays", _ADD_UP
        if name in INTRINSICS:
            return "cannot be called in a kernel: it works on whole arrays", f"write dk.{name}, which takes one element"
        remedy = "write it for one element, in the kernel or as a @dk.func, with dk.sin, dk.max and so on"
        return "cannot be called in a kernel: it works on whole arrays", remedy
    return None


def _module(obj: Any) -> str:
    """Return the module that an object comes from; methods of built-in classes name none."""
    # Bound methods of C types have no module of their own.
    module = getattr(obj, "__module__", None)
    if module is None:
        owner = getattr(obj, "__self__", None)
        module = type(owner).__module__ if owner is not None else ""
    return str(module)


def for_instance(obj: Any, name: str, attribute: str) -> tuple[str, str]:
    """Return the error and remedy for reading an attribute of an object that is no module or class."""
    if isinstance(obj, KnownToNumba) and isinstance(getattr(obj, attribute, None), Called):
        return f"{name}.{attribute} {_OF_OTHER_PROGRAMS[0]}", _OF_OTHER_PROGRAMS[1]
    if not hasattr(obj, attribute):
        return f"{name} has no attribute {attribute!r}", "a kernel can read attributes of modules and classes"
    remedy = (
        f"give the value a name outside the kernel ({attribute} = {name}.{attribute}) and use that, or pass it as a "
        "parameter; several together as a @dk.struct"
    )
    return f"{name} is an object ({type(obj).__name__}), and its attributes are no constants for a kernel", remedy


def missing_name(owner: str, obj: Any, name: str) -> str | None:
    """Return the remedy for a name that other libraries have and a module does not; None for any other."""
    known: Mapping[str, str] = getattr(obj, "__instead__", {})  # what a module says of names that it does not have
    if name in known:
        return known[name]
    if getattr(obj, "__name__", "") == "diffkern" and name in _NAMES:
        return _NAMES[name].replace("dk.", f"{owner}.")
    return None


def missing_kind(obj: Any, name: str) -> str:
    """Return the kind of objects that is missing with a name that a module does not have, for the end of a message."""
    kinds: Mapping[str, str] = getattr(obj, "__absent_kinds__", {})
    found = next((kind for prefix, kind in kinds.items() if name.startswith(prefix)), None)
    return "" if found is None else f": diffkern has no {found}"


def where_names_are(obj: Any) -> str:
    """Return where to look for a name that a module does not have."""
    if getattr(obj, "__name__", "") == "diffkern":
        return "the page on the kernel language lists what there is"
    return "check the name, or what the module is"


def array_attribute(name: str) -> str | None:
    """Return the remedy for an attribute that arrays have elsewhere and not in kernels; None for any other."""
    return _OF_ARRAYS.get(name)


def number_attribute(name: str) -> str:
    """Return the remedy for an attribute of a number."""
    return _OF_NUMBERS.get(name, "numbers have no attributes in kernels")


def for_annotation(annotation: Any) -> str:
    """Return the remedy for an annotation that means nothing to a kernel."""
    text = annotation if isinstance(annotation, str) else f"{_module(annotation)}.{getattr(annotation, '__name__', '')}"
    if any(word in text.lower() for word in ("array", "tensor", "list", "sequence", "tuple")):
        return "write dk.array(dtype=float), with ndim=2 for two axes, or leave the annotation out"
    if isinstance(annotation, type) and _module(annotation).partition(".")[0] not in sys.stdlib_module_names:
        return (
            f"write @dk.struct above class {annotation.__name__}: with a type for each field, or annotate with a dtype "
            "such as float, int or dk.vec3"
        )
    if "str" in text or "dict" in text.lower():
        return "kernels take numbers, vectors, structs and arrays; decide on the host which kernel to launch"
    return "write a dtype such as float, int or dk.vec3, dk.array(dtype=..., ndim=...), or leave the annotation out"
