"""Every refusal says what to write instead, and that works: what is refused beside what its remedy makes of it."""

from __future__ import annotations

import ast
import linecache
import math
import re
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import diffkern as dk
from diffkern import frontend

SIGNATURE = "x: F1, y: F1, grid: dk.array(dtype=float, ndim=2), index: dk.array(dtype=int)"
FUNCS = """
@dk.func
def half(a: float):
    return 0.5 * a

@dk.func
def both(a: float):
    return a, -a

"""
CONFIG = SimpleNamespace(dt=0.1)
NAMES = {
    "dk": dk, "np": np, "math": math, "cfg": CONFIG, "dt": CONFIG.dt, "table": {"dt": 0.1}, "numbers": [1.0, 2.0],
    "pair": (1.0, 2.0), "flag": 1.0, "F1": dk.array(dtype=float),
}  # fmt: skip

# What is refused, what the help says of it, and what is written then.
REMEDIES = [
    ("y[i] = [1.0][0]", "", "y[i] = (1.0,)[0]"),
    ("y[i] = float('inf')", "math.inf", "y[i] = math.inf"),
    ("y[i] = cfg.dt", "dt = cfg.dt", "y[i] = dt"),
    ("y[i] = table['dt']", "a name outside", "y[i] = dt"),
    ("y[i] = numbers[0]", "tuples of numbers", "y[i] = pair[0]"),
    ("y[i] = x.sum()", "atomic_add", "dk.atomic_add(y, 0, x[i])"),
    ("y[i] = sum(x)", "loop", "for k in range(x.shape[0]):\n    y[i] += x[k]"),
    ("y[i] = x[0.5]", r"int\(", "y[i] = x[int(0.5)]"),
    ("y[i] = x[i / 2]", "//", "y[i] = x[i // 2]"),
    ("y[i] = x[index]", r"a\[index\[i\]\]", "y[i] = x[index[i]]"),
    ("y[i] = x[None]", "one index per axis", "y[i] = x[0]"),
    ("y[i] = x[i, 0]", "ndim=2", "y[i] = grid[i, 0]"),
    ("y[i] = x", "index the array", "y[i] = x[i]"),
    ("y[i] = x + 1.0", "index the array", "y[i] = x[i] + 1.0"),
    ("y[i] = +x", "leave the sign out", "y[i] = x[i]"),
    ("y[i] = x[i] + None", "numbers, vectors", "y[i] = x[i] + 1.0"),
    ("y[i] = 1 // 0", "other than 0", "y[i] = 1 // 2"),
    ("y[i] = x[i] if i else None", "", "y[i] = x[i] if i else 0.0"),
    ("a, b = x[i], 1.0, 2.0", "a variable for each", "a, b, c = x[i], 1.0, 2.0"),
    ("a, b = half(x[i])", "", "a, b = both(x[i])"),
    ("y[i] = both(x[i])", "", "y[i] = both(x[i])[0]"),
    ("y[i] = half(x[i], 1.0)", "its parameters are", "y[i] = half(x[i])"),
    ("y[i] = half(x)", "index", "y[i] = half(x[i])"),
    ("y[i] = unknown", "check the name", "y[i] = flag"),
    ("y[i] = dk.sqr(x[i])", "", "y[i] = dk.sqrt(x[i])"),
    ("y[i] = dk.relu(x[i])", r"dk\.max\(x, 0\.0\)", "y[i] = dk.max(x[i], 0.0)"),
    ("y[i] = np.cumsum(x)[0]", "add up", "y[i] += x[i]"),
    ("y[i] = dk.exp(dk.vec3(x[i]))[0]", r"f\(v\[0\]\)", "v = dk.vec3(x[i])\ny[i] = dk.vec3(dk.exp(v[0]), 0.0, 0.0)[0]"),
    ("y[i] = dk.vec3(x[i], x[i])[0]", "3 numbers", "y[i] = dk.vec3(x[i], x[i], x[i])[0]"),
    ("y[i] = dk.vec3(1.0)['x']", "", "y[i] = dk.vec3(1.0)[0]"),
    ("y[i] = dk.vec3(1.0)[0.5]", r"v\[0\]", "y[i] = dk.vec3(1.0)[0]"),
    ("y[i] = dk.mat33(1.0)[0, 0, 0]", r"m\[i, j\]", "y[i] = dk.mat33(1.0)[0, 0]"),
    ("y[i] = dk.dot(x[i], x[i])", "product x \\* y", "v = dk.vec2(x[i], 1.0)\ny[i] = dk.dot(v, v)"),
    (
        "y[i] = dk.determinant(dk.vec2(1.0))", "matrix_from_rows",
        "v = dk.vec2(1.0, x[i])\ny[i] = dk.determinant(dk.matrix_from_rows(v, v))",
    ),
    ("y[i] = dk.length(dk.vec3(1.0) * dk.vec3(2.0))", "", "y[i] = dk.length(dk.cw_mul(dk.vec3(1.0), dk.vec3(2.0)))"),
    ("m = dk.matrix(x[i])", r"shape=\(2, 2\)", "m = dk.matrix(x[i], shape=(2, 2))"),
    ("m = dk.identity(n=i, dtype=float)", "constants", "m = dk.identity(n=3, dtype=float)"),
    ("for k in range(1.5):\n    y[i] = x[k]", "", "for k in range(int(1.5)):\n    y[i] = x[k]"),
    ("for k in range(0, 4, 0):\n    y[i] = x[k]", "1 or -1", "for k in range(0, 4, 1):\n    y[i] = x[k]"),
    ("for k in range():\n    y[i] = x[k]", r"range\(stop\)", "for k in range(4):\n    y[i] = x[k]"),
    ("for v in x[i]:\n    y[i] = v", "", "for v in dk.vec3(x[i]):\n    y[i] = v"),
    (
        "if x[i] > 0.0:\n    fresh = 1.0\ny[i] = fresh", "on all paths",
        "fresh = 0.0\nif x[i] > 0.0:\n    fresh = 1.0\ny[i] = fresh",
    ),
    ("try:\n    y[i] = x[i]\nfinally:\n    pass", "", "y[i] = x[i]"),
    ("with cfg:\n    y[i] = x[i]", "", "y[i] = x[i]"),
    ("del y", "", "y[i] = x[i]"),
    ("global flag\ny[i] = x[i]", "", "y[i] = x[i]"),
    ("import math\ny[i] = x[i]", "", "y[i] = math.sin(x[i])"),
    ("raise ValueError(i)", "", "assert x[i] > 0.0"),
    ("return x[i]", "write the result to an array", "y[i] = x[i]"),
    ("x.grad = 1.0", "", "y[i] = 1.0"),
    ("y.fill_(1.0)", "assign the elements", "y[i] = 1.0"),
    ("y[i] = round(x[i], 2)", "decimals", "y[i] = round(x[i] * 100.0) / 100.0"),
    ("dk.atomic_add(y, x[i])", r"dk\.atomic_add\(a, i, value\)", "dk.atomic_add(y, i, x[i])"),
    ("dk.atomic_add(1.0, 0, x[i])", "the array first", "dk.atomic_add(y, 0, x[i])"),
    ("dk.printf('%d', x[i])", "%g", "dk.printf('%g', x[i])"),
    ("dk.syncthreads(1)", r"syncthreads\(\)", "dk.syncthreads()"),
    ("t = dk.tile_load(x, shape=(2, 2))", "one extent for each axis", "t = dk.tile_load(x, shape=4)"),
    ("t = dk.tile_load(x[0], shape=4)", "the array first", "t = dk.tile_load(x, shape=4)"),
    ("t = dk.tile_load(x, shape=4, offset=0.5)", r"int\(", "t = dk.tile_load(x, shape=4, offset=int(0.5))"),
    (
        "t = dk.tile_load(x, shape=4)\ndk.tile_matmul(t, t)", "two axes",
        "t = dk.tile_reshape(dk.tile_load(x, shape=4), shape=(2, 2))\nu = dk.tile_matmul(t, t)",
    ),
    ("t = dk.tile_zeros(shape=4, dtype=x)", "dtype=float", "t = dk.tile_zeros(shape=4, dtype=float)"),
    ("t = dk.tile_arange(i)", "constants", "t = dk.tile_arange(4)"),
    ("y[i] = x[i].item()", "already", "y[i] = x[i]"),
    ("y[i] = x[i].astype(float)", r"float\(", "y[i] = float(x[i])"),
    ("j, k = dk.tid()", "the same number everywhere", "j = dk.tid()"),
    ("y[i] = dk.tid(1)", r"dk\.tid\(\)", "y[i] = float(dk.tid())"),
    ("x[i] == 'a'", "on the host", "y[i] = x[i]"),
]  # fmt: skip


