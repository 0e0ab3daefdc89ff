"""Indices of every kind mean in a kernel what they mean in NumPy: negative, wrapped, cut off by a cast.

The array read or updated lies in the middle of a larger one, so that an access outside of it finds other numbers.
Chunks have one thread each, so that threads that meet are kept apart as the launch has planned.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.clashes import ClashCollector, undeclared
from support.fuzz import load_module

import diffkern as dk
from diffkern.frontend.statements import lowering
from diffkern.runtime.launch import schedule
from diffkern.testing.gradcheck import Vjp
from diffkern.testing.programs import Interpreted

N = 300

INDICES = (
    "i", "i - n", "-i - 1", "n - 1 - i", "i % -3", "-(i % 5)", "i % -3 + 1", "(i * 73) % -n", "i // -7", "(-i) >> 3",
    "~i", "i ^ -1", "dk.max(i % -3, -1)", "dk.min(i - 2, -1)", "dk.int8(i)", "dk.uint8(i)", "dk.int32(dk.int8(i)) % n",
    "dk.int8(i) % dk.int8(7)", "-dk.int8(i)", "dk.abs(dk.int8(i))", "dk.abs(dk.int8(i) * dk.int8(2))",
    "dk.int16(i * 700) % n", "dk.int32(w[i])", "dk.int32(w[i] - 4294967296)", "dk.int32(dk.int64(i) + 4294967296)",
    "dk.int32(dk.int64(i) * 4294967297) - n", "dk.int64(dk.int8(i))", "dk.int8(dk.int16(i))", "dk.clamp(i, -5, 7)",
    "dk.abs(j[i] * 0 - 2147483647 - i % 2) >> 26", "dk.int32(dk.uint32(i - 100) % dk.uint32(4294967295))",
    "dk.abs(i - 150)", "i % 7 - 7", "(i & 63) - 64", "j[i]", "j[i % -4]",
)  # fmt: skip

SOURCE = """\
import diffkern as dk


@dk.kernel
def fuzzed(x: dk.array(dtype=dk.float64), w: dk.array(dtype=dk.int64), j: dk.array(dtype=int), n: int,
           y: dk.array(dtype=dk.float64), z: dk.array(dtype=dk.float64)):
    i = dk.tid()
    y[i] = x[{index}] * x[{index}]
    dk.atomic_add(z, {index}, x[i])


@dk.kernel
def grid(x: dk.array(dtype=dk.float64, ndim=2), w: dk.array(dtype=dk.int64), j: dk.array(dtype=int), n: int,
         y: dk.array(dtype=dk.float64), z: dk.array(dtype=dk.vec3d)):
    i = dk.tid()
    row = x[{index}]
    y[i] = x[{index}, i % -2] * row[i % 3 - 3]
    dk.atomic_add(z, {index}, dk.vec3d(x[i, 0], 1.0, 2.0))


@dk.kernel
def guarded(x: dk.array(dtype=dk.float64), w: dk.array(dtype=dk.int64), j: dk.array(dtype=int), n: int,
            y: dk.array(dtype=dk.float64), z: dk.array(dtype=dk.float64)):
    i = dk.tid()
    k = {index}
    if k >= 0:
        y[i] = x[k] * x[k]
