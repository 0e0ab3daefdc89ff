"""Gradients of MuJoCo Warp, which diffkern.warp runs unchanged, against differences of MuJoCo C.

    python tools/neighbours/gradients.py [--models NAME ...] [--steps 1 10 100] [--states 20] [--json FILE] [--rst FILE]

In: an environment with ``mujoco`` and ``mujoco-warp``, and diffkern on its path. Out: a table: for each model and
number of steps the relative error of the gradient of a random projection of the state, with respect to positions,
velocities, controls, masses and friction, over random states, one for each world. MuJoCo Warp computes in float32,
MuJoCo C in float64. The solver's tolerance is 1e-10: where it ends early, the derivative is that of the constraints
which were active one iteration before; where it goes on when nothing but rounding is left, that of the line search
divides rounding by rounding.

With contacts the gradient is not smooth: near the beginning or the end of one, a change of the state in its last bits
of float32 moves it. How much is measured with MuJoCo C alone: the same differences at states moved by noise of 1e-6.
"""

from __future__ import annotations

import argparse
import copy
import datetime as dt
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from diffkern.warp import finder

finder.install()

import mujoco  # noqa: E402
import mujoco_warp as mjw  # noqa: E402
import warp as wp  # noqa: E402

import diffkern as dk  # noqa: E402

Numbers = np.ndarray[Any, Any]

LINK = '<geom type="capsule" size=".05" fromto="0 0 0 0 0 -.4"/>'
BAR = '<geom type="capsule" size=".04" fromto="0 0 0 .4 0 0"/>'
PENDULUM = f"""<mujoco><worldbody><body><joint axis="0 1 0" damping=".1"/>{LINK}</body></worldbody></mujoco>"""
ARM = f"""<mujoco><option integrator="%(integrator)s" solver="%(solver)s" timestep="0.005"/>
<worldbody><body pos="0 0 1"><joint name="a" axis="0 1 0" limited="true" range="-20 20" damping="0.1"/>{LINK}
<body pos="0 0 -.4"><joint name="b" axis="1 0 0" frictionloss=".1"/>{LINK}
<body pos="0 0 -.4"><joint name="c" type="slide" axis="0 0 1" stiffness="10"/><geom type="sphere" size=".08"/></body>
</body></body></worldbody><actuator><motor joint="a"/><position joint="b" kp="5"/></actuator></mujoco>"""
# The floor's friction is another one, as the greater of the two counts. The body is not symmetric: MuJoCo C has
# constants in the place of the masses of those that are.
ON_FLOOR = """<mujoco><option cone="%(cone)s" timestep="0.002"/>
<worldbody><geom type="plane" size="5 5 .1" friction=".8 .004 .0001"/>
<body pos="0 0 .098"><freejoint/><geom type="%(shape)s" size="%(size)s" pos=".01 .02 .001"/></body>
</worldbody></mujoco>"""
TENDON = f"""<mujoco><worldbody><body pos="0 0 1"><joint name="a" axis="0 1 0"/>{BAR}<site name="s1" pos=".2 0 .05"/>
<body pos=".4 0 0"><joint name="b" axis="0 1 0"/>{BAR}<site name="s2" pos=".2 0 .05"/></body></body>
<site name="s0" pos="0 0 1.2"/></worldbody>
<tendon><spatial stiffness="20" damping=".5"><site site="s0"/><site site="s1"/><site site="s2"/></spatial>
<fixed name="f"><joint joint="a" coef="1"/><joint joint="b" coef="-.5"/></fixed></tendon>
<actuator><motor tendon="f" gear="2"/></actuator></mujoco>"""


def _on_floor(shape: str, size: str, cone: str) -> str:
    return ON_FLOOR % {"shape": shape, "size": size, "cone": cone}


def _arm(integrator: str, solver: str = "Newton") -> str:
    return ARM % {"integrator": integrator, "solver": solver}


