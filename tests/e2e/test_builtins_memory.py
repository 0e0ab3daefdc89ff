"""Public names of the kernel language that work on memory, blocks and tiles do what NumPy does; no name has no row.

A row is a statement or two that leave something in ``out``, and what NumPy leaves there. With those of
:mod:`test_builtins` the rows make one table over all public names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from support.fuzz import load_module

import diffkern as dk
from diffkern.lang import COMPOSITES, public_names
from diffkern.lang.intrinsics import INTRINSICS
from diffkern.lang.library import COMPOSED
from diffkern.runtime.launch.plain_launch import run
from diffkern.runtime.launch.schedule import Blocks
from tests.e2e import test_builtins
from tests.e2e.test_random import advanced

RNG = np.random.default_rng(0)
X = RNG.uniform(0.5, 2.0, (4, 4)).astype(np.float32)
W = RNG.uniform(0.5, 2.0, (4, 4)).astype(np.float32)
V = RNG.permutation(4).astype(np.float32) + 0.5
A = (X @ X.T + 4 * np.eye(4)).astype(np.float32)
L, U = np.tril(X), np.triu(X)


@dataclass(frozen=True)
class Row:
    """A name, statements that use it, and what they leave in ``out``.

    Statements of threads see ``i``, ``x`` (four by four numbers), ``v`` (four), ``k`` (four integers); those of tiles
    the tiles ``s``, ``t`` (four by four), ``a`` (positive definite), ``lo``, ``up`` (triangles) and ``r`` (four).
    """

    name: str
    text: str
    expected: Any


K = np.array([3, 0, 3, 1], np.int32)


def _atomics(ufunc: Any, values: Any, start: float) -> np.ndarray:
    out = np.full((4, 4), start, np.float32)
    ufunc.at(out, (K, 0), values)
    return out


def _cells(value: Any) -> np.ndarray:
    """Zeros with a value in the first cells."""
    value = np.asarray(value, np.float32)
    out = np.zeros((4, 4), np.float32)
    out[tuple(slice(n) for n in value.shape) if value.ndim == 2 else (0, slice(value.size))] = value
    return out


THREAD_ROWS = [
    Row("tid", "out[i, 1] = float(i)", _cells([[0, k] for k in range(4)])),
    Row("atomic_add", "dk.atomic_add(out, k[i], 0, v[i])", _atomics(np.add, V, 0)),
    Row("atomic_sub", "dk.atomic_sub(out, k[i], 0, v[i])", _atomics(np.subtract, V, 0)),
    Row("atomic_min", "dk.atomic_min(out, k[i], 0, -v[i])", _atomics(np.minimum, -V, 0)),
    Row("atomic_max", "dk.atomic_max(out, k[i], 0, v[i])", _atomics(np.maximum, V, 0)),
    Row("atomic_exch", "out[i, 1] = dk.atomic_exch(out, i, 0, v[i])", _cells([[value, 0] for value in V])),
    Row("atomic_cas", "out[i, 1] = dk.atomic_cas(out, i, 0, float(i % 2), v[i])",
        _cells([[0.0 if k % 2 else V[k], 0] for k in range(4)])),
    Row("atomic_and", "k[i] = 12 + i\n    dk.atomic_and(k, i, 6)\n    out[i, 0] = float(k[i])",
        _cells([[(12 + i) & 6] for i in range(4)])),
    Row("atomic_or", "k[i] = i\n    dk.atomic_or(k, i, 6)\n    out[i, 0] = float(k[i])",
        _cells([[i | 6] for i in range(4)])),
    Row("atomic_xor", "k[i] = i\n    dk.atomic_xor(k, i, 6)\n    out[i, 0] = float(k[i])",
        _cells([[i ^ 6] for i in range(4)])),
]  # fmt: skip

_SHARED = "s = dk.shared_array(shape=4, dtype=float)\n    s[dk.thread_index()] = v[i]\n    dk.syncthreads()\n    "
BLOCK_ROWS = [
    Row("shared_array", f"{_SHARED}out[i, 0] = s[3 - dk.thread_index()]", _cells(V[::-1, None])),
    Row("syncthreads", f"{_SHARED}out[i, 1] = s[(dk.thread_index() + 1) % 4]",
        _cells(np.stack([np.zeros(4), np.roll(V, -1)], axis=1))),
    Row("block_dim", "out[i, 0] = float(dk.block_dim())", _cells(np.full((4, 1), 4))),
    Row("thread_index", "out[i, 0] = float(dk.thread_index())", _cells(np.arange(4)[:, None])),
    Row("block_index", "out[i, 0] = float(dk.block_index() + 1)", _cells(np.ones((4, 1)))),
]  # fmt: skip


def _put(text: str) -> str:
    return f"dk.tile_store(out, {text})"


def _row(text: str) -> str:
    return f"dk.tile_store(out[0], {text})"


def _parts(values: np.ndarray) -> np.ndarray:
    return _cells(np.stack([values.real, values.imag]))


_COMPLEX = (
    "q = dk.tile_zeros(shape={n}, dtype=dk.vec2)\n    for j in range({n}):\n        q[j] = dk.vec2(v[j], x[1, j])\n    "
)
_PARTS = "\n    for j in range({n}):\n        out[0, j] = q[j].x\n        out[1, j] = q[j].y"
_DRAWS = advanced(advanced(advanced(7) + np.arange(6, dtype=np.uint64)))
_UNIT = (_DRAWS >> np.uint64(8)) / 2.0**24

_CHOLESKY = np.linalg.cholesky(A)
_SOLVED = np.linalg.solve(A, V)

TILE_ROWS = [
    Row("tile_zeros", _put("dk.tile_zeros(shape=(4, 4), dtype=float)"), np.zeros((4, 4))),
    Row("tile_empty", "e = dk.tile_empty(shape=(4, 4), dtype=float)\n    dk.tile_assign(e, t)\n    " + _put("e"), X),
    Row("tile_ones", _put("dk.tile_ones(shape=(4, 4), dtype=float)"), np.ones((4, 4))),
    Row("tile_full", _put("dk.tile_full(shape=(4, 4), value=2.5, dtype=float)"), np.full((4, 4), 2.5)),
    Row("tile_arange", _row("dk.tile_arange(1, 9, 2, dtype=float)"), _cells([1, 3, 5, 7])),
    Row("tile_load", _put("dk.tile_load(x, shape=(2, 3), offset=(1, 2))"),
        _cells(np.pad(X, ((0, 0), (0, 1)))[1:3, 2:5])),
    Row("tile_store", "dk.tile_store(out, t, offset=(1, 0))", np.concatenate([np.zeros((1, 4)), X[:3]])),
    Row("tile_atomic_add", _put("t") + "\n    dk.tile_atomic_add(out, s)", X + W),
    Row("tile_view", _put("dk.tile_view(t, offset=(1, 2), shape=(2, 2))"), _cells(X[1:3, 2:4])),
    Row("tile_assign",
        "dk.tile_assign(t, dk.tile_view(s, offset=(0, 0), shape=(2, 2)), offset=(1, 1))\n    " + _put("t"),
        np.block([[X[:1, :1], X[:1, 1:3], X[:1, 3:]], [X[1:3, :1], W[:2, :2], X[1:3, 3:]],
                  [X[3:, :1], X[3:, 1:3], X[3:, 3:]]])),
    Row("tile_extract", "out[0, 0] = dk.tile_extract(t, 2, 1)", _cells([X[2, 1]])),
    Row("tile_transpose", _put("dk.tile_transpose(t)"), X.T),
    Row("tile_broadcast", _put("dk.tile_broadcast(r, shape=(4, 4))"), np.broadcast_to(V, (4, 4))),
    Row("tile_reshape", _row("dk.tile_reshape(dk.tile_view(t, offset=(0, 0), shape=(1, 4)), shape=(4,))"),
        _cells(X[0])),
    Row("tile_squeeze", _row("dk.tile_squeeze(dk.tile_view(t, offset=(1, 0), shape=(1, 4)), axis=0)"),
        _cells(X[1])),
    Row("tile_astype", _put("dk.tile_astype(dk.tile_astype(t, dtype=dk.float64), dtype=float)"), X),
    Row("tile_map", _put("dk.tile_map(dk.mul, t, s)"), X * W),
    Row("tile_dot", _row("dk.tile_dot(t, s)"), _cells([np.sum(X * W)])),
    Row("tile_axpy", "dk.tile_axpy(2.0, s, t)\n    " + _put("t"), X + 2 * W),
    Row("tile_add_inplace", "dk.tile_add_inplace(t, s)\n    " + _put("t"), X + W),
    Row("tile_sub_inplace", "dk.tile_sub_inplace(t, s)\n    " + _put("t"), X - W),
    Row("tile_sum", _row("dk.tile_sum(t, axis=1)"), _cells(X.sum(axis=1))),
    Row("tile_min", _row("dk.tile_min(t)"), _cells([X.min()])),
    Row("tile_max", _row("dk.tile_max(t)"), _cells([X.max()])),
    Row("tile_reduce", _row("dk.tile_reduce(dk.mul, r)"), _cells([V.prod()])),
    Row("tile_argmin", "out[0, 0] = float(dk.tile_argmin(t)[0])", _cells([X.argmin()])),
    Row("tile_argmax", "out[0, 0] = float(dk.tile_argmax(t)[0])", _cells([X.argmax()])),
    Row("tile_scan_inclusive", _row("dk.tile_scan_inclusive(r)"), _cells(np.cumsum(V))),
    Row("tile_scan_exclusive", _row("dk.tile_scan_exclusive(r)"), _cells(np.cumsum(V) - V)),
    Row("tile_sort", "q = r * 2.0\n    dk.tile_sort(r, q)\n    " + _row("q"), _cells(2 * np.sort(V))),
    Row("tile_load_indexed", _put("dk.tile_load_indexed(x, dk.tile_load(k, shape=4), shape=(4, 3), offset=(0, 1))"),
        _cells(X[K, 1:])),
    Row("tile_load_indexed",
        _put("dk.tile_load_indexed(x, dk.tile_load(k, shape=4), shape=(2, 4), offset=(2, 1), axis=1)"),
        _cells(np.pad(X, ((0, 0), (0, 1)))[2:, K + 1])),
    Row("tile_store_indexed", "dk.tile_store_indexed(out, dk.tile_arange(4, 0, -2), t[:2])",
        np.stack([0 * V, 0 * V, X[1], 0 * V])),
    Row("tile_atomic_add_indexed", "dk.tile_atomic_add_indexed(out, dk.tile_load(k, shape=4), t)",
        np.stack([sum(X[K == n], 0 * V) for n in range(4)])),
    Row("tile_atomic_add_indexed",
        _put("t") + "\n    q = dk.tile_atomic_add_indexed(out, dk.tile_arange(3, -1, -1), s)\n    " + _put("q"),
        X[::-1]),
    Row("tile_slice_indexed", _put("dk.tile_slice_indexed(t, dk.tile_load(k, shape=4) - 2)"), X[K - 2]),
    Row("tile_slice_indexed", _put("t[:, dk.tile_load(k, shape=4) - 2]"), X[:, K - 2]),
    Row("tile_scan_max_inclusive", _row("dk.tile_scan_max_inclusive(r)"), _cells(np.maximum.accumulate(V))),
    Row("tile_scan_min_inclusive", _put("dk.tile_scan_min_inclusive(t)"),
        np.minimum.accumulate(X.ravel()).reshape(4, 4)),
    Row("tile_fft", _COMPLEX.format(n=4) + "dk.tile_fft(q)" + _PARTS.format(n=4), _parts(np.fft.fft(V + 1j * X[1]))),
    Row("tile_ifft", _COMPLEX.format(n=3) + "dk.tile_ifft(q)" + _PARTS.format(n=3),
        _parts(3 * np.fft.ifft(V[:3] + 1j * X[1, :3]))),
    Row("tile_randf", _put("dk.tile_randf((2, 3), dk.rand_init(7))"), _cells(_UNIT.reshape(2, 3))),
    Row("tile_randf", _row("dk.tile_randf(4, dk.rand_init(7), -1.0, v[0])"), _cells((V[0] + 1) * _UNIT[:4] - 1)),
    Row("tile_randi", _put("dk.tile_astype(dk.tile_randi((2, 3), dk.rand_init(7), -50, 200), dtype=float)"),
        _cells((_DRAWS % np.uint64(250)).astype(float).reshape(2, 3) - 50)),
    Row("tile_matmul", _put("dk.tile_matmul(t, s)"), X @ W),
    Row("tile_diag_add", _put("dk.tile_diag_add(t, r)"), X + np.diag(V)),
    Row("tile_cholesky", _put("dk.tile_cholesky(a)"), _CHOLESKY),
    Row("tile_cholesky_solve", _row("dk.tile_cholesky_solve(dk.tile_cholesky(a), r)"), _cells(_SOLVED)),
    Row("tile_lower_solve", _row("dk.tile_lower_solve(lo, r)"), _cells(np.linalg.solve(L, V))),
    Row("tile_upper_solve", _row("dk.tile_upper_solve(up, r)"), _cells(np.linalg.solve(U, V))),
    Row("tile_cholesky_inplace", "dk.tile_cholesky_inplace(a)\n    " + _put("a"), _CHOLESKY),
    Row("tile_cholesky_solve_inplace",
        "dk.tile_cholesky_solve_inplace(dk.tile_cholesky(a), r)\n    " + _row("r"), _cells(_SOLVED)),
    Row("tile_lower_solve_inplace", "dk.tile_lower_solve_inplace(lo, r)\n    " + _row("r"),
        _cells(np.linalg.solve(L, V))),
    Row("tile_upper_solve_inplace", "dk.tile_upper_solve_inplace(up, r)\n    " + _row("r"),
        _cells(np.linalg.solve(U, V))),
]  # fmt: skip

_I = np.arange(4)
_OF_ROWS = "q = dk.tile_load(x[i], shape=4)\n    {}\n    dk.tile_store(out[i], q)"
_OF_BITS = (
    "q = dk.tile_arange(12, 16)\n    dk.tile_bit_{}_inplace(q, i, 6 + i)\n    "
    "dk.tile_store(out[i], dk.tile_astype(q, dtype=float))"
)
_STACK = "s = dk.tile_stack(3, float)\n    for j in range(4):\n        dk.tile_stack_push(s, x[i, j], {})\n    "
_COUNT = "out[i, 0] = float(dk.tile_stack_count(s))"

THREAD_TILE_ROWS = [
    Row("tile", "dk.tile_store(out[i], dk.tile(v[i]))", _cells(V[:, None])),
    Row("untile", "out[i, 0] = dk.untile(dk.tile(v[i]) * 2.0)", _cells(2 * V[:, None])),
    Row("tile_from_thread", "dk.tile_store(out[i], dk.tile_from_thread(4, v[i], 0))", np.repeat(V[:, None], 4, axis=1)),
    Row("tile_scatter_add", _OF_ROWS.format("dk.tile_scatter_add(q, i, v[i], i != 2)"), X + np.diag(V * (_I != 2))),
    Row("tile_scatter_masked", _OF_ROWS.format("dk.tile_scatter_masked(q, i, v[i], i != 2)"),
        np.where(np.eye(4) * (_I != 2), V, X)),
    Row("tile_bit_and_inplace", _OF_BITS.format("and"), np.where(np.eye(4), (12 + _I) & (6 + _I), 12 + _I)),
    Row("tile_bit_or_inplace", _OF_BITS.format("or"), np.where(np.eye(4), (12 + _I) | (6 + _I), 12 + _I)),
    Row("tile_bit_xor_inplace", _OF_BITS.format("xor"), np.where(np.eye(4), (12 + _I) ^ (6 + _I), 12 + _I)),
    Row("tile_stack", _STACK.format("True") + _COUNT, _cells(np.full((4, 1), 3))),
    Row("tile_stack_push", "s = dk.tile_stack(2, float)\n    for j in range(4):\n        "
        "out[i, j] = float(dk.tile_stack_push(s, v[j], j != 1))", np.tile([0, -1, 1, -1], (4, 1))),
    Row("tile_stack_pop", _STACK.format("j != 1") + "for j in range(4):\n        item, place = dk.tile_stack_pop(s)\n"
        "        out[i, j] = item + float(place) if place >= 0 else -1.0",
        np.stack([X[:, 3] + 2, X[:, 2] + 1, X[:, 0], 0 * V - 1], axis=1)),
    Row("tile_stack_clear",
        _STACK.format("True") + "dk.tile_stack_clear(s)\n    dk.tile_stack_push(s, v[i], True)\n    " + _COUNT,
        _cells(np.ones((4, 1)))),
    Row("tile_stack_count", _STACK.format("j < i") + _COUNT, _cells(_I[:, None])),
]  # fmt: skip

_HEAD = """\
import diffkern as dk

