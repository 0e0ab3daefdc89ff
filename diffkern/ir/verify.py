"""The verifier: the rules that every valid function satisfies. It runs after each pass in tests and in debug mode.

Checked: each value is defined once and before its uses, in a visible region; attributes, operand and result types
follow the operation table; regions have the parameters and yields that their op demands. With a stage, also that
nothing occurs that the stage does not allow.
"""

from __future__ import annotations

import os

from diffkern.errors import CompileError
from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.ops.row import Effect, OpDef, TypeRuleError
from diffkern.ir.ops.table import lookup
from diffkern.ir.stages import STAGED_FACTS, STAGED_MARKS, Stage
from diffkern.ir.types import BOOL, Stack, Type

ALWAYS = os.environ.get("DIFFKERN_VERIFY_IR", "0") not in ("", "0")
"""True if every function is verified after every stage, not only those that are compiled in debug mode."""


class InvalidIR(CompileError):
    """A pass produced IR that breaks a rule of the grammar: a defect of diffkern, not of the user's program."""


def _name(what: Function | Op) -> str:
    """Return the name of a function or an op in messages."""
    if isinstance(what, Op) and what.loc:
        return f"{what.name} (line {what.loc.line})"
    return what.name


class _Verifier:
    """Walks regions and checks them. Names are spelled only for an error, since nearly always there is none."""

    def __init__(self, stage: Stage | None) -> None:
        self.defined: set[Value] = set()
        self.visible: set[Value] = set()
        self.stage = stage

    def define(self, v: Value, where: Function | Op) -> None:
        if v in self.defined:
            raise InvalidIR(f"{v!r} is defined twice ({_name(where)})")
        # Nearly every type is of a kind without fields that the stage has.
        if self.stage is not None and (type(v.type) is Stack or type(v.type) not in self.stage.types):
            self.has_type(v.type, where, self.stage)
        self.defined.add(v)
        self.visible.add(v)

    def invisible(self, v: Value, where: str) -> InvalidIR:
        """Return the error of a use of a value that is not visible."""
        state = "not visible here" if v in self.defined else "never defined"
        return InvalidIR(f"{where} uses {v!r}, which is {state}")

    def region(self, region: Region, where: Function | Op) -> None:
        for p in region.params:
            self.define(p, where)
        for op in region.ops:
            self.op(op)
        for y in region.yields:
            if y not in self.visible:
                raise self.invisible(y, f"yield of {_name(where)}")
        # Values of a region are not visible after it. Only its own level has to be removed: nested regions have removed
        # theirs.
        self.visible.difference_update(region.params)
        for op in region.ops:
            self.visible.difference_update(op.results)

    def has_type(self, t: Type, where: Function | Op, stage: Stage) -> None:
        for part in (t, *t.fields) if isinstance(t, Stack) else (t,):
            if type(part) not in stage.types:
                raise InvalidIR(f"{_name(where)}: there is no {t} in stage {stage.name}")

    def belongs(self, op: Op, stage: Stage) -> None:
        """Check that the stage allows such an op."""
        if op.name not in stage.ops:
            raise InvalidIR(f"there is no {_name(op)} in stage {stage.name}")
        # Marks are attributes with a meaning to one later pass only; a leftover one would be ignored silently.
        if not STAGED_MARKS.isdisjoint(op.attrs) and (marks := STAGED_MARKS.intersection(op.attrs) - stage.marks):
            found = ", ".join(sorted(marks))
            raise InvalidIR(f"{_name(op)} is marked {found}, which is not done in stage {stage.name}")
        if "mode" in op.attrs and op.attrs["mode"] not in stage.modes:
            raise InvalidIR(f"{_name(op)} has mode {op.attrs['mode']}, which stage {stage.name} has not")

    def op(self, op: Op) -> None:
        if self.stage is not None:
            self.belongs(op, self.stage)
        if not self.visible.issuperset(op.operands):
            raise self.invisible(next(v for v in op.operands if v not in self.visible), _name(op))
        row = lookup(op.name)
        self.types(op, row)
        # Before the results are defined: the regions of an op must not use them.
        for sub in op.regions:
            self.region(sub, op)
        body = op.attrs.get("body")
        if body is not None:  # a region over the elements of tiles: it sees its parameters alone, and may be shared
            _Verifier(self.stage).region(body, op)
        if op.regions or row.effect is Effect.CONTROL:
            self.structure(op)
        for r in op.results:
            self.define(r, op)

    def types(self, op: Op, row: OpDef) -> None:
        """Check operands, attributes and results by the op's row."""
        if row.arity is not None and len(op.operands) != row.arity:
            raise InvalidIR(f"{_name(op)} has {len(op.operands)} operands, not {row.arity}")
        try:
            if op.attrs or row.attrs:
                row.check_attrs(op.attrs)
            want = row.infer([v.type for v in op.operands], op.attrs)
        except TypeRuleError as error:
            raise InvalidIR(f"{_name(op)}: {error}") from error
        got = tuple([r.type for r in op.results])
        if got != want:
            raise InvalidIR(f"{_name(op)} has results {got}, not {want}")

    def structure(self, op: Op) -> None:
        # The grammar of `diffkern.ir.nodes`, as equations between types of results, parameters and yields.
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
            raise InvalidIR(f"{_name(op)}: regions take {params} and yield {yields}; results are {results}")


def verify(fn: Function, stage: Stage | None = None) -> Function:
    """Check a function.

    Parameters
    ----------
    fn : Function
        The function.
    stage : Stage, optional
        The stage that it has to be of; any by default.

    Returns
    -------
    Function
        The same function.

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
        v.define(p, fn)
    v.region(fn.body, fn)
    return fn