MODELS: dict[str, str | Path] = {
    "pendulum": PENDULUM,
    "arm, Euler": _arm("Euler"),
    "arm, Euler, CG": _arm("Euler", "CG"),
    "arm, implicitfast": _arm("implicitfast"),
    "arm, RK4": _arm("RK4"),
    "tendons": TENDON,
    "sphere, pyramidal": _on_floor("sphere", ".1", "pyramidal"),
    "sphere, elliptic": _on_floor("sphere", ".1", "elliptic"),
    "box, pyramidal": _on_floor("box", ".1 .1 .1", "pyramidal"),
    "box, elliptic": _on_floor("box", ".1 .1 .1", "elliptic"),
    "humanoid": Path(mjw.__file__).parent / "test_data" / "humanoid" / "humanoid.xml",
}
OF_STATE = ("qpos", "qvel", "ctrl")
OF_MODEL = ("body_mass", "geom_friction")
CONSTANTS = (*OF_MODEL, "body_subtreemass")
NOISE, DRAWS = 1e-6, 4
TOLERANCE = 1e-10


@dataclass(frozen=True)
class Row:
    """The errors of a model: for each variable the greatest and the median one over the states.

    ``moves`` are the relative changes of MuJoCo C's gradient under noise, likewise; ``explained`` is the number of
    states whose error is at most the change of their own or the goal.
    """

    model: str
    steps: int
    states: int
    contacts: int
    errors: dict[str, tuple[float, float]]
    moves: dict[str, tuple[float, float]]
    explained: dict[str, int]
    forward_s: float
    backward_s: float


