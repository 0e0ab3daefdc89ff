"""How heavy are the links of an arm, and what brakes its joints? Found from its motion, through MuJoCo Warp.

Seen are the angles of three joints while constant torques move the arm from several states (simulated, by MuJoCo
itself); the output is the mass of each link, the damping and the dry friction of each joint, and a figure. MuJoCo Warp
is used as it is published: ``warp`` is led to diffkern.warp. Forward mode goes through its launches and that of the
kernel below, once for each number, and gives the Jacobian of the fit. It needs ``pip install mujoco-warp``.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib import figure
from tqdm import trange

from diffkern.warp import finder

finder.install()

import mujoco  # noqa: E402
import mujoco_warp as mjw  # noqa: E402

import diffkern as dk  # noqa: E402
from diffkern.testing import gradcheck  # noqa: E402

UNITS = {"mass": "kg", "damping": "N m s", "friction": "N m"}
TRUTH = np.array([[2.6, 1.4, 0.7], [0.35, 0.12, 0.2], [0.3, 0.2, 0.1]])  # of each link or joint
GUESS = np.array([[1.5, 1.5, 1.5], [0.2, 0.2, 0.2], [0.15, 0.15, 0.15]])
BODY = """<body pos="0 0 {z}"><joint name="j{k}" axis="{axis}" damping="{damping}" frictionloss="{friction}"
armature=".01"/><geom type="capsule" size=".04" fromto="0 0 0 0 0 -.4" mass="{mass}"/>{inside}</body>"""
Rows, Moments = dk.array2d(dtype=float), dk.array2d(dtype=dk.vec3)


def arm(numbers: np.ndarray) -> mujoco.MjModel:
    inside = ""
    for k in (2, 1, 0):
        values = dict(zip(UNITS, numbers[:, k], strict=True))
        inside = BODY.format(z=-0.4 if k else 1.5, k=k, axis="1 0 0" if k == 1 else "0 1 0", inside=inside, **values)
    motors = "".join(f'<motor joint="j{k}"/>' for k in range(3))
    options = '<option timestep=".005" integrator="implicitfast"><flag contact="disable"/></option>'
    text = f"<mujoco>{options}<worldbody>{inside}</worldbody><actuator>{motors}</actuator></mujoco>"
    return mujoco.MjModel.from_xml_string(text)


def motions(model: mujoco.MjModel, given: np.ndarray, steps: int) -> np.ndarray:
    """The angles after each step, by MuJoCo; shape (steps, motions, joints)."""
    found = np.zeros((steps, len(given), 3))
    for motion, (angles, velocities, torques) in enumerate(given):
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:], data.ctrl[:] = angles, velocities, torques
        for step in range(steps):
            mujoco.mj_step(model, data)
            found[step, motion] = data.qpos
    return found


@dk.kernel
def set_numbers(numbers: Rows, per_mass: Moments, mass: Rows, total: Rows, inertia: Moments, drag: Rows, dry: Rows):
    """Masses of links, of each with those that it carries, moments of inertia; damping and friction of joints."""
    i = dk.tid()
    mass[0, i + 1] = numbers[0, i]
    inertia[0, i + 1] = numbers[0, i] * per_mass[0, i + 1]
    carried = 0.0
    for k in range(i, numbers.shape[1]):
        carried += numbers[0, k]
    total[0, i + 1] = carried
    drag[0, i] = numbers[1, i]
    dry[0, i] = numbers[2, i]


class Arm:
    """An arm in MuJoCo Warp whose masses and frictions are not known: one world for each motion."""

    def __init__(self, given: np.ndarray, steps: int) -> None:
        model = arm(GUESS)
        self.m, self.d = mjw.put_model(model), mjw.put_data(model, mujoco.MjData(model), nworld=len(given))
        self.m.opt.tolerance.fill_(1e-10)  # the solver's last iterations count for the derivative
        for held in [v for holder in (self.m, self.d, self.d.efc) for v in vars(holder).values()]:
            if isinstance(held, dk.array) and held.numpy().dtype == np.float32:
                held.requires_grad = True
        self.shape, self.given = (steps, len(given), 3), [dk.array(np.float32(given[:, k])) for k in range(3)]
        mass = np.maximum(self.m.body_mass.numpy(), 1e-9)[..., None]  # the world has none
        self.per_mass = dk.array(self.m.body_inertia.numpy() / mass, dtype=dk.vec3)

    def angles(self, numbers: dk.array) -> dk.array:
        """The angles after each step."""
        m, d = self.m, self.d
        outputs = [m.body_mass, m.body_subtreemass, m.body_inertia, m.dof_damping, m.dof_frictionloss]
        dk.launch(set_numbers, 3, [numbers, self.per_mass], outputs)
        for goal, values in zip((d.qpos, d.qvel, d.ctrl), self.given, strict=True):
            dk.copy(goal, values)
        d.qacc_warmstart.zero_()
        kept = dk.zeros(self.shape, dtype=float, requires_grad=True)
        for step in range(self.shape[0]):
            mjw.step(m, d)
            dk.copy(kept[step], d.qpos)
        return kept

    def jacobian(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The angles and their derivatives with respect to each number, in forward mode: a sweep for each."""
        here, ways = dk.array(np.float32(numbers)), np.eye(9, dtype=np.float32).reshape(9, 3, 3)
        swept = [dk.jvp(self.angles, [here], [dk.array(way)]) for way in ways]
        return swept[0][0].numpy(), np.stack([change.numpy().ravel() for _, change in swept], axis=1)


