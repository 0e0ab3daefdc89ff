"""Compare diffkern with NVIDIA Warp on the CPU: kernels, adjoints, and the cost of a launch.

In: nothing but the command line; the inputs are made here from fixed seeds. Out: a table of ratios (and a JSON file).
Both libraries work on the same float32 inputs in the same process, their results are compared before anything is
timed, and the readings alternate, so that a noisy machine disturbs both alike.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import kernels
import numpy as np
import numpy.typing as npt
from harness import (
    Results,
    Row,
    Target,
    Work,
    WrongResult,
    check_agreement,
    exit_status,
    load_peer,
    machine,
    measure_alone,
    measure_pair,
    nothing,
    options,
    print_machine,
    print_table,
    rounds_of,
    save_json,
)

Float32 = npt.NDArray[np.float32]
WAVE_ELEMENTS = 4 * 1024 * 1024
BODIES = 4096
HEAT_SIDE = 1024
MESH_SIDE = 500
LAUNCHES = 1000


@dataclass(frozen=True)
class Side:
    """One library with its kernels."""

    name: str
    library: Any
    kernels: Any

    def work(
        self,
        kernel: Any,
        dim: Any,
        inputs: list[Any],
        outputs: list[Any],
        adjoint: bool = False,
        cotangents: list[Float32] | None = None,
    ) -> Work:
        """Return the work of one launch.

        A forward work starts from zeroed outputs. An adjoint work starts from zeroed input gradients and from
        ``cotangents``, which an adjoint may consume; both are refilled outside the timed part.
        """
        launch = self.library.launch
        if not adjoint:

            def forward() -> None:
                launch(kernel, dim=dim, inputs=inputs, outputs=outputs)

            def clear() -> None:
                for array in outputs:
                    array.zero_()

            return Work(self.name, forward, clear, lambda: numbered("output", outputs))

        adj_inputs = [getattr(value, "grad", None) for value in inputs]
        adj_outputs = [array.grad for array in outputs]
        gradients = [array for array in adj_inputs if array is not None]
        seeds = [array.numpy().copy() for array in adj_outputs] if cotangents is None else cotangents

        def backward() -> None:
            launch(
                kernel,
                dim=dim,
                inputs=inputs,
                outputs=outputs,
                adj_inputs=adj_inputs,
                adj_outputs=adj_outputs,
                adjoint=True,
            )

        def refill() -> None:
            for array in gradients:
                array.zero_()
            for array, seed in zip(adj_outputs, seeds, strict=True):
                array.assign(seed)

        return Work(self.name, backward, refill, lambda: numbered("gradient", gradients))


def numbered(label: str, arrays: list[Any]) -> Results:
    """Return arrays as NumPy arrays under numbered names."""
    return {f"{label} {i}": np.array(array.numpy()) for i, array in enumerate(arrays)}


def wave_works(side: Side) -> dict[str, Work]:
    """Element by element: z = sin(a*x) + y*exp(-x*x), and the same written over y."""
    rng = np.random.default_rng(1)
    x0, y0, seed = (rng.uniform(-2.0, 2.0, WAVE_ELEMENTS).astype(np.float32) for _ in range(3))
    w, k = side.library, side.kernels
    x = w.array(x0, dtype=w.float32, requires_grad=True)
    y = w.array(y0, dtype=w.float32, requires_grad=True)
    z = w.zeros(WAVE_ELEMENTS, dtype=w.float32, requires_grad=True)
    in_place = w.array(y0, dtype=w.float32)

    def run_in_place() -> None:
        w.launch(k.wave_in_place, dim=WAVE_ELEMENTS, inputs=[x, in_place, 1.5])

    return {
        "wave forward": side.work(k.wave, WAVE_ELEMENTS, [x, y, 1.5], [z]),
        "wave forward in place": Work(
            side.name, run_in_place, lambda: in_place.assign(y0), lambda: numbered("output", [in_place])
        ),
        "wave adjoint": side.work(k.wave, WAVE_ELEMENTS, [x, y, 1.5], [z], adjoint=True, cotangents=[seed]),
    }


def nbody_works(side: Side) -> dict[str, Work]:
    """Softened gravity between all pairs of bodies."""
    rng = np.random.default_rng(2)
    position0 = rng.uniform(-1.0, 1.0, (BODIES, 3)).astype(np.float32)
    mass0 = (rng.uniform(0.5, 1.5, BODIES) / BODIES).astype(np.float32)
    seed = rng.uniform(-1.0, 1.0, (BODIES, 3)).astype(np.float32)
    w, k = side.library, side.kernels
    position = w.array(position0, dtype=w.vec3, requires_grad=True)
    mass = w.array(mass0, dtype=w.float32, requires_grad=True)
    acceleration = w.zeros(BODIES, dtype=w.vec3, requires_grad=True)
    arguments: list[Any] = [position, mass, BODIES]
    return {
        "n-body forward": side.work(k.nbody, BODIES, arguments, [acceleration]),
        "n-body adjoint": side.work(k.nbody, BODIES, arguments, [acceleration], adjoint=True, cotangents=[seed]),
    }


def heat_works(side: Side) -> dict[str, Work]:
    """One explicit step of the heat equation with five points; the border is copied."""
    rng = np.random.default_rng(3)
    shape = (HEAT_SIDE, HEAT_SIDE)
    u0, seed = (rng.uniform(-1.0, 1.0, shape).astype(np.float32) for _ in range(2))
    w, k = side.library, side.kernels
    u = w.array(u0, dtype=w.float32, requires_grad=True)
    out = w.zeros(shape, dtype=w.float32, requires_grad=True)
    arguments: list[Any] = [u, HEAT_SIDE, HEAT_SIDE, 0.2]
    return {
        "heat forward": side.work(k.heat, shape, arguments, [out]),
        "heat adjoint": side.work(k.heat, shape, arguments, [out], adjoint=True, cotangents=[seed]),
    }


def grid_mesh(side: int) -> tuple[Float32, npt.NDArray[np.int32]]:
    """Return the vertices (n, 3) and the faces (2 side**2, 3) of a bumpy square of side * side * 2 triangles."""
    rng = np.random.default_rng(4)
    i, j = np.meshgrid(np.arange(side + 1), np.arange(side + 1), indexing="ij")
    height = 0.3 * rng.uniform(-1.0, 1.0, i.shape)
    vertices = np.stack([i, j, height], axis=-1).reshape(-1, 3).astype(np.float32)
    corner = (np.arange(side)[:, None] * (side + 1) + np.arange(side)[None, :]).ravel()
    right, below = corner + 1, corner + side + 1
    lower = np.stack([corner, below, right], axis=-1)
    upper = np.stack([right, below, below + 1], axis=-1)
    faces = np.stack([lower, upper], axis=1).reshape(-1, 3).astype(np.int32)
    return vertices, faces


def mesh_works(side: Side) -> dict[str, Work]:
    """Total area of a triangle mesh through its index list."""
    vertices0, faces0 = grid_mesh(MESH_SIDE)
    w, k = side.library, side.kernels
    vertices = w.array(vertices0, dtype=w.vec3, requires_grad=True)
    faces = w.array(faces0, dtype=w.int32)
    energy = w.zeros(1, dtype=w.float32, requires_grad=True)
    seed = np.ones(1, dtype=np.float32)
    dim = len(faces0)
    return {
        "mesh forward": side.work(k.mesh_area, dim, [vertices, faces], [energy]),
        "mesh adjoint": side.work(k.mesh_area, dim, [vertices, faces], [energy], adjoint=True, cotangents=[seed]),
    }


def launch_works(side: Side) -> dict[str, Work]:
    """The cost of a launch of one thread with four arrays: plain, on a tape, and with the way back."""
    w, kernel = side.library, side.kernels.four_arrays
    a, b, c = (w.array(np.full(1, v, dtype=np.float32), dtype=w.float32, requires_grad=True) for v in (1.5, 2.0, 3.0))
    d = w.zeros(1, dtype=w.float32, requires_grad=True)
    seed = w.array(np.ones(1, dtype=np.float32), dtype=w.float32)

    def plain() -> None:
        w.launch(kernel, dim=1, inputs=[a, b, c], outputs=[d])

    def taped() -> None:
        with w.Tape():
            w.launch(kernel, dim=1, inputs=[a, b, c], outputs=[d])

    def there_and_back() -> None:
        with w.Tape() as tape:
            w.launch(kernel, dim=1, inputs=[a, b, c], outputs=[d])
        tape.backward(grads={d: seed})
        tape.zero()

    def with_gradient() -> None:
        with w.Tape() as tape:
            w.launch(kernel, dim=1, inputs=[a, b, c], outputs=[d])
        tape.backward(grads={d: seed})

    def clear() -> None:
        for array in (a, b, c, d):
            array.grad.zero_()

    # The result that is compared is that of one run with its gradients; the timed loop zeroes them by itself.
    with_gradient()
    gradients = numbered("gradient", [a.grad, b.grad, c.grad])
    return {
        "launch": Work(side.name, plain, nothing, lambda: numbered("output", [d]), LAUNCHES),
        "launch on a tape": Work(side.name, taped, nothing, lambda: numbered("output", [d]), LAUNCHES),
        "launch, backward, zero": Work(side.name, there_and_back, clear, lambda: gradients, LAUNCHES),
    }


def copy_work() -> Work:
    """Return NumPy's plain copy that moves as many bytes as the wave kernel: 4M read twice, 4M written once."""
    source = np.ones(WAVE_ELEMENTS * 3 // 2, dtype=np.float32)
    goal = np.zeros_like(source)
    return Work("copy", lambda: np.copyto(goal, source))


GROUPS: dict[str, tuple[Callable[[Side], dict[str, Work]], float, dict[str, Target]]] = {
    "wave": (
        wave_works,
        2e-6,
        {
            "wave forward": Target(at_least=10.0),
            "wave forward in place": Target(at_least=10.0),
            "wave adjoint": Target(at_least=6.0),
        },
    ),
    "n-body": (
        nbody_works,
        2e-5,
        {"n-body forward": Target(at_least=1.8), "n-body adjoint": Target(at_least=1.8)},
    ),
    "heat": (heat_works, 1e-6, {"heat forward": Target(at_least=2.5), "heat adjoint": Target(at_least=1.0)}),
    # A float32 sum of half a million areas, one after the other, is itself off by up to a few 1e-4.
    "mesh": (mesh_works, 5e-4, {"mesh forward": Target(at_least=1.8), "mesh adjoint": Target(at_least=1.0)}),
    "launch": (
        launch_works,
        1e-6,
        {"launch": Target(at_least=2.0), "launch on a tape": Target(), "launch, backward, zero": Target()},
    ),
}


def own_ratio_rows(works: dict[str, Work], pairs: int) -> list[Row]:
    """Return the rows that set diffkern beside a plain copy and beside itself."""
    copy = copy_work()
    rows = [
        replace(measure_pair(f"{name}, against a copy", works[name], copy, Target(at_most=2.5), pairs), only=name)
        for name in ("wave forward", "wave forward in place")
        if name in works
    ]
    if "n-body adjoint" in works:
        top, bottom = works["n-body adjoint"], works["n-body forward"]
        rows.append(measure_pair("n-body adjoint / forward", top, bottom, Target(at_most=4.0), pairs))
    return rows


def run_group(group: str, peer: Side, own: Side | None, only: str, pairs: int) -> list[Row]:
    """Measure one group of cases; a case that raises or disagrees becomes a failed row."""
    build, rtol, targets = GROUPS[group]
    wanted = {name: target for name, target in targets.items() if only in name or only in group}
    if not wanted:
        return []
    peer_works = build(peer)
    if own is None:
        return [measure_alone(name, peer_works[name], target, pairs) for name, target in wanted.items()]
    try:
        own_works = build(own)
    except Exception as error:
        return [failed(name, target, error) for name, target in wanted.items()]
    rows = []
    for name, target in wanted.items():
        try:
            check_agreement(own_works[name], peer_works[name], rtol)
            rows.append(measure_pair(name, peer_works[name], own_works[name], target, pairs))
        except Exception as error:  # one broken case must not hide the figures of the others
            rows.append(failed(name, target, error))
    if not any(row.error for row in rows):
        try:
            rows += own_ratio_rows({name: own_works[name] for name in wanted}, pairs)
        except Exception as error:
            rows.append(failed(f"{group}, own ratios", Target(), error))
    return rows


def failed(name: str, target: Target, error: Exception) -> Row:
    """Return the row of a case that could not be measured."""
    kind = "wrong result" if isinstance(error, WrongResult) else type(error).__name__
    return Row(name, "warp", "diffkern", target=target, error=f"{kind}: {error}")


def main() -> int:
    """Run the chosen cases and print the table."""
    arguments = options(str(__doc__).partition("\n")[0]).parse_args()
    pairs = rounds_of(arguments, 21, 5)
    facts = machine()
    print_machine(facts)
    warp = load_peer()
    peer = Side("warp", warp, kernels.make(warp))
    own = None
    if not arguments.peer_only:
        diffkern: Any = importlib.import_module("diffkern")
        own = Side("diffkern", diffkern, kernels.make(diffkern))
    rows: list[Row] = []
    for group in GROUPS:
        rows += run_group(group, peer, own, arguments.only, pairs)
    if own is None:
        rows.append(measure_alone("copy of the wave's bytes", copy_work(), Target(), pairs))
    print_table(rows)
    if arguments.json:
        save_json(arguments.json, facts, rows)
    return exit_status(rows, arguments.strict)


if __name__ == "__main__":
    sys.exit(main())