class Case:
    """A model with random states, one for each world."""

    def __init__(self, name: str, states: int, seed: int) -> None:
        given = MODELS[name]
        self.name, self.random = name, np.random.default_rng(seed)
        load = mujoco.MjModel.from_xml_path if isinstance(given, Path) else mujoco.MjModel.from_xml_string
        self.model = load(str(given))
        self.model.opt.iterations, self.model.opt.ls_iterations = 20, 50
        data = mujoco.MjData(self.model)
        if self.model.nkey:
            mujoco.mj_resetDataKeyframe(self.model, data, 0)
        mujoco.mj_forward(self.model, data)
        self.contacts, self.warm = data.ncon, data.qacc_warmstart.copy()
        self.values = {name: self._scattered(name, getattr(data, name), states) for name in OF_STATE}
        self.weights = {name: self.random.normal(size=getattr(data, name).shape) for name in ("qpos", "qvel")}
        self.m = mjw.put_model(self.model)
        self.m.opt.tolerance.fill_(TOLERANCE)
        self.d = mjw.put_data(self.model, data, nworld=states)

    def _scattered(self, name: str, value: Numbers, states: int) -> Numbers:
        scale = {"qpos": 0.02, "qvel": 0.3, "ctrl": 0.1}[name]
        found = value + scale * self.random.normal(size=(states, len(value)))
        if name == "qpos":
            for k in np.flatnonzero(self.model.jnt_type == mujoco.mjtJoint.mjJNT_FREE):
                at = self.model.jnt_qposadr[k] + 3
                found[:, at : at + 4] /= np.linalg.norm(found[:, at : at + 4], axis=1)[:, None]
        return found.astype(np.float32).astype(np.float64)

    def gradients(self, steps: int) -> tuple[dict[str, Numbers], float, float]:
        """Return the gradients by one tape for all worlds, and the seconds forward and backward."""
        for holder in (self.d, self.d.efc, self.d.contact, self.m):
            for held in vars(holder).values():
                if isinstance(held, wp.array) and _is_smooth(held):
                    held.requires_grad = True
        given = {k: wp.array(v.astype(np.float32), dtype=float, requires_grad=True) for k, v in self.values.items()}
        begin = time.perf_counter()
        with wp.Tape() as tape:
            for name, held in given.items():
                wp.copy(getattr(self.d, name), held)
            self.d.qacc_warmstart.assign(np.tile(self.warm, (len(self.values["qpos"]), 1)).astype(np.float32))
            for _ in range(steps):
                mjw.step(self.m, self.d)
        middle = time.perf_counter()
        seeds = {name: np.tile(w, (len(self.values["qpos"]), 1)).astype(np.float32) for name, w in self.weights.items()}
        tape.backward(grads={getattr(self.d, name): wp.array(seed) for name, seed in seeds.items()})
        end = time.perf_counter()
        found = {name: held.grad.numpy().astype(np.float64) for name, held in given.items()}
        # One model for all worlds: its gradient is the sum over them.
        of_model = {name: getattr(self.m, name).grad.numpy().astype(np.float64).sum(axis=0) for name in CONSTANTS}
        mass, subtree = of_model["body_mass"], of_model["body_subtreemass"]
        found["body_mass"] = np.array([mass[k] + sum(subtree[a] for a in self._above(k)) for k in range(len(mass))])
        found["geom_friction"] = of_model["geom_friction"]
        return found, middle - begin, end - middle

    def _above(self, body: int) -> list[int]:
        """A body and those of which it is a part: their masses change with its own."""
        found = [body]
        while found[-1]:
            found.append(int(self.model.body_parentid[found[-1]]))
        return found

    def with_noise(self) -> Case:
        """Return the case with the positions and velocities moved a little, for MuJoCo C alone."""
        found = copy.copy(self)
        found.values = dict(self.values)
        for name in ("qpos", "qvel"):
            value = self.values[name]
            found.values[name] = value + NOISE * self.random.normal(size=value.shape)
        return found

    def result(self, world: int, steps: int, **changed: Numbers) -> float:
        """Return the projection of the state of MuJoCo C after some steps."""
        data = mujoco.MjData(self.model)
        data.qacc_warmstart[:] = self.warm
        for name, value in self.values.items():
            getattr(data, name)[:] = changed.get(name, value[world])
        for _ in range(steps):
            mujoco.mj_step(self.model, data)
        return float(sum(w @ getattr(data, name) for name, w in self.weights.items()))

    def differences(self, name: str, world: int, steps: int) -> Numbers:
        """Return differences of MuJoCo C with respect to a part of the state."""
        value = self.values[name][world]

        def moved(k: int, change: float) -> float:
            end = value.copy()
            end[k] += change
            return self.result(world, steps, **{name: end})

        return np.array([_slope(partial(moved, k), 1.0) for k in range(len(value))])

    def differences_of_model(self, name: str, steps: int) -> Numbers:
        """Return differences with respect to numbers of the model, summed over the worlds."""
        held, worlds = getattr(self.model, name), range(len(self.values["qpos"]))

        def moved(world: int, place: tuple[int, ...], change: float) -> float:
            old, totals = held[place], self.model.body_subtreemass.copy()
            held[place] = old + change
            if name == "body_mass":
                self.model.body_subtreemass[self._above(place[0])] += change
            found = self.result(world, steps)
            held[place], self.model.body_subtreemass[:] = old, totals
            return found

        found = np.zeros(held.shape)
        for place in np.ndindex(*held.shape):
            scale = max(abs(held[place]), 1e-3)
            found[place] = sum(_slope(partial(moved, world, place), scale) for world in worlds)
        return found


def _slope(moved: Callable[[float], float], scale: float) -> float:
    """Return a central difference, of the step with which those of both sides differ least.

    Where a contact begins nearby, the state jumps: a step across the jump says nothing of the slope.
    """
    here, found = moved(0.0), []
    for h in (1e-6 * scale, 1e-7 * scale):
        high, low = (moved(h) - here) / h, (here - moved(-h)) / h
        found.append((abs(high - low), (high + low) / 2))
        if abs(high - low) <= 1e-3 * max(abs(high), abs(low)):
            break
    return min(found)[1]


def _is_smooth(held: Any) -> bool:
    return bool(held.numpy().dtype == np.float32)


def _relative(found: Numbers, wanted: Numbers) -> float:
    size = np.abs(wanted).max(initial=0.0)
    return float(np.abs(found - wanted).max(initial=0.0) / size) if size > 0 else float(np.abs(found).max(initial=0.0))


