"""Functions whose Python spelling is kept as a golden file: name → function. Each exercises a shape of source."""

from __future__ import annotations

from collections.abc import Callable

from diffkern.errors import Loc
from diffkern.ir.builder import Builder
from diffkern.ir.nodes import Function, Region, Value
from diffkern.ir.types import BOOL, FLOAT32, FLOAT64, INT32, Array, Mat, Stack, Type, Vec

F1, F2 = Array(FLOAT32, 1), Array(FLOAT32, 2)
V3 = Vec(FLOAT32, 3)

CASES: dict[str, Callable[[], Function]] = {}


def case(params: dict[str, Type], *, tid: int = 1, lines: str = ""):
    """Register a function built by ``body(builder, *params)``; ``lines`` is the user's source."""

    def register(body: Callable[..., None]) -> Callable[..., None]:
        def build() -> Function:
            values = tuple(Value(t, n) for n, t in params.items())
            b = Builder()
            body(b, *values)
            text = dict(enumerate(lines.strip("\n").split("\n"), start=1)) if lines else {}
            return Function(body.__name__, values, b.region, at(1) if lines else None, tid, text)

        CASES[body.__name__] = build
        return body

    return register


def at(line: int) -> Loc:
    return Loc("user.py", line, 0)


def tid(b: Builder, axis: int = 0, name: str = "i") -> Value:
    return b.one("tid", axis=axis, hint=name)


def load(b: Builder, x: Value, *index: Value, hint: str = "", wrap: bool = False) -> Value:
    return b.one("load", x, *index, hint=hint, wrap=(wrap,) * len(index))


def store(b: Builder, x: Value, *rest: Value) -> None:
    b.op("store", x, *rest, wrap=(False,) * (len(rest) - 1))


def f32(b: Builder, value: float) -> Value:
    return b.const(value, FLOAT32)


def region(b: Builder, params: dict[str, Type], body: Callable[..., list[Value]]) -> Region:
    r = Region(params=tuple(Value(t, n) for n, t in params.items()))
    with b.into(r):
        r.yields = tuple(body(*r.params))
    return r


@case(
    {"x": F1, "edges": Array(Vec(INT32, 2), 1), "pos": Array(V3, 1), "k": FLOAT32, "energy": F1},
    lines="""
def springs(x, edges, pos, k, energy):
    e = dk.tid()
    i, j = edges[e][0], edges[e][1]
    stretch = dk.length(pos[i] - pos[j]) - x[e]
    dk.atomic_add(energy, 0, 0.5 * k * stretch * stretch)
""",
)
def springs(b: Builder, x: Value, edges: Value, pos: Value, k: Value, energy: Value) -> None:
    with b.at(at(2)):
        e = tid(b, name="e")
    with b.at(at(3)):
        i = b.one("extract", load(b, edges, e), index=0, hint="i")
        j = b.one("extract", load(b, edges, e), index=1, hint="j")
    with b.at(at(4)):
        gap = b.one("length", b.sub(load(b, pos, i), load(b, pos, j)))
        stretch = b.one("sub", gap, load(b, x, e), hint="stretch")
    with b.at(at(5)):
        energy_of = b.mul(b.mul(b.mul(f32(b, 0.5), k), stretch), stretch)
        b.op("atomic", energy, b.i32(0), energy_of, kind="add", wrap=(False,))


@case({"x": F1, "y": F1, "n": INT32})
def updates_in_loops(b: Builder, x: Value, y: Value, n: Value) -> None:
    """Several carried values, a branch that updates one of them, a while loop that goes on with another."""
    i = tid(b)
    s, p = (b.one("const", value=v, type=FLOAT32, hint=h) for v, h in ((0.0, "s"), (1.0, "p")))

    def trip(k: Value, s: Value, p: Value) -> list[Value]:
        s = b.one("add", s, b.mul(p, load(b, x, b.add(i, k))), hint="s")
        grown = region(b, {}, lambda: [b.one("mul", p, f32(b, 2.0), hint="p")])
        (p,) = b.if_(b.one("lt", s, f32(b, 3.0)), grown, region(b, {}, lambda: [p]), ["p"])
        return [s, p]

    body = region(b, {"k": INT32, "s": FLOAT32, "p": FLOAT32}, trip)
    s, p = b.for_(b.i32(0), n, b.i32(1), [s, p], body, ["s", "p"])
    cond = region(b, {"s": FLOAT32}, lambda s: [b.one("gt", b.one("abs", s), f32(b, 1.0))])
    half = region(b, {"s": FLOAT32}, lambda s: [b.one("mul", s, f32(b, 0.5), hint="s")])
    (s,) = b.while_([s], cond, half, ["s"])
    store(b, y, i, b.add(s, p))


