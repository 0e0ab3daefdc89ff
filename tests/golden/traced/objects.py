"""What stands above launches: objects with ids, arrays in elements, operators, libraries, optimizers, dialects."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
from support.traces import Trace

import diffkern as dk
import diffkern.warp as wp

from .kernels import (
    N,
    Part,
    Programs,
    faces,
    near,
    number,
    of_parts,
    permuted,
    picked,
    ramp,
    rows,
    sampled,
    square,
    total,
)

CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)


def points(**options: Any) -> Any:
    return dk.array(CORNERS, dtype=dk.vec3, **options)


def hash_grids(trace: Trace) -> None:
    """A grid is built, and built again on a tape; gradients go through points that it finds."""
    x, s = points(requires_grad=True), number()
    trace.arrays(x=x, s=s)
    grid = dk.HashGrid(4, 4, 4)
    grid.build(x, 1.0)
    trace.note("tape")
    with dk.Tape() as tape:
        dk.launch(near, 4, [grid.id, x, s])
        grid.build(x, 2.0)
        dk.launch(near, 4, [grid.id, x, s])
    trace.note("sweep")
    tape.backward(s)


def meshes(trace: Trace) -> None:
    """A mesh whose vertices have gradients; it is refitted on the tape, and put back in the sweep."""
    x, s = points(requires_grad=True), number()
    indices = dk.array([0, 1, 2, 0, 1, 3], dtype=int)
    trace.arrays(x=x, s=s, indices=indices)
    mesh = dk.Mesh(x, indices)
    trace.note("tape")
    with dk.Tape() as tape:
        dk.launch(faces, 2, [mesh.id, s])
        mesh.refit()
        dk.launch(faces, 2, [mesh.id, s])
    trace.note("sweep")
    tape.backward(s)


def surfaces(trace: Trace) -> None:
    """The surface of a field is found on a tape: what finds it is not recorded, and what places its vertices is."""
    values = np.ones((3, 3, 3), np.float32)
    values[1, 1, 1] = -1.0
    field, threshold = dk.array(values, requires_grad=True), dk.array(np.zeros(1, np.float32), requires_grad=True)
    trace.arrays(field=field, threshold=threshold)
    trace.note("tape")
    with dk.Tape() as tape:
        vertices, indices = dk.MarchingCubes.extract(field, threshold)
    trace.arrays(vertices=vertices, indices=indices)
    trace.note("sweep")
    tape.backward(grads={vertices: np.ones((6, 3), np.float32)})


def textures(trace: Trace) -> None:
    """A texture with mip levels is made on the tape of an array with a gradient; another one is filled anew there."""
    x, s = dk.array(np.arange(8, dtype=np.float32).reshape(2, 4), requires_grad=True), number()
    trace.arrays(x=x, s=s)
    plain = dk.Texture2D(np.ones((2, 4), np.float32))
    trace.note("tape")
    with dk.Tape() as tape:
        dk.launch(sampled, 4, [dk.Texture2D(x, num_mip_levels=0), s])
        dk.launch(sampled, 4, [plain, s])
        plain.copy_from(x)
        dk.launch(sampled, 4, [plain, s])
    trace.note("sweep")
    tape.backward(s)


def trees(trace: Trace) -> None:
    """A tree of boxes is built and refitted."""
    low, high = points(), points()
    trace.arrays(low=low, high=high)
    tree = dk.Bvh(low, high)
    trace.note("refit")
    tree.refit()


def arrays_in_elements(trace: Trace) -> None:
    """Arrays in elements of an array of structs, with gradients."""
    first, second, y = ramp(2), ramp(2), dk.zeros(2, requires_grad=True)
    trace.arrays(first=first, second=second, y=y)
    parts = dk.array([Part(1.0, first), Part(2.0, second)], dtype=Part)
    trace.arrays(parts=parts)
    with dk.Tape() as tape:
        dk.launch(of_parts, 2, [parts, y])
    trace.note("sweep")
    tape.backward(grads={y: dk.ones(2)})


def looked_at(trace: Trace) -> None:
    """Threads might read what others write: a copy of the program stamps what they touch, once for tables that stay."""
    x, y, s = ramp(), ramp(), number()
    to, of = dk.array([1, 0, 3, 2, 5, 4], dtype=int), dk.array([1, 0, 3, 2, 5, 4], dtype=int)
    trace.arrays(x=x, y=y, s=s, to=to, of=of)
    with dk.Tape() as tape:
        for _ in range(2):
            dk.launch(permuted, N, [x, to, of, y])
        dk.launch(total, N, [y, s])
    trace.note("sweep")
    tape.backward(s)


def tiles(trace: Trace) -> None:
    """A kernel of tiles, launched in blocks."""
    x, s = dk.ones((3, 4), requires_grad=True), number()
    trace.arrays(x=x, s=s)
    with dk.Tape() as tape:
        dk.launch_tiled(rows, [3], [x, s], block_dim=32)
    trace.note("sweep")
    tape.backward(s)


def indexed(trace: Trace) -> None:
    """An array seen through indices."""
    x, y = ramp(), dk.zeros(2, requires_grad=True)
    indices = dk.array([4, 1], dtype=int)
    trace.arrays(x=x, y=y, indices=indices)
    with dk.Tape() as tape:
        dk.launch(picked, 2, [x[indices], y])
    trace.note("sweep")
    tape.backward(grads={y: dk.ones(2)})


def operators(trace: Trace) -> None:
    """Operators of arrays, and functions of their elements, which are launches."""
    x, y, s = ramp(), ramp(), number()
    trace.arrays(x=x, y=y, s=s)
    with dk.Tape() as tape:
        z = x * y + x
        trace.arrays(z=z)
        z += 1.0
        dk.map(dk.sin, z, out=z)
        dk.launch(total, N, [z, s])
    trace.note("sweep")
    tape.backward(s)


def sums(trace: Trace) -> None:
    """Sums, inner products, scans and casts, with derivatives."""
    x, y, s, wide = ramp(), ramp(), number(), dk.zeros(N, dtype=dk.float64, requires_grad=True)
    scanned = dk.zeros(N, requires_grad=True)
    trace.arrays(x=x, y=y, s=s, wide=wide, scanned=scanned)
    with dk.Tape() as tape:
        dk.utils.array_scan(x, scanned, inclusive=True)
        dk.utils.array_cast(scanned, wide)
        dk.utils.array_inner(scanned, y, out=s)
    trace.note("sweep")
    tape.backward(s, grads={wide: dk.ones(N, dtype=dk.float64)})


def sorts(trace: Trace) -> None:
    """Sorts, and lengths of runs."""
    keys, values = dk.array([3, 1, 2, 0, 0, 0], dtype=int), dk.array([0, 1, 2, 0, 0, 0], dtype=int)
    runs, lengths, count = dk.zeros(3, dtype=int), dk.zeros(3, dtype=int), dk.zeros(1, dtype=int)
    trace.arrays(keys=keys, values=values, runs=runs, lengths=lengths, count=count)
    dk.utils.radix_sort_pairs(keys, values, 3)
    dk.utils.runlength_encode(keys[:3], runs, lengths, count)


def optimizers(trace: Trace) -> None:
    """Steps of optimizers, and gradients that are clipped."""
    x, s = ramp(), number()
    trace.arrays(x=x, s=s)
    with dk.Tape() as tape:
        dk.launch(total, N, [x, s])
    tape.backward(s)
    dk.optim.clip_grad_norm([x.grad], 0.5)
    for made in (dk.optim.SGD([x], lr=0.1, momentum=0.9), dk.optim.Adam([x], lr=0.1)):
        trace.note(type(made).__name__)
        made.step([x.grad])


def array_functions(trace: Trace) -> None:
    """What makes, copies and fills arrays."""
    x = ramp(requires_grad=False)
    trace.arrays(x=x)
    dk.zeros_like(x)
    dk.full_like(x, 2.0)
    dk.clone(x)
    dk.array(x)
    x.fill_(1.0)
    x.zero_()
    x.assign(np.ones(N, np.float32))
    x[::2] = x[1::2]
    x.reshape((2, 3)).T.contiguous()
    x.flatten()


def made_on_a_tape(trace: Trace) -> None:
    """Arrays that a loop makes and drops on a tape."""
    x, s = ramp(), number()
    trace.arrays(x=x, s=s)
    with dk.Tape() as tape:
        y = x
        for _ in range(3):
            following = dk.zeros(N)
            dk.launch(square, N, [y, following, 1.0])
            y = following
        dk.launch(total, N, [y, s])
        del y, following
    trace.note("sweep")
    tape.backward(s)


def pickles(trace: Trace) -> None:
    """Copies that Python makes of arrays and their gradients."""
    x = ramp()
    trace.arrays(x=x)
    copy.deepcopy(x)
    pickle.loads(pickle.dumps(x))


def line_search(trace: Trace) -> None:
    """An optimizer that runs a sweep as often as it likes."""
    x, s = ramp(), number()
    trace.arrays(x=x, s=s)

    def closure() -> Any:
        with dk.Tape() as tape:
            s.zero_()
            dk.launch(total, N, [x, s])
        tape.zero()
        tape.backward(s)
        return s

    dk.optim.LBFGS([x], max_iter=1).step(closure)


def warp(trace: Trace) -> None:
    """The calls of Warp's dialect."""
    x, y, s = (wp.ones(n, dtype=float, requires_grad=True) for n in (N, N, 1))
    trace.arrays(x=x, y=y, s=s)
    with wp.Tape() as tape:
        wp.copy(y, x)
        wp.launch(total, N, inputs=[y], outputs=[s])
    tape.backward(s)
    tape.zero()
    wp.copy(y, x, 1, 0, 3)
    y.fill_(2.0)


PROGRAMS: Programs = {
    f.__name__: f
    for f in (
        hash_grids, meshes, surfaces, textures, trees, arrays_in_elements, looked_at, tiles, indexed, operators, sums,
        sorts, optimizers, array_functions, made_on_a_tape, pickles, line_search, warp,
    )
}  # fmt: skip
