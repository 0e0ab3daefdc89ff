"""Functions of the IR that apply operations one by one, for checking derivative rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Value
from diffkern.ir.types import FLOAT64, Array, Element, Mat, Scalar, Vec, quaternion

V2, V3, V4 = (Vec(FLOAT64, n) for n in (2, 3, 4))
Q = quaternion(FLOAT64)
M2, M3, M4 = (Mat(FLOAT64, n, n) for n in (2, 3, 4))


@dataclass(frozen=True)
class OneOp:
    """An operation with the types of its operands and points to apply it at."""

    op: str
    types: tuple[Element, ...]
    points: Sequence[Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    tag: str = ""
    build: Callable[[Builder, list[Value]], Value] | None = None

    @property
    def name(self) -> str:
        return f"{self.op}{self.tag}"


def one_op_function(name: str, rows: Sequence[OneOp]) -> Function:
    """``out_op[i] = op(x_op[i], y_op[i], ...)`` for all rows, in one function of float64."""
    b = Builder()
    (i,) = b.op("tid", axis=0)
    inputs: list[Value] = []
    outputs: list[Value] = []
    for row in rows:
        operands = []
        for k, t in enumerate(row.types):
            array = Value(Array(t, 1), f"{row.name}_{k}")
            inputs.append(array)
            operands.append(b.one("load", array, i, wrap=(False,)))
        result = row.build(b, operands) if row.build else b.one(row.op, *operands, **row.attrs)
        out = Value(Array(result.type, 1), f"{row.name}_out")  # type: ignore[arg-type]
        outputs.append(out)
        b.op("store", out, i, result, wrap=(False,))
    return Function(name, (*inputs, *outputs), b.region, tid_arity=1)


def arguments(fn: Function, rows: Sequence[OneOp], count: int) -> list[np.ndarray]:
    """The points of all rows, and zeros for the results."""
    args: list[np.ndarray] = []
    for row in rows:
        for k, t in enumerate(row.types):
            points = np.array(row.points[k], dtype=np.float64)
            shape = (count,) if isinstance(t, Scalar) else (count, *t.shape)
            args.append(np.resize(points, shape))
    for p in fn.params[len(args) :]:
        t = p.type.dtype
        args.append(np.zeros((count,) if isinstance(t, Scalar) else (count, *t.shape)))
    return args