@case({"out": Array(INT32, 1), "n": INT32})
def swapped(b: Builder, out: Value, n: Value) -> None:
    """Fibonacci: the carried values change places."""
    i = tid(b)
    body = region(b, {"k": INT32, "a": INT32, "c": INT32}, lambda k, a, c: [c, b.add(a, c)])
    a, _ = b.for_(b.i32(0), b.add(n, i), b.i32(1), [b.i32(0), b.i32(1)], body, ["a", "c"])
    store(b, out, i, a)


@case({"u": F2, "v": F2, "ct_u": F2, "ct_v": F2, "ct_a": F1}, tid=2)
def accumulation_modes(b: Builder, u: Value, v: Value, ct_u: Value, ct_v: Value, ct_a: Value) -> None:
    i, j = tid(b, 0, "i"), tid(b, 1, "j")
    ct = load(b, ct_v, i, j, hint="ct")
    store(b, ct_v, i, j, f32(b, 0.0))
    m = b.one("shape", u, axis=1, hint="m")
    left = b.one("max", b.sub(j, b.i32(1)), b.i32(0))
    b.op("accumulate", ct_u, i, j, b.mul(ct, f32(b, 0.1)), mode="plain", wrap=(False, False))
    b.op("accumulate", ct_u, i, left, b.neg(ct), mode="atomic", wrap=(False, False))
    b.op("accumulate", ct_a, b.sub(m, b.i32(1)), b.mul(ct, load(b, u, i, j)), mode="reduce", wrap=(False,))


@case({"x": Array(V3, 1), "r": Mat(FLOAT32, 3, 3), "y": Array(V3, 1), "ok": Array(BOOL, 1)})
def composites(b: Builder, x: Value, r: Value, y: Value, ok: Value) -> None:
    i = tid(b)
    v = load(b, x, i, hint="v")
    v = b.one("insert", v, b.mul(b.extract(v, 0), f32(b, 2.0)), index=2, hint="v")
    w = b.one("scale", b.one("matvec", r, v), b.one("extract", r, index=5), hint="w")
    n = b.one("normalize", b.one("cross", v, w))
    up = b.one("construct", f32(b, 0.0), f32(b, 0.0), b.one("dot", v, w), type=V3)
    inside = b.one("and", b.one("not", b.one("isnan", b.extract(v, 1))), b.one("lt", b.extract(w, 0), f32(b, 0.1)))
    store(b, ok, i, inside)
    store(b, y, i, b.select(inside, n, up))


@case({"x": Array(FLOAT64, 1), "y": Array(INT32, 1), "sin": FLOAT32})
def literals_and_names(b: Builder, x: Value, y: Value, sin: Value) -> None:
    """A parameter and variables with names of primitives and keywords; literals alone and beside typed operands."""
    i = tid(b, name="lambda")
    d = b.one("const", value=0.1, type=FLOAT32, hint="pow")
    both = b.one("mul", f32(b, 0.1), f32(b, 3e38), hint="length")
    wide = b.cast(b.add(both, b.mul(d, b.one("sin", sin))), FLOAT64)
    first = b.one("min", b.sub(load(b, x, i), b.const(-1.5, FLOAT64)), b.const(float("inf"), FLOAT64))
    k = b.one("or", b.one("shl", b.i32(1), i), b.one("invert", b.one("mod", i, b.i32(-3))))
    power = b.one("sub", b.sub(wide, first), b.sub(first, wide), hint="tid")
    store(b, y, i, b.add(k, b.cast(power, INT32)))


@case({"x": F1, "ct_x": F1, "ct_y": F1, "n": INT32})
def checkpointed(b: Builder, x: Value, ct_x: Value, ct_y: Value, n: Value) -> None:
    i = tid(b)
    stack = b.one("stack_new", type=Stack((FLOAT32, INT32), 4), hint="kept")
    m = b.one("next_checkpoint", b.i32(0), n, b.i32(4), hint="m")

    def forward(k: Value, a: Value) -> list[Value]:
        b.op("stack_set", stack, b.one("mod", k, b.i32(4)), a, k)
        return [b.one("sin", a, hint="a")]

    (a,) = b.for_(b.i32(0), m, b.i32(1), [load(b, x, i)], region(b, {"k": INT32, "a": FLOAT32}, forward), ["a"])

    def backward(k: Value, ct: Value) -> list[Value]:
        kept = b.one("stack_get", stack, b.one("mod", k, b.i32(4)), field=0)
        return [b.one("mul", ct, b.one("cos", kept), hint="ct")]

    (ct,) = b.for_(
        b.sub(m, b.i32(1)), b.i32(-1), b.i32(-1), [load(b, ct_y, i)],
        region(b, {"k": INT32, "ct": FLOAT32}, backward), ["ct"],
    )  # fmt: skip
    b.op("accumulate", ct_x, i, b.add(ct, a), mode="plain", wrap=(False,))
