"""A function of the IR as readable Python: the work of one thread.

The result is the source of a module that imports its primitives from ``diffkern.printing.prims`` and defines one
function ``name(tid, *parameters)``. The text depends on the function alone. It keeps the user's variable names, gives a
variable to a carried value, folds small expressions together, and quotes the line of the primal above the statements
that come from it.

Values keep their exact types when the source runs: a literal is written bare only beside an operand that is not one, so
that NumPy's promotion gives it that operand's type.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from diffkern.ir.nodes import Function, Op, Region, Value
from diffkern.ir.ops.memory import WRITES
from diffkern.ir.ops.scalar import NEGATIVES
from diffkern.ir.ops.table import lookup
from diffkern.ir.types import BOOL, FLOAT32, INT32, Element, Mat, Scalar, Tile, Type, scalar_of
from diffkern.ir.views import Access, For, If, StackSlot, While
from diffkern.printing import prims, tiles
from diffkern.printing.expression import ATOM, COMPARED, NOT, Expr, literal, sign_of
from diffkern.printing.layout import Names, PrintPlan, plan

__all__ = ["Writer", "contents_of", "function_name", "import_lines", "to_python"]

MAX_FOLDED = 72
"""Longer expressions get a variable."""

_PRIMITIVES = frozenset(n for n in vars(prims) if not n.startswith("_")) | tiles.PRIMITIVES


_TAKEN = frozenset({"block_sum", "cuda", "lane_left", "np", "range", "tid", "trip_count"})
"""Names in the module of a kernel other than primitives."""


def function_name(fn: Function) -> str:
    """Return the name of the Python function: the user's, unless something else has that name."""
    return f"{fn.name}_kernel" if fn.name in _PRIMITIVES | _TAKEN else fn.name


def to_python(fn: Function, *, header: Sequence[str] = ()) -> str:
    """Print a function in Python.

    Parameters
    ----------
    fn : Function
        Any verified function.
    header : sequence of str, optional
        Lines of a comment at the top.

    Returns
    -------
    str
        The source, ending in a newline.
    """
    writer = Writer(fn)
    body = writer.function()
    lines = [f"# {line}".rstrip() for line in header]
    for module, names in (
        ("diffkern.printing.prims", writer.primitives - tiles.PRIMITIVES),
        (tiles.MODULE, writer.primitives & tiles.PRIMITIVES),
    ):
        if names:
            lines.append(import_lines(module, sorted(names)))
    if lines:
        lines += ["", ""]
    return "\n".join([*lines, *body]) + "\n"


def import_lines(module: str, names: list[str]) -> str:
    """Return the statement that imports names from a module, on several lines if one is too short."""
    one = f"from {module} import {', '.join(names)}"
    if len(one) <= 120:
        return one
    return f"from {module} import (\n" + "".join(f"    {n},\n" for n in names) + ")"


def _dtype_name(t: Type) -> str:
    s = scalar_of(t)
    return "bool_" if s == BOOL else s.name


