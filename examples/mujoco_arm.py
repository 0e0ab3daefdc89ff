"""How heavy are the links of an arm, and what brakes its joints? Found from its motion, through MuJoCo Warp.

The arm has three links. Seen are the angles of its joints while constant torques move it, each time from another
state (simulated, by MuJoCo itself); the output is the mass of each link, the damping and the dry friction of each
joint, and a figure. MuJoCo Warp is used as it is published: ``warp`` is led to diffkern.warp. Forward mode goes through
its launches and those of the kernels below, once for each number, and gives the Jacobian of the fit; reverse mode gives
the same gradient at once.

It needs MuJoCo Warp: ``pip install mujoco-warp``.
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

LINK = '<geom type="capsule" size=".04" fromto="0 0 0 0 0 -.4" mass="{mass}"/>'
JOINT = '<joint name="{name}" axis="{axis}" damping="{damping}" frictionloss="{friction}" armature=".01"/>'
AXES = ("0 1 0", "1 0 0", "0 1 0")
TRUTH = {"mass": (2.6, 1.4, 0.7), "damping": (0.35, 0.12, 0.2), "friction": (0.3, 0.2, 0.1)}
GUESS = {"mass": (1.5, 1.5, 1.5), "damping": (0.2, 0.2, 0.2), "friction": (0.15, 0.15, 0.15)}
UNITS = {"mass": "kg", "damping": "N m s", "friction": "N m"}
TIME_STEP = 0.005  # seconds

Numbers, Rows, Moments = dk.array(dtype=float), dk.array2d(dtype=float), dk.array2d(dtype=dk.vec3)


def arm(mass: tuple[float, ...], damping: tuple[float, ...], friction: tuple[float, ...]) -> mujoco.MjModel:
    """The model of an arm."""
    inside = ""
    for k in reversed(range(len(AXES))):
        joint = JOINT.format(name=f"j{k}", axis=AXES[k], damping=damping[k], friction=friction[k])
        place = "0 0 1.5" if k == 0 else "0 0 -.4"
        inside = f'<body pos="{place}">{joint}{LINK.format(mass=mass[k])}{inside}</body>'
    motors = "".join(f'<motor joint="j{k}"/>' for k in range(len(AXES)))
    options = f'<option timestep="{TIME_STEP}" integrator="implicitfast"><flag contact="disable"/></option>'
    return mujoco.MjModel.from_xml_string(
        f"<mujoco>{options}<worldbody>{inside}</worldbody><actuator>{motors}</actuator></mujoco>"
    )


def motions(model: mujoco.MjModel, states: np.ndarray, torques: np.ndarray, steps: int) -> np.ndarray:
    """The angles after each step, by MuJoCo; shape (steps, worlds, joints)."""
    found = np.zeros((steps, *states.shape[:1], model.nq))
    for world, state in enumerate(states):
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:], data.ctrl[:] = state[: model.nq], state[model.nq :], torques[world]
        for step in range(steps):
            mujoco.mj_step(model, data)
            found[step, world] = data.qpos
    return found.astype(np.float32)


@dk.kernel
def set_masses(masses: Numbers, per_mass: Moments, mass: Rows, total: Rows, inertia: Moments):
    """Masses of links, of each with those that it carries, and moments of inertia."""
    i = dk.tid()
    mass[0, i + 1] = masses[i]
    inertia[0, i + 1] = masses[i] * per_mass[0, i + 1]
    carried = 0.0
    for k in range(i, masses.shape[0]):
        carried += masses[k]
    total[0, i + 1] = carried


@dk.kernel
def set_joints(numbers: Numbers, values: Rows):
    i = dk.tid()
    values[0, i] = numbers[i]


@dk.kernel
def keep(angles: Rows, step: int, kept: dk.array3d(dtype=float)):
    world, joint = dk.tid()
    kept[step, world, joint] = angles[world, joint]


@dk.kernel
def compare(found: Numbers, seen: Numbers, error: Numbers):
    i = dk.tid()
    dk.atomic_add(error, 0, (found[i] - seen[i]) ** 2.0 / float(found.shape[0]))


class Arm:
    """An arm whose masses and frictions are not known, in MuJoCo Warp: one world for each motion."""

    def __init__(self, states: np.ndarray, torques: np.ndarray, steps: int) -> None:
        model = arm(**GUESS)
        self.m, self.d = mjw.put_model(model), mjw.put_data(model, mujoco.MjData(model), nworld=len(states))
        self.m.opt.tolerance.fill_(1e-10)  # iterations of the solver that count for the derivative
        for holder in (self.m, self.d, self.d.efc):
            for held in vars(holder).values():
                if isinstance(held, dk.array) and held.dtype in (dk.float32, dk.vec3, dk.quat, dk.mat33):
                    held.requires_grad = True
        self.shape = (steps, *self.d.qpos.shape)
        self.given = [dk.array(np.float32(part)) for part in (*np.split(states, 2, axis=1), torques)]
        mass = np.maximum(self.m.body_mass.numpy(), 1e-9)[..., None]  # the world has none
        self.per_mass = dk.array(self.m.body_inertia.numpy() / mass, dtype=dk.vec3)

    def angles(self, mass: dk.array, damping: dk.array, friction: dk.array) -> dk.array:
        """The angles after each step."""
        m, d, links = self.m, self.d, len(AXES)
        dk.launch(set_masses, links, [mass, self.per_mass], [m.body_mass, m.body_subtreemass, m.body_inertia])
        dk.launch(set_joints, links, [damping], [m.dof_damping])
        dk.launch(set_joints, links, [friction], [m.dof_frictionloss])
        for goal, values in zip((d.qpos, d.qvel, d.ctrl), self.given, strict=True):
            dk.copy(goal, values)
        d.qacc_warmstart.zero_()
        kept = dk.zeros(self.shape, dtype=float, requires_grad=True)
        for step in range(self.shape[0]):
            mjw.step(m, d)
            dk.launch(keep, d.qpos.shape, [d.qpos, step], [kept])
        return kept

    def jacobian(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The angles, and their derivatives with respect to each number, in forward mode: one sweep for each."""
        columns = []
        for way in np.eye(numbers.size, dtype=np.float32):
            angles, change = dk.jvp(self.angles, parameters(numbers), parameters(way))
            columns.append(change.numpy().ravel())
        return angles.numpy().ravel(), np.stack(columns, axis=1)

    def gradient(self, numbers: np.ndarray, seen: np.ndarray) -> np.ndarray:
        """The derivatives of the mean squared error with respect to all numbers, in reverse mode: one sweep."""
        error, given = dk.zeros(1, requires_grad=True), parameters(numbers)
        with dk.Tape() as tape:
            angles = self.angles(*given)
            dk.launch(compare, angles.size, [angles.flatten(), dk.array(seen.ravel())], [error])
        tape.backward(error)
        return np.concatenate([held.grad.numpy() for held in given])


