"""``diffkern export``: write a kernel as a Python module that does not need diffkern.

It writes the module to a file or to standard output, or raises :class:`UsageError`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from diffkern.cli.files import UsageError
from diffkern.cli.kernels import add_kernel, kernel_and_types
from diffkern.shipping.export import export

__all__ = ["add_export_command"]


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
