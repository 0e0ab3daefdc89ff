"""``diffkern compile``: compile the kernels of a file ahead of time.

It writes a directory of artifacts for :func:`diffkern.load`, or raises :class:`UsageError`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from diffkern.cli.files import UsageError, find_kernel, import_file, kernels_of
from diffkern.cli.kernels import add_kernel, kernel_and_types
from diffkern.shipping.ahead import is_annotated
from diffkern.shipping.export import export
from diffkern.shipping.ship import compile_ahead

__all__ = ["add_compile_command", "add_export_command"]


def add_compile_command(commands: Any) -> None:
    """Add ``compile`` to the commands of the parser."""
    text = "compile the kernels of a file into a directory that can be shipped and loaded with dk.load"
    parser = commands.add_parser("compile", help=text, description=text)
    parser.add_argument("file", metavar="FILE.py", type=Path)
    parser.add_argument(
        "--target",
        default="native",
        metavar="TARGET[,TARGET…]",
        help="processors: native (the default), x86-64-v2, x86-64-v3, x86-64-v4, aarch64; GPUs: sm_80, sm_90 and so on",
    )
    parser.add_argument(
        "--out", required=True, metavar="DIR", type=Path, help="the directory to write, made if it does not exist"
    )
    parser.add_argument(
        "--kernel", action="append", default=[], metavar="NAME", help="only this kernel; can be repeated"
    )
    parser.add_argument(
        "--active",
        metavar="NAME[,NAME…]",
        help="parameters to differentiate with respect to; by default all that can have gradients",
    )
    parser.add_argument("--no-adjoint", action="store_true", help="compile no adjoints")
    parser.add_argument(
        "--programs",
        default="all",
        choices=("all", "least"),
        help="every program that a launch may need, such as those for overlapping arrays, or only the most common",
    )
    parser.add_argument(
        "--block-dim",
        type=int,
        metavar="N",
        help="threads per block for libmathdx tile products, instead of each kernel's own number",
    )
    parser.set_defaults(run=_compile)


def _compile(options: argparse.Namespace) -> None:
    module = import_file(options.file)
    left_out: list[str] = []
    if options.kernel:
        # Named by the user, so a kernel without annotations is an error.
        kernels = [find_kernel(module, name) for name in options.kernel]
    else:
        every = kernels_of(module)
        kernels = [kernel for kernel in every.values() if is_annotated(kernel)]
        # Kernels without annotations have no types before a launch; they are reported, not an error, as nobody named
        # them.
        left_out = sorted(name for name, kernel in every.items() if not is_annotated(kernel))
    if not kernels:
        raise UsageError(f"{options.file} has no kernel whose parameters are all annotated")
    targets = [name.strip() for name in options.target.split(",") if name.strip()]
    active = None if options.active is None else [name.strip() for name in options.active.split(",") if name.strip()]
    try:
        count = compile_ahead(
            kernels,
            targets,
            options.out,
            adjoint=not options.no_adjoint,
            active=active,
            programs=options.programs,
            block_dim=options.block_dim,
        )
    except OSError as error:
        raise UsageError(str(error)) from error
    many = "kernel" if len(kernels) == 1 else "kernels"
    print(f"compiled {count} programs of {len(kernels)} {many} for {', '.join(targets)} into {options.out}")
    if left_out:
        print(f"left out, because parameters without annotations have no known types: {', '.join(left_out)}")


# -- diffkern export ---------------------------------------------------------------------------------------------------
# ``diffkern export``: write a kernel as a Python module that does not need diffkern.
#
# It writes the module to a file or to standard output, or raises ``UsageError``.


def add_export_command(commands: Any) -> None:
    """Add ``export`` to the commands of the parser."""
    text = "write a kernel as a numba-cuda module that does not need diffkern"
    parser = commands.add_parser("export", help=text, description=text)
    add_kernel(parser)
    parser.add_argument("--adjoint", action="store_true", help="include the adjoint")
    parser.add_argument(
        "--active",
        metavar="NAME[,NAME…]",
        help="parameters to differentiate with respect to; by default all that can have gradients",
    )
    parser.add_argument(
        "-o", "--out", metavar="MODULE.py", type=Path, help="the file to write; standard output by default"
    )
    parser.set_defaults(run=_export)


def _export(options: argparse.Namespace) -> None:
    if options.active is not None and not options.adjoint:
        raise UsageError("--active says what the adjoint is for; give --adjoint too")
    kernel, types = kernel_and_types(options)
    active = None if options.active is None else [name.strip() for name in options.active.split(",") if name.strip()]
    text = export(kernel, *types, adjoint=options.adjoint, active=active)
    # The text alone, so that the output can be a file.
    if options.out is None:
        print(text, end="")
        return
    try:
        options.out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(str(error)) from error
