"""The ``diffkern`` command.

It writes a report to standard output and has exit status 0 (1 if the examined object is faulty); or it writes a message
to standard error and has status 2, for every error that the user can correct. A traceback is shown only for a fault of
diffkern's own.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from diffkern._version import __version__
from diffkern.cli import demo
from diffkern.cli.bench import add_bench_command
from diffkern.cli.cache import add_cache_command
from diffkern.cli.compile import add_compile_command, add_export_command
from diffkern.cli.doctor import add_doctor_command
from diffkern.cli.files import UsageError
from diffkern.cli.inspect import add_inspect_command
from diffkern.cli.trace import add_trace_command
from diffkern.errors import KernelError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main", "make_parser"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; those of the process by default.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _run(arguments)
        # Inside the `try`: a closed pipe is noticed only when the buffer is written.
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has enough, as head has. What is left in the buffer must not be tried again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13  # as a shell has it of a program that SIGPIPE ended
    return status


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["demo"]:
        # The demo describes its own options, so everything behind its name is handed on.
        return demo.main(arguments[1:])
    options = make_parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int | None] = options.run
    try:
        return run(options) or 0
    except (KernelError, UsageError) as error:
        print(f"diffkern: error: {error}", file=sys.stderr)
        return 2


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(prog="diffkern", description="Differentiable kernels in Python.")
    parser.add_argument("--version", action="version", version=f"diffkern {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    commands.add_parser("demo", help="run an example: the flood, or another by name (--list)", add_help=False)

    add_inspect_command(commands)
    add_compile_command(commands)
    add_export_command(commands)
    add_bench_command(commands)
    add_trace_command(commands)
    add_cache_command(commands)
    add_doctor_command(commands)
    return parser