def row(name: str, steps: int, states: int, seed: int) -> Row:
    """Compare a model."""
    case = Case(name, states, seed)
    found, forward, backward = case.gradients(steps)
    # MuJoCo C goes to the end as well.
    case.model.opt.tolerance, case.model.opt.iterations, case.model.opt.ls_iterations = 1e-14, 200, 100
    errors, moves, explained = {}, {}, {}
    for variable in OF_STATE:
        wanted = [case.differences(variable, w, steps) for w in range(states)]
        each = [_relative(a, b) for a, b in zip(found[variable], wanted, strict=True)]
        own = _moves(case, variable, steps, wanted) if case.contacts else [0.0] * states
        errors[variable], moves[variable] = _of_states(each), _of_states(own)
        explained[variable] = sum(e <= max(_goal(case, steps), o) for e, o in zip(each, own, strict=True))
    for variable in OF_MODEL:
        error = _relative(found[variable], case.differences_of_model(variable, steps))
        errors[variable] = error, error
    return Row(name, steps, states, case.contacts, errors, moves, explained, round(forward, 3), round(backward, 3))


def _goal(case: Case, steps: int) -> float:
    return 1e-4 if case.contacts or steps > 10 else 1e-5


def _of_states(each: list[float]) -> tuple[float, float]:
    return max(each), float(np.median(each))


def _moves(case: Case, variable: str, steps: int, wanted: list[Numbers]) -> list[float]:
    """Return how much MuJoCo C's gradient changes with the last bits of a state, for each state."""
    others = [case.with_noise() for _ in range(DRAWS)]
    return [max(_relative(o.differences(variable, w, steps), b) for o in others) for w, b in enumerate(wanted)]


def line(r: Row) -> str:
    """Return a row as text."""
    parts = [f"{k} {most:.1e} ({median:.0e})" for k, (most, median) in r.errors.items()]
    if r.contacts:
        own = [f"{k} {most:.0e} ({median:.0e}), {r.explained[k]} explained" for k, (most, median) in r.moves.items()]
        parts.append("MuJoCo C's own: " + ", ".join(own))
    return f"{r.model:20} {r.steps:4} steps, {r.contacts:2} contacts: " + ", ".join(parts)


def as_rst(rows: list[Row], command: str) -> str:
    """Return the table for the documentation."""
    names = [*OF_STATE, *OF_MODEL]
    head = ["Model", "Steps", "Contacts", *(f"``{name}``" for name in names), "``qpos`` under noise"]
    body = [
        [r.model, str(r.steps), str(r.contacts), *(_cell(*r.errors[k]) for k in names), _cell(*r.moves["qpos"])]
        for r in rows
    ]
    cells = "\n".join("   * - " + "\n     - ".join(line) for line in [head, *body])
    date = dt.datetime.now(tz=dt.timezone.utc).date()
    return (
        f".. {date}: {command}\n\n.. list-table::\n   :header-rows: 1\n\n{cells}\n\n"
        f"{rows[0].states} states. Measured on {date} with MuJoCo {mujoco.__version__} and MuJoCo Warp {_version()}.\n"
    )


def _cell(most: float, median: float) -> str:
    return "—" if most == 0 else f"{most:.0e}" if most == median else f"{median:.0e}, {most:.0e}"


def _version() -> str:
    from importlib.metadata import version

    return version("mujoco-warp")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS), metavar="NAME")
    parser.add_argument("--steps", nargs="*", type=int, default=[1, 10, 100])
    parser.add_argument("--states", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rst", type=Path)
    args = parser.parse_args()
    dk.config.enable_backward = "always"
    rows: list[Row] = []
    for name in args.models:
        for steps in args.steps:
            try:
                rows.append(row(name, steps, args.states, args.seed))
                print(line(rows[-1]), flush=True)
            except dk.KernelError as error:
                print(f"{name:20} {steps:4} steps: {error}", flush=True)
            if args.json:
                args.json.write_text(json.dumps([asdict(r) for r in rows], indent=1))
            if args.rst and rows:
                args.rst.write_text(as_rst(rows, "python tools/neighbours/gradients.py"))


if __name__ == "__main__":
    main()