def kernel_of(body: str) -> dk.Kernel:
    """A kernel with a body."""
    text = f"{FUNCS}@dk.kernel\ndef kernel({SIGNATURE}):\n    i = dk.tid()\n{textwrap.indent(body, '    ')}\n"
    file = f"<remedy {abs(hash(body))}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module = dict(NAMES)
    exec(compile(text, file, "exec"), module)
    found: dk.Kernel = module["kernel"]
    return found


@pytest.mark.parametrize(("wrong", "says", "right"), REMEDIES)
def test_the_remedy_works(wrong: str, says: str, right: str) -> None:
    with pytest.raises(dk.KernelError) as info:
        kernel_of(wrong).source()
    for error in info.value.errors:
        assert error.loc is not None
    helps = " ".join(error.remedy or error.message for error in info.value.errors)
    assert re.search(says, helps), str(info.value)
    kernel_of(right).source()


def test_what_the_frontend_refuses_has_a_remedy() -> None:
    """All calls that refuse say what to write."""
    without = []
    for path in sorted(Path(frontend.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("type_error", "syntax_error"):
                starred = any(isinstance(arg, ast.Starred) for arg in node.args)
                if len(node.args) + len(node.keywords) < 3 and not starred:
                    without.append(f"{path.name}:{node.lineno}")
    assert not without