F1, F2 = dk.array(dtype=float), dk.array(dtype=float, ndim=2)


@dk.kernel
def fuzzed(x: F2, w: F2, v: F1, k: dk.array(dtype=int), spd: F2, low: F2, high: F2, out: F2):
"""
_TILES = """\
    t, s = dk.tile_load(x, shape=(4, 4)), dk.tile_load(w, shape=(4, 4))
    a, r = dk.tile_load(spd, shape=(4, 4)), dk.tile_load(v, shape=4)
    lo, up = dk.tile_load(low, shape=(4, 4)), dk.tile_load(high, shape=(4, 4))
"""


def _left(text: str, tiles: bool, launch: Callable[[Any, list[Any]], None], directory: Any) -> np.ndarray:
    body = _TILES if tiles else "    i = dk.tid()\n"
    kernel = load_module(f"{_HEAD}{body}    {text}\n", str(directory)).fuzzed
    out = np.zeros((4, 4), np.float32)
    launch(kernel, [*(given.copy() for given in (X, W, V, K, A, L, U)), out])
    return out


@pytest.mark.parametrize("row", [*THREAD_ROWS, *BLOCK_ROWS], ids=lambda row: row.name)
def test_threads_and_blocks(row: Row, tmp_path: Any) -> None:
    found = _left(row.text, False, lambda kernel, given: dk.launch(kernel, 4, given, block_dim=4), tmp_path)
    np.testing.assert_allclose(found, row.expected, rtol=1e-6)


@pytest.mark.parametrize("row", TILE_ROWS, ids=lambda row: row.name)
def test_tiles(row: Row, tmp_path: Any) -> None:
    found = _left(row.text, True, lambda kernel, given: dk.launch_tiled(kernel, 1, given, block_dim=4), tmp_path)
    np.testing.assert_allclose(found, row.expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("row", THREAD_TILE_ROWS, ids=lambda row: row.name)
def test_tiles_of_threads(row: Row, tmp_path: Any) -> None:
    # Some are tiles of their own for each index, of which dk.launch would say that it counts threads.
    found = _left(row.text, False, lambda kernel, given: run(kernel, 4, given, blocks=Blocks(1)), tmp_path)
    np.testing.assert_allclose(found, row.expected, rtol=1e-6)


NO_FUNCTIONS = {"ANY", "array1d", "array2d", "array3d", "array4d", "constant", "func"}
"""Public names that stand outside of kernels: annotations and decorators."""
ELSEWHERE = {"expect_eq", "expect_near", "expect_neq", "printf", "stop_gradient"}
"""What gives no value of its own: tests of output, and of derivatives in kernels."""


def test_every_public_name_has_a_row() -> None:
    rows = [
        *test_builtins.ROWS,
        *test_builtins.COMPOSITE_ROWS,
        *THREAD_ROWS,
        *BLOCK_ROWS,
        *TILE_ROWS,
        *THREAD_TILE_ROWS,
    ]
    rowed = {row.name for row in rows}
    rowed |= {*COMPOSITES, *test_builtins.CONSTANTS, "float16", "bfloat16"}
    public = {*public_names(), *COMPOSITES, *INTRINSICS} - set(COMPOSED)  # of test_library_values.py
    assert public - rowed == NO_FUNCTIONS | ELSEWHERE
    assert not rowed - public
