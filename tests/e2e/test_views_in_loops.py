"""Views of tiles that were made before a loop: what a trip changes in one shows in the other, as in Warp."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffkern as dk
from diffkern.testing import gradcheck

real = dk.float64
vectors, matrices = (dk.array(dtype=real, ndim=n) for n in (1, 2))


@dk.kernel
def of_an_assigned_tile(x: vectors, y: vectors, n: int):
    t = dk.tile_load(x, shape=8)
    v = dk.tile_view(t, offset=(0,), shape=(4,))
    for i in range(n):
        dk.tile_assign(t, dk.tile_view(t, offset=(3 + i,), shape=(2,)) * 2.0, offset=(2,))
    dk.tile_store(y, v)


@dk.kernel
def of_a_tile_that_another_view_changes(x: vectors, y: vectors, n: int):
    t = dk.tile_load(x, shape=8)
    v = dk.tile_view(t, offset=(0,), shape=(4,))
    for i in range(n):
        u = dk.tile_view(t, offset=(i,), shape=(4,))
        u[1] = u[0] * u[2]
    dk.tile_store(y, v)


@dk.kernel
def that_is_changed_itself(x: vectors, y: vectors, n: int):
    t = dk.tile_load(x, shape=8)
    v = dk.tile_view(t, offset=(2,), shape=(4,))
    w = dk.tile_view(v, offset=(1,), shape=(2,))
    for i in range(n):
        v[1] = v[1] * v[0]
        t[4] = t[3] + w[0]
    dk.tile_store(y, t)
    dk.tile_store(y, w * 2.0)


@dk.kernel
def that_is_read_in_each_trip(x: vectors, y: vectors, n: int):
    t = dk.tile_load(x, shape=8)
    v = dk.tile_view(t, offset=(0,), shape=(4,))
    i = 0
    while i < n:
        t += t * t
        dk.tile_store(y, v, offset=(4 * (i % 2),))
        i += 1


@dk.kernel
def of_a_tile_that_is_another_one_later(x: vectors, y: vectors, n: int):
    t = dk.tile_load(x, shape=8)
    v = dk.tile_view(t, offset=(0,), shape=(4,))
    for i in range(n):
        t = dk.tile_load(x, shape=8) * 2.0
        t[0] = t[1]
        dk.tile_store(y, t)
    dk.tile_store(y, v)


KERNELS = (
    of_an_assigned_tile, of_a_tile_that_another_view_changes, that_is_changed_itself, that_is_read_in_each_trip,
    of_a_tile_that_is_another_one_later,
)  # fmt: skip


class _Tiles:
    """Tiles as NumPy has them, whose views share memory."""

    @staticmethod
    def tile_load(x: Any, shape: int) -> Any:
        return x[:shape].copy()

    @staticmethod
    def tile_view(t: Any, offset: tuple[int], shape: tuple[int]) -> Any:
        return t[offset[0] : offset[0] + shape[0]]

    @staticmethod
    def tile_assign(t: Any, part: Any, offset: tuple[int]) -> None:
        t[offset[0] : offset[0] + len(part)] = part

    @staticmethod
    def tile_store(y: Any, t: Any, offset: tuple[int] = (0,)) -> None:
        y[offset[0] : offset[0] + len(t)] = t


def in_numpy(kernel: Any) -> Callable[..., None]:
    """Return the function of a kernel on NumPy's arrays."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kernel.func)))
    (function,) = tree.body
    assert isinstance(function, ast.FunctionDef)
    function.decorator_list = []
    for parameter in function.args.args:
        parameter.annotation = None
    names: dict[str, Any] = {"dk": _Tiles}
    exec(compile(tree, "<kernel>", "exec"), names)
    found: Callable[..., None] = names[function.name]
    return found


@pytest.mark.parametrize("trips", [0, 1, 3])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_values_and_gradients(kernel: Any, trips: int) -> None:
    x = np.linspace(0.5, 1.2, 8)
    expected = np.zeros(8)
    in_numpy(kernel)(x, expected, trips)
    y = dk.zeros(8, dtype=real)
    dk.launch_tiled(kernel, [1], [dk.array(x), y, trips], block_dim=32)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-14)

    gradcheck(kernel, 1, [dk.array(x), dk.zeros(8, dtype=real), trips])


@dk.kernel
def backwards(u: matrices, y: matrices, n: int):
    """Solve with a triangular matrix by blocks, each in a view of the right-hand side."""
    right = dk.tile_load(y, shape=(8, 1))
    for i in range(n - 4, -1, -4):
        rows = dk.tile_view(right, offset=(i, 0), shape=(4, 1))
        for j in range(i + 4, n, 4):
            block = dk.tile_load(u, shape=(4, 4), offset=(i, j))
            dk.tile_matmul(block, dk.tile_view(right, offset=(j, 0), shape=(4, 1)), rows, alpha=-1.0)
        dk.tile_upper_solve_inplace(dk.tile_load(u, shape=(4, 4), offset=(i, i)), rows)
    dk.tile_store(y, right)


def test_blocks_are_solved_in_views() -> None:
    random = np.random.default_rng(1)
    u, right = np.triu(random.random((8, 8))) + 2.0 * np.eye(8), random.random((8, 1))
    y = dk.array(right)
    dk.launch_tiled(backwards, [1], [dk.array(u), y, 8], block_dim=32)
    np.testing.assert_allclose(y.numpy(), np.linalg.solve(u, right), rtol=1e-12)
    gradcheck(backwards, 1, [dk.array(u), dk.array(right), 8])


def left_early(x: vectors, y: vectors):
    t = dk.tile_load(x, shape=8)
    v = dk.tile_view(t, offset=(0,), shape=(4,))
    for i in range(4):
        t[2] = t[i]
        if x[i] > 1.0:
            break
    dk.tile_store(y, v)


def of_a_view_without_a_name(x: vectors, y: matrices):
    t = dk.tile_load(x, shape=8)
    v = dk.tile_reshape(dk.tile_view(t, offset=(0,), shape=(4,)), shape=(2, 2))
    for i in range(4):
        t[2] = t[i]
    dk.tile_store(y, v)


def in_a_branch(x: vectors, y: vectors):
    t = dk.tile_load(x, shape=8)
    v = dk.tile_view(t, offset=(0,), shape=(4,))
    for i in range(4):
        if x[i] > 1.0:
            t[2] = t[i]
    dk.tile_store(y, v)


def in_a_tuple(x: vectors, y: vectors):
    t = dk.tile_load(x, shape=8)
    views = (dk.tile_view(t, offset=(0,), shape=(4,)), 1)
    for i in range(4):
        t[2] = t[i]
    dk.tile_store(y, views[0])


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (left_early, "t is changed while v "),
        (of_a_view_without_a_name, "t is changed while v "),
        (in_a_branch, "t is changed while v "),
        (in_a_tuple, "t is changed while views "),
    ],
)
def test_what_no_view_follows_is_refused(function: Any, said: str) -> None:
    kernel = dk.kernel(function)
    rank = 2 if function is of_a_view_without_a_name else 1
    with pytest.raises(dk.KernelTypeError, match=said):
        dk.launch_tiled(kernel, [1], [dk.zeros(8, dtype=real), dk.zeros((8,) * rank, dtype=real)], block_dim=32)
