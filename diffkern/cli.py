"""The ``diffkern`` command.

In: the command line. Out: a report on standard output and exit status 0; or a message on standard error and status 2
for whatever the user can put right. A traceback is shown only for a fault of diffkern's own.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import diffkern
from diffkern import demo
from diffkern._version import __version__
from diffkern.cli_cache import add_cache_command
from diffkern.cli_compile import add_compile_command
from diffkern.cli_files import UsageError, find_kernel, import_file
from diffkern.errors import KernelError
from diffkern.kernel import Kernel

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; those of the process by default.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["demo"]:
        # The demo describes its own options, so everything behind its name is handed on.
        return demo.main(arguments[1:])
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], None] = options.run
    try:
        run(options)
    except (KernelError, UsageError) as error:
        print(f"diffkern: error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="diffkern", description="Differentiable kernels in Python.")
    parser.add_argument("--version", action="version", version=f"diffkern {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    commands.add_parser("demo", help="recover a rainfall map from a flood by gradient descent", add_help=False)

    show = commands.add_parser("inspect", help="print the source generated for a kernel")
    show.add_argument("target", metavar="FILE.py:KERNEL")
    show.add_argument("--adjoint", action="store_true", help="the adjoint instead of the forward")
    show.add_argument("--ir", action="store_true", help="the intermediate representation instead of Python source")
    show.add_argument(
        "--types",
        nargs="+",
        default=[],
        metavar="TYPE",
        help="argument types for a kernel without annotations, in order or by name: x='array1d(float32)' n=int32",
    )
    show.set_defaults(run=_inspect)

    add_compile_command(commands)
    add_cache_command(commands)
    return parser


def _inspect(options: argparse.Namespace) -> None:
    path, separator, name = options.target.rpartition(":")
    if not separator or not path or not name:
        raise UsageError(
            f"{options.target!r} does not name a kernel; write FILE.py:KERNEL, as in model.py:spring_energy"
        )
    kernel = find_kernel(import_file(Path(path)), name)
    types = _argument_types(kernel, options.types)
    if options.ir:
        print(kernel.ir(*types, adjoint=options.adjoint))
    elif options.adjoint:
        print(kernel.adjoint_source(*types))
    else:
        print(kernel.source(*types))


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
