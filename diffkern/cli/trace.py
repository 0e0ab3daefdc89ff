"""``diffkern trace``: run a program, and write a trace of its launches and compilations.

It returns the exit status of the program and writes the trace to a file, or raises :class:`UsageError`.
"""

from __future__ import annotations

import argparse
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

from diffkern.cli.files import UsageError

__all__ = ["add_trace_command"]


def add_trace_command(commands: Any) -> None:
    """Add ``trace`` to the commands of the parser."""
    text = "run a program and write a trace of its launches and compilations for ui.perfetto.dev"
    parser = commands.add_parser("trace", help=text, description=text)
    parser.add_argument(
        "-o", "--out", metavar="FILE", type=Path, default=Path("trace.json"), help="trace.json by default"
    )
    parser.add_argument("--synchronize", action="store_true", help="wait for each GPU launch, to measure its time")
    parser.add_argument("program", metavar="PROGRAM", type=Path, help="a Python file")
    parser.add_argument("arguments", metavar="…", nargs=argparse.REMAINDER, help="arguments of the program")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    # Late, so that the other commands do not load the run time.
    from diffkern.runtime.observe.trace import ScopedTrace

    program: Path = options.program
    if not program.is_file():
        raise UsageError(f"there is no file {program}")
    # The trace is written whatever becomes of the program.
    trace = ScopedTrace(options.out, options.synchronize)
    try:
        with trace:
            status = _status_of(program, options.arguments)
    except OSError as error:
        raise UsageError(str(error)) from error
    launches = sum(event.get("cat") in ("launch", "adjoint") for event in trace.events)
    counted = "1 launch" if launches == 1 else f"{launches} launches"
    # To standard error: standard output belongs to the program.
    print(f"{counted} in {options.out}: open it in https://ui.perfetto.dev", file=sys.stderr)
    return status


def _status_of(program: Path, arguments: list[str]) -> int:
    """Run a program as ``python PROGRAM`` would, and return its exit status."""
    argv, path = sys.argv, sys.path
    sys.argv, sys.path = [str(program), *arguments], [str(program.parent.resolve()), *path]
    try:
        runpy.run_path(str(program), run_name="__main__")
    except SystemExit as end:
        # Python prints a text given to sys.exit() and exits with 1.
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:
        # The program's own fault, so it is shown as Python shows it.
        traceback.print_exc()
        return 1
    finally:
        sys.argv, sys.path = argv, path
    return 0
