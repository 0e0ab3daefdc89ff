"""Reports of a kernel: ``print``, ``printf``, ``assert`` and the functions that expect something.

A call or statement becomes ops that print a text with the values in its fields, or that assert a condition. Text is
constant: it is a part of the program.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from diffkern.frontend.terms import coerce
from diffkern.frontend.terms.context import Context
from diffkern.frontend.terms.terms import WEAK, Const, Rec, Static, Term, Tup, Val, describe
from diffkern.ir import types as T
from diffkern.ir.nodes import Region, Value
from diffkern.ir.ops.output import escaped
from diffkern.lang.dialects import Printed

__all__ = ["CALLS", "assertion"]

_LONGEST: Final = 100
"""Characters of a call that are quoted where what it expects is not so."""

_FORM: Final = re.compile(r"%(?P<flags>[-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l|j|z|t|L)?(?P<kind>[diuoxXeEfFgGcs%])")


class _Line:
    """A text under construction, and the values in its fields."""

    def __init__(self, cx: Context, node: ast.AST, name: str) -> None:
        if cx.in_map:
            cx.type_error(node, f"{name} in a function of the elements of tiles", "print in the kernel itself")
        self.cx, self.node, self.name = cx, node, name
        self.as_c = cx.dialect.printed is Printed.AS_C
        self.text = ""
        self.values: list[Value] = []

    def end(self) -> None:
        self.cx.b.op("output", *self.values, text=self.text)

    def write(self, text: str) -> None:
        self.text += escaped(text)

    def field(self, value: Value, form: str = "") -> None:
        self.text += f"{{:{form}}}" if form else "{}"
        self.values.append(value)

    def argument(self, node: ast.expr) -> None:
        """Write an argument: a constant string, an f-string, or the form of a value."""
        text = _constant_text(self.cx, node)
        if text is not None:
            self.write(text)
        elif isinstance(node, ast.JoinedStr):
            for part in node.values:
                self.formatted(part)
        else:
            self.term(self.cx.expr(node), node)

    def formatted(self, part: ast.expr) -> None:
        """Write a part of an f-string."""
        if not isinstance(part, ast.FormattedValue):
            self.argument(part)
            return
        if part.format_spec is None:
            self.argument(part.value)
            return
        spec = part.format_spec.values if isinstance(part.format_spec, ast.JoinedStr) else []
        form = "".join(v.value for v in spec if isinstance(v, ast.Constant) and isinstance(v.value, str))
        found = _FORM.fullmatch(f"%{form}")
        if found is None or found["kind"] in "s%c" or not all(isinstance(v, ast.Constant) for v in spec):
            remedy = "write the forms that C's printf has too, such as {x:.3f}, {x:8.2e}, {n:5d} or {n:x}"
            self.cx.syntax_error(part, f"the form {form!r} of a printed value is not supported", remedy)
        self.number(self.cx.expr(part.value), found, part)

    def term(self, term: Term, node: ast.AST) -> None:
        """Write the form of a value."""
        match term:
            case Const(float(value)) if self.as_c:
                self.write(f"{value:g}")
            case Const(value):
                self.write(str(value))
            case Tup(items):
                self.items("()", items, node)
            case Rec(struct):
                self.write(f"{struct.name}(")
                for k, (name, item) in enumerate(zip(struct.names, term.items, strict=True)):
                    self.write(f"{', ' * (k > 0)}{name}=")
                    self.term(item, node)
                self.write(")")
            case Val() if isinstance(term.value.type, (T.Scalar, T.Vec, T.Mat)):
                self.value(coerce.value(self.cx, term, node))
            case Static(None):
                self.write("None")
            case _:
                remedy = "print single elements, as in print(a[i])"
                self.cx.type_error(node, f"{describe(term)} is printed", remedy)

    def value(self, value: Value) -> None:
        # Fields are numbers: a vector is printed by its components.
        t, parts = value.type, self.cx.b.components(value)
        if isinstance(t, T.Mat):
            rows = [parts[k : k + t.cols] for k in range(0, t.size, t.cols)]
            between, brackets = ("\n", ("", "")) if self.as_c else (",\n ", ("[", "]"))
            self.write(brackets[0])
            for k, row in enumerate(rows):
                self.write(between * (k > 0))
                self.row(row)
            self.write(brackets[1])
        elif isinstance(t, T.Vec):
            self.row(parts)
        else:
            self.component(value)

    def row(self, values: Sequence[Value]) -> None:
        between, brackets = (" ", ("", "")) if self.as_c else (", ", ("[", "]"))
        self.write(brackets[0])
        for k, value in enumerate(values):
            self.write(between * (k > 0))
            self.component(value)
        self.write(brackets[1])

    def component(self, value: Value) -> None:
        self.field(value, "%g" if self.as_c and T.scalar_of(value.type).is_float else "")

    def items(self, brackets: str, items: Sequence[Term], node: ast.AST) -> None:
        self.write(brackets[0])
        for k, item in enumerate(items):
            self.write(", " * (k > 0))
            self.term(item, node)
        self.write("," * (len(items) == 1) + brackets[1])

    def number(self, term: Term, form: re.Match[str], node: ast.AST) -> None:
        """Write a number in a form of C's ``printf``."""
        cx, kind = self.cx, form["kind"]
        value = coerce.value(cx, coerce.scalar_term(cx, term, node, f"what %{kind} prints"), node)
        t = T.scalar_of(value.type)
        if kind in "eEfFgG":
            value = value if t.is_float else cx.b.cast(value, T.FLOAT64)
        elif t.is_float:
            cx.type_error(node, f"%{kind} prints an integer, not {t}", "write %g, or int(x)")
        elif t == T.BOOL:
            value = cx.b.cast(value, T.INT32)
        elif kind in "uoxX" and t.kind is T.Kind.INT:
            value = cx.b.cast(value, T.SCALARS[f"uint{t.bits}"])
        self.field(value, f"%{form['flags']}{'d' if kind in 'iu' else kind}")