def fit(model: Arm, seen: np.ndarray, rounds: int) -> tuple[list[np.ndarray], list[float]]:
    """Find the numbers by the method of Levenberg and Marquardt; returns those of each round, and the errors."""
    history, errors, caution = [GUESS], [], 0.1
    for _ in trange(rounds, desc="rounds"):
        angles, columns = model.jacobian(history[-1])
        off, square = (seen - angles).ravel(), columns.T @ columns
        errors.append(float(np.mean(off**2)))
        step = np.linalg.solve(square + caution * np.diag(np.diag(square)), columns.T @ off).reshape(3, 3)
        history.append(np.maximum(history[-1] + step, 0.2 * history[-1]))
        caution *= 0.1
    return history, errors


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--motions", type=int, default=6)
    parser.add_argument("--steps", type=int, default=60, help="of 5 ms (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--out", default="mujoco_arm.png", help="where the figure goes")
    options, rng = parser.parse_args(arguments), np.random.default_rng(1)
    dk.config.enable_backward = "always"  # MuJoCo Warp's modules turn derivatives off
    given = rng.uniform(-1.0, 1.0, (options.motions, 3, 3)) * [[1.0], [2.0], [6.0]]  # rad, rad/s, N m
    seen, model = motions(arm(TRUTH), given, options.steps), Arm(given, options.steps)
    rows = [np.zeros(shape, np.float32) for shape in ((1, 4), (1, 4), (1, 4, 3), (1, 3), (1, 3))]
    print(gradcheck(set_numbers, 3, [np.float32(GUESS), model.per_mass], rows), flush=True)
    history, errors = fit(model, seen, options.rounds)
    fig = figure.Figure(figsize=(11.0, 3.2), layout="constrained")
    axes = fig.subplots(1, 4)
    for k, (name, unit) in enumerate(UNITS.items()):
        axes[k].plot(np.array(history)[:, k], "-o", ms=3)
        axes[k].hlines(TRUTH[k], 0, len(errors), color="k", lw=1, ls=":")
        axes[k].set(title=f"{name} ({unit})", xlabel="rounds", ylim=(0.0, None))
    axes[3].semilogy(errors, "k-o", ms=3)
    axes[3].set(title="mean squared error (rad²)", xlabel="rounds")
    fig.savefig(options.out, dpi=120)
    for name, unit, found, truth in zip(UNITS, UNITS.values(), history[-1], TRUTH, strict=True):
        print(f"{name} ({unit}): {', '.join(f'{x:.4f}' for x in found)}; in truth {', '.join(map(str, truth))}")
    off = float(np.abs(history[-1] / TRUTH - 1.0).max())
    print(f"{options.motions} motions of {options.steps} steps: at most {100.0 * off:.3f} % off; figure: {options.out}")


if __name__ == "__main__":
    main()
