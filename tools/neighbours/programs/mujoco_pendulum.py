"""A pendulum with a little damping."""

from _mujoco import Scene

PACKAGE = "mujoco-warp"
STEPS = 101
TOLERANCE = 1e-4

MODEL = """
<mujoco>
  <option timestep="0.005"/>
  <worldbody>
    <body pos="0 0 1">
      <joint name="hinge" type="hinge" axis="0 1 0" damping="0.01"/>
      <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.02" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
</mujoco>
"""


def begin():
    return Scene(MODEL)