def _constant_text(cx: Context, node: ast.expr) -> str | None:
    """Return the string of an expression, written out or captured; None if it is none."""
    # Without lowering it: a string is no term.
    found = node.value if isinstance(node, ast.Constant) else cx.outside(node)
    return found if isinstance(found, str) else None


def _needed_text(cx: Context, node: ast.expr, what: str) -> str:
    text = _constant_text(cx, node)
    if text is None:
        cx.type_error(node, f"{what} is a constant string", "write it out, or define it outside of the kernel")
    return text


def _print(cx: Context, name: str, node: ast.Call) -> Term:
    # The whole line is one op, so that lines of several threads are not mixed.
    line, given = _Line(cx, node, name), {k.arg: k.value for k in node.keywords}
    for keyword in set(given) - {"sep", "end"}:
        cx.syntax_error(node, f"{name} takes no argument {keyword!r} in a kernel", "it takes values, sep and end")
    separator, end = (
        _needed_text(cx, given[key], f"{key} of {name}") if key in given else usual
        for key, usual in (("sep", " "), ("end", "\n"))
    )
    for k, argument in enumerate(node.args):
        line.write(separator * (k > 0))
        line.argument(argument)
    line.write(end)
    line.end()
    return Static(None, f"{name}(...)")


def _printf(cx: Context, name: str, node: ast.Call) -> Term:
    if not node.args or node.keywords:
        cx.type_error(node, f"{name} takes a text and a value for each of its fields", f'write {name}("%g\\n", x)')
    text, values = _needed_text(cx, node.args[0], f"the first argument of {name}"), list(node.args[1:])
    line, end, used = _Line(cx, node, name), 0, 0
    for form in re.finditer(r"%.?", text):
        if form.start() < end:
            # The second sign of `%%` was consumed with the first.
            continue
        found = _FORM.match(text, form.start())
        if found is None:
            remedy = "there are %d %i %u %o %x %f %e %g %c %s with width and precision, and %% for the sign itself"
            cx.syntax_error(node, f"{name} does not know the field {text[form.start() :][:4]!r}", remedy)
        line.write(text[end : found.start()])
        end = found.end()
        if found["kind"] == "%":
            line.write("%")
            continue
        used += 1
        if used <= len(values):
            _value_of_field(cx, line, values[used - 1], found)
    if used != len(values):
        cx.type_error(node, f"{name} has {used} fields in its text, and {len(values)} values", "give one for each")
    line.write(text[end:])
    line.end()
    return Static(None, f"{name}(...)")


def _value_of_field(cx: Context, line: _Line, node: ast.expr, form: re.Match[str]) -> None:
    if form["kind"] == "s":
        line.write(f"%{form['flags']}s" % _needed_text(cx, node, "what %s prints"))
        return
    term = cx.expr(node)
    if isinstance(term, Val) and not isinstance(term.type, T.Scalar):
        cx.type_error(node, f"%{form['kind']} prints a number, not {describe(term)}", "print its components one by one")
    line.number(term, form, node)


def assertion(cx: Context, stmt: ast.Assert) -> None:
    """Lower an ``assert``."""
    text = ast.unparse(stmt.test) if stmt.msg is None else _needed_text(cx, stmt.msg, "the text of an assertion")
    if cx.in_map:
        cx.type_error(stmt, "assert in a function of the elements of tiles", "assert in the kernel itself")
    holds = coerce.as_bool(cx, cx.expr(stmt.test), stmt.test)
    # A condition that is known to hold needs no op.
    if holds != Const(True):
        cx.b.op("assertion", coerce.value(cx, holds, stmt.test), text=text)


# -- expectations ------------------------------------------------------------------------------------------------------


