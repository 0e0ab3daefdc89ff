"""A humanoid keeps its balance: the torques of its first second, found by the gradient through MuJoCo Warp.

The humanoid of MuJoCo Warp begins in a squat, and without torques it falls. The output is what its 21 motors do in one
second, so that it stays as it is, and a figure. MuJoCo Warp is used as it is published: ``warp`` is led to
diffkern.warp, and the tape goes through contacts, friction and the constraint solver of 200 steps. MuJoCo itself
simulates the result again. It needs ``pip install mujoco-warp``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib import figure
from tqdm import trange

from diffkern.warp import finder

finder.install()

import mujoco  # noqa: E402
import mujoco_warp as mjw  # noqa: E402

import diffkern as dk  # noqa: E402
from diffkern.testing import gradcheck  # noqa: E402

HUMANOID = Path(mjw.__file__).parent / "test_data" / "humanoid" / "humanoid.xml"
HEIGHT = 0.6  # metres, of the torso
KNOTS = 11  # of the torques, which are linear between them
Rows = dk.array2d(dtype=float)


@dk.kernel
def steer(knots: Rows, time: float, ctrl: Rows):
    """The motors' controls, between -1 and 1, at a time between 0 and 1."""
    motor = dk.tid()
    place = time * float(knots.shape[0] - 1)
    k = dk.min(int(place), knots.shape[0] - 2)
    between = place - float(k)
    ctrl[0, motor] = dk.tanh((1.0 - between) * knots[k, motor] + between * knots[k + 1, motor])


@dk.kernel
def judge(qpos: Rows, qvel: Rows, weight: float, loss: dk.array(dtype=float)):
    """How far the body is from standing still: height, direction of the torso, place, and velocity."""
    low = qpos[0, 2] - HEIGHT
    lean = qpos[0, 4] ** 2.0 + qpos[0, 5] ** 2.0
    away = qpos[0, 0] ** 2.0 + qpos[0, 1] ** 2.0
    motion = 0.0
    for k in range(6):
        motion += qvel[0, k] ** 2.0
    dk.atomic_add(loss, 0, weight * (low * low + 2.0 * lean + 0.2 * away + 0.01 * motion))


class Humanoid:
    """The humanoid in one world, with a tape for its first second."""

    def __init__(self, steps: int) -> None:
        self.model, self.steps = mujoco.MjModel.from_xml_path(str(HUMANOID)), steps
        data = mujoco.MjData(self.model)
        mujoco.mj_resetDataKeyframe(self.model, data, 0)
        mujoco.mj_forward(self.model, data)
        self.m, self.d = mjw.put_model(self.model), mjw.put_data(self.model, data)
        self.m.opt.tolerance.fill_(1e-10)  # the solver's last iterations count for the derivative
        self.m.opt.warn_overflow = 0  # some line searches end at their limit
        holders = (self.m, self.d, self.d.efc, self.d.contact)
        for held in [v for holder in holders for v in vars(holder).values() if isinstance(v, dk.array)]:
            held.requires_grad = held.numpy().dtype == np.float32
        self.begin = [(goal, dk.clone(goal)) for goal in (self.d.qpos, self.d.qvel, self.d.qacc_warmstart)]
        self.knots = dk.zeros((KNOTS, self.model.nu), dtype=float, requires_grad=True)
        self.loss, self.controls = dk.zeros(1, requires_grad=True), np.zeros((steps, self.model.nu))

    def run(self) -> float:
        """Simulate; returns the loss, and sets its gradient."""
        self.knots.grad.zero_()
        with dk.Tape() as tape:
            for goal, value in self.begin:
                dk.copy(goal, value)
            self.loss.zero_()
            for step in range(self.steps):
                dk.launch(steer, self.model.nu, [self.knots, step / self.steps], [self.d.ctrl])
                self.controls[step] = self.d.ctrl.numpy()
                mjw.step(self.m, self.d)
                if 2 * step >= self.steps:
                    dk.launch(judge, 1, [self.d.qpos, self.d.qvel, 2.0 / self.steps], [self.loss])
        tape.backward(self.loss)
        return float(self.loss.numpy()[0])


def repeat(model: mujoco.MjModel, controls: np.ndarray) -> list[np.ndarray]:
    """Where the bodies are after each step, by MuJoCo itself."""
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    places = [data.xpos.copy()]
    for control in controls:
        data.ctrl[:] = control
        mujoco.mj_step(model, data)
        places.append(data.xpos.copy())
    return places


def draw(file: str, model: mujoco.MjModel, motions: dict[str, list[np.ndarray]], losses: list[float]) -> None:
    fig = figure.Figure(figsize=(11.0, 3.6), layout="constrained")
    axes = fig.subplots(1, 3, width_ratios=(2, 2, 1))
    for ax, (title, places) in zip(axes, motions.items(), strict=False):
        for k, at in enumerate(np.linspace(0, len(places) - 1, 6).astype(int)):
            for child in range(2, model.nbody):
                ends = places[at][[model.body_parentid[child], child]]
                ax.plot(ends[:, 0] + 0.8 * k, ends[:, 2], "-", color=f"C{k}", lw=3, solid_capstyle="round")
            ax.text(0.8 * k, -0.12, f"{at * model.opt.timestep:.1f} s", ha="center", va="top", fontsize=8)
        ax.set(title=title, aspect="equal", ylim=(-0.3, 1.6), xticks=[], ylabel="z (m)")
    axes[2].semilogy(losses)
    axes[2].set(title="loss", xlabel="steps of Adam")
    fig.savefig(file, dpi=120)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--steps", type=int, default=200, help="of 5 ms (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=30, help="steps of Adam (default: %(default)s)")
    parser.add_argument("--out", default="mujoco_humanoid.png", help="where the figure goes")
    options = parser.parse_args(arguments)
    dk.config.enable_backward = "always"  # MuJoCo Warp's modules turn derivatives off
    body, rng = Humanoid(options.steps), np.random.default_rng(1)
    some = [np.float32(rng.normal(size=(1, n))) for n in (7, 6)]
    print(gradcheck(judge, 1, [*some, 1.0], [np.zeros(1, np.float32)]), flush=True)
    optimizer, losses, best = dk.optim.Adam([body.knots.flatten()], lr=0.02), [], body.controls
    for k in trange(options.rounds + 1, desc="steps of Adam"):
        losses.append(body.run())
        if losses[-1] <= min(losses):
            best = body.controls.copy()
        gradient = body.knots.grad  # that of a fall can have any length: only its direction is taken
        gradient.assign(gradient.numpy() / max(1.0, float(np.linalg.norm(gradient.numpy()))))
        optimizer.lr = 0.02 * (1.0 - 0.8 * k / options.rounds)
        optimizer.step([gradient.flatten()])
    given = {"without torques": 0.0 * best, "with the torques found": best}
    motions = {title: repeat(body.model, controls) for title, controls in given.items()}
    draw(options.out, body.model, motions, losses)
    low, high = (places[-1][1, 2] for places in motions.values())
    print(
        f"{options.rounds} steps of Adam: loss {losses[0]:.3f} -> {min(losses):.3f} with the torques found; in MuJoCo "
        f"the torso ends at {low:.2f} m without and {high:.2f} m with them; figure: {options.out}"
    )


if __name__ == "__main__":
    main()
