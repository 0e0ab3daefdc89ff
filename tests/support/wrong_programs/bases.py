"""The right programs that are changed: kernels of the gradient tests and of blocks, and some of each family.

In: the test corpora. Out: :data:`BASES`, a :class:`Base` for each kernel, in one order.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

import diffkern as dk

from . import families

__all__ = ["BASES", "Base", "bases"]


@dataclass(frozen=True)
class Base:
    """A right kernel.

    Attributes
    ----------
    name
        In the list of them.
    function
        Its Python function.
    decorator
        The text of its decorator.
    dim
        Dimensions of its launch.
    arguments
        Makes fresh arguments, in order.
    """

    name: str
    function: FunctionType
    decorator: str
    dim: tuple[int, ...]
    arguments: Callable[[], list[Any]]

    def namespace(self) -> dict[str, Any]:
        """A copy of the globals that its text needs."""
        found = dict(self.function.__globals__)
        found.update(dk=dk, np=np, wp=families.wp, cuda=families.cuda, math=families.math)
        return found

    def tree(self) -> ast.Module:
        """The funcs that it calls and are of its own file, then the kernel, decorated."""
        functions = [*reversed(_called(self.function, [])), self.function]
        body: list[ast.stmt] = []
        for function in functions:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
            assert isinstance(tree, ast.FunctionDef)
            text = self.decorator if function is self.function else _func_of(self.decorator)
            tree.decorator_list = [ast.parse(text, mode="eval").body]
            body.append(tree)
        return ast.Module(body, [])


def _func_of(decorator: str) -> str:
    return {"wp": "wp.func", "cuda": "cuda.jit(device=True)"}.get(decorator.partition(".")[0], "dk.func")


def _called(function: FunctionType, found: list[FunctionType]) -> list[FunctionType]:
    for name in function.__code__.co_names:
        func = function.__globals__.get(name)
        if isinstance(func, dk.func(_nothing).__class__) and not func.rules and len(func.overloads) == 1:
            inner = inspect.unwrap(func.pyfunc)
            here = inner.__code__.co_filename == function.__code__.co_filename and not inner.__closure__
            if here and inner not in found and inner.__code__.co_name == name:
                found.append(inner)
                _called(inner, found)
    return found


def _nothing() -> None:
    """A function, to learn the class of funcs by."""


def bases() -> list[Base]:
    """All of them."""
    from block_corpus import BLOCKS
    from grad.corpus import CASES

    found = [
        Base(name, case.function, "dk.kernel", case.dim, lambda case=case: list(case.make().values()))
        for name, case in CASES.items()
        if not case.function.__closure__ and not case.options
    ]
    found += [
        Base(f"blocks.{name}", case.kernel.func, f"dk.kernel(block_dim={case.block_dim})", case.dim, case.arguments)
        for name, case in BLOCKS.items()
    ]
    # Kernels of the families stand for many of one family: each as often as would make a third of all.
    few = [Base(f"families.{name}", f, text, dim, make) for name, (f, text, dim, make) in families.KERNELS.items()]
    return found + few * max(1, len(found) // (2 * len(few)))


BASES: list[Base] = []


def base(number: int) -> Base:
    """One of them."""
    if not BASES:
        BASES.extend(bases())
    return BASES[number % len(BASES)]
