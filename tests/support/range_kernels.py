"""The kernels of the table of ranges (:mod:`support.range_cases`), in each dialect.

The native dialect and Warp's share their text: ``m`` is the module of the dialect.
"""

import importlib
from pathlib import Path
from typing import Any

from .fuzz import load_module
from .range_cases import Case, Group

__all__ = ["kernel_of", "literal_kernel"]


def funcs(m: Any, t: Any) -> dict[str, Any]:
    """A func for each form: it returns the sum and the number of trips."""
    double = m.float64

    @m.func
    def plain(lo: t, hi: t, by: t, limit: int, x: m.float64):
        s, n = double(0.0), 0
        for k in range(lo, hi, by):
            s = double(0.5) * s * x + double(k & t(7))
            n += 1
        return s, n

    @m.func
    def broken(lo: t, hi: t, by: t, limit: int, x: m.float64):
        s, n = double(0.0), 0
        for k in range(lo, hi, by):
            if n == limit:
                break
            s = double(0.5) * s * x + double(k & t(7))
            n += 1
        return s, n

    @m.func
    def returned(lo: t, hi: t, by: t, limit: int, x: m.float64):
        s, n = double(0.0), 0
        for k in range(lo, hi, by):
            if n == limit:
                return s, n
            s = double(0.5) * s * x + double(k & t(7))
            n += 1
        return s, n

    @m.func
    def continued(lo: t, hi: t, by: t, limit: int, x: m.float64):
        s, n = double(0.0), 0
        for k in range(lo, hi, by):
            if k & t(3) == t(1):
                continue
            s = double(0.5) * s * x + double(k & t(7))
            n += 1
        return s, n

    @m.func
    def backwards(lo: t, hi: t, by: t, limit: int, x: m.float64):
        s, n = double(0.0), 0
        for k in reversed(range(lo, hi, by)):
            s = double(0.5) * s * x + double(k & t(7))
            n += 1
        return s, n

    @m.func
    def nested(lo: t, hi: t, by: t, limit: int, x: m.float64):
        s, n = double(0.0), 0
        for k in range(lo, hi, by):
            for j in range(k, hi, by):
                s = double(0.5) * s * x + double(j & t(7))
                n += 1
        return s, n

    return {"plain": plain, "break": broken, "return": returned, "continue": continued, "reversed": backwards,
            "nested": nested}  # fmt: skip


def kernel_of(group: Group) -> Any:
    """The kernel of a group, but for one with literals: ``(start, stop, step, limit, x, y, n)``."""
    if group.dialect == "cuda":
        return _cuda_kernel(group)
    m = importlib.import_module("diffkern" if group.dialect == "native" else "diffkern.warp")
    t = getattr(m, group.type)
    func = funcs(m, t)[group.form]
    bounds, numbers, doubles = m.array(dtype=t), m.array(dtype=int), m.array(dtype=m.float64)

    def elements(
        lo: bounds, hi: bounds, by: bounds, limit: numbers, x: doubles, y: doubles, trips: numbers
    ):  # fmt: skip
        i = m.tid()
        s, n = func(lo[i], hi[i], by[i], limit[i], x[i])
        y[i] = s
        trips[i] = n

    def arguments(lo: t, hi: t, by: t, limit: int, x: doubles, y: doubles, trips: numbers):
        i = m.tid()
        s, n = func(lo, hi, by, limit, x[i])
        y[i] = s
        trips[i] = n

    kernel = elements if group.bounds == "elements" else arguments
    return m.kernel(kernel) if group.dialect == "warp" else m.kernel(lanes=group.lanes)(kernel)


