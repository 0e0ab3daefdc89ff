"""Robot arms reach for poses: forward kinematics of a chain of rigid bodies, inverse kinematics by its gradient.

The arm has seven joints; the target poses of its tool are on a figure of eight. The output is the joint angles for each
pose, the distances of the tools from their targets, and a figure. A thread multiplies the transforms of an arm from
joint to joint; the adjoint goes back along the chain and computes the derivative with respect to every angle.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib import figure
from tqdm import trange

import diffkern as dk
from diffkern.testing import gradcheck

LENGTHS = (0.34, 0.0, 0.4, 0.0, 0.4, 0.0, 0.126)  # metres from one joint to the next, along the arm
AXES = ((0, 0, 1), (0, 1, 0), (0, 0, 1), (0, -1, 0), (0, 0, 1), (0, 1, 0), (0, 0, 1))
START = (0.0, 0.5, 0.0, -1.6, 0.0, 1.0, 0.0)  # radians
TOOL = 0.15
Angles, Places, Poses = dk.array2d(dtype=float), dk.array2d(dtype=dk.vec3), dk.array(dtype=dk.transform)


@dk.kernel
def reach(angles: Angles, links: Poses, axes: dk.array(dtype=dk.vec3), goals: Poses, loss: dk.array(dtype=float)):
    """The squared distance between tool and goal, in square metres, and between their directions."""
    i = dk.tid()
    pose = dk.transform_identity()
    for j in range(links.shape[0] - 1):
        turn = dk.quat_from_axis_angle(axes[j], angles[i, j])
        pose = pose * links[j] * dk.transform(dk.vec3(0.0, 0.0, 0.0), turn)
    pose = pose * links[links.shape[0] - 1]
    off = dk.transform_inverse(goals[i]) * pose
    sine = dk.vec3(off.q.x, off.q.y, off.q.z)  # of half the angle between the two
    loss[i] = dk.length_sq(off.p) + 0.25 * dk.length_sq(sine)


@dk.kernel
def joints(angles: Angles, links: Poses, axes: dk.array(dtype=dk.vec3), places: Places, tools: Poses):
    """Where each joint is, and each tool."""
    i = dk.tid()
    pose = dk.transform_identity()
    for j in range(links.shape[0] - 1):
        pose = pose * links[j]
        places[i, j] = pose.p
        pose = pose * dk.transform(dk.vec3(0.0, 0.0, 0.0), dk.quat_from_axis_angle(axes[j], angles[i, j]))
    tools[i] = pose * links[links.shape[0] - 1]
    places[i, links.shape[0] - 1] = tools[i].p


def figure_of_eight(count: int) -> np.ndarray:
    """Poses of tools that point down, tilted along the way; position, then quaternion."""
    t = np.linspace(0.0, 2.0 * np.pi, count, endpoint=False)
    tilt = 0.3 * np.sin(t)
    way = np.stack([0.5 + 0.12 * np.sin(2.0 * t), 0.3 * np.sin(t), 0.2 + 0.05 * np.cos(t)], axis=1)
    axis = np.stack([np.zeros(count), np.cos(tilt / 2), np.sin(tilt / 2)], axis=1)
    down = np.concatenate([axis, np.zeros((count, 1))], axis=1)  # half a turn
    return np.concatenate([way, down], axis=1).astype(np.float32)


def errors(tools: np.ndarray, goals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far tools are from goals: in millimetres and degrees."""
    away = 1e3 * np.linalg.norm(tools[:, :3] - goals[:, :3], axis=1)
    q = tools[:, 3:] / np.linalg.norm(tools[:, 3:], axis=1, keepdims=True)
    apart = [np.linalg.norm(q + sign * goals[:, 3:], axis=1) for sign in (1.0, -1.0)]
    return away, np.degrees(4.0 * np.arcsin(0.5 * np.minimum(*apart)))


def draw(file: str, places: np.ndarray, goals: np.ndarray, history: list[float]) -> None:
    fig = figure.Figure(figsize=(9.0, 4.2), layout="constrained")
    left, right = fig.add_subplot(1, 2, 1, projection="3d"), fig.add_subplot(1, 2, 2)
    for arm in places[:: max(1, len(places) // 12)]:
        line = np.concatenate([np.zeros((1, 3)), arm])
        left.plot(*line.T, "-o", ms=2, lw=1, alpha=0.7)
    left.plot(*goals[:, :3].T, "k-", lw=1)
    left.set(title="arms that hold their tools along the black line", xlabel="x (m)", ylabel="y (m)")
    right.semilogy(history)
    right.set(title="mean squared error of the poses", xlabel="steps of Adam")
    fig.savefig(file, dpi=120)


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Solve and draw; returns the greatest errors, in millimetres and degrees."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--arms", type=int, default=240)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--out", default="robot_arm.png", help="where the figure goes")
    options = parser.parse_args(arguments)
    n, eight = options.arms, figure_of_eight(options.arms)
    links = np.zeros((len(LENGTHS) + 1, 7), np.float32)
    links[:, 2], links[:, 6] = (*LENGTHS, TOOL), 1.0
    chain = [dk.array(links, dtype=dk.transform), dk.array(np.float32(AXES), dtype=dk.vec3)]
    goals, loss = dk.array(eight, dtype=dk.transform), dk.zeros(n, requires_grad=True)
    angles = dk.array(np.tile(np.float32(START), (n, 1)), requires_grad=True)
    report = gradcheck(reach, 3, [angles.numpy()[:3] + 0.1, *chain, goals.numpy()[:3]], [np.zeros(3, np.float32)])
    print(report, flush=True)
    optimizer, history = dk.optim.Adam([angles.flatten()], lr=0.02), []
    forward = dk.launch(reach, n, inputs=[angles, *chain, goals], outputs=[loss], record_cmd=True)
    backward = forward.adjoint()
    for step in trange(options.steps, desc="steps"):
        optimizer.lr = 0.02 * (1.0 - step / options.steps)
        forward.launch()
        history.append(float(loss.numpy().mean()))
        angles.grad.zero_()
        loss.grad.fill_(1.0)
        backward.launch()
        optimizer.step([angles.grad.flatten()])
    places, tools = dk.zeros((n, len(links)), dtype=dk.vec3), dk.zeros(n, dtype=dk.transform)
    dk.launch(joints, n, inputs=[angles, *chain], outputs=[places, tools])
    away, turned = errors(tools.numpy(), eight)
    draw(options.out, places.numpy(), eight, history)
    print(
        f"{n} arms, {options.steps} steps: tools at most {away.max():.1e} mm and {turned.max():.1e} degrees off; "
        f"figure: {options.out}"
    )
    return float(away.max()), float(turned.max())


if __name__ == "__main__":
    main()
