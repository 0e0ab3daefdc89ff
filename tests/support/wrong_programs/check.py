"""One wrong program: made from its number, decorated, compiled or launched, and judged."""

from __future__ import annotations
import __future__ as future

import ast
import linecache
import random
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

import diffkern as dk
from diffkern.cuda.jit import CudaKernel
from diffkern.errors import REPORT

from . import bases
from .launches import wrong_launch
from .mutations import mutate

__all__ = ["Program", "Verdict", "check", "program"]

_OURS = str(Path(dk.__file__).parent)
_LAUNCHES, _WHOLE = 0.25, 0.2
"""Shares of programs that are launched wrongly, and of those that are compiled to machine code."""


@dataclass(frozen=True)
class Program:
    """A program.

    Attributes
    ----------
    number
        Which one.
    base
        What it was made from.
    text
        Its text.
    how
        What was changed; empty for a right kernel that is launched wrongly.
    """

    number: int
    base: bases.Base
    text: str
    how: str
    flags: int

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"<wrong program {self.number}>"


@dataclass(frozen=True)
class Verdict:
    """What became of a program.

    Attributes
    ----------
    outcome
        The class of its error; "right" where there is none; "python" where it does not get as far as diffkern.
    text
        The error.
    wrong
        Why it is a finding; empty where it is none.
    """

    outcome: str
    text: str = ""
    wrong: str = ""


def program(number: int) -> Program:
    """The program of a number."""
    rng = random.Random(number)
    while True:
        base = bases.base(rng.randrange(1 << 30))
        tree = base.tree()
        flags = future.annotations.compiler_flag if rng.random() < 0.3 else 0
        try:
            how = mutate(tree, rng) if rng.random() >= _LAUNCHES else ""
            text = ast.unparse(tree)
            compile(text, "<program>", "exec", flags, dont_inherit=True)
        except (SyntaxError, ValueError, OverflowError):
            continue
        return Program(number, base, text, how, flags)


def check(one: Program) -> Verdict:
    """Decorate, compile and launch a program."""
    linecache.cache[one.file] = (len(one.text), None, one.text.splitlines(keepends=True), one.file)
    rng = random.Random(one.number + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dk.config.mode = "release" if one.how else "debug"
        try:
            _run(one, rng)
        except dk.KernelError as error:
            return Verdict(type(error).__name__, str(error), _fault(error, one))
        except Exception as error:
            trace = "".join(traceback.format_exception(error))
            frames = traceback.extract_tb(error.__traceback__)
            if not any(frame.filename.startswith(_OURS) and frame.name != "__getattr__" for frame in frames):
                return Verdict("python", trace)
            return Verdict(type(error).__name__, trace, f"{type(error).__name__} is no error of diffkern's")
    return Verdict("right")


def _run(one: Program, rng: random.Random) -> None:
    namespace = one.base.namespace()
    exec(compile(one.text, one.file, "exec", one.flags, dont_inherit=True), namespace)
    kernel = namespace[one.base.function.__name__]
    if not isinstance(kernel, dk.Kernel):
        return
    args = one.base.arguments()
    if isinstance(kernel, CudaKernel):
        launcher = kernel[1, 8] if one.how else None
        kernel = launcher.kernel if launcher is not None else kernel[1, 8].kernel
    if not one.how:
        wrong_launch(kernel, one.base.dim, args, rng)
        return
    if rng.random() < _WHOLE:
        none = (0,) * len(one.base.dim)
        dk.launch(kernel, none, args)
        if kernel.enable_backward:
            dk.launch(kernel, none, args, adjoint=True, adj_inputs=[None] * len(args))
        return
    kernel.source(*args)
    kernel.adjoint_source(*args)


def _fault(error: dk.KernelError, one: Program) -> str:
    """What is wrong with an error of diffkern's; empty where nothing is."""
    frames = traceback.extract_tb(error.__traceback__)
    if any(frame.filename.startswith(_OURS) for frame in frames):
        return "the traceback shows frames of diffkern"
    named = one.base.function.__name__
    for part in error.errors:
        if part.remedy == REPORT:
            return "an error that nobody foresaw: " + "".join(traceback.format_exception(error))
        is_located = part.loc is not None or (frames and frames[-1].filename == one.file)
        # What is said of a launch stands in the line of the launch; it names the kernel.
        if not is_located and one.how and named not in part.message:
            return "it has no line"
        if part.loc is not None and not (part.loc.line >= 1 and part.loc.file):
            return f"its line is {part.loc}"
        if not part.message.strip():
            return "it has no text"
    return ""
