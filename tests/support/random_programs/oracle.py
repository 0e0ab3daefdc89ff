"""The derivative of a random program along a direction, by running its text in plain Python on numbers with tangents.

It shares nothing with the compiler but the text: the kernels are Python functions, their threads run one after the
other, and arrays are NumPy's arrays of objects. An assignment to a component, which would change what other names stand
for as well, is rewritten as one to a new value.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from .dual import Dual, Mat, Vec, functions, put
from .host import Copy, Fill, Launch
from .memory import KINDS
from .program import RandomProgram

__all__ = ["MOST_THREADS", "along", "threads_of"]

MOST_THREADS = 1500
"""Programs of more threads take too long in Python."""


class _Functional(ast.NodeTransformer):
    """``a[k].x = v`` becomes ``a = put(a, path, v)``."""

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """An assignment to one place; names, and tuples of names, stay."""
        (target,) = node.targets
        return self._put(node, target, node.value) if _is_place(target) else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """An assignment that reads the place first."""
        if not _is_place(node.target):
            return node
        old = ast.parse(ast.unparse(node.target), mode="eval").body
        return self._put(node, node.target, ast.BinOp(old, node.op, node.value))

    def _put(self, node: ast.stmt, target: ast.expr, value: ast.expr) -> ast.AST:
        path: list[ast.expr] = []
        while _is_place(target):
            if isinstance(target, ast.Subscript):
                path.insert(0, ast.Tuple([ast.Constant("item"), target.slice], ast.Load()))
                target = target.value
            else:
                assert isinstance(target, ast.Attribute)
                path.insert(0, ast.Tuple([ast.Constant("field"), ast.Constant(target.attr)], ast.Load()))
                target = target.value
        assert isinstance(target, ast.Name)
        root = ast.Name(target.id, ast.Load())
        call = ast.Call(ast.Name("_put", ast.Load()), [root, ast.List(path, ast.Load()), value], [])
        return ast.copy_location(ast.Assign([ast.Name(target.id, ast.Store())], call), node)


def _is_place(target: ast.expr) -> bool:
    return isinstance(target, (ast.Subscript, ast.Attribute))


class _Struct:
    """A struct of the program."""

    def __init__(self, **fields: Any) -> None:
        vars(self).update({k: Dual(v) if isinstance(v, (float, np.floating)) else v for k, v in fields.items()})


def _namespace(program: RandomProgram) -> dict[str, Any]:
    """The program's functions as Python's."""
    text = program.source.replace("import diffkern as dk", "")
    tree = ast.fix_missing_locations(_Functional().visit(ast.parse(f"from __future__ import annotations\n{text}")))
    dk = SimpleNamespace(**functions())
    dk.kernel = lambda f=None, **options: (lambda g: g) if f is None else f
    dk.func = lambda f: f
    dk.struct = lambda cls: _Struct
    found: dict[str, Any] = {"dk": dk, "_put": put}
    exec(compile(tree, f"<program {program.seed}>", "exec"), found)
    return found


def _objects(kind: str, values: np.ndarray, changes: np.ndarray | None) -> np.ndarray:
    """An array of numbers with tangents."""
    components = KINDS[kind].components
    shape = values.shape[: values.ndim - len(components)]
    out = np.empty(shape, object)

    def one(element: Any, change: Any) -> Any:
        if not components:
            return Dual(element, change) if np.issubdtype(type(element), np.floating) else int(element)
        return (Vec if len(components) == 1 else Mat)(*map(Dual, np.ravel(element), np.ravel(change)))

    for at in np.ndindex(*shape):
        element = values[at]
        change = np.zeros_like(element) if changes is None else changes[at]
        if values.dtype.names:
            fields = {
                name: Vec(*map(Dual, element[name], change[name])) if np.ndim(element[name]) else element[name]
                for name in values.dtype.names
            }
            out[at] = _Struct(**fields)
            out[at].mass = Dual(element["mass"], change["mass"])
            out[at].tag = int(element["tag"])
        else:
            out[at] = one(element, change)
    return out


def _numbers(like: np.ndarray, objects: np.ndarray, part: str) -> np.ndarray:
    """The values, or the tangents, of an array of objects in an array like another one."""
    out = np.zeros_like(like)

    def of(x: Any) -> Any:
        if isinstance(x, (Vec, Mat)):
            return [getattr(p, part) for p in x]
        return getattr(x, part) if isinstance(x, Dual) else x if part == "value" else 0

    for at in np.ndindex(*objects.shape):
        element = objects[at]
        if like.dtype.names:
            for name in like.dtype.names:
                out[name][at] = of(getattr(element, name))
        else:
            out[at] = np.reshape(of(element), out[at].shape)
    return out


def _filled(like: Any, value: float) -> Any:
    if isinstance(like, (Vec, Mat)):
        return type(like)(*[value] * len(like.parts))
    if isinstance(like, _Struct):
        return _Struct(**{name: _filled(field, value) for name, field in vars(like).items()})
    return Dual(value) if isinstance(like, Dual) else int(value)


def _threads(dim: tuple[int, ...]) -> Iterator[Any]:
    for at in itertools.product(*map(range, dim)):
        yield at[0] if len(at) == 1 else at


def _values(program: RandomProgram, given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters by value."""
    found: dict[str, Any] = {name: Dual(given[name]) for name in ("a", "b")}
    h = given["h"]
    body = {"pos": Vec(*h.pos), "mass": Dual(h.mass), "tag": int(h.tag), "vel": Vec(*h.vel)}
    return {**found, "u": Vec(*given["u"]), "h": _Struct(**body), "n": int(given["n"]), "m": int(given["m"])}


def along(
    program: RandomProgram,
    given: Mapping[str, Any],
    start: Mapping[str, np.ndarray],
    direction: Mapping[str, np.ndarray],
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return what the arrays hold in the end, and how that changes along a direction.

    Parameters
    ----------
    program
        In ``float64``.
    given
        The parameters passed by value.
    start
        The arrays' contents.
    direction
        For arrays that vary, what is like their contents.
    """
    with np.errstate(all="ignore"):
        found = _namespace(program)
        arrays = {
            name: _objects(program.arrays[name].kind, values, direction.get(name)) for name, values in start.items()
        }
        values = _values(program, given)
        for step in program.steps:
            if isinstance(step, Launch):
                args = [view.of(arrays) for view in step.arrays]
                for thread in _threads(step.dim):
                    found["dk"].tid = lambda thread=thread: thread
                    found[step.kernel](*args, *(values[v] for v in step.values))
            elif isinstance(step, Copy):
                step.goal.of(arrays)[...] = step.source.of(arrays).copy()
            else:
                assert isinstance(step, Fill)
                goal = step.goal.of(arrays)
                for at in np.ndindex(*goal.shape):
                    goal[at] = _filled(goal[at], step.value)
        ends = {name: _numbers(start[name], objects, "value") for name, objects in arrays.items()}
        changes = {name: _numbers(start[name], objects, "change") for name, objects in arrays.items()}
    return ends, changes


def threads_of(program: RandomProgram) -> int:
    """The most threads of a launch."""
    return max((math.prod(step.dim) for step in program.steps if isinstance(step, Launch)), default=0)