def _expect(fails: Callable[[Context, Sequence[Value], Sequence[Value], Value | None], Value], words: str) -> _Lazy:
    """Return the lowering of a function that prints its arguments if they are not as expected."""
    near = words == "is not near"

    def lower(cx: Context, name: str, node: ast.Call) -> Term:
        given = _bound(cx, name, node, ("a", "b", "tolerance") if near else ("a", "b"))
        a, b = (_comparable(cx, cx.expr(given[key]), given[key]) for key in ("a", "b"))
        sides = _alike(cx, a, b, node, name, as_float=near)
        line = _Line(cx, node, name)
        x, y = (cx.b.components(side) for side in sides)
        tolerance = None
        if near:
            term = cx.expr(given["tolerance"]) if "tolerance" in given else Const(1e-6)
            tolerance = coerce.convert(cx, term, T.scalar_of(x[0].type), node, "the tolerance")
        failed, region = fails(cx, x, y, tolerance), Region()
        call = ast.unparse(node)
        line.write(f"{call if len(call) <= _LONGEST else call[:_LONGEST] + '...'} failed: ")
        # Only printed in the failing branch, so that nothing is formatted otherwise.
        with cx.b.into(region):
            line.value(sides[0])
            line.write(f" {words} ")
            line.value(sides[1])
            line.write(f" in kernel {cx.stack[0].pyfunc.__name__}\n")
            line.end()
        cx.b.if_(failed, region, Region())
        return Static(None, f"{name}(...)")

    return lower


def _bound(cx: Context, name: str, node: ast.Call, names: Sequence[str]) -> Mapping[str, ast.expr]:
    given = dict(zip(names, node.args, strict=False))
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg not in names or keyword.arg in given:
            cx.type_error(node, f"{name} takes no further argument {keyword.arg!r}", f"it takes {', '.join(names)}")
        given[keyword.arg] = keyword.value
    if len(node.args) > len(names) or not {"a", "b"} <= given.keys():
        cx.type_error(node, f"{name} takes {', '.join(names)}", "compare two values of one type")
    return given


def _comparable(cx: Context, term: Term, node: ast.AST) -> Const | Val:
    if isinstance(term, Const) or (isinstance(term, Val) and isinstance(term.value.type, (T.Scalar, T.Vec, T.Mat))):
        return term
    cx.type_error(node, f"{describe(term)} is compared", "compare numbers, vectors and matrices")


def _alike(
    cx: Context, a: Const | Val, b: Const | Val, node: ast.AST, name: str, *, as_float: bool
) -> tuple[Value, Value]:
    """Return two values as values of one type."""
    if coerce.is_number(a) and coerce.is_number(b):
        left, right = coerce.unify(cx, a, b, node, name)
        # Two literals have no type yet, and a printed value needs one.
        if left.type in WEAK:
            left, right = (coerce.value(cx, Val(side), node) for side in (left, right))
        if as_float and not T.scalar_of(left.type).is_float:
            left, right = (cx.b.cast(side, T.FLOAT64) for side in (left, right))
        return left, right
    left, right = coerce.value(cx, a, node), coerce.value(cx, b, node)
    if left.type != right.type:
        cx.type_error(node, f"{name} of {describe(a)} and {describe(b)}", "compare two values of one type")
    if as_float and not T.scalar_of(left.type).is_float:
        cx.type_error(node, f"{name} of {left.type}", "write expect_eq for integers")
    return left, right


def _combined(cx: Context, op: str, values: Sequence[Value]) -> Value:
    found = values[0]
    for value in values[1:]:
        found = cx.b.one(op, found, value)
    return found


def _differ(cx: Context, x: Sequence[Value], y: Sequence[Value], tolerance: Value | None) -> Value:
    return _combined(cx, "or", [cx.b.one("ne", *pair) for pair in zip(x, y, strict=True)])


def _agree(cx: Context, x: Sequence[Value], y: Sequence[Value], tolerance: Value | None) -> Value:
    return cx.b.one("not", _differ(cx, x, y, tolerance))


def _apart(cx: Context, x: Sequence[Value], y: Sequence[Value], tolerance: Value | None) -> Value:
    assert tolerance is not None
    b, found = cx.b, []
    for pair in zip(x, y, strict=True):
        distance = b.one("abs", b.sub(*pair))
        close = b.one("or", b.one("le", distance, tolerance), b.one("eq", *pair))  # equal infinities have no distance
        found.append(b.one("not", close))
    return _combined(cx, "or", found)


_Lazy = Callable[[Context, str, ast.Call], Term]

CALLS: Final[Mapping[str, _Lazy]] = {
    "print": _print,
    "printf": _printf,
    "expect_eq": _expect(_differ, "is not"),
    "expect_neq": _expect(_agree, "is"),
    "expect_near": _expect(_apart, "is not near"),
}
"""The built-ins that print, by key."""
