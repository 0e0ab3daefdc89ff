"""The arguments of commands that name a kernel and the types of its arguments.

``FILE.py:KERNEL`` and texts of types give the kernel and the types, or a :class:`UsageError`.
"""

from __future__ import annotations

import argparse
import ast
import inspect
from collections.abc import Sequence
from pathlib import Path

import diffkern
from diffkern.cli.files import UsageError, find_kernel, import_file
from diffkern.kernels.kernel import Kernel

__all__ = ["add_kernel", "kernel_and_types"]


def add_kernel(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a kernel to a command's parser."""
    parser.add_argument("kernel", metavar="FILE.py:KERNEL")
    parser.add_argument(
        "--types",
        nargs="+",
        default=[],
        metavar="TYPE",
        help="argument types for a kernel without annotations, in order or by name: x='array1d(float32)' n=int32",
    )


def kernel_and_types(options: argparse.Namespace) -> tuple[Kernel, list[object]]:
    """Return the kernel that a command line names, and the types given for its arguments; none if it is annotated.

    Raises
    ------
    UsageError
        If there is no such kernel, or a type is none.
    """
    # From the right: the path of a file may have a colon, as on Windows.
    path, separator, name = options.kernel.rpartition(":")
    if not separator or not path or not name:
        raise UsageError(
            f"{options.kernel!r} does not name a kernel; write FILE.py:KERNEL, as in model.py:spring_energy"
        )
    kernel = find_kernel(import_file(Path(path)), name)
    return kernel, _argument_types(kernel, options.types)


def _argument_types(kernel: Kernel, texts: Sequence[str]) -> list[object]:
    """Return the argument types in the order of the kernel's parameters."""
    names = list(inspect.signature(kernel.func).parameters)
    given: dict[str, object] = {}
    for position, text in enumerate(texts):
        name, separator, expression = text.partition("=")
        # The equals sign of `array(float32, ndim=2)` is not that of `x=float32`.
        if not separator or not name.strip().isidentifier():
            if position >= len(names):
                raise UsageError(f"{len(texts)} types for the {len(names)} parameters of {kernel.key}")
            name, expression = names[position], text
        name = name.strip()
        if name not in names:
            raise UsageError(f"{kernel.key} has no parameter {name!r}; it has {', '.join(names)}")
        if name in given:
            raise UsageError(f"parameter {name!r} has two types")
        given[name] = _parse_type(expression)
    missing = [name for name in names if name not in given]
    if given and missing:
        raise UsageError(f"no type for {', '.join(missing)}; give all parameters a type, or none where annotated")
    return [given[name] for name in names if name in given]


def _parse_type(text: str) -> object:
    """Evaluate a type such as ``float32``, ``vec3``, ``array2d(float32)`` or ``array(vec3, ndim=2)``."""
    try:
        # The expression is walked, not evaluated, so that a type on the command line cannot run code.
        return _type_of(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, TypeError, ValueError) as error:
        raise UsageError(
            f"{text!r} is not a type ({error}); write one like float32, vec3, array1d(float32) or array(vec3, ndim=2)"
        ) from error


def _type_of(node: ast.expr) -> object:
    match node:
        case ast.Name(id="float" | "int" | "bool" as name):
            return {"float": float, "int": int, "bool": bool}[name]
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="dk" | "wp" | "diffkern"), attr=name):
            # Names with an underscore are no part of the language.
            if name.startswith("_") or not hasattr(diffkern, name):
                raise ValueError(f"diffkern has no type {name!r}")
            found: object = getattr(diffkern, name)
            return found
        case ast.Call(func=function, args=args, keywords=keywords) if len(args) <= 1:
            make = _type_of(function)
            if not callable(make):
                raise ValueError(f"{ast.unparse(function)} takes no arguments")
            # `array(float32)` on the command line means the dtype; in a program the first argument is the data.
            values = {"dtype": _type_of(args[0])} if args else {}
            for keyword in keywords:
                if keyword.arg is None:
                    raise ValueError("** is not possible here")
                values[keyword.arg] = _type_of(keyword.value)
            made: object = make(**values)
            return made
        case ast.Constant(value=int() as value):
            return value
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is not understood")
