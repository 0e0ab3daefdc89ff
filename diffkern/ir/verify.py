"""The verifier: what every valid function satisfies. It runs after each pass in tests and in debug mode.

Checked: each value is defined once and before its uses, in a visible region; attributes, operand and result types
follow the operation table; regions have the parameters and yields that their op demands. With a stage, also that
nothing occurs which the stage does not have.
"""

from __future__ import annotations

import os

from diffkern.errors import CompileError
from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.stages import STAGED_FACTS, STAGED_MARKS, Stage
from diffkern.ir.types import BOOL, Stack, Type
from diffkern.ops.row import TypeRuleError
from diffkern.ops.table import lookup

ALWAYS = os.environ.get("DIFFKERN_VERIFY_IR", "0") not in ("", "0")
"""Whether every function is verified after every stage, not only those that are compiled in debug mode."""


class InvalidIR(CompileError):
    """A pass produced IR that breaks a rule of the grammar: a defect of diffkern, not of the user's program."""


class _Verifier:
    def __init__(self, stage: Stage | None) -> None:
        self.defined: set[Value] = set()
        self.stage = stage

    def define(self, v: Value, where: str) -> None:
        if v in self.defined:
            raise InvalidIR(f"{v!r} is defined twice ({where})")
        if self.stage is not None:
            self.has_type(v.type, where, self.stage)
        self.defined.add(v)

    def use(self, v: Value, visible: set[Value], where: str) -> None:
        if v not in visible:
            state = "not visible here" if v in self.defined else "never defined"
            raise InvalidIR(f"{where} uses {v!r}, which is {state}")

    def region(self, region: Region, visible: set[Value], where: str) -> None:
        inner = set(visible)
        for p in region.params:
            self.define(p, where)
            inner.add(p)
        for op in region.ops:
            self.op(op, inner)
            inner.update(op.results)
        for y in region.yields:
            self.use(y, inner, f"yield of {where}")

    def has_type(self, t: Type, where: str, stage: Stage) -> None:
        for part in (t, *t.fields) if isinstance(t, Stack) else (t,):
            if type(part) not in stage.types:
                raise InvalidIR(f"{where}: there is no {t} in stage {stage.name}")

    def belongs(self, op: Op, where: str, stage: Stage) -> None:
        """Check that the stage has such an op."""
        if op.name not in stage.ops:
            raise InvalidIR(f"there is no {where} in stage {stage.name}")
        marks = STAGED_MARKS.intersection(op.attrs) - stage.marks
        if marks:
            raise InvalidIR(f"{where} is marked {', '.join(sorted(marks))}, which is not done in stage {stage.name}")
        if "mode" in op.attrs and op.attrs["mode"] not in stage.modes:
            raise InvalidIR(f"{where} has mode {op.attrs['mode']}, which stage {stage.name} has not")

    def op(self, op: Op, visible: set[Value]) -> None:
        where = f"{op.name} (line {op.loc.line})" if op.loc else op.name
        if self.stage is not None:
            self.belongs(op, where, self.stage)
        for v in op.operands:
            self.use(v, visible, where)
        row = lookup(op.name)
        if row.arity is not None and len(op.operands) != row.arity:
            raise InvalidIR(f"{where} has {len(op.operands)} operands, not {row.arity}")
        try:
            row.check_attrs(op.attrs)
            want = row.infer([v.type for v in op.operands], op.attrs)
        except TypeRuleError as error:
            raise InvalidIR(f"{where}: {error}") from error
        got = tuple(r.type for r in op.results)
        if got != want:
            raise InvalidIR(f"{where} has results {got}, not {want}")
        for sub in op.regions:
            self.region(sub, visible, where)
        body = op.attrs.get("body")
        if body is not None:  # a region over the elements of tiles: it sees its parameters alone, and may be shared
            _Verifier(self.stage).region(body, set(), where)
        self.structure(op, where)
        for r in op.results:
            self.define(r, where)

    def structure(self, op: Op, where: str) -> None:
        results = tuple(r.type for r in op.results)
        yields = [tuple(v.type for v in sub.yields) for sub in op.regions]
        params = [tuple(v.type for v in sub.params) for sub in op.regions]
        if op.name == "if":
            ok = params == [(), ()] and yields == [results, results]
        elif op.name == "for":
            ok = params == [(op.operands[0].type, *results)] and yields == [results]
        elif op.name == "while":
            ok = params == [results, results] and yields == [(BOOL,), results]
        elif op.name == "ruled":
            inputs = tuple(v.type for v in op.operands[op.attrs["results"] :])
            shapes = [(results, inputs)] * op.attrs["derivative"] + [((), results)] * op.attrs["replayed"]
            ok = list(zip(params, yields, strict=True)) == shapes
        else:
            ok = not op.regions
        if not ok:
            raise InvalidIR(f"{where}: regions take {params} and yield {yields}; results are {results}")


def verify(fn: Function, stage: Stage | None = None) -> Function:
    """Check a function.

    Parameters
    ----------
    fn : Function
        The function.
    stage : Stage, optional
        The stage that it is to be of; of any by default.

    Returns
    -------
    Function
        The same.

    Raises
    ------
    InvalidIR
        With the op and its source line.
    """
    if stage is not None:
        found = [fact for fact in sorted(STAGED_FACTS - stage.facts) if getattr(fn, fact)]
        if found:
            raise InvalidIR(f"{fn.name} has {', '.join(found)}: not in stage {stage.name}")
    v = _Verifier(stage)
    for p in fn.params:
        v.define(p, "parameter")
    v.region(fn.body, set(fn.params), fn.name)
    return fn