"""


def _in_numpy(index: str) -> np.ndarray:
    casts = {
        name: lambda v, t=name: np.asarray(v).astype(t)
        for name in ("int8", "uint8", "int16", "int32", "uint32", "int64")
    }
    functions = {"abs": np.abs, "max": np.maximum, "min": np.minimum, "clamp": np.clip}
    with np.errstate(over="ignore"):
        names = {"dk": SimpleNamespace(**casts, **functions), "i": np.arange(N, dtype=np.int32), "n": N, **_data()}
        return np.asarray(eval(index, names)).astype(np.int64)


def _data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    wide = rng.integers(-N, N, N) + (rng.integers(-3, 4, N) << 32)
    return {"w": wide, "j": rng.integers(-N, N, N).astype(np.int32)}


def _middle(values: np.ndarray, how: str) -> np.ndarray:
    """The values as a part of a larger array."""
    n, rest = len(values), values.shape[1:]
    base = np.full((6 * n, *rest), 1e3)
    parts = {
        "contiguous": slice(2 * n, 3 * n),
        "strided": slice(2 * n, 4 * n, 2),
        "reversed": slice(3 * n - 1, 2 * n - 1, -1),
    }
    view = base[parts[how]]
    view[...] = values
    return view


def _launched(kernel: Any, x: np.ndarray, how: str, z: np.ndarray, z_dtype: Any = None) -> tuple[dict[str, Any], Any]:
    data = _data()
    arrays = {
        "x": dk.array(_middle(x, how), copy=False), "z": dk.array(_middle(z, how), dtype=z_dtype, copy=False),
        "y": dk.zeros(N, dtype=dk.float64),
    }  # fmt: skip
    for name, array in arrays.items():
        given = z_dtype if name == "z" else None
        array.grad = dk.array(_middle(np.zeros_like(array.numpy()), how), dtype=given, copy=False)
    seeds = {name: np.random.default_rng(1).uniform(-1, 1, arrays[name].numpy().shape) for name in ("y", "z")}
    with dk.Tape() as tape:
        dk.launch(kernel, N, [arrays["x"], data["w"], data["j"], N, arrays["y"], arrays["z"]])
    tape.backward(grads={arrays[name]: seed for name, seed in seeds.items()})
    return arrays, seeds


@pytest.mark.parametrize("index", INDICES)
def test_one_axis(index: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_CHUNK_WORK", 1.0)
    kernel = load_module(SOURCE.format(index=index), str(tmp_path)).fuzzed
    at = _in_numpy(index) % N
    x = np.random.default_rng(2).uniform(1, 2, N)
    for how in ("contiguous", "strided", "reversed"):
        arrays, seeds = _launched(kernel, x, how, np.zeros(N))
        np.testing.assert_allclose(arrays["y"].numpy(), x[at] ** 2)
        sums = np.zeros(N)
        np.add.at(sums, at, x)
        np.testing.assert_allclose(arrays["z"].numpy(), sums)
        expected = seeds["z"][at].copy()
        np.add.at(expected, at, 2 * x[at] * seeds["y"])
        np.testing.assert_allclose(arrays["x"].grad.numpy(), expected)
        base = arrays["z"].numpy().base
        assert base.sum() == pytest.approx(sums.sum() + 5 * N * 1e3)


@pytest.mark.parametrize("index", INDICES)
def test_rows_columns_and_vectors(index: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_CHUNK_WORK", 1.0)
    kernel = load_module(SOURCE.format(index=index), str(tmp_path)).grid
    at, i = _in_numpy(index) % N, np.arange(N)
    x = np.random.default_rng(2).uniform(1, 2, (N, 3))
    a, b = (at, i % -2), (at, i % 3 - 3)
    for how in ("contiguous", "reversed"):
        arrays, seeds = _launched(kernel, x, how, np.zeros((N, 3)), dk.vec3d)
        np.testing.assert_allclose(arrays["y"].numpy(), x[a] * x[b])
        sums = np.zeros((N, 3))
        np.add.at(sums, at, np.stack([x[:, 0], np.ones(N), np.full(N, 2.0)], axis=1))
        np.testing.assert_allclose(arrays["z"].numpy(), sums)
        expected = np.zeros((N, 3))
        expected[:, 0] = seeds["z"][at, 0]
        np.add.at(expected, a, x[b] * seeds["y"])
        np.add.at(expected, b, x[a] * seeds["y"])
        np.testing.assert_allclose(arrays["x"].grad.numpy(), expected)


@pytest.mark.parametrize("name", ["fuzzed", "guarded"])
@pytest.mark.parametrize("index", INDICES)
def test_threads_meet_only_where_it_is_announced(index: str, name: str, tmp_path: Any) -> None:
    kernel = getattr(load_module(SOURCE.format(index=index), str(tmp_path)), name)
    data = _data()
    x = np.random.default_rng(2).uniform(1, 2, N)
    given = [x, data["w"], data["j"], N, np.zeros(N), np.zeros(N)]
    vjp = Vjp(lowering.lower(kernel.func, kernel.argument_types(*given)), Interpreted)
    collector = ClashCollector()
    point = vjp.arguments(given)
    watched = vjp.running(Interpreted, lambda fn: Interpreted(fn, collector))
    watched.gradients((N,), point, vjp.weights(point, np.random.default_rng(0)))
    clashes = undeclared(collector, vjp.declared_conflicts(), (N,))
    assert not clashes, "\n".join(map(str, clashes[:5]))


PAIRS = {"i": "i - 4", "0": "-4", "i % 4": "i % 4 - 4", "3": "-1", "i - 4": "i", "-1 - i": "3 - i"}
BODIES = {
    "overwritten": ("y[{a}] = 2.0 * x[i]", "y[{b}] = 3.0 * x[i]", "z[i] = y[{a}] * x[i]"),
    "squared": ("y[{a}] = 2.0 * x[i]", "y[{b}] = y[{b}] * y[{b}]", "z[i] = y[{a}]"),
    "in a loop": ("y[{a}] = 2.0 * x[i]", "for k in range(2):", "    y[{b}] = y[{b}] * x[i]", "z[i] = y[{a}]"),
    "read before": ("v = y[{a}]", "y[{b}] = 3.0 * x[i]", "z[i] = y[{a}] * v * x[i]"),
}
MEANT = {
    "overwritten": (lambda x: 3 * x**2, lambda x: 6 * x),
    "squared": (lambda x: 4 * x**2, lambda x: 8 * x),
    "in a loop": (lambda x: 2 * x**3, lambda x: 6 * x**2),
    "read before": (lambda x: 3 * x**2, lambda x: 6 * x),
}


@pytest.mark.parametrize(("first", "second"), PAIRS.items())
@pytest.mark.parametrize("body", BODIES)
def test_two_names_of_one_element(first: str, second: str, body: str, tmp_path: Any) -> None:
    """An element that has two names in a kernel, the second of them four further on, or back."""
    lines = "\n    ".join(line.format(a=first, b=second) for line in BODIES[body])
    source = (
        "import diffkern as dk\n\n@dk.kernel\n"
        "def fuzzed(x: dk.array(dtype=dk.float64), y: dk.array(dtype=dk.float64), z: dk.array(dtype=dk.float64)):\n"
        f"    i = dk.tid()\n    {lines}\n"
    )
    kernel = load_module(source, str(tmp_path)).fuzzed
    threads = 4 if "i" in first else 1
    x = dk.array(np.array([1.0, 2.0, 3.0, 4.0])[:threads], requires_grad=True)
    y = dk.ones(4, dtype=dk.float64, requires_grad=True)
    z = dk.zeros(threads, dtype=dk.float64, requires_grad=True)
    with dk.Tape() as tape:
        dk.launch(kernel, threads, [x, y, z])
    value, derivative = MEANT[body]
    np.testing.assert_allclose(z.numpy(), value(x.numpy()))
    try:
        tape.backward(grads={z: np.ones(threads)})
    except dk.AutodiffError:
        return  # refused, with its reason
    np.testing.assert_allclose(x.grad.numpy(), derivative(x.numpy()))