def parameters(numbers: np.ndarray) -> list[dk.array]:
    """The masses, dampings and frictions among the numbers."""
    return [dk.array(part, requires_grad=True) for part in np.split(np.float32(numbers), 3)]


def fit(model: Arm, seen: np.ndarray, rounds: int) -> tuple[list[np.ndarray], list[float]]:
    """Find the numbers by the method of Levenberg and Marquardt; returns those of each round, and the errors."""
    numbers, caution = np.concatenate([GUESS[name] for name in TRUTH]), 0.1
    history, errors = [numbers], []
    for _ in trange(rounds, desc="rounds"):
        angles, columns = model.jacobian(numbers)
        off = seen.ravel() - angles
        errors.append(float(np.mean(off**2)))
        square = columns.T @ columns
        for _ in range(5):
            step = np.linalg.solve(square + caution * np.diag(np.diag(square)), columns.T @ off)
            after = np.maximum(numbers + step, 0.2 * numbers)
            if np.mean((seen - model.angles(*parameters(after)).numpy()) ** 2) < errors[-1]:
                break
            caution *= 10.0
        else:
            break  # it is as near as float32 can tell
        numbers, caution = after, 0.1 * caution
        history.append(numbers)
    return history, errors


def draw(file: str, history: list[np.ndarray], errors: list[float]) -> None:
    fig = figure.Figure(figsize=(11.0, 3.2), layout="constrained")
    for k, name in enumerate(TRUTH):
        ax = fig.add_subplot(1, 4, k + 1)
        for link, value in enumerate(TRUTH[name]):
            ax.plot(
                [values[3 * k + link] for values in history], "-o", ms=3, color=f"C{link}", label=f"link {link + 1}"
            )
            ax.axhline(value, color=f"C{link}", lw=1, ls=":")
        ax.set(title=f"{name} ({UNITS[name]})", xlabel="rounds", ylim=(0.0, None))
    ax.legend(fontsize=8)
    ax = fig.add_subplot(1, 4, 4)
    ax.semilogy(errors, "k-o", ms=3)
    ax.set(title="mean squared error (rad²)", xlabel="rounds")
    fig.savefig(file, dpi=120)


def main(arguments: list[str] | None = None) -> float:
    """Find the numbers and draw; returns the greatest relative error of a number."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--motions", type=int, default=6)
    parser.add_argument("--steps", type=int, default=60, help=f"of {1e3 * TIME_STEP:.0f} ms (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=8, help="most rounds of the fit (default: %(default)s)")
    parser.add_argument("--out", default="mujoco_arm.png", help="where the figure goes")
    options, rng = parser.parse_args(arguments), np.random.default_rng(1)
    dk.config.enable_backward = "always"  # MuJoCo Warp's modules turn derivatives off
    states = np.concatenate([rng.uniform(-s, s, (options.motions, len(AXES))) for s in (1.0, 2.0)], axis=1)
    torques = rng.uniform(-6.0, 6.0, (options.motions, len(AXES)))
    seen = motions(arm(**TRUTH), states, torques, options.steps)
    model = Arm(states, torques, options.steps)
    rows, moments = np.zeros((1, 4), np.float32), np.zeros((1, 4, 3), np.float32)
    print(gradcheck(set_masses, 3, [np.float32(GUESS["mass"]), model.per_mass], [rows, rows, moments]), flush=True)
    history, errors = fit(model, seen, options.rounds)
    angles, columns = model.jacobian(history[0])
    forward = 2.0 * columns.T @ (angles - seen.ravel()) / seen.size
    reverse = model.gradient(history[0], seen)
    apart = np.abs(forward - reverse).max() / np.abs(reverse).max()
    draw(options.out, history, errors)
    truth = np.concatenate(list(TRUTH.values()))
    off = float(np.abs(history[-1] / truth - 1.0).max())
    for (name, values), found in zip(TRUTH.items(), np.split(history[-1], 3), strict=True):
        print(f"{name} ({UNITS[name]}): {', '.join(f'{x:.4f}' for x in found)}; in truth {', '.join(map(str, values))}")
    print(f"gradients in forward and reverse mode: {apart:.0e} apart")
    print(
        f"{options.motions} motions of {options.steps} steps, {len(errors)} rounds: "
        f"at most {100.0 * off:.3f} % off; figure: {options.out}"
    )
    return off


if __name__ == "__main__":
    main()
