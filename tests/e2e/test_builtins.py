"""Every public name of the kernel language does what NumPy does: one table, in which no name may be missing.

A row has a name, an expression or statements that use it, what NumPy computes, and the types it is asked for. The rows
of a family are compiled as one kernel.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import pytest
from support.fuzz import load_module

import diffkern as dk
from diffkern.lang import COMPOSITES

N = 6
REALS, INTEGERS = ("float32", "float64"), ("int32", "int64")
ANY = ((-2.5, -0.75, 0.0, 0.4, 1.5, 2.6), (0.6, -1.3, 2.2, -0.2, 1.9, 0.4), (0.3, 0.9, -0.4, 1.2, -2.0, 0.7))
POSITIVE = ((0.05, 0.3, 0.9, 1.7, 6.0, 20.0), (0.7, 1.3, 0.2, 2.0, 0.1, 3.0), ANY[2])
INSIDE = ((-0.9, -0.5, -0.1, 0.2, 0.6, 0.95), ANY[1], ANY[2])
ABOVE = ((1.0, 1.1, 1.5, 2.0, 7.0, 30.0), ANY[1], ANY[2])
SPECIAL = ((-math.inf, math.nan, -0.0, 0.0, 1.0, math.inf), ANY[1], ANY[2])
WHOLE = ((-7, -1, 0, 3, 8, 100), (2, -3, 5, 1, -4, 7), (1, 3, 2, 0, 5, 4))

Points = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Row:
    """A name, an expression of ``a``, ``b`` and ``c`` that uses it, the same in NumPy, points and types."""

    name: str
    text: str
    reference: Callable[..., Any]
    points: Points = ANY
    types: tuple[str, ...] = REALS
    boolean: bool = False


def _same(names: str, points: Points = ANY) -> list[Row]:
    renamed = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh"}
    renamed["atanh"] = "arctanh"
    return [Row(n, f"dk.{n}(a)", getattr(np, renamed.get(n, n)), points) for n in names.split()]


def _away(x: np.ndarray) -> np.ndarray:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def _smoothstep(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    t = np.clip((c - a) / (b - a), 0, 1)
    return t * t * (3 - 2 * t)


_FUNCTIONS = (math.erf, math.erfc, math.gamma, math.lgamma, mpmath.digamma)
_erf, _erfc, _gamma, _lgamma, _digamma = (np.vectorize(f, otypes=[float]) for f in _FUNCTIONS)
LOWER_UPPER = ((-1.0, -0.5, 0.0, 0.1, 0.2, 0.3), (0.5, 1.0, 2.0, 1.1, 1.2, 1.3), (0.3, 1.2, -0.4, 0.7, 0.25, 2.0))

SCALAR_ROWS = [
    *_same("sin cos tan atan sinh cosh tanh asinh cbrt exp exp2 expm1 abs floor ceil trunc rint"),
    *_same("asin acos atanh", INSIDE), *_same("acosh", ABOVE),
    *_same("sqrt log log2 log10", POSITIVE), *_same("log1p", INSIDE),
    Row("rsqrt", "dk.rsqrt(a)", lambda a: 1 / np.sqrt(a), POSITIVE),
    Row("erf", "dk.erf(a)", _erf), Row("erfc", "dk.erfc(a)", _erfc),
    Row("gamma", "dk.gamma(a)", _gamma, POSITIVE), Row("lgamma", "dk.lgamma(a)", _lgamma, POSITIVE),
    Row("digamma", "dk.digamma(a)", _digamma, POSITIVE),
    Row("sign", "dk.sign(a)", lambda a: np.where(a < 0, -1.0, 1.0)),
    Row("nonzero", "dk.nonzero(a)", lambda a: np.where(a != 0, 1.0, 0.0)),
    Row("step", "dk.step(a)", lambda a: np.where(a < 0, 1.0, 0.0)),
    Row("round", "dk.round(a)", _away), Row("frac", "dk.frac(a)", lambda a: a - np.trunc(a)),
    Row("degrees", "dk.degrees(a)", np.degrees), Row("radians", "dk.radians(a)", np.radians),
    *(Row(n, f"dk.{n}(a)", getattr(np, n), SPECIAL, boolean=True) for n in ("isnan", "isinf", "isfinite")),
    Row("neg", "dk.neg(a)", np.negative), Row("pos", "dk.pos(a)", np.positive),
    Row("unot", "dk.unot(a > 0.0)", lambda a: ~(a > 0), boolean=True),
    Row("min", "dk.min(a, b)", np.minimum), Row("max", "dk.max(a, b)", np.maximum),
    Row("min", "dk.min(a, b, c)", lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    Row("max", "dk.max(a, b, c)", lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    Row("clamp", "dk.clamp(c, a, b)", lambda a, b, c: np.clip(c, a, b), LOWER_UPPER),
    Row("pow", "dk.pow(a, b)", np.power, POSITIVE), Row("pow", "dk.pow(a, 3.0)", lambda a: a**3),
    Row("atan2", "dk.atan2(a, b)", np.arctan2), Row("hypot", "dk.hypot(a, b)", np.hypot),
    Row("copysign", "dk.copysign(a, b)", np.copysign),
    Row("lerp", "dk.lerp(a, b, c)", lambda a, b, c: a * (1 - c) + b * c),
    Row("smoothstep", "dk.smoothstep(a, b, c)", _smoothstep, LOWER_UPPER),
    Row("where", "dk.where(a < b, a, c)", lambda a, b, c: np.where(a < b, a, c)),
    Row("select", "dk.select(a < b, a, c)", lambda a, b, c: np.where(a < b, c, a)),
    Row("add", "dk.add(a, b)", np.add), Row("sub", "dk.sub(a, b)", np.subtract),
    Row("mul", "dk.mul(a, b)", np.multiply), Row("div", "dk.div(a, b)", np.divide),
    Row("floordiv", "dk.floordiv(a, b)", np.floor_divide), Row("mod", "dk.mod(a, b)", np.mod),
]  # fmt: skip

INTEGER_ROWS = [
    Row(name, f"dk.{name}({arguments})", reference, WHOLE, INTEGERS)
    for name, arguments, reference in (
        ("abs", "a", np.abs), ("neg", "a", np.negative), ("pos", "a", np.positive), ("invert", "a", np.invert),
        ("min", "a, b", np.minimum), ("max", "a, b", np.maximum),
        ("clamp", "a, -c, c", lambda a, b, c: np.clip(a, -c, c)),
        ("add", "a, b", np.add), ("sub", "a, b", np.subtract), ("mul", "a, b", np.multiply),
        ("floordiv", "a, b", np.floor_divide), ("mod", "a, b", np.mod), ("bit_and", "a, b", np.bitwise_and),
        ("bit_or", "a, b", np.bitwise_or), ("bit_xor", "a, b", np.bitwise_xor),
        ("lshift", "a, c", lambda a, b, c: np.left_shift(a, c)),
        ("rshift", "a, c", lambda a, b, c: np.right_shift(a, c)),
        ("where", "a < b, a, c", lambda a, b, c: np.where(a < b, a, c)),
        ("select", "a < b, a, c", lambda a, b, c: np.where(a < b, c, a)),
    )
]  # fmt: skip

CAST_ROWS = [
    *(
        Row(to, f"dk.{start}(dk.{to}(a))", lambda a, to=to: a.astype(to), WHOLE, (start,))
        for to in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
        for start in INTEGERS
    ),
    *(
        Row(to, f"dk.float64(dk.{to}(a))", lambda a, to=to: a.astype(to), ANY, ("float64",))
        for to in ("float32", "float64", "int32", "int64")
    ),
    Row("cast", "dk.float64(dk.cast(dk.float32(a), dk.int32))", lambda a: a.astype("float32").view("int32"), ANY,
        ("float64",)),
    Row("cast", "dk.cast(dk.cast(a, dk.int32) ^ 4194304, dk.float32)",
        lambda a: (a.view("int32") ^ 4194304).view("float32"), ANY, ("float32",)),
    Row("complex", "(dk.complex(a, b) * dk.complex(c)).imag", lambda a, b, c: ((a + 1j * b) * c).imag),
    Row("complex", "dk.abs(dk.complex(a, b))", lambda a, b: np.abs(a + 1j * b)),
    *(Row(b, f"dk.{b}(a)", lambda a: a.astype(bool), ANY, boolean=True) for b in ("bool", "bool_")),
]  # fmt: skip


def _arguments(row: Row, t: str) -> list[np.ndarray]:
    return [np.array(column, dtype=t) for column in row.points]


@functools.cache
def _scalars(t: str, directory: str) -> dict[int, np.ndarray]:
    """What the kernel of all rows of a type computes, by position."""
    rows = [(k, row) for k, row in enumerate(ROWS) if t in row.types]
    lines = []
    for place, (_, row) in enumerate(rows):
        text = re.sub(r"(?<![\w.])[abc](?![\w(])", lambda m, k=place: f"x[i, {k}, {'abc'.index(m[0])}]", row.text)
        value = f"dk.{t}(1) if {text} else dk.{t}(0)" if row.boolean else text
        lines.append(f"    out[i, {place}] = {value}\n")
    source = (
        "import diffkern as dk\n\n@dk.kernel\n"
        f"def fuzzed(x: dk.array(dtype=dk.{t}, ndim=3), out: dk.array(dtype=dk.{t}, ndim=2)):\n"
        f"    i = dk.tid()\n{''.join(lines)}"
    )
    x = np.stack([np.stack(_arguments(row, t), axis=-1) for _, row in rows], axis=1)
    out = dk.zeros((N, len(rows)), dtype=getattr(dk, t))
    dk.launch(load_module(source, directory).fuzzed, N, [x, out])
    return {k: out.numpy()[:, place] for place, (k, _) in enumerate(rows)}


ROWS = [*SCALAR_ROWS, *INTEGER_ROWS, *CAST_ROWS]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("builtins"))


@pytest.mark.parametrize(
    ("number", "t"),
    [pytest.param(k, t, id=f"{row.text}-{t}") for k, row in enumerate(ROWS) for t in row.types],
)
def test_numbers(number: int, t: str, directory: str) -> None:
    row = ROWS[number]
    given = _arguments(row, t)
    uses = 3 if "c" in re.findall(r"(?<![\w.])[abc](?![\w(])", row.text) else 2 if re.search(r"\bb\b", row.text) else 1
    with np.errstate(all="ignore"):
        expected = np.asarray(row.reference(*given[:uses]))
    rtol = 0.0 if t in INTEGERS else 16 * float(np.finfo(t).eps)
    np.testing.assert_allclose(_scalars(t, directory)[number], expected.astype(t), rtol=rtol, atol=rtol / 16)


# -- vectors and matrices ----------------------------------------------------------------------------------------------


def _skew(v: np.ndarray) -> np.ndarray:
    return np.stack([np.cross(v, e) for e in np.eye(3)], axis=-1)


@dataclass(frozen=True)
class Composite:
    """A name, an expression of ``u, v: vec3``, ``m, k: mat33`` and ``s: number``, what NumPy computes, its element."""

    name: str
    text: str
    result: str
    reference: Callable[..., Any]


def _of(name: str, text: str, result: str, reference: Callable[[Any], Any]) -> Composite:
    return Composite(name, text, result, reference)


COMPOSITE_ROWS = [
    _of("dot", "dk.dot(u, v)", "", lambda d: np.dot(d.u, d.v)),
    _of("ddot", "dk.ddot(m, k)", "", lambda d: np.sum(d.m * d.k)),
    _of("cross", "dk.cross(u, v)", "vec3", lambda d: np.cross(d.u, d.v)),
    _of("outer", "dk.outer(u, v)", "mat33", lambda d: np.outer(d.u, d.v)),
    _of("length", "dk.length(u)", "", lambda d: np.linalg.norm(d.u)),
    _of("length_sq", "dk.length_sq(u)", "", lambda d: np.dot(d.u, d.u)),
    _of("normalize", "dk.normalize(u)", "vec3", lambda d: d.u / np.linalg.norm(d.u)),
    _of("cw_mul", "dk.cw_mul(u, v)", "vec3", lambda d: d.u * d.v),
    _of("cw_div", "dk.cw_div(u, v)", "vec3", lambda d: d.u / d.v),
    _of("transpose", "dk.transpose(m)", "mat33", lambda d: d.m.T),
    _of("trace", "dk.trace(m)", "", lambda d: np.trace(d.m)),
    _of("determinant", "dk.determinant(m)", "", lambda d: np.linalg.det(d.m)),
    _of("inverse", "dk.inverse(m)", "mat33", lambda d: np.linalg.inv(d.m)),
    _of("diag", "dk.diag(u)", "mat33", lambda d: np.diag(d.u)),
    _of("get_diag", "dk.get_diag(m)", "vec3", lambda d: np.diag(d.m)),
    _of("skew", "dk.skew(u)", "mat33", lambda d: _skew(d.u)),
    _of("identity", "dk.identity(n=3, dtype=dk.{t})", "mat33", lambda d: np.eye(3)),
    _of("matrix_from_rows", "dk.matrix_from_rows(u, v, u)", "mat33", lambda d: np.stack([d.u, d.v, d.u])),
    _of("matrix_from_cols", "dk.matrix_from_cols(u, v, u)", "mat33", lambda d: np.stack([d.u, d.v, d.u], axis=1)),
    _of("argmin", "dk.{t}(dk.argmin(u))", "", lambda d: np.argmin(d.u)),
    _of("argmax", "dk.{t}(dk.argmax(u))", "", lambda d: np.argmax(d.u)),
    _of("vector", "dk.vector(s, u[1], 2.0)", "vec3", lambda d: np.array([d.s, d.u[1], 2.0])),
    _of("matrix", "dk.matrix(u, v, u, shape=(3, 3))", "mat33", lambda d: np.stack([d.u, d.v, d.u])),
    _of("quaternion", "dk.quaternion(u, s).w", "", lambda d: d.s),
    _of("transformation", "dk.transformation(u, dk.quaternion(v, s)).p", "vec3", lambda d: d.u),
    _of("min", "dk.min(u, v)", "vec3", lambda d: np.minimum(d.u, d.v)),
    _of("max", "dk.max(u, v)", "vec3", lambda d: np.maximum(d.u, d.v)),
    _of("min", "dk.min(u)", "", lambda d: np.min(d.u)),
    _of("max", "dk.max(u)", "", lambda d: np.max(d.u)),
    _of("abs", "dk.abs(u)", "vec3", lambda d: np.abs(d.u)),
    _of("add", "dk.add(u, v)", "vec3", lambda d: d.u + d.v),
    _of("sub", "dk.sub(m, k)", "mat33", lambda d: d.m - d.k),
    _of("mul", "dk.mul(m, u)", "vec3", lambda d: d.m @ d.u),
    _of("mul", "dk.mul(m, k)", "mat33", lambda d: d.m @ d.k),
    _of("div", "dk.div(u, s)", "vec3", lambda d: d.u / d.s),
    _of("neg", "dk.neg(u)", "vec3", lambda d: -d.u),
    _of("lerp", "dk.lerp(u, v, s)", "vec3", lambda d: d.u * (1 - d.s) + d.v * d.s),
]


@functools.cache
def _composites(t: str, directory: str) -> tuple[list[np.ndarray], Any]:
    wide = "d" if t == "float64" else ""
    element = {"": f"dk.{t}", "vec3": f"dk.vec3{wide}", "mat33": f"dk.mat33{wide}"}
    results = [f"o{k}: dk.array(dtype={element[row.result]})" for k, row in enumerate(COMPOSITE_ROWS)]
    given = {"u": "vec3", "v": "vec3", "m": "mat33", "k": "mat33", "s": ""}
    arguments = [f"{name}_: dk.array(dtype={element[kind]})" for name, kind in given.items()]
    lines = [f"    {name} = {name}_[i]\n" for name in given]
    lines += [f"    o{k}[i] = {row.text.format(t=t)}\n" for k, row in enumerate(COMPOSITE_ROWS)]
    source = (
        f"import diffkern as dk\n\n@dk.kernel\ndef fuzzed({', '.join(arguments + results)}):\n"
        f"    i = dk.tid()\n{''.join(lines)}"
    )
    shapes = {"": (), "vec3": (3,), "mat33": (3, 3)}
    rng = np.random.default_rng(0)
    data = type("Data", (), {name: rng.uniform(0.5, 2.0, shapes[kind]).astype(t) for name, kind in given.items()})
    outputs = [np.zeros((1, *shapes[row.result]), t) for row in COMPOSITE_ROWS]
    dk.launch(load_module(source, directory).fuzzed, 1, [*(getattr(data, name)[None] for name in given), *outputs])
    return [out[0] for out in outputs], data


@pytest.mark.parametrize("t", REALS)
@pytest.mark.parametrize("number", range(len(COMPOSITE_ROWS)), ids=[row.text for row in COMPOSITE_ROWS])
def test_vectors_and_matrices(number: int, t: str, directory: str) -> None:
    found, data = _composites(t, directory)
    rtol = 200 * float(np.finfo(t).eps)
    np.testing.assert_allclose(found[number], COMPOSITE_ROWS[number].reference(data), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", COMPOSITES)
def test_constructors(name: str, directory: str) -> None:
    shape = getattr(dk, name)().shape
    size = math.prod(shape)
    whole = not COMPOSITES[name].ir.dtype.is_float
    numbers = ", ".join(str(k + 1) if whole else f"{k + 1}.0" for k in range(size))
    source = (
        "import diffkern as dk\n\n@dk.kernel\n"
        f"def fuzzed(out: dk.array(dtype=dk.{name})):\n    out[dk.tid()] = dk.{name}({numbers})\n"
    )
    if name.endswith("h"):  # a type of storage: a value of it has the components of float32
        source = source.replace(f"= dk.{name}(", f"= dk.{name[:-1]}(")
    out = dk.zeros(1, dtype=getattr(dk, name))
    dk.launch(load_module(source, directory).fuzzed, 1, [out])
    np.testing.assert_array_equal(out.numpy()[0], np.arange(1, size + 1).reshape(shape))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_storage_types(name: str, directory: str) -> None:
    source = (
        "import diffkern as dk\n\n@dk.kernel\n"
        f"def fuzzed(x: dk.array(dtype=float), h: dk.array(dtype=dk.{name}), y: dk.array(dtype=float)):\n"
        "    i = dk.tid()\n    h[i] = x[i]\n    y[i] = h[i]\n"
    )
    x = np.array([0.1, 1.0, -2.5, 1e-3], np.float32)
    y = np.zeros(4, np.float32)
    dk.launch(load_module(source, directory).fuzzed, 4, [x, dk.zeros(4, dtype=getattr(dk, name)), y])
    np.testing.assert_array_equal(y, [np.float32(getattr(dk, name)(v)) for v in x])


CONSTANTS = {"E": math.e, "e": math.e, "INF": math.inf, "inf": math.inf, "NAN": math.nan, "nan": math.nan}
CONSTANTS |= {"PI": math.pi, "pi": math.pi, "HALF_PI": math.pi / 2, "half_pi": math.pi / 2}
CONSTANTS |= {"TAU": math.tau, "tau": math.tau, "PHI": (1 + math.sqrt(5)) / 2, "phi": (1 + math.sqrt(5)) / 2}
CONSTANTS |= {"LOG2E": math.log2(math.e), "log2e": math.log2(math.e), "LN2": math.log(2), "ln2": math.log(2)}
CONSTANTS |= {"LOG10E": math.log10(math.e), "log10e": math.log10(math.e), "LN10": math.log(10), "ln10": math.log(10)}


def test_constants(directory: str) -> None:
    lines = "".join(f"    out[{k}] = dk.{name}\n" for k, name in enumerate(CONSTANTS))
    source = f"import diffkern as dk\n\n@dk.kernel\ndef fuzzed(out: dk.array(dtype=dk.float64)):\n{lines}"
    out = np.zeros(len(CONSTANTS))
    dk.launch(load_module(source, directory).fuzzed, 1, [out])
    np.testing.assert_array_equal(out, list(CONSTANTS.values()))
