"""Types and values of the arguments of a kernel that is tested without a launch.

In: a Python function with or without annotations, and arguments as for a launch. Out: their types for the frontend, and
NumPy arrays and numbers that :class:`~diffkern.testing.programs.Program` takes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffkern.ir.types import SCALARS, Array, Type
from diffkern.lang.annotations import ArrayAnnotation
from diffkern.lang.dtypes import CompositeValue, element_of_value, resolve_dtype
from diffkern.runtime.array import array

__all__ = ["argument_types", "argument_values"]


def argument_types(pyfunc: Callable[..., Any], args: Sequence[Any]) -> list[Type]:
    """The types of arguments: what the annotations say, else what is passed."""
    parameters = inspect.signature(pyfunc, eval_str=True).parameters.values()
    return [_type(p.name, p.annotation, a) for p, a in zip(parameters, args, strict=True)]


def _type(name: str, annotation: Any, value: Any) -> Type:
    if isinstance(value, array):
        return value._type
    if isinstance(annotation, ArrayAnnotation) and annotation.dtype is not None:
        return Array(annotation.dtype, annotation.ndim)
    if isinstance(value, np.ndarray) and not isinstance(value, CompositeValue):
        return Array(SCALARS[value.dtype.name], value.ndim)
    element = element_of_value(value) if annotation is inspect.Parameter.empty else resolve_dtype(annotation)
    if element is None:
        raise TypeError(f"cannot tell the type of argument {name!r}, {value!r}")
    return element


def argument_values(args: Sequence[Any]) -> list[Any]:
    """The arguments with NumPy arrays in the place of diffkern's."""
    return [np.array(a.numpy()) if isinstance(a, array) else a for a in args]
