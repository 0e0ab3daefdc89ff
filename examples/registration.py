"""Two scans of one thing, many of whose points are matched wrongly: weights of matches, by a gradient through svd3.

The data are points on a knot, rotated, shifted, with noise and a share of wrong matches. The output is the rotation,
its error with equal weights and with the weights found, and a figure. The best rotation for given weights comes from a
singular value decomposition (Kabsch, Acta Crystallographica A 32, 1976); the weights are found by gradient descent on a
misfit that distant points hardly change (Geman and McClure, 1985), whose width shrinks on the way.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib import figure
from tqdm import trange

import diffkern as dk
from diffkern.testing import gradcheck

Points, Numbers, Matrix = dk.array(dtype=dk.vec3d), dk.array(dtype=dk.float64), dk.array(dtype=dk.mat33d)


@dk.func
def weight(logit: dk.float64):
    return 1.0 / (1.0 + dk.exp(-logit))


@dk.kernel
def sums(p: Points, q: Points, logits: Numbers, total: Numbers, centres: Points):
    """The sum of the weights, and the weighted sums of both clouds."""
    i = dk.tid()
    w = weight(logits[i])
    dk.atomic_add(total, 0, w)
    dk.atomic_add(centres, 0, w * p[i])
    dk.atomic_add(centres, 1, w * q[i])


@dk.kernel
def correlate(p: Points, q: Points, logits: Numbers, total: Numbers, centres: Points, correlation: Matrix):
    i = dk.tid()
    w = weight(logits[i]) / total[0]
    dk.atomic_add(correlation, 0, w * dk.outer(p[i] - centres[0] / total[0], q[i] - centres[1] / total[0]))


@dk.kernel
def rotate(correlation: Matrix, rotation: Matrix):
    """The rotation that maximises the trace of its product with the correlation; svd3 gives rotations."""
    u, _, v = dk.svd3(correlation[0])
    rotation[0] = v @ dk.transpose(u)


@dk.kernel
def misfit(p: Points, q: Points, total: Numbers, centres: Points, rotation: Matrix, width: dk.float64, loss: Numbers):
    i = dk.tid()
    off = q[i] - centres[1] / total[0] - rotation[0] @ (p[i] - centres[0] / total[0])
    r2 = dk.length_sq(off)
    dk.atomic_add(loss, 0, r2 / (r2 + width * width) / dk.float64(p.shape[0]))


def scans(count: int, wrong: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points on a knotted tube, and the same turned and shifted with noise; and the rotation.

    The knot looks the same after a third of a turn: wrong matches are those with the next part.
    """
    rng = np.random.default_rng(1)
    t, around = rng.uniform(0.0, 2.0 * np.pi, (2, count))
    ring = 2.0 + np.cos(3.0 * t) + 0.3 * np.cos(around)
    p = np.stack([ring * np.cos(2.0 * t), ring * np.sin(2.0 * t), np.sin(3.0 * t) + 0.3 * np.sin(around)], axis=1)
    axis, angle = np.array([0.48, 0.6, 0.64]), np.radians(50.0)
    k = np.cross(np.eye(3), axis)
    rotation = np.eye(3) - np.sin(angle) * k + (1.0 - np.cos(angle)) * k @ k
    matched = p.copy()
    x, y, z = p[: int(wrong * count)].T
    matched[: len(x)] = np.stack([-0.5 * x - np.sqrt(0.75) * y, np.sqrt(0.75) * x - 0.5 * y, z], axis=1)
    q = matched @ rotation.T + [0.5, -0.2, 1.0] + rng.normal(0.0, 0.02, p.shape)
    return p, q, rotation


def degrees(found: np.ndarray, rotation: np.ndarray) -> float:
    """The angle between two rotations."""
    return float(np.degrees(2.0 * np.arcsin(min(1.0, np.linalg.norm(found - rotation) / np.sqrt(8.0)))))


def draw(file: str, p: np.ndarray, q: np.ndarray, turns: list[np.ndarray], titles: list[str]) -> None:
    fig = figure.Figure(figsize=(9.0, 4.5), layout="constrained")
    for k, (turn, title) in enumerate(zip(turns, titles, strict=True)):
        axes = fig.add_subplot(1, 2, k + 1, projection="3d")
        moved = (p - p.mean(0)) @ turn.T + np.median(q, 0)
        axes.scatter(*moved.T, s=2, label="first scan, turned")
        axes.scatter(*q.T, s=2, label="second scan")
        axes.set(title=title)
        axes.legend(loc="lower left")
    fig.savefig(file, dpi=120)


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Register and draw; returns the errors of the rotation with equal weights and with those found, in degrees."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--points", type=int, default=4000)
    parser.add_argument("--wrong", type=float, default=0.4, help="share of wrong matches")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--out", default="registration.png", help="where the figure goes")
    options = parser.parse_args(arguments)
    p_host, q_host, true = scans(options.points, options.wrong)
    n, turns = len(p_host), []
    p, q = dk.array(p_host, dtype=dk.vec3d), dk.array(q_host, dtype=dk.vec3d)
    correlation = np.cov(p_host.T, q_host.T)[None, :3, 3:]
    print(gradcheck(rotate, 1, [dk.array(correlation, dtype=dk.mat33d)], [dk.zeros(1, dtype=dk.mat33d)]), flush=True)
    logits = dk.zeros(n, dtype=dk.float64, requires_grad=True)
    optimizer = dk.optim.Adam([logits], lr=0.1)
    for step in trange(options.steps, desc="steps"):
        width = 2.0 * 0.05 ** (step / options.steps)
        total, loss = (dk.zeros(1, dtype=dk.float64, requires_grad=True) for _ in range(2))
        centres = dk.zeros(2, dtype=dk.vec3d, requires_grad=True)
        product, rotation = (dk.zeros(1, dtype=dk.mat33d, requires_grad=True) for _ in range(2))
        with dk.Tape() as tape:
            dk.launch(sums, n, inputs=[p, q, logits], outputs=[total, centres])
            dk.launch(correlate, n, inputs=[p, q, logits, total, centres], outputs=[product])
            dk.launch(rotate, 1, inputs=[product], outputs=[rotation])
            dk.launch(misfit, n, inputs=[p, q, total, centres, rotation, width], outputs=[loss])
        turns.append(rotation.numpy()[0].copy())
        logits.grad.zero_()
        tape.backward(loss)
        optimizer.step([logits.grad])
    before, after = degrees(turns[0], true), degrees(turns[-1], true)
    titles = [f"equal weights: {before:.1f} degrees off", f"weights found: {after:.2f} degrees off"]
    draw(options.out, p_host, q_host, [turns[0], turns[-1]], titles)
    print(f"{n} points, {options.wrong:.0%} wrong: {'; '.join(titles)}; figure: {options.out}")
    return before, after


if __name__ == "__main__":
    main()