def _cuda_kernel(group: Group) -> Any:
    cuda = importlib.import_module("diffkern.cuda")

    def kernel(loop: Any) -> Any:
        @cuda.jit
        def launched(lo, hi, by, limit, x, y, trips):
            i = cuda.grid(1)
            if i < x.shape[0]:
                s, n = loop(lo[i], hi[i], by[i], limit[i], x[i])
                y[i] = s
                trips[i] = n

        return launched

    @cuda.jit(device=True)
    def plain(lo, hi, by, limit, x):
        s, n = 0.0, 0
        for k in range(lo, hi, by):
            s = 0.5 * s * x + float(k & 7)
            n += 1
        return s, n

    @cuda.jit(device=True)
    def broken(lo, hi, by, limit, x):
        s, n = 0.0, 0
        for k in range(lo, hi, by):
            if n == limit:
                break
            s = 0.5 * s * x + float(k & 7)
            n += 1
        return s, n

    @cuda.jit(device=True)
    def returned(lo, hi, by, limit, x):
        s, n = 0.0, 0
        for k in range(lo, hi, by):
            if n == limit:
                return s, n
            s = 0.5 * s * x + float(k & 7)
            n += 1
        return s, n

    @cuda.jit(device=True)
    def continued(lo, hi, by, limit, x):
        s, n = 0.0, 0
        for k in range(lo, hi, by):
            if k & 3 == 1:
                continue
            s = 0.5 * s * x + float(k & 7)
            n += 1
        return s, n

    @cuda.jit(device=True)
    def backwards(lo, hi, by, limit, x):
        s, n = 0.0, 0
        for k in reversed(range(lo, hi, by)):
            s = 0.5 * s * x + float(k & 7)
            n += 1
        return s, n

    @cuda.jit(device=True)
    def nested(lo, hi, by, limit, x):
        s, n = 0.0, 0
        for k in range(lo, hi, by):
            for j in range(k, hi, by):
                s = 0.5 * s * x + float(j & 7)
                n += 1
        return s, n

    forms = {"plain": plain, "break": broken, "return": returned, "continue": continued, "reversed": backwards,
             "nested": nested}  # fmt: skip
    return kernel(forms[group.form])


# -- with literals -----------------------------------------------------------------------------------------------------

_HEAD = """
import diffkern as dk

@dk.kernel(lanes={lanes})
def literals(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64), trips: dk.array(dtype=int)):
    i = dk.tid()
    s, n = dk.float64(0.0), 0
"""
_SUM = ["s = 0.5 * s * x[i] + dk.float64({} & 7)", "n += 1"]


def literal_kernel(group: Group, directory: Path) -> Any:
    """A kernel ``(x, y, n)`` with all cases of a group, a case a thread, in a module of a directory."""
    lines = _HEAD.format(lanes=group.lanes).splitlines()
    for number, case in enumerate(group.cases):
        lines += [f"    if i == {number}:", *("        " + line for line in _loop(case))]
    lines += ["    y[i] = s", "    trips[i] = n"]
    return load_module("\n".join(lines) + "\n", str(directory)).literals


def _loop(case: Case) -> list[str]:
    """The lines of a loop. The literals of 32 and 64 bits stand bare, others are numbers of their type."""

    def literal(value: int) -> str:
        return str(value) if case.type == "int32" else f"dk.{case.type}({value})"

    start, stop, step = map(literal, (case.start, case.stop, case.step))
    values = f"range({start}, {stop}, {step})"
    if case.form == "reversed":
        values = f"reversed({values})"
    lines = [f"for k in {values}:"]
    if case.form in ("break", "return"):
        lines += [f"    if n == {case.limit}:", *(f"        {s}" for s in _leave(case))]
    if case.form == "continue":
        lines += ["    if k & 3 == 1:", "        continue"]
    if case.form == "nested":
        return [*lines, f"    for j in range(k, {stop}, {step}):", *(f"        {s.format('j')}" for s in _SUM)]
    return [*lines, *(f"    {s.format('k')}" for s in _SUM)]


def _leave(case: Case) -> list[str]:
    return ["break"] if case.form == "break" else ["y[i] = s", "trips[i] = n", "return"]
