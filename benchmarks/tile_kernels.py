"""Kernels for the operations on tiles, written once for each module with Warp's names.

In: a module and its decorator of kernels. Out: :class:`Case` values: kernels that load a tile for each block, do one
thing with it (or a few of a kind) and store what comes out, and the arrays they take. So a ratio of times is that of
the operation with a load and a store, which ``copy`` measures alone. Every operation occurs, a few by their operator.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["CASES", "Case", "attention", "cases"]

Numbers = npt.NDArray[Any]
N = 32
"""Rows and columns of a tile; :func:`cases` has others."""
LONG, HALF, QUARTER = N * N, N // 2, N // 4
SQUARE = (N, N)


def _numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> Numbers:
    return rng.uniform(0.1, 2.0, shape)


def _definite(rng: np.random.Generator, shape: tuple[int, ...]) -> Numbers:
    a = rng.uniform(-1.0, 1.0, shape)
    return a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])


def _lower(rng: np.random.Generator, shape: tuple[int, ...]) -> Numbers:
    return np.tril(rng.uniform(-0.5, 0.5, shape)) + 4.0 * np.eye(shape[-1])


def _upper(rng: np.random.Generator, shape: tuple[int, ...]) -> Numbers:
    return np.swapaxes(_lower(rng, shape), -1, -2)


def _whole(rng: np.random.Generator, shape: tuple[int, ...]) -> Numbers:
    return rng.integers(0, 1000, shape)


def _indices(rng: np.random.Generator, shape: tuple[int, ...]) -> Numbers:
    return np.argsort(rng.random(shape), axis=-1)


@dataclass(frozen=True)
class Case:
    """A kernel, and what it is launched with.

    Attributes
    ----------
    name : str
        Of the operation.
    make : callable
        From a module and a decorator to the kernel.
    shape, out : tuple of int
        Of the numbers that a block takes and writes.
    more : tuple of pair
        Shapes of further arrays with what makes their numbers; those of whole numbers hold indices.
    given : callable
        From a generator and a shape to numbers.
    complex : bool
        Whether the last axis holds real and imaginary parts.
    integer : bool
        Whether all numbers are integers.
    random : bool
        Whether modules draw numbers of their own.
    adjoint : bool
        Whether its adjoint is measured as well.
    """

    name: str
    make: Callable[[Any, Any], Any]
    shape: tuple[int, ...]
    out: tuple[int, ...]
    more: tuple[tuple[tuple[int, ...], Callable[..., Numbers]], ...] = ()
    given: Callable[[np.random.Generator, tuple[int, ...]], Numbers] = _numbers
    complex: bool = False
    integer: bool = False
    random: bool = False
    adjoint: bool = True


CASES: list[Case] = []


def cases(size: int, unpacked: bool) -> Sequence[Case]:
    """The cases with tiles of another size, or with an index that is unpacked: ``i, _ = tid()`` for ``i = tid()``.

    Modules read the source of a kernel, so each variant is a file of its own.
    """
    if size == N and not unpacked:
        return CASES
    text = Path(__file__).read_text(encoding="utf-8").replace(f"\nN = {N}\n", f"\nN = {size}\n")
    if unpacked:
        text = text.replace("    i = m.tid()\n", "    i, _j = m.tid()\n")
    name = f"tile_kernels_{size}_{'unpacked' if unpacked else 'plain'}"
    path = Path(tempfile.mkdtemp(prefix="diffkern-tiles-")) / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Sequence[Case] = module.CASES
    return found


def attention(m: Any, extent: int) -> Any:
    """A kernel of scaled dot-product attention, whose queries, keys and values are a square tile for each block."""
    n = m.constant(extent)

    @m.kernel
    def attended(
        q: m.array3d(dtype=float), k: m.array3d(dtype=float), v: m.array3d(dtype=float), out: m.array3d(dtype=float),
        scale: float,
    ):  # fmt: skip
        i = m.tid()
        keys = m.tile_transpose(m.tile_load(k[i], shape=(n, n)))
        s = m.tile_matmul(m.tile_load(q[i], shape=(n, n)), keys) * scale
        top = m.tile_broadcast(m.tile_reshape(m.tile_max(s, axis=1), shape=(n, 1)), shape=(n, n))
        e = m.tile_map(m.exp, s - top)
        total = m.tile_broadcast(m.tile_reshape(m.tile_sum(e, axis=1), shape=(n, 1)), shape=(n, n))
        m.tile_store(out[i], m.tile_matmul(e / total, m.tile_load(v[i], shape=(n, n))))

    return attended


def _case(shape: tuple[int, ...], out: tuple[int, ...] | None = None, **given: Any) -> Callable[[Any], Any]:
    def note(make: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        name = make.__name__.strip("_")
        CASES.append(Case(name, make, shape, shape if out is None else out, **given))
        return make

    return note


@_case(SQUARE)
def copy(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), y: m.array3d(dtype=float)):
        i = m.tid()
        m.tile_store(y[i], m.tile_load(x[i], shape=(N, N)))

    return k


@_case(SQUARE)
def transpose(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), y: m.array3d(dtype=float)):
        i = m.tid()
        m.tile_store(y[i], m.tile_transpose(m.tile_load(x[i], shape=(N, N))))

    return k


@_case((1, N), SQUARE)
def broadcast(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), y: m.array3d(dtype=float)):
        i = m.tid()
        m.tile_store(y[i], m.tile_broadcast(m.tile_load(x[i], shape=(1, N)), shape=(N, N)))

    return k


@_case((N, 1, N), (LONG,))
def reshape(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array4d(dtype=float), y: m.array2d(dtype=float)):
        i = m.tid()
        t = m.tile_squeeze(m.tile_load(x[i], shape=(N, 1, N)))
        m.tile_store(y[i], m.tile_reshape(t, shape=(LONG,)))

    return k


@_case(SQUARE, (HALF, HALF))
def view(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), y: m.array3d(dtype=float)):
        i = m.tid()
        m.tile_store(y[i], m.tile_view(m.tile_load(x[i], shape=(N, N)), offset=(QUARTER, QUARTER), shape=(HALF, HALF)))

    return k


@_case(SQUARE)
def assign(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), y: m.array3d(dtype=float)):
        i = m.tid()
        t = m.tile_load(x[i], shape=(N, N))
        m.tile_assign(t, m.tile_full(shape=(HALF, HALF), value=2.0, dtype=float), offset=(QUARTER, QUARTER))
        m.tile_store(y[i], t)

    return k


@_case((LONG,))
def elements(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array2d(dtype=float), y: m.array2d(dtype=float)):
        i = m.tid()
        t = m.tile_load(x[i], shape=(LONG,))
        t[3] = m.tile_extract(t, 5) * 2.0
        t[5] += 1.0
        m.tile_store(y[i], t)

    return k


@_case((LONG,))
def fills(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array2d(dtype=float), y: m.array2d(dtype=float)):
        i = m.tid()
        t = m.tile_zeros(shape=(LONG,), dtype=float) + m.tile_ones(shape=(LONG,), dtype=float)
        m.tile_store(y[i], t + m.tile_arange(LONG, dtype=float) + m.tile_load(x[i], shape=(LONG,)))

    return k


@_case(SQUARE)
def map_sin(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), y: m.array3d(dtype=float)):
        i = m.tid()
        m.tile_store(y[i], m.tile_map(m.sin, m.tile_load(x[i], shape=(N, N))))

    return k


@_case(SQUARE)
def arithmetic(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), y: m.array3d(dtype=float)):
        i = m.tid()
        t = m.tile_load(x[i], shape=(N, N))
        m.tile_store(y[i], t * t + t * 0.5 - t)

    return k


@_case(SQUARE, adjoint=False)
def astype(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), y: m.array3d(dtype=float)):
        i = m.tid()
        t = m.tile_astype(m.tile_load(x[i], shape=(N, N)), dtype=int)
        m.tile_store(y[i], m.tile_astype(t, dtype=float))

    return k


@_case(SQUARE)
def in_place(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), y: m.array3d(dtype=float)):
        i = m.tid()
        t = m.tile_load(x[i], shape=(N, N))
        s = m.tile_ones(shape=(N, N), dtype=float)
        s += t
        m.tile_axpy(0.5, t, s)
        s -= t * t
        m.tile_store(y[i], s)

    return k


@_case((LONG,), (1,))
def dot(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array2d(dtype=float), y: m.array2d(dtype=float)):
        i = m.tid()
        t = m.tile_load(x[i], shape=(LONG,))
        m.tile_store(y[i], m.tile_dot(t, t))

    return k


@_case((LONG,), (1,))
def sum_(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array2d(dtype=float), y: m.array2d(dtype=float)):
        i = m.tid()
        m.tile_store(y[i], m.tile_sum(m.tile_load(x[i], shape=(LONG,))))

    return k


@_case(SQUARE, (N,))
def sum_rows(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), y: m.array2d(dtype=float)):
        i = m.tid()
        m.tile_store(y[i], m.tile_sum(m.tile_load(x[i], shape=(N, N)), axis=1))

    return k


@_case(SQUARE, (N,))
def sum_columns(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), y: m.array2d(dtype=float)):
        i = m.tid()
        m.tile_store(y[i], m.tile_sum(m.tile_load(x[i], shape=(N, N)), axis=0))

    return k


@_case((LONG,), (1,), adjoint=False)
def reduce(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array2d(dtype=float), y: m.array2d(dtype=float)):
        i = m.tid()
        m.tile_store(y[i], m.tile_reduce(m.add, m.tile_load(x[i], shape=(LONG,))))

    return k


@_case((LONG,), (1,), adjoint=False)
def max_(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array2d(dtype=float), y: m.array2d(dtype=float)):
        i = m.tid()
        m.tile_store(y[i], m.tile_max(m.tile_load(x[i], shape=(LONG,))))

    return k


@_case((LONG,), (1,), adjoint=False)
def min_(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array2d(dtype=float), y: m.array2d(dtype=float)):
        i = m.tid()
        m.tile_store(y[i], m.tile_min(m.tile_load(x[i], shape=(LONG,))))

    return k


@_case((LONG,), (1,), given=_whole, integer=True, adjoint=False)
def argmax(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array2d(dtype=int), y: m.array2d(dtype=int)):
        i = m.tid()
        m.tile_store(y[i], m.tile_argmax(m.tile_load(x[i], shape=(LONG,))))

    return k


@_case((LONG,), (1,), given=_whole, integer=True, adjoint=False)
def argmin(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array2d(dtype=int), y: m.array2d(dtype=int)):
        i = m.tid()
        m.tile_store(y[i], m.tile_argmin(m.tile_load(x[i], shape=(LONG,))))

    return k


@_case((LONG,))
def scan_inclusive(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array2d(dtype=float), y: m.array2d(dtype=float)):
        i = m.tid()
        m.tile_store(y[i], m.tile_scan_inclusive(m.tile_load(x[i], shape=(LONG,))))

    return k


@_case((LONG,))
def scan_exclusive(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array2d(dtype=float), y: m.array2d(dtype=float)):
        i = m.tid()
        m.tile_store(y[i], m.tile_scan_exclusive(m.tile_load(x[i], shape=(LONG,))))

    return k


@_case((LONG,), adjoint=False)
def scan_max_inclusive(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array2d(dtype=float), y: m.array2d(dtype=float)):
        i = m.tid()
        m.tile_store(y[i], m.tile_scan_max_inclusive(m.tile_load(x[i], shape=(LONG,))))

    return k


@_case((LONG,), adjoint=False)
def scan_min_inclusive(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array2d(dtype=float), y: m.array2d(dtype=float)):
        i = m.tid()
        m.tile_store(y[i], m.tile_scan_min_inclusive(m.tile_load(x[i], shape=(LONG,))))

    return k


@_case((64,), adjoint=False)
def sort_64(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array2d(dtype=float), y: m.array2d(dtype=float)):
        i = m.tid()
        keys = m.tile_load(x[i], shape=(64,))
        values = m.tile_arange(64, dtype=int)
        m.tile_sort(keys, values)
        m.tile_store(y[i], keys)

    return k


@_case((1024,), adjoint=False)
def sort_1024(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array2d(dtype=float), y: m.array2d(dtype=float)):
        i = m.tid()
        keys = m.tile_load(x[i], shape=(1024,))
        values = m.tile_arange(1024, dtype=int)
        m.tile_sort(keys, values)
        m.tile_store(y[i], keys)

    return k


@_case((LONG,))
def softmax(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array2d(dtype=float), y: m.array2d(dtype=float)):
        i = m.tid()
        t = m.tile_load(x[i], shape=(LONG,))
        top = m.tile_broadcast(m.tile_max(t), shape=(LONG,))
        e = m.tile_map(m.exp, t - top)
        m.tile_store(y[i], m.tile_map(m.div, e, m.tile_broadcast(m.tile_sum(e), shape=(LONG,))))

    return k


@_case((1, 256, 2), complex=True)
def fft(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=m.vec2), y: m.array3d(dtype=m.vec2)):
        i, _j = m.tid()
        t = m.tile_load(x[i], shape=(1, 256))
        m.tile_fft(t)
        m.tile_store(y[i], t)

    return k


@_case((1, 256, 2), complex=True)
def ifft(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=m.vec2), y: m.array3d(dtype=m.vec2)):
        i, _j = m.tid()
        t = m.tile_load(x[i], shape=(1, 256))
        m.tile_ifft(t)
        m.tile_store(y[i], t)

    return k


@_case(SQUARE)
def matmul(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), y: m.array3d(dtype=float)):
        i, _j = m.tid()
        t = m.tile_load(x[i], shape=(N, N))
        m.tile_store(y[i], m.tile_matmul(t, t))

    return k


@_case(SQUARE, more=((SQUARE, _numbers),))
def diag_add(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), d: m.array3d(dtype=float), y: m.array3d(dtype=float)):
        i = m.tid()
        row = m.tile_load(d[i][0], shape=(N,))
        m.tile_store(y[i], m.tile_diag_add(m.tile_load(x[i], shape=(N, N)), row))

    return k


@_case(SQUARE, given=_definite)
def cholesky(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), y: m.array3d(dtype=float)):
        i, _j = m.tid()
        m.tile_store(y[i], m.tile_cholesky(m.tile_load(x[i], shape=(N, N))))

    return k


@_case(SQUARE, given=_definite, adjoint=False)
def cholesky_inplace(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), y: m.array3d(dtype=float)):
        i, _j = m.tid()
        t = m.tile_load(x[i], shape=(N, N))
        m.tile_cholesky_inplace(t)
        m.tile_store(y[i], t)

    return k


@_case(SQUARE, (N,), given=_lower)
def cholesky_solve(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), y: m.array2d(dtype=float)):
        i, _j = m.tid()
        b = m.tile_ones(shape=(N,), dtype=float)
        m.tile_store(y[i], m.tile_cholesky_solve(m.tile_load(x[i], shape=(N, N)), b))

    return k


@_case(SQUARE, given=_lower, more=((SQUARE, _numbers),), adjoint=False)
def cholesky_solve_columns(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), right: m.array3d(dtype=float), y: m.array3d(dtype=float)):
        i, _j = m.tid()
        b = m.tile_load(right[i], shape=(N, N))
        t = m.tile_load(x[i], shape=(N, N))
        m.tile_cholesky_solve_inplace(t, b)
        m.tile_store(y[i], b)

    return k


@_case(SQUARE, (N,), given=_lower)
def lower_solve(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), y: m.array2d(dtype=float)):
        i, _j = m.tid()
        b = m.tile_ones(shape=(N,), dtype=float)
        m.tile_store(y[i], m.tile_lower_solve(m.tile_load(x[i], shape=(N, N)), b))

    return k


@_case(SQUARE, given=_lower, more=((SQUARE, _numbers),), adjoint=False)
def lower_solve_columns(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), right: m.array3d(dtype=float), y: m.array3d(dtype=float)):
        i, _j = m.tid()
        b = m.tile_load(right[i], shape=(N, N))
        t = m.tile_load(x[i], shape=(N, N))
        m.tile_lower_solve_inplace(t, b)
        m.tile_store(y[i], b)

    return k


@_case(SQUARE, (N,), given=_upper)
def upper_solve(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), y: m.array2d(dtype=float)):
        i, _j = m.tid()
        b = m.tile_ones(shape=(N,), dtype=float)
        m.tile_store(y[i], m.tile_upper_solve(m.tile_load(x[i], shape=(N, N)), b))

    return k


@_case(SQUARE, given=_upper, more=((SQUARE, _numbers),), adjoint=False)
def upper_solve_columns(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), right: m.array3d(dtype=float), y: m.array3d(dtype=float)):
        i, _j = m.tid()
        b = m.tile_load(right[i], shape=(N, N))
        t = m.tile_load(x[i], shape=(N, N))
        m.tile_upper_solve_inplace(t, b)
        m.tile_store(y[i], b)

    return k


@_case(SQUARE)
def atomic_add(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), y: m.array3d(dtype=float)):
        i = m.tid()
        m.tile_atomic_add(y[0], m.tile_load(x[i], shape=(N, N)))

    return k


@_case(SQUARE, more=(((N,), _indices),))
def load_indexed(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), rows: m.array2d(dtype=int), y: m.array3d(dtype=float)):
        i = m.tid()
        at = m.tile_load(rows[i], shape=(N,))
        m.tile_store(y[i], m.tile_load_indexed(x[i], at, shape=(N, N)))

    return k


@_case(SQUARE, more=(((N,), _indices),))
def store_indexed(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), rows: m.array2d(dtype=int), y: m.array3d(dtype=float)):
        i = m.tid()
        at = m.tile_load(rows[i], shape=(N,))
        m.tile_store_indexed(y[i], at, m.tile_load(x[i], shape=(N, N)))

    return k


@_case(SQUARE, more=(((N,), _indices),))
def atomic_add_indexed(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), rows: m.array2d(dtype=int), y: m.array3d(dtype=float)):
        i = m.tid()
        at = m.tile_load(rows[i], shape=(N,))
        m.tile_atomic_add_indexed(y[0], at, m.tile_load(x[i], shape=(N, N)))

    return k


@_case(SQUARE, more=(((N,), _indices),), adjoint=False)
def slice_indexed(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array3d(dtype=float), rows: m.array2d(dtype=int), y: m.array3d(dtype=float)):
        i = m.tid()
        at = m.tile_load(rows[i], shape=(N,))
        t = m.tile_load(x[i], shape=(N, N))
        m.tile_store(y[i], t[at, :])

    return k


@_case((LONG,), adjoint=False, random=True)
def random(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array2d(dtype=float), y: m.array2d(dtype=float)):
        i = m.tid()
        state = m.rand_init(7, i)
        whole = m.tile_astype(m.tile_randi(shape=(LONG,), rng=state), dtype=float)
        m.tile_store(y[i], m.tile_randf(shape=(LONG,), rng=state) + whole)

    return k


@_case((LONG,), given=_whole, integer=True, adjoint=False)
def bits(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array2d(dtype=int), y: m.array2d(dtype=int)):
        i = m.tid()
        t = m.tile_load(x[i], shape=(LONG,))
        m.tile_bit_and_inplace(t, i, 255)
        m.tile_bit_or_inplace(t, i + 1, 3)
        m.tile_bit_xor_inplace(t, i + 2, 5)
        m.tile_store(y[i], t)

    return k


@_case((LONG,), adjoint=False)
def scatter(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array2d(dtype=float), y: m.array2d(dtype=float)):
        i = m.tid()
        t = m.tile_load(x[i], shape=(LONG,))
        m.tile_scatter_add(t, i, 2.0, True)
        m.tile_scatter_masked(t, i + 1, 3.0, True)
        m.tile_store(y[i], t)

    return k


@_case((1,), adjoint=False)
def threads(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array2d(dtype=float), y: m.array2d(dtype=float)):
        i = m.tid()
        own = x[i, 0] * 2.0
        t = m.tile(own) + m.tile_from_thread(shape=1, value=own, thread_idx=0)
        y[i, 0] = m.untile(t) + m.tile_sum(t)[0]

    return k


@_case((LONG,), (3,), adjoint=False)
def stack(m: Any, kernel: Any) -> Any:
    @kernel
    def k(x: m.array2d(dtype=float), y: m.array2d(dtype=float)):
        i = m.tid()
        s = m.tile_stack(capacity=8, dtype=float)
        m.tile_stack_push(s, x[i, 0], True)
        m.tile_stack_push(s, x[i, 1], True)
        top, _at = m.tile_stack_pop(s)
        y[i, 0] = top
        y[i, 1] = float(m.tile_stack_count(s))
        m.tile_stack_clear(s)

    return k
