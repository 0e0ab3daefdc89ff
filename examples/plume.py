"""The inflow behind a plume: a stable fluid whose pressure is solved for in each step, differentiated as one operation.

The input is noisy pictures of the smoke in a room, into which two nozzles blow from below. The output is how strongly
each of them blew at each time, found with L-BFGS, and a figure. A time step advects velocity and smoke (Stam, SIGGRAPH
1999), and subtracts the gradient of a pressure, the solution of Poisson's equation on a staggered grid. The derivative
of a solution is one more system with the same matrix and preconditioner; nothing of the iterations is kept.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib.figure import Figure

import diffkern as dk
from diffkern import sparse
from diffkern.testing import gradcheck

# Lengths are in cells, times in time steps. Velocities are those through faces of cells, u left and v at the bottom.
LIFT, NOISE, EVERY = 0.01, 0.02, 6  # how much smoke speeds up in a step; of the pictures the error, and steps for each
Grid, Numbers, Table = dk.array2d(dtype=dk.float64), dk.array(dtype=dk.float64), dk.array(dtype=int)


@dk.func
def between(field: Grid, x: dk.float64, y: dk.float64):
    """A field between its four nearest numbers; outside of it is what is at its edge."""
    x, y = dk.clamp(x, 0.0, dk.float64(field.shape[0] - 1)), dk.clamp(y, 0.0, dk.float64(field.shape[1] - 1))
    i, j = dk.min(int(x), field.shape[0] - 2), dk.min(int(y), field.shape[1] - 2)
    s, t = x - dk.float64(i), y - dk.float64(j)
    low, high = (1.0 - s) * field[i, j] + s * field[i + 1, j], (1.0 - s) * field[i, j + 1] + s * field[i + 1, j + 1]
    return (1.0 - t) * low + t * high


@dk.kernel
def carry(u: Grid, v: Grid, smoke: Grid, nozzles: Table, flow: Grid, time: dk.float64, u_after: Grid, v_after: Grid):
    """The velocity is carried along by itself, smoke rises, and the nozzles blow."""
    i, j = dk.tid()
    x, y, rows = dk.float64(i), dk.float64(j), u.shape[1]
    if i > 0 and j < rows:
        u_after[i, j] = between(u, x - u[i, j], y - between(v, x - 0.5, y + 0.5))
    if j > 0:
        carried = between(v, x - between(u, x + 0.5, y - 0.5), y - v[i, j])
        v_after[i, j] = carried + LIFT * 0.5 * (smoke[i, j] + smoke[i, dk.min(j + 1, rows)])
    elif nozzles[i] >= 0:
        v_after[i, j] = between(flow, dk.float64(nozzles[i]), time)


@dk.kernel
def divergence(u: Grid, v: Grid, inflow: Grid):
    i, j = dk.tid()
    inflow[i, j] = u[i, j] - u[i + 1, j] + v[i, j] - v[i, j + 1]


@dk.kernel
def project(u: Grid, v: Grid, pressure: Numbers, u_after: Grid, v_after: Grid):
    """Faces follow the pressure, but for those of walls and nozzles; above the shaft it is zero."""
    i, j = dk.tid()
    rows, k = u.shape[1], i * u.shape[1] + j
    if i > 0 and j < rows:
        u_after[i, j] = u[i, j] - pressure[k] + pressure[k - rows]
    if j == 0:
        v_after[i, j] = v[i, j]
    elif j < rows:
        v_after[i, j] = v[i, j] - pressure[k] + pressure[k - 1]
    else:
        v_after[i, j] = v[i, j] + pressure[k - 1]


@dk.kernel
def blow(u: Grid, v: Grid, smoke: Grid, after: Grid):
    """Smoke is carried along; its row 0 lies under the bottom and is what comes out of the nozzles."""
    i, j = dk.tid()
    after[i, j] = smoke[i, j]
    if j > 0:
        x, y = 0.5 * (u[i, j - 1] + u[i + 1, j - 1]), 0.5 * (v[i, j - 1] + v[i, j])
        after[i, j] = between(smoke, dk.float64(i) - x, dk.float64(j) - y)


class Room:
    """Cells, and the matrix of the pressure, which stays: Laplace's operator with its sign turned."""

    def __init__(self, columns: int, rows: int, steps: int) -> None:
        self.columns, self.rows, self.steps = columns, rows, steps
        nozzles, k = np.full(columns, -1, np.int32), np.arange(columns * rows, dtype=np.int32).reshape(columns, rows)
        nozzles[columns // 5 : 2 * columns // 5], nozzles[3 * columns // 5 : 4 * columns // 5] = 0, 1
        self.nozzles, self.smoke = dk.array(nozzles), dk.array(np.eye(1, rows + 1) * (nozzles >= 0)[:, None])
        a, b = (np.r_[x.ravel(), y.ravel()] for x, y in ((k[1:], k[:, 1:]), (k[:-1], k[:, :-1])))
        places = dk.array(np.r_[a, b, a, b, k[:, -1]]), dk.array(np.r_[b, a, a, b, k[:, -1]])
        values = dk.array(np.r_[np.full(2 * a.size, -1.0), np.ones(2 * a.size + columns)])
        self.matrix = sparse.bsr_from_triplets(k.size, k.size, *places, values)
        self.conditioner = dk.optim.linear.preconditioner(self.matrix, "ic0")

    def step(self, kernel: dk.Kernel, inputs: list, *sizes: tuple[int, int]) -> list[dk.array]:
        """Launch a kernel over all cells, and one row more where its new arrays have one."""
        made = [dk.zeros((self.columns + a, self.rows + b), dtype=dk.float64, requires_grad=True) for a, b in sizes]
        dk.launch(kernel, (self.columns, self.rows + sizes[-1][1]), inputs=inputs, outputs=made)
        return made

    def smokes(self, flow: dk.array) -> list[dk.array]:
        faces, smokes = ((1, 0), (0, 1)), [self.smoke]
        u, v = (dk.zeros((self.columns + a, self.rows + b), dtype=dk.float64) for a, b in faces)
        for t in range(self.steps):
            at = t * (flow.shape[1] - 1) / self.steps
            u, v = self.step(carry, [u, v, smokes[-1], self.nozzles, flow, at], *faces)
            (inflow,) = self.step(divergence, [u, v], (0, 0))
            pressure = dk.linear_solve(self.matrix, inflow.flatten(), method="cg", M=self.conditioner)
            u, v = self.velocity = self.step(project, [u, v, pressure], *faces)
            smokes += self.step(blow, [u, v, smokes[-1]], (0, 1))
        return smokes


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Search and draw; returns the divergence that is left, and how far the strengths of the nozzles are off."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--size", type=int, default=24, help="cells along each side")
    parser.add_argument("--out", default="plume.png", help="where the figure goes")
    options, few, rng = parser.parse_args(arguments), Room(10, 6, 2), np.random.default_rng(0)
    print(*str(gradcheck(few.smokes, inputs=[dk.array(rng.random((2, 2)))])).splitlines()[:2], sep="\n", flush=True)
    room, turn = Room(options.size, options.size, 36), np.linspace(0.0, 6.0, 7)
    true = np.stack([0.5 + 0.25 * np.sin(turn), 0.5 - 0.2 * np.sin(1.5 * turn)])
    seen = [dk.array(k.numpy() + rng.normal(0.0, NOISE, k.shape)) for k in room.smokes(dk.array(true))[EVERY::EVERY]]
    flow = dk.full(true.shape, 0.5, dtype=dk.float64, requires_grad=True)

    def closure() -> dk.array:
        flow.grad.zero_()
        with dk.Tape() as tape:
            offs = [k - wanted for k, wanted in zip(room.smokes(flow)[EVERY::EVERY], seen, strict=True)]
            loss = sum((off * off).sum() for off in offs) * (1.0 / NOISE**2 / len(seen) / seen[0].size)
        tape.backward(loss)
        return loss

    step = dk.optim.LBFGS([flow], max_iter=1, tolerance_change=0.0).step
    history, smokes = [step(closure) for _ in range(15)], room.smokes(flow)
    inflow = room.step(divergence, room.velocity, (0, 0))[0].numpy()
    left, off = (float(np.abs(k).max()) for k in (inflow, flow.numpy() - true))
    *axes, plot = (fig := Figure(figsize=(11.5, 2.6), layout="constrained")).subplots(1, 5)
    for ax, k in zip(axes, (9, 18, 27, 36), strict=True):
        ax.imshow(smokes[k].numpy()[:, 1:].T, cmap="bone", vmin=0.0, vmax=1.0, origin="lower")
        ax.set(title=f"step {k}", xticks=[], yticks=[])
    plot.plot(turn * 6.0, flow.numpy().T, ".-", turn * 6.0, true.T, "k:")
    plot.set(title="strengths of the nozzles", xlabel="steps")
    fig.savefig(options.out, dpi=110)
    print(f"misfit {history[0]:.2f} -> {history[-1]:.2f}, divergence {left:.0e}, flow {off:.3f} off; {options.out}")
    return left, off


if __name__ == "__main__":
    main()
