"""Scenes of MuJoCo: MuJoCo Warp beside MuJoCo C, which starts from the same state."""

import mujoco
import mujoco_warp as mjw
import numpy as np


class Scene:
    """A model whose joints start with some motion.

    `reference` gives the state of MuJoCo C (float64) after as many steps.
    """

    def __init__(self, text=None, path=None, controls=0.0, motion=0.1, **sizes):
        self.model = mujoco.MjModel.from_xml_string(text) if path is None else mujoco.MjModel.from_xml_path(str(path))
        self.data = mujoco.MjData(self.model)
        if self.model.nkey:
            mujoco.mj_resetDataKeyframe(self.model, self.data, 0)
        random = np.random.default_rng(3)
        self.data.qvel[:] += motion * random.normal(size=self.model.nv)
        self.data.ctrl[:] = controls * random.uniform(-1.0, 1.0, self.model.nu)
        mujoco.mj_forward(self.model, self.data)
        self.m = mjw.put_model(self.model)
        self.d = mjw.put_data(self.model, self.data, **sizes)
        self.steps = 0

    def step(self):
        mjw.step(self.m, self.d)
        self.steps += 1

    def outputs(self):
        contacts = self.d.nacon.numpy()[0]
        return {"qpos": self.d.qpos.numpy()[0], "qvel": self.d.qvel.numpy()[0], "contacts": contacts}

    def reference(self):
        for _ in range(self.steps):
            mujoco.mj_step(self.model, self.data)
        return {"qpos": self.data.qpos, "qvel": self.data.qvel, "contacts": self.data.ncon}


def test_scene(*names):
    """Return the path of a model that comes with MuJoCo Warp."""
    from pathlib import Path

    return Path(mjw.__file__).parent.joinpath("test_data", *names)