class Writer:
    """Writes the statements of one function; a target overrides what it writes in another form."""

    def __init__(self, fn: Function) -> None:
        self.fn = fn
        # Variables and folding are decided first, for the whole function, since a value's text depends on its last use.
        self.plan: PrintPlan = plan(fn)
        self.lines: list[str] = []
        self.depth = 1
        self.primitives: set[str] = set()
        self.names = Names(_PRIMITIVES | {"tid", function_name(fn)})
        self.exprs: dict[Value, Expr] = {}
        self.variable: dict[Value, str] = {}
        self.holder: dict[str, Value] = {}  # variable → the value it holds now
        self.assigned: dict[Value, str] = {}  # values that must go to a given variable
        self.reserved: set[str] = set()  # variables of the region being written that only its yields may set
        self.line = 0

    def function(self) -> list[str]:
        parameters = []
        for p in self.fn.params:
            name = self.names.fresh(p.name or "p")
            self.bind(p, name)
            parameters.append(name)
        head = f"def {function_name(self.fn)}({', '.join(['tid', *parameters])}):"
        if self.fn.loc is not None:
            self.line = self.fn.loc.line
        self.region(self.fn.body)
        return [head, *(self.lines or ["    pass"])]

    # -- lines -------------------------------------------------------------------------------------------------------

    def emit(self, text: str, op: Op | None = None) -> None:
        # The line of the user's source is quoted once, above the first statement that comes from it.
        if op is not None and op.loc is not None and op.loc.line != self.line:
            self.line = op.loc.line
            source = (self.fn.source_lines.get(self.line) or op.loc.text).strip()
            if source:
                self.lines.append(f"{'    ' * self.depth}# {self.line}: {source}")
        self.lines.append("    " * self.depth + text)

    def prim(self, name: str) -> str:
        self.primitives.add(name)
        return name

    # -- values ------------------------------------------------------------------------------------------------------

    def bind(self, v: Value, name: str) -> None:
        self.variable[v] = name
        self.holder[name] = v
        self.exprs[v] = Expr(name, reads=frozenset({name}))

    def typed(self, v: Value) -> Expr:
        """Return the expression of a value with its exact type, also if it is a literal."""
        e = self.exprs[v]
        if e.literal is None or e.literal == BOOL:
            return e
        return Expr(f"{self.prim(e.literal.name)}({e.text})")

    def define(self, op: Op, v: Value, expr: Expr, region: Region, position: int) -> None:
        """Fold the value into its use, or assign it to a variable."""
        # A value that is used once and not named by the user is written where it is used, unless the line grows too
        # long.
        if v in self.plan.folded and (len(expr.text) <= MAX_FOLDED or expr.literal is not None):
            self.exprs[v] = expr
            return
        name = self.assigned.get(v) or self.choose(v, region, position)
        # A bare literal in a variable would be a plain Python number.
        if expr.literal is not None and expr.literal != BOOL:
            expr = Expr(f"{self.prim(expr.literal.name)}({expr.text})")
        self.emit(expr.assigned_to(name), op)
        self.bind(v, name)

    def choose(self, v: Value, region: Region, position: int) -> str:
        """Return the user's variable again if its old value is no longer needed, otherwise a new one."""
        old = self.holder.get(v.name)
        if (
            # A variable may be reassigned only in the region that owns it, or a branch could change it for others.
            old is not None
            and v.name not in self.reserved
            and self.variable.get(old) == v.name
            and self.plan.home[old][0] is region
            and old not in self.fn.params
            and self.plan.needed_until(old, region) <= position
        ):
            return v.name
        return self.names.fresh(v.name)

    # -- regions -----------------------------------------------------------------------------------------------------

    def region(self, region: Region, slots: Sequence[str] = ()) -> None:
        """Write the ops of a region and assign its yields to the variables ``slots``."""
        mark, reserved = self.names.taken(), self.reserved
        self.reserved = set(slots)
        # Yields are assigned directly by the ops that compute them where possible, which saves a copy at the end.
        for k, name in enumerate(slots):
            self.assign_early(region, k, name)
        for position, op in enumerate(region.ops):
            self.op(op, region, position)
        self.yields([(n, self.typed(v)) for n, v in zip(slots, region.yields, strict=False)])
        self.reserved = reserved
        self.names.release(mark)

    def assign_early(self, region: Region, k: int, name: str) -> None:
        """Let the op that computes a yielded value assign it, if the variable's old value is dead by then."""
        v = region.yields[k]
        home, position = self.plan.home[v]
        if home is not region or position < 0 or v in self.assigned or v in self.plan.folded:
            return
        old = self.holder.get(name)
        # Something between the assignment and the end of the region still reads the variable's old value.
        if old is not None and self.plan.needed_until(old, region) > position:
            return
        self.assigned[v] = name

    def yields(self, pairs: list[tuple[str, Expr]]) -> None:
        """Assign several variables at once, one after the other where no right side reads an earlier left side."""
        # An assignment of a variable to itself is left out.
        pairs = [(n, e) for n, e in pairs if e.text != n]
        for k in range(len(pairs)):
            # A swap needs a simultaneous assignment; otherwise single statements read better.
            if any(n in e.reads for n, _ in pairs[:k] for e in (pairs[k][1],)):
                left, right = ", ".join(n for n, _ in pairs), ", ".join(e.text for _, e in pairs)
                self.emit(f"{left} = {right}")
                return
        for n, e in pairs:
            self.emit(e.assigned_to(n))

    def nested(self, region: Region, slots: Sequence[str] = ()) -> None:
        before = len(self.lines)
        self.depth += 1
        self.region(region, slots)
        if len(self.lines) == before:
            self.emit("pass")
        self.depth -= 1

    # -- ops ---------------------------------------------------------------------------------------------------------

    def op(self, op: Op, region: Region, position: int) -> None:
        match op.name:
            case "if":
                self.branch(op, region, position)
            case "for":
                self.loop_for(op, region, position)
            case "while":
                self.loop_while(op, region, position)
            case "store":
                self.emit(f"{self.item(op)} = {self.exprs[Access(op).value].text}", op)
            case "accumulate":
                self.accumulate(op)
            case "stack_set":
                stack, slot = self.exprs[StackSlot(op).stack].text, self.exprs[StackSlot(op).slot].text
                values = [self.typed(v).text for v in StackSlot(op).values]
                self.emit(f"{stack}.set({', '.join([slot, *values])})", op)
            case "tile_map":
                self.tile_map(op, region, position)
            case "tile_sort":
                self.several(op, self.expression(op).text, region, position)
            case name if name.startswith("tile_") and name in WRITES and not any(map(self.is_used, op.results)):
                self.emit(self.expression(op).text, op)
            case "output":
                self.output(op)
            case "assertion":
                self.emit(f"assert {self.exprs[op.operands[0]].text}, {op.attrs['text']!r}", op)
            case "breakpoint":
                self.emit("breakpoint()", op)
            case "poke":
                address, value = self.typed(op.operands[0]).text, self.typed(op.operands[3]).text
                name, index = self.prim(f"poke_{op.operands[3].type}"), self.exprs[op.operands[2]].text
                self.emit(f"{name}({address}, {index}, {value})", op)
            case "deposit":
                address, value = self.typed(op.operands[0]).text, self.typed(op.operands[2]).text
                name = self.prim("deposit" if op.operands[2].type == FLOAT32 else f"deposit_{op.operands[2].type}")
                self.emit(f"{name}({address}, {self.exprs[op.operands[1]].text}, {value})", op)
            case "warp_barrier" | "warp_fence":
                self.emit(self.formula(op).text, op)
            case "barrier":
                self.emit(f"{self.prim('syncthreads')}()", op)
            case "atomic" if not self.is_used(op.result):
                self.emit(self.expression(op).text, op)
            case _:
                self.define(op, op.result, self.expression(op), region, position)

    def output(self, op: Op) -> None:
        values = [repr(op.attrs["text"]), *(self.typed(v).text for v in op.operands)]
        self.emit(f"{self.prim('output')}({', '.join(values)})", op)

    def is_used(self, v: Value) -> bool:
        home, _ = self.plan.home[v]
        return self.plan.needed_until(v, home) >= 0

    def expression(self, op: Op) -> Expr:
        match op.name:
            case "const":
                value = op.attrs["value"]
                if isinstance(value, float) and not math.isfinite(value):
                    self.prim("nan" if math.isnan(value) else "inf")
                return literal(op.attrs["type"], value)
            case "tid":
                return Expr(f"tid[{op.attrs['axis']}]")
            case "shape":
                return self.call("shape", op, [self.exprs[op.operands[0]].text, str(op.attrs["axis"])])
            case "load":
                return Expr(self.item(op), reads=self.reads(op))
            case "atomic":
                value = self.exprs[Access(op).value].text
                array, index = self.exprs[Access(op).array].text, self.index_tuple(op)
                return self.call(f"atomic_{op.attrs['kind']}", op, [array, index, value])
            case "construct":
                return self.construct(op)
            case "extract":
                return Expr(f"{self.exprs[op.operands[0]].within(ATOM)}[{self.place(op)}]", reads=self.reads(op))
            case "insert":
                a, value = (self.exprs[v].text for v in op.operands)
                return self.call("insert", op, [a, value, str(op.attrs["index"])])
            case "cast":
                return self.cast(op)
            case name if name.startswith("tile_"):
                name, arguments = tiles.call(op, [self.tile_operand(op, v).text for v in op.operands])
                return self.call(name, op, [self.primitive_argument(a) for a in arguments])
            case "shared_new":
                t, shape = op.attrs["type"], f"({', '.join(map(str, op.attrs['shape']))},)"
                element = [] if isinstance(t.dtype, Scalar) else [str(t.dtype.shape)]
                return self.call("shared_array", op, [shape, self.prim(_dtype_name(t)), *element])
            case "constant_array":
                return self.call("constant_array", op, contents_of(op))
            case "peek":
                place = [self.typed(op.operands[0]).text, self.exprs[op.operands[1]].text]
                return self.call(f"peek_{op.attrs['type']}", op, place)
            case "fetch" | "look":
                place = [self.typed(op.operands[0]).text, self.exprs[op.operands[2]].text]
                return self.call(f"peek_{op.attrs.get('type', FLOAT32)}", op, place)
            case "withdraw":
                place = [self.typed(op.operands[0]).text, self.exprs[op.operands[1]].text]
                return self.call(f"withdraw_{op.attrs['type']}", op, place)
            case "stack_new":
                return self.call("Stack", op, [str(op.attrs["type"].slots)])
            case "stack_get":
                stack, slot = (self.exprs[v].text for v in op.operands)
                return Expr(f"{stack}.get({slot}, {op.attrs['field']})", reads=self.reads(op))
            case _:
                return self.formula(op)

    def reads(self, op: Op) -> frozenset[str]:
        return frozenset().union(*(self.exprs[v].reads for v in op.operands))

    def call(self, name: str, op: Op, arguments: Sequence[str]) -> Expr:
        return Expr(f"{self.prim(name)}({', '.join(arguments)})", reads=self.reads(op))

    def formula(self, op: Op) -> Expr:
        """Return an op written by its row of the operation table."""
        row = lookup(op.name)
        # One table gives the text of each operation, for this form and for the tests that compare the two.
        spelling, (sign, precedence) = row.py, sign_of(row.py)
        all_literal = all(self.exprs[v].literal is not None for v in op.operands)
        operands = []
        for k, v in enumerate(op.operands):
            # A bare literal that is the result would stay a bare Python number.
            keep = row.chooses or (all_literal and (k == 0 or precedence == ATOM))
            e = self.typed(v) if keep else self.exprs[v]
            if precedence == ATOM:
                operands.append(e.text)
            else:
                # Left to right without regrouping: the right operand needs parentheses at equal rank.
                operands.append(e.within(precedence + (1 if k or precedence == COMPARED else 0)))
        text = spelling.format(*operands, **op.attrs)
        if precedence == ATOM:
            self.prim(spelling.partition("(")[0])
        update = None
        # In place, an array would change for all.
        if len(op.operands) == 2 and sign in ("+", "-", "*", "/") and isinstance(op.result.type, Scalar):
            left, right = (self.exprs[v].text for v in op.operands)
            update = (left, sign, right)
        negated = self.exprs[op.operands[0]].text if op.name in NEGATIVES else None
        return Expr(text, precedence, reads=self.reads(op), update=update, negated=negated)

    def cast(self, op: Op) -> Expr:
        (operand,) = op.operands
        to, source = scalar_of(op.attrs["to"]), self.typed(operand).text
        name = self.prim("bool_" if to == BOOL else to.name)
        if to.is_float and isinstance(operand.type, Scalar):
            return Expr(f"{name}({self.exprs[operand].text})", reads=self.reads(op))
        return self.call("cast", op, [source, name])

    def construct(self, op: Op) -> Expr:
        t: Element = op.attrs["type"]
        name = self.prim("bool_" if scalar_of(t) == BOOL else scalar_of(t).name)
        parts = [self.exprs[v].text for v in op.operands]
        if isinstance(t, Mat):
            return self.call("mat", op, [name, str(t.rows), str(t.cols), *parts])
        return self.call("vec", op, [name, *parts])

    def place(self, op: Op) -> str:
        t, k = op.operands[0].type, op.attrs["index"]
        return f"{k // t.cols}, {k % t.cols}" if isinstance(t, Mat) else str(k)

    # -- tiles -------------------------------------------------------------------------------------------------------

    def tile_operand(self, op: Op, v: Value) -> Expr:
        """Return an operand; the elements of tiles have their exact type."""
        return self.typed(v) if lookup(op.name).element is not None else self.exprs[v]

    def primitive_argument(self, text: str) -> str:
        """Return an argument that may name a type: the source has to import it."""
        name = text.rpartition("=")[2]
        if name in ("float16", "bfloat16", "float64"):
            self.prim(name)
        return text

    def several(self, op: Op, text: str, region: Region, position: int) -> None:
        """Assign the results of a call to variables."""
        names: list[str] = []
        for r in op.results:
            name = self.choose(r, region, position) if r.name else self.names.fresh("t")
            names.append(name if name not in names else self.names.fresh(r.name))  # two of them want the same variable
        self.emit(f"{', '.join(names)} = {text}", op)
        for r, name in zip(op.results, names, strict=True):
            self.bind(r, name)

    def tile_map(self, op: Op, region: Region, position: int) -> None:
        """Write a function of the elements, and the call that applies it. Other operands are captured from outside."""
        body = op.attrs["body"]
        skip = len(op.attrs["shape"]) if op.attrs["indexed"] else 0
        arguments, inside = [], list(body.params[:skip])
        for v, p in zip(op.operands, body.params[skip:], strict=True):
            if isinstance(v.type, Tile):
                arguments.append(self.exprs[v].text)
                inside.append(p)
            else:
                self.exprs[p] = self.typed(v)
        function = self.names.fresh("each")
        inner = self.names.taken()
        parameters = [self.names.fresh(p.name or "x") for p in inside]
        for p, name in zip(inside, parameters, strict=True):
            self.bind(p, name)
        # A nested function sees the variables around it, so only elements of tiles are parameters.
        self.emit(f"def {function}({', '.join(parameters)}):", op)
        self.depth += 1
        for k, statement in enumerate(body.ops):
            self.op(statement, body, k)
        self.emit(f"return {', '.join(self.typed(y).text for y in body.yields)}")
        self.depth -= 1
        self.names.release(inner)
        rounded = tiles.function_names(op)
        options = [f"shape={op.attrs['shape']}"]
        if rounded:
            options.append(f"dtype=({', '.join(map(self.prim_or_none, rounded))},)")
        if skip:
            options.append("indexed=True")
        self.several(op, f"{self.prim('tile_map')}({', '.join([function, *arguments, *options])})", region, position)

    def prim_or_none(self, name: str) -> str:
        return name if name == "None" else self.prim(name)

    # -- memory ------------------------------------------------------------------------------------------------------

    def indices(self, op: Op) -> list[str]:
        return [self.exprs[v].text for v in Access(op).index]

    def item(self, op: Op) -> str:
        return f"{self.exprs[Access(op).array].text}[{', '.join(self.indices(op)) or '()'}]"

    def index_tuple(self, op: Op) -> str:
        indices = self.indices(op)
        return indices[0] if len(indices) == 1 else f"({', '.join(indices)})"

    def accumulate(self, op: Op) -> None:
        expr, mode = self.exprs[Access(op).value], op.attrs["mode"]
        value = expr.text
        # Other modes are calls, so that an observer sees how the compiled code adds.
        if mode == "plain":
            subtract = expr.negated is not None
            self.emit(f"{self.item(op)} {'-=' if subtract else '+='} {expr.negated if subtract else value}", op)
            return
        array = self.exprs[Access(op).array].text
        self.emit(f'{self.prim("accumulate")}({array}, {self.index_tuple(op)}, {value}, "{mode}")', op)

    # -- control flow ------------------------------------------------------------------------------------------------

    def slot_names(self, op: Op, region: Region, position: int, old: Sequence[Value | None]) -> list[str]:
        """Return the variables of an op's results: those that hold ``old`` values that are needed no longer."""
        out: list[str] = []
        for r, before in zip(op.results, old, strict=True):
            name = self.assigned.get(r)
            if name is None and before is not None:
                held = self.variable.get(before)
                if (
                    held is not None
                    and held not in out
                    and held not in self.reserved
                    and self.holder.get(held) is before
                    and self.plan.home[before][0] is region
                    and before not in self.fn.params
                    and self.plan.needed_until(before, region) <= position
                ):
                    name = held
            out.append(name if name is not None and name not in out else self.names.fresh(r.name))
        return out

    def branch(self, op: Op, region: Region, position: int) -> None:
        view = If(op)
        # A result that one arm leaves as it was keeps the user's variable, and that arm needs no assignment.
        old = [self.unchanged(r, a, b) for r, a, b in view.choices]
        cond = self.exprs[view.condition]
        slots = self.slot_names(op, region, position, old)
        self.emit(f"if {cond.text}:", op)
        head = len(self.lines)
        held = dict(self.holder)
        self.nested(view.then, slots)
        # Each arm begins with the variables as they were before the branch.
        self.holder = dict(held)
        middle = len(self.lines)
        self.emit("else:")
        self.nested(view.orelse, slots)
        nothing = ["    " * (self.depth + 1) + "pass"]
        # Empty arms are left out, and a condition whose first arm is empty is negated.
        if self.lines[middle + 1 :] == nothing:
            del self.lines[middle:]
        elif self.lines[head:middle] == nothing:
            del self.lines[head : middle + 1]
            self.lines[head - 1] = f"{'    ' * self.depth}if not {cond.within(NOT + 1)}:"
        self.holder = held
        for r, name in zip(op.results, slots, strict=True):
            self.bind(r, name)

    def unchanged(self, result: Value, *yielded: Value) -> Value | None:
        """Return the value that one arm leaves unchanged."""
        return next((v for v in yielded if v in self.variable and v.name == result.name), None)

    def loop_slots(
        self, op: Op, region: Region, position: int, init: Sequence[Value], inner: list[Region]
    ) -> list[str]:
        old: list[Value | None] = []
        for r, v in zip(op.results, init, strict=True):
            inside = any(self.plan.needed_until(v, inner_region) >= 0 for inner_region in inner)
            # The initial value's variable serves the loop if nothing else reads that value, inside or through another
            # carried value.
            keeps = init.count(v) == 1 and not inside
            old.append(v if keeps else None)
            # The variable is set before the loop begins, so nothing in the loop may want what it holds now.
            held = self.holder.get(self.assigned.get(r, ""))
            if held is not None and (held is not v or not keeps) and self.plan.needed_until(held, region) >= position:
                del self.assigned[r]
        slots = self.slot_names(op, region, position, old)
        self.yields([(name, self.typed(v)) for name, v in zip(slots, init, strict=True)])
        return slots

    def loop_for(self, op: Op, region: Region, position: int) -> None:
        loop = For(op)
        slots = self.loop_slots(op, region, position, loop.init, [loop.body])
        bounds = self.bounds(op)
        mark = self.names.taken()
        index = self.names.fresh(loop.index.name or "k")
        self.bind(loop.index, index)
        for p, name in zip(loop.carried, slots, strict=True):
            self.bind(p, name)
        self.emit(f"for {index} in {self.prim('irange')}({', '.join(bounds)}):", op)
        self.nested(loop.body, slots)
        self.names.release(mark)
        for r, name in zip(op.results, slots, strict=True):
            self.bind(r, name)

    def bounds(self, op: Op) -> list[str]:
        """Return the arguments of a loop's range."""
        lo, hi, step = (self.exprs[v] for v in For(op).bounds)
        # The range takes the type of its bounds, so at least one of them has to carry it.
        if all(e.literal not in (None, INT32) for e in (lo, hi, step)):
            lo = self.typed(For(op).start)
        return [lo.text, hi.text] + ([] if step.text == "1" else [step.text])

    def loop_while(self, op: Op, region: Region, position: int) -> None:
        loop = While(op)
        slots = self.loop_slots(op, region, position, loop.init, [loop.test, loop.body])
        for p, q, name in zip(loop.tested, loop.carried, slots, strict=True):
            self.bind(p, name)
            self.bind(q, name)
        self.emit("while True:", op)
        before = len(self.lines)
        self.depth += 1
        self.condition(loop.test)
        if len(self.lines) == before:
            # A condition without statements of its own fits into the head of the loop.
            head = self.lines.pop()
            self.lines.append(head.replace("while True:", f"while {self.goes_on(self.exprs[loop.condition]).text}:"))
        else:
            self.emit(f"if not {self.goes_on(self.exprs[loop.condition]).within(ATOM)}:")
            self.emit("    break")
        self.depth -= 1
        self.nested(loop.body, slots)
        for r, name in zip(op.results, slots, strict=True):
            self.bind(r, name)

    def goes_on(self, condition: Expr) -> Expr:
        """Return whether a loop makes another trip."""
        return condition

    def condition(self, cond: Region) -> None:
        # The condition is evaluated again after each trip, so it must not overwrite variables of the body.
        reserved, self.reserved = self.reserved, set(self.holder)
        for position, op in enumerate(cond.ops):
            self.op(op, cond, position)
        self.reserved = reserved


def contents_of(op: Op) -> list[str]:
    """Return elements, shape and dtype of an array that is part of the program."""
    t, shape = op.attrs["type"], op.attrs["shape"]
    numbers = np.frombuffer(op.attrs["data"], dtype="bool" if t.dtype == BOOL else t.dtype.name)
    return [f"[{', '.join(repr(n) for n in numbers.tolist())}]", str(tuple(shape)), repr(t.dtype.name)]
